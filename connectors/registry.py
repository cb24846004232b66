"""kind -> connector. Nothing else names a concrete connector.

Each kind declares what a person fills in and which hosts it may call. ``base_url`` may stand in for the vendor's
address on loopback only, for the sandbox.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from connectors import http, protocol
from connectors.brevo import destination as brevo
from connectors.shopify import queries
from connectors.shopify import source as shopify

SOURCE = "source"
DESTINATION = "destination"
BASE_URL = "base_url"
_DOMAIN = re.compile(r"[a-z0-9][a-z0-9-]*\.myshopify\.com")
_SECRET = re.compile(r"[!-~]{6,512}")
_VERSION = re.compile(r"20\d\d-(01|04|07|10)")


class SettingsRefused(ValueError):
    """Settings or secrets that make no connector. The one sentence says what to do and repeats no secret."""


@dataclass(frozen=True, slots=True)
class Field:
    """One thing a person fills in for a connection. ``name`` is its key in settings, or in secrets if ``secret``."""

    name: str
    label: str
    help: str
    secret: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of connector: its name, what it is called, which side it stands on, and what it needs."""

    name: str
    label: str
    side: str
    fields: tuple[Field, ...]
    hosts: tuple[str, ...]
    make: Callable[[Mapping[str, Any], Mapping[str, Any]], Any]


def kinds() -> tuple[Kind, ...]:
    """Every kind there is, sources first."""
    return tuple(_KINDS.values())


def source(kind: str, settings: Mapping[str, Any], secrets: Mapping[str, Any]) -> protocol.Source:
    """A source of this kind. Raises SettingsRefused."""
    made: protocol.Source = _kind(kind, SOURCE).make(settings, secrets)
    return made


def destination(kind: str, settings: Mapping[str, Any], secrets: Mapping[str, Any]) -> protocol.Destination:
    """A destination of this kind. Raises SettingsRefused."""
    made: protocol.Destination = _kind(kind, DESTINATION).make(settings, secrets)
    return made


def end(kind: str, settings: Mapping[str, Any], secrets: Mapping[str, Any]) -> protocol.Source | protocol.Destination:
    """A connector of this kind, whichever side it stands on. Raises SettingsRefused."""
    found = _KINDS.get(kind)
    return (
        destination(kind, settings, secrets) if found and found.side == DESTINATION else source(kind, settings, secrets)
    )


def _kind(name: str, side: str) -> Kind:
    found = _KINDS.get(name)
    if found is None or found.side != side:
        known = ", ".join(kind.name for kind in kinds() if kind.side == side)
        raise SettingsRefused(f"There is no {side} of the kind {name!r}: choose one of {known}.")
    return found


def _shopify(settings: Mapping[str, Any], secrets: Mapping[str, Any]) -> protocol.Source:
    domain = shop_domain(_text(settings, "domain"))
    version = str(settings.get("version") or queries.VERSION)
    if not _VERSION.fullmatch(version):
        raise SettingsRefused("The API version must look like 2026-07.")
    client = shopify.client(domain, _secret(secrets, "token", "access token"), base_url=_base_url(settings))
    return shopify.ShopifySource(client, version=version)


def _brevo(settings: Mapping[str, Any], secrets: Mapping[str, Any]) -> protocol.Destination:
    client = brevo.client(_secret(secrets, "api_key", "API key"), base_url=_base_url(settings))
    return brevo.BrevoDestination(client)


def shop_domain(text: str) -> str:
    """The shop's own domain out of what people paste: with https://, capitals or a path. Raises SettingsRefused."""
    domain = re.sub(r"^https?://", "", text.strip().lower()).split("/", 1)[0]
    if not _DOMAIN.fullmatch(domain):
        raise SettingsRefused("The shop's domain must end in .myshopify.com: copy it from Shopify's settings.")
    return domain


def _text(settings: Mapping[str, Any], name: str) -> str:
    value = settings.get(name)
    return value if isinstance(value, str) else ""


def _secret(secrets: Mapping[str, Any], name: str, label: str) -> str:
    value = _text(secrets, name).strip()
    if not _SECRET.fullmatch(value):
        raise SettingsRefused(f"The {label} is missing or not one: paste it again, whole and without spaces.")
    return value


def _base_url(settings: Mapping[str, Any]) -> str | None:
    """The sandbox's address, None for the vendor's own."""
    value = _text(settings, BASE_URL).strip()
    if not value:
        return None
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "http" or host not in http.LOOPBACK or port is None or parts.path not in ("", "/"):
        raise SettingsRefused("The base URL may only be that of a sandbox on this machine: http://127.0.0.1:PORT.")
    return f"http://{f'[{host}]' if ':' in str(host) else host}:{port}"


_SANDBOX = Field(
    BASE_URL, "Sandbox address", "Only for a sandbox on this machine: http://127.0.0.1:PORT.", required=False
)
_KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        shopify.KIND: Kind(
            name=shopify.KIND,
            label="Shopify",
            side=SOURCE,
            fields=(
                Field("domain", "Shop domain", "The one that ends in .myshopify.com, from Shopify's settings."),
                Field(
                    "token", "Access token", "Of an app with the scopes read_customers and read_orders.", secret=True
                ),
                Field("version", "API version", f"Leave empty for {queries.VERSION}.", required=False),
                _SANDBOX,
            ),
            hosts=shopify.ALLOWED_HOSTS,
            make=_shopify,
        ),
        brevo.KIND: Kind(
            name=brevo.KIND,
            label="Brevo",
            side=DESTINATION,
            fields=(
                Field("api_key", "API key", "With contacts, events and e-commerce read and write.", secret=True),
                _SANDBOX,
            ),
            hosts=brevo.ALLOWED_HOSTS,
            make=_brevo,
        ),
    }
)
