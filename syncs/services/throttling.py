"""How often somebody may fail to log in (PRODUCT 10.1).

Failures are counted per name and address, and per address. A name alone locks nobody out: else whoever knows a name
could keep its owner out. The counting is django-axes'; what is ours is two limits instead of one, and the address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Max, QuerySet, Sum
from django.http import HttpRequest

FAILURES: Final = 5
"""Failures of one name from one address, after which that pair waits."""
ADDRESS_SHARE: Final = 6
"""So many times as many failures of any names make the whole address wait: people share an address."""
WAIT: Final = timedelta(minutes=15)
"""How long, from the last failure that counted. Trying meanwhile makes it no longer."""
UNKNOWN: Final = "0.0.0.0"  # noqa: S104 - stands for an address that is not known, nothing listens there
NETWORK_BITS: Final = 64
"""Of an IPv6 address: what is behind them is one customer's own to choose."""


def failures_allowed(request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> int:
    """For django-axes: how many failures it takes."""
    return FAILURES


def waits(request: HttpRequest | None = None) -> timedelta:
    """For django-axes: how long a failure counts."""
    return WAIT


class Throttle(AxesDatabaseHandler):  # type: ignore[misc]
    """Counts failures in the database, so that all web processes count together."""

    def get_failures(self, request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> int:
        """Failures that count against `FAILURES`: those of the pair, or the address's share."""
        pair, address = self.get_user_attempts(request, credentials)
        return max(_sum(pair), _sum(address) // ADDRESS_SHARE)

    def reset_user_attempts(self, request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> int:
        """After a log-in: only the pair's. An account of one's own must not wash an address clean."""
        pair, _address = self.filter_user_attempts(request, credentials)
        number: int = pair.delete()[0]
        return number

    def free_at(self, request: HttpRequest, credentials: Mapping[str, Any] | None) -> datetime:
        """When whoever asks may try again."""
        pair, address = self.get_user_attempts(request, credentials)
        counted = pair if _sum(pair) >= FAILURES else address
        latest: datetime | None = counted.aggregate(at=Max("attempt_time"))["at"]
        tried: datetime = request.axes_attempt_time  # type: ignore[attr-defined]
        return (latest or tried) + WAIT


def _sum(attempts: QuerySet[Any]) -> int:
    return attempts.aggregate(number=Sum("failures_since_start"))["number"] or 0


# --- The second step counts with the first --------------------------------------------------------------------------
def log_in_allowed(request: HttpRequest, user: User) -> bool:
    """Whether another try of ``user`` from this address is looked at."""
    return bool(AxesProxyHandler.is_allowed(request, _named(user)))


def log_in_failed(request: HttpRequest, user: User) -> None:
    """A wrong code counts as a wrong password does."""
    AxesProxyHandler.user_login_failed(sender=__name__, credentials=_named(user), request=request)


def free_at(request: HttpRequest, credentials: Mapping[str, Any] | None) -> datetime:
    """When whoever was locked out may try again."""
    AxesProxyHandler.update_request(request)
    at: datetime = AxesProxyHandler.get_implementation().free_at(request, credentials)
    return at


def _named(user: User) -> dict[str, str]:
    return {"username": user.get_username()}


# --- Whose address ----------------------------------------------------------------------------------------------------
def client_address(request: HttpRequest) -> str:
    """The address that a request came from, seen past as many proxies as VIGIL_PROXIES says stand before us.

    Each of them appends whom it heard to ``X-Forwarded-For``; what stands further left anybody may have written.
    """
    heard = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    proxies = settings.VIGIL_PROXIES
    text = heard[-proxies] if 0 < proxies <= len(heard) else ""
    return _network(text) or _network(request.META.get("REMOTE_ADDR", "")) or UNKNOWN


def _network(text: str) -> str:
    """An IPv4 address, or the network of an IPv6 one, without a port; "" for anything else."""
    bare = text[1:].partition("]")[0] if text.startswith("[") else text
    bare = bare.partition(":")[0] if bare.count(":") == 1 else bare
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> NETWORK_BITS << NETWORK_BITS))
