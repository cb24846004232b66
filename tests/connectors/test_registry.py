"""From a kind and what a person filled in to a connector."""

import re
from typing import Any

import pytest

from connectors import registry

TOKEN = "shpat_0123456789abcdef"
SHOP = {"domain": "linden-goods.myshopify.com"}


def refusal(make: Any, *arguments: Any) -> str:
    with pytest.raises(registry.SettingsRefused) as caught:
        make(*arguments)
    sentence = str(caught.value)
    assert TOKEN not in sentence
    assert re.fullmatch(r"[A-Z][^\n]*\.", sentence)
    return sentence


def test_the_kinds_say_what_they_need_and_whom_they_may_call() -> None:
    assert [(kind.name, kind.side, kind.hosts) for kind in registry.kinds()] == [
        ("shopify", "source", ("*.myshopify.com",)),
        ("brevo", "destination", ("api.brevo.com",)),
    ]
    fields = {
        (kind.name, field.name, field.secret, field.required) for kind in registry.kinds() for field in kind.fields
    }
    assert fields == {
        ("shopify", "domain", False, True),
        ("shopify", "token", True, True),
        ("shopify", "version", False, False),
        ("shopify", "base_url", False, False),
        ("brevo", "api_key", True, True),
        ("brevo", "base_url", False, False),
    }
    assert all(field.label and field.help for kind in registry.kinds() for field in kind.fields)


def test_a_source_is_made_by_its_kind() -> None:
    assert registry.source("shopify", SHOP, {"token": TOKEN}).kind == "shopify"


def test_a_destination_is_made_by_its_kind() -> None:
    assert registry.destination("brevo", {}, {"api_key": TOKEN}).kind == "brevo"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_sandbox_on_this_machine_may_stand_in(host: str) -> None:
    settings = {"base_url": f"http://{host}:8123/"}

    assert registry.destination("brevo", settings, {"api_key": TOKEN}).kind == "brevo"
    assert registry.source("shopify", {**SHOP, **settings}, {"token": TOKEN}).kind == "shopify"


@pytest.mark.parametrize(
    "base_url",
    [
        "https://api.brevo.com",
        "https://127.0.0.1:8123",
        "http://192.0.2.1:80",
        "http://127.0.0.1",
        "http://127.0.0.1:8123/v3",
        "http://127.0.0.1.evil.example:80",
        "http://evil.example:80#@127.0.0.1:80",
        "http://[",
        "http://127.0.0.1:port",
        "nonsense",
    ],
)
def test_no_other_address_may_stand_in(base_url: str) -> None:
    assert "sandbox" in refusal(registry.destination, "brevo", {"base_url": base_url}, {"api_key": TOKEN})


@pytest.mark.parametrize(
    ("make", "kind"),
    [(registry.source, "brevo"), (registry.destination, "shopify"), (registry.source, "x"), (registry.source, "")],
)
def test_a_kind_that_is_none_is_refused(make: Any, kind: str) -> None:
    assert "choose one of" in refusal(make, kind, SHOP, {"token": TOKEN, "api_key": TOKEN})


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("linden-goods.myshopify.com", "linden-goods.myshopify.com"),
        (" HTTPS://Linden-Goods.myshopify.com/admin ", "linden-goods.myshopify.com"),
    ],
)
def test_a_shops_domain_is_taken_as_people_paste_it(text: str, domain: str) -> None:
    assert registry.shop_domain(text) == domain


@pytest.mark.parametrize(
    "domain",
    [
        "",
        None,
        5,
        "linden.example",
        "myshopify.com",
        "a.b.myshopify.com",
        "x.myshopify.com.evil.example",
        "x@y.myshopify.com",
    ],
)
def test_another_domain_is_no_shop(domain: Any) -> None:
    assert ".myshopify.com" in refusal(registry.source, "shopify", {"domain": domain}, {"token": TOKEN})


@pytest.mark.parametrize(
    "secret", ["", "   ", None, 5, "short", f"{TOKEN}\r\nX: 1", f"two {TOKEN}", "ü" * 20, "x" * 600]
)
def test_a_secret_that_is_none_is_refused_without_being_repeated(secret: Any) -> None:
    refusal(registry.source, "shopify", SHOP, {"token": secret})
    refusal(registry.destination, "brevo", {}, {"api_key": secret})


@pytest.mark.parametrize("version", ["2026", "latest", "2026-05", "../x"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    assert "2026-07" in refusal(registry.source, "shopify", {**SHOP, "version": version}, {"token": TOKEN})
