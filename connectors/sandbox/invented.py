"""An invented shop: the same every time for the same seed, in several scripts, with every consent there is.

Nobody in it exists. Addresses are under example.com, .org and .net, phone numbers from +447700900000 to 999, which are
kept free for fiction, and no time in it is later than `SHOP_ENDS`.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from connectors.sandbox.shop import DEFAULT_CURRENCY, Node, Shop, money

SHOP_ENDS = datetime(2026, 11, 1, 12, tzinfo=UTC)
SHOP_DAYS = 400
CUSTOMERS = 500
ORDERS = 1000
DEFAULT_SEED = 20261101

_FIRST_CUSTOMER = 7_000_000_000_001
_FIRST_ORDER = 5_000_000_000_001
_FIRST_LINE = 9_000_000_000_001
_EURO = Decimal("1.15")


@dataclass(frozen=True, slots=True)
class Region:
    """Names of one language: (shown, as written in an address)."""

    locale: str
    country: str
    city: str
    zip: str
    first: tuple[tuple[str, str], ...]
    last: tuple[tuple[str, str], ...]


def _names(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (pair.split("/") for pair in text.split())
    return tuple((shown, plain[0] if plain else shown.lower()) for shown, *plain in pairs)


_REGIONS = (
    Region(
        "en",
        "GB",
        "Leeds",
        "LS1 4AP",
        _names("Ida Rowan Tess Miles Nell"),
        _names("Ashdown Birk Corley Denby Fenn"),
    ),
    Region(
        "de",
        "DE",
        "Köln",
        "50667",
        _names("Jörg/joerg Käthe/kaethe Ruth Anselm"),
        _names("Groß/gross Weißhaupt/weisshaupt Löb/loeb Kern"),
    ),
    Region(
        "fr",
        "FR",
        "Besançon",
        "25000",
        _names("Éloïse/eloise Noé/noe Maëlle/maelle"),
        _names("Lefèvre/lefevre Garçon/garcon D'Aubry/daubry"),
    ),
    Region(
        "pl",
        "PL",
        "Łódź",
        "90-001",
        _names("Łucja/lucja Wójt/wojt Zofia"),
        _names("Żurek/zurek Gęśla/gesla Brzoza"),
    ),
    Region(
        "el",
        "GR",
        "Αθήνα",
        "105 57",
        _names("Νίκη/niki Άρης/aris Ζωή/zoi"),
        _names("Λιακός/liakos Μελάς/melas"),
    ),
    Region(
        "uk",
        "UA",
        "Київ",
        "01001",
        _names("Оксана/oksana Їжак/yizhak Лесь/les"),
        _names("Гай/hai Щур/shchur"),
    ),
    Region(
        "ar",
        "AE",
        "دبي",
        "00000",
        _names("ليلى/layla كريم/karim"),
        _names("الحداد/haddad النجار/najjar"),
    ),
    Region(
        "he",
        "IL",
        "חיפה",
        "3303",
        _names("נועה/noa אורי/uri"),
        _names("לוי/levi כץ/katz"),
    ),
    Region(
        "hi",
        "IN",
        "पुणे",
        "411001",
        _names("मीरा/mira अर्जुन/arjun"),
        _names("राव/rao सेठी/sethi"),
    ),
    Region(
        "ja",
        "JP",
        "札幌市",
        "060-0001",
        _names("結衣/yui 蓮/ren"),
        _names("佐野/sano 髙木/takagi"),
    ),
    Region(
        "ko",
        "KR",
        "부산",
        "48058",
        _names("지우/jiwoo 하늘/haneul"),
        _names("박/park 남궁/namgung"),
    ),
    Region(
        "zh-CN",
        "CN",
        "成都",
        "610000",
        _names("小雨/xiaoyu 建国/jianguo"),
        _names("欧阳/ouyang 林/lin"),
    ),
)

# (state, level, has a date) with how many of a hundred customers have it.
_CONSENTS = (
    ("SUBSCRIBED", "SINGLE_OPT_IN", True, 30), ("SUBSCRIBED", "CONFIRMED_OPT_IN", True, 16),
    ("SUBSCRIBED", "UNKNOWN", True, 3), ("SUBSCRIBED", None, True, 2), ("SUBSCRIBED", "SINGLE_OPT_IN", False, 2),
    ("SUBSCRIBED", "CONFIRMED_OPT_IN", False, 1),
    ("NOT_SUBSCRIBED", None, False, 16), ("NOT_SUBSCRIBED", "SINGLE_OPT_IN", False, 9),
    ("UNSUBSCRIBED", "SINGLE_OPT_IN", True, 7), ("UNSUBSCRIBED", "CONFIRMED_OPT_IN", True, 3),
    ("PENDING", "CONFIRMED_OPT_IN", True, 4), ("PENDING", None, False, 1),
    ("INVALID", None, False, 1), ("INVALID", "UNKNOWN", True, 1),
    ("no address", None, False, 3), ("redacted", None, False, 1),
)  # fmt: skip
_CONSENT_ROUND = tuple(consent[:3] for consent in _CONSENTS for _ in range(consent[3]))

# Every so many customers one has an address of this kind; {plain} is the usual local part.
_ODD_ADDRESSES = (
    (37, "jürgen.{n}@example.com", True),
    (41, "{plain}@bücher.example.com", True),
    (53, "{plain}..{n}@example.com", False),
    (59, "{plain} {n}@example.org", False),
    (61, '"{plain} shop"@example.net', True),
    (67, "{plain}." + "x" * 64 + "@example.org", True),
    (71, "{PLAIN}@Example.COM", True),
)
_DOMAINS = ("example.com", "example.org", "example.net")
_TAGS = ((), ("newsletter",), ("VIP", "newsletter"), ("wholesale",), ("Café",), ())
_STATES = ("DISABLED", "DISABLED", "ENABLED", "INVITED", "DECLINED")
_PRODUCTS = (
    ("Beeswax candle", "CND-01", "Small", "7.50"), ("Teekanne „Grün“", "TEA-02", None, "34.90"),
    ("Savon d'été", "SOP-03", "100 g", "5.20"), ("手ぬぐい", "CLO-04", "Blue", "12.00"),
    ("Wool throw", "WOL-05", "Large", "89.00"), ("Gift card", None, None, "25.00"),
    ("Notebook <plain> & \"ruled\"", "PAP-06", "A5", "4.75"), ("Olive dish", "WOD-07", None, "19.40"),
)  # fmt: skip


def generated_shop(seed: int = DEFAULT_SEED, customers: int = CUSTOMERS, orders: int = ORDERS) -> Shop:
    """A whole shop; the same seed and sizes give the same bytes."""
    # Not for secrets: the same shop every time is the point.
    dice = random.Random(seed)
    people = [_customer(place, dice) for place in range(customers)]
    shop = Shop()
    for place in range(orders):
        order = _order(place, people, dice)
        shop.put("Order", order)
    for person in people:
        shop.put("Customer", person)
    return shop


def _time(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _between(start: datetime, end: datetime, dice: random.Random) -> datetime:
    return start + timedelta(seconds=dice.randrange(max(1, int((end - start).total_seconds()))))


# -- people ------------------------------------------------------------------------------------------------------------


def _customer(place: int, dice: random.Random) -> Node:
    region = _REGIONS[(place - place // 3) % len(_REGIONS)] if place % 3 else _REGIONS[0]
    first, last = dice.choice(region.first), dice.choice(region.last)
    state, level, dated = _CONSENT_ROUND[(place * 37) % len(_CONSENT_ROUND)]
    created = _between(SHOP_ENDS - timedelta(days=SHOP_DAYS), SHOP_ENDS, dice)
    consented = _between(created, SHOP_ENDS, dice) if dated else None
    redacted = state == "redacted"
    plain = f"{first[1]}.{last[1]}.{place}"
    number = _FIRST_CUSTOMER + place * 3
    return {
        "id": f"gid://shopify/Customer/{number}",
        "legacyResourceId": str(number),
        "createdAt": _time(created),
        "updatedAt": _time(_rounded(consented or created, place)),
        "firstName": None if redacted else first[0],
        "lastName": None if redacted or place % 29 == 0 else last[0],
        "displayName": "" if redacted else first[0] if place % 29 == 0 else f"{first[0]} {last[0]}",
        "locale": region.locale,
        "state": _STATES[place % len(_STATES)],
        "verifiedEmail": place % 4 != 0,
        "taxExempt": place % 50 == 0,
        "note": None,
        "tags": list(_TAGS[place % len(_TAGS)]),
        "numberOfOrders": "0",
        "amountSpent": {"amount": "0.00", "currencyCode": DEFAULT_CURRENCY},
        "dataSaleOptOut": place % 43 == 0,
        "defaultEmailAddress": _email(place, plain, state, level, consented),
        "defaultPhoneNumber": None if redacted else _phone(place, consented or created),
        "defaultAddress": None if redacted or place % 31 == 0 else _address(region, first[0], last[0]),
    }


def _rounded(when: datetime, place: int) -> datetime:
    """Every seventh change falls on a full hour, so that several share one instant."""
    return when.replace(minute=0, second=0) + timedelta(hours=1) if place % 7 == 0 and when < _LAST_HOUR else when


_LAST_HOUR = SHOP_ENDS - timedelta(hours=2)


def _email(place: int, plain: str, state: str, level: str | None, consented: datetime | None) -> Node | None:
    if state in ("no address", "redacted"):
        return None
    address, valid = _address_text(place, plain)
    return {
        "emailAddress": address,
        "validFormat": valid,
        "marketingState": state,
        "marketingOptInLevel": level,
        "marketingUpdatedAt": _time(consented) if consented else None,
    }


def _address_text(place: int, plain: str) -> tuple[str, bool]:
    for every, form, valid in _ODD_ADDRESSES:
        if place and place % every == 0:
            return form.format(plain=plain, PLAIN=plain.upper(), n=place), valid
    return f"{plain}@{_DOMAINS[place % len(_DOMAINS)]}", True


def _phone(place: int, when: datetime) -> Node | None:
    if place % 5:
        return None
    subscribed = place % 20 == 0
    return {
        "phoneNumber": f"+447700900{place % 1000:03d}",
        "marketingState": "SUBSCRIBED" if subscribed else "NOT_SUBSCRIBED",
        "marketingOptInLevel": "SINGLE_OPT_IN" if subscribed else None,
        "marketingUpdatedAt": _time(when) if subscribed else None,
        "marketingCollectedFrom": "SHOPIFY" if subscribed else None,
    }


def _address(region: Region, first: str, last: str) -> Node:
    return {
        "firstName": first,
        "lastName": last,
        "company": None,
        "address1": "1 Example Row",
        "address2": None,
        "city": region.city,
        "provinceCode": None,
        "zip": region.zip,
        "countryCodeV2": region.country,
        "phone": None,
    }


# -- orders ------------------------------------------------------------------------------------------------------------


def _order(place: int, people: list[Node], dice: random.Random) -> Node:
    customer = None if place % 19 == 0 else dice.choice(people)
    opened = datetime.fromisoformat(customer["createdAt"]) if customer else SHOP_ENDS - timedelta(days=SHOP_DAYS)
    created = _between(opened, SHOP_ENDS, dice)
    lines = [_line(place, count, dice) for count in range(1 + dice.randrange(5))]
    total = sum((Decimal(line["_price"]) * line["quantity"] for line in lines), Decimal())
    for line in lines:
        del line["_price"]
    ending = _ending(place, created, total, dice)
    number = _FIRST_ORDER + place * 7
    if customer:
        _spend(customer, total, ending["updatedAt"])
    return {
        "id": f"gid://shopify/Order/{number}",
        "legacyResourceId": str(number),
        "name": f"#{1001 + place}",
        "number": 1001 + place,
        "createdAt": _time(created),
        "processedAt": _time(created),
        "closedAt": None,
        "closed": False,
        "confirmed": True,
        "test": place % 47 == 0,
        "sourceName": "pos" if place % 11 == 0 else "web",
        "email": _order_email(place, customer),
        "phone": None,
        "note": None,
        "customerAcceptsMarketing": place % 3 == 0,
        "customerLocale": customer["locale"] if customer else None,
        "tags": ["gift"] if place % 13 == 0 else [],
        "discountCodes": ["WELCOME10"] if place % 17 == 0 else [],
        "currencyCode": DEFAULT_CURRENCY,
        "presentmentCurrencyCode": "EUR" if place % 6 == 0 else DEFAULT_CURRENCY,
        "totalPriceSet": _shown_money(total, place),
        "subtotalPriceSet": _shown_money(total, place),
        "customer": {"id": customer["id"]} if customer else None,
        "lineItems": {"nodes": lines, "pageInfo": {"hasNextPage": False}},
        **ending,
    }


def _line(place: int, count: int, dice: random.Random) -> Node:
    title, sku, variant, price = dice.choice(_PRODUCTS)
    return {
        "id": f"gid://shopify/LineItem/{_FIRST_LINE + place * 10 + count}",
        "title": title,
        "variantTitle": variant,
        "sku": sku,
        "quantity": 1 + dice.randrange(4),
        "vendor": "Example Goods",
        "originalUnitPriceSet": _shown_money(Decimal(price), place),
        "_price": price,
    }


def _shown_money(amount: Decimal, place: int) -> Node:
    """In the shop's currency, and for every sixth order in euro where the customer sees it."""
    bag = money(f"{amount:.2f}")
    if place % 6 == 0:
        bag["presentmentMoney"] = {"amount": f"{amount * _EURO:.2f}", "currencyCode": "EUR"}
    return bag


def _ending(place: int, created: datetime, total: Decimal, dice: random.Random) -> Node:
    """What became of the order: paid, not yet paid, cancelled, refunded in part or whole."""
    later = _between(created, SHOP_ENDS, dice)
    refunded = {1: total, 2: total / 2}.get(place % 25, Decimal()).quantize(Decimal("0.01"))
    cancelled = place % 25 == 1
    status = {1: "REFUNDED", 2: "PARTIALLY_REFUNDED", 3: "PENDING"}.get(place % 25, "PAID")
    refund = {
        "id": f"gid://shopify/Refund/{_FIRST_ORDER + place}",
        "createdAt": _time(later),
        "updatedAt": _time(later),
        "totalRefundedSet": _shown_money(refunded, place),
    }
    return {
        "updatedAt": _time(later if refunded or place % 2 else created),
        "cancelledAt": _time(later) if cancelled else None,
        "cancelReason": "CUSTOMER" if cancelled else None,
        "displayFinancialStatus": status,
        "displayFulfillmentStatus": "FULFILLED" if place % 2 else "UNFULFILLED",
        "currentTotalPriceSet": _shown_money(total - refunded, place),
        "totalRefundedSet": _shown_money(refunded, place),
        "refunds": [refund] if refunded else [],
    }


def _spend(customer: Node, total: Decimal, updated_at: str) -> None:
    spent = Decimal(customer["amountSpent"]["amount"]) + total
    customer["numberOfOrders"] = str(int(customer["numberOfOrders"]) + 1)
    customer["amountSpent"] = {"amount": f"{spent:.2f}", "currencyCode": DEFAULT_CURRENCY}
    customer["updatedAt"] = max(customer["updatedAt"], updated_at)


def _order_email(place: int, customer: Node | None) -> str | None:
    if customer is None:
        return f"guest.{place}@example.org" if place % 2 else None
    address = customer["defaultEmailAddress"]
    return address["emailAddress"] if address else None
