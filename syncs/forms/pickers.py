"""What the fields of a mapping are picked from: the destination's own attributes, and what a source can tell.

The source's fields are paths into the node that its connector reads; anything else is said in JMESPath.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _lazy

from syncs.words import Words

SOURCE_LIST: Final = "source-fields"
"""The id of the page's list of suggestions for values."""

TARGET_LIST: Final = "destination-fields"
"""The id of the page's list of suggestions for targets."""

_SHOPIFY_CUSTOMERS: Final[Words] = {
    "firstName": _lazy("First name"),
    "lastName": _lazy("Last name"),
    "displayName": _lazy("Full name"),
    "locale": _lazy("Language"),
    "tags": _lazy("Tags"),
    "numberOfOrders": _lazy("Number of orders"),
    "amountSpent.amount": _lazy("Amount spent"),
    "amountSpent.currencyCode": _lazy("Currency of the amount spent"),
    "createdAt": _lazy("Customer since"),
    "updatedAt": _lazy("Last changed"),
    "state": _lazy("State of the account"),
    "verifiedEmail": _lazy("E-mail address is verified"),
    "defaultPhoneNumber.phoneNumber": _lazy("Phone number"),
    "defaultEmailAddress.marketingUpdatedAt": _lazy("Consent given or withdrawn at"),
    "defaultEmailAddress.marketingOptInLevel": _lazy("Opt-in level"),
    "defaultAddress.company": _lazy("Company"),
    "defaultAddress.address1": _lazy("Street"),
    "defaultAddress.zip": _lazy("Postal code"),
    "defaultAddress.city": _lazy("City"),
    "defaultAddress.provinceCode": _lazy("Province (code)"),
    "defaultAddress.countryCodeV2": _lazy("Country (code)"),
}
_SHOPIFY_ORDERS: Final[Words] = {
    "name": _lazy("Order name"),
    "displayFinancialStatus": _lazy("Payment status"),
    "displayFulfillmentStatus": _lazy("Delivery status"),
    "totalPriceSet.shopMoney.amount": _lazy("Total"),
    "currentTotalPriceSet.shopMoney.amount": _lazy("Total after changes"),
    "totalRefundedSet.shopMoney.amount": _lazy("Refunded"),
    "totalPriceSet.shopMoney.currencyCode": _lazy("Currency"),
    "createdAt": _lazy("Created at"),
    "processedAt": _lazy("Placed at"),
    "updatedAt": _lazy("Last changed"),
    "cancelledAt": _lazy("Cancelled at"),
    "cancelReason": _lazy("Why it was cancelled"),
    "sourceName": _lazy("Sales channel"),
    "customerLocale": _lazy("Language"),
    "tags": _lazy("Tags"),
    "discountCodes": _lazy("Discount codes"),
    "lineItems.nodes[].title": _lazy("Names of the products"),
    "lineItems.nodes[].sku": _lazy("Article numbers"),
}
SOURCE_FIELDS: Final[Mapping[tuple[str, str], Words]] = {
    ("shopify", "customers"): _SHOPIFY_CUSTOMERS,
    ("shopify", "orders"): _SHOPIFY_ORDERS,
}
"""Kind of source and stream -> path into its node -> what people call it."""


def source_fields(kind: str, stream: str) -> tuple[tuple[str, str], ...]:
    """Suggestions for the value of a field: path and words."""
    return tuple((path, str(word)) for path, word in SOURCE_FIELDS.get((kind, stream), {}).items())


TYPES: Final[Words] = {
    "text": _lazy("text"),
    "date": _lazy("date"),
    "float": _lazy("number"),
    "boolean": _lazy("yes or no"),
    "category": _lazy("category"),
    "multiple-choice": _lazy("several choices"),
    "id": _lazy("number"),
}


def attribute_words(attributes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Suggestions for the target of a field: the destination's attributes by name, each with its type in words."""
    return tuple((name, str(TYPES.get(kind, kind))) for name, kind in sorted(attributes.items()))


class Target(forms.TextInput):
    """One line with the destination's own attributes as suggestions; any other name may be typed."""

    def __init__(self) -> None:
        super().__init__(attrs={"list": TARGET_LIST, "spellcheck": "false", "autocomplete": "off"})


class Suggested(forms.TextInput):
    """One line with suggestions; an expression of several lines is shown as it is, since a line would join it."""

    def __init__(self) -> None:
        super().__init__(attrs={"list": SOURCE_LIST, "spellcheck": "false", "autocomplete": "off"})

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        if isinstance(value, str) and "\n" in value:
            rows = value.count("\n") + 1
            several = forms.Textarea(attrs={"rows": rows, "spellcheck": "false"})
            return several.render(name, value, attrs, renderer)
        return super().render(name, value, attrs, renderer)
