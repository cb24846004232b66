"""The forms of connections and of a new sync. A secret that was typed is never shown again, not even after an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import gettext_noop

from connectors.protocol import Stream
from syncs import services
from syncs.domain import rule as rules
from syncs.forms import REASON_LIMIT
from syncs.models import Connection

NAME_LIMIT: Final = 120
SECRET_LIMIT: Final = 512
OPTION_LIMIT: Final = 200

KNOWN: Final = (
    gettext_noop("Shop domain"),
    gettext_noop("The one that ends in .myshopify.com, from Shopify's settings."),
    gettext_noop("Access token"),
    gettext_noop("Of an app with the scopes read_customers and read_orders."),
    gettext_noop("API version"),
    gettext_noop("API key"),
    gettext_noop("With contacts, events and e-commerce read and write."),
    gettext_noop("Sandbox address"),
    gettext_noop("Only for a sandbox on this machine: http://127.0.0.1:PORT."),
)
"""What connectors say of their fields, for the catalogues: connectors speak English only."""


class SecretsForm(forms.Form):
    """The secrets of a kind, as it declares them."""

    def __init__(self, kind: Any, posted: Mapping[str, Any] | None = None) -> None:
        super().__init__(posted)
        self.kind = kind
        for one in kind.fields:
            if one.secret:
                self.fields[one.name] = _secret(one)

    def secrets(self) -> dict[str, str]:
        return {one.name: self.cleaned_data[one.name] for one in self.kind.fields if one.secret}

    def refuse(self, sentence: str) -> None:
        """Show why it cannot be, at the field that the sentence names."""
        said = sentence.lower()
        names = [one.name for one in self.kind.fields if one.name in self.fields]
        labels = {one.name: one.label.lower() for one in self.kind.fields}
        found = next((n for n in names if labels[n] in said or n.replace("_", " ") in said), None)
        self.add_error(found, sentence)


def _secret(one: Any) -> forms.Field:
    widget = forms.PasswordInput(render_value=False, attrs={"autocomplete": "off", "spellcheck": "false"})
    said = {"required": _("Enter it: %(label)s.") % {"label": _(one.label)}}
    return forms.CharField(
        max_length=SECRET_LIMIT, label=_(one.label), help_text=_(one.help), widget=widget, error_messages=said
    )


class ConnectionForm(SecretsForm):
    """A name, and what the kind declares."""

    def __init__(self, kind: Any, posted: Mapping[str, Any] | None = None) -> None:
        super().__init__(kind, posted)
        secrets = dict(self.fields)
        self.fields = {"name": _name(_("Name"), _("What people call it.")), **self._options(), **secrets}
        self.fields["name"].initial = kind.label

    def _options(self) -> dict[str, forms.Field]:
        return {
            one.name: forms.CharField(
                max_length=OPTION_LIMIT, required=one.required, label=_(one.label), help_text=_(one.help)
            )
            for one in self.kind.fields
            if not one.secret
        }

    def options(self) -> dict[str, str]:
        """What was filled in."""
        given = ((one.name, self.cleaned_data[one.name]) for one in self.kind.fields if not one.secret)
        return {name: value for name, value in given if value}


def _name(label: str, help_text: str) -> forms.CharField:
    said = {"required": _("Give it a name: it stands in every list and mail.")}
    return forms.CharField(max_length=NAME_LIMIT, label=label, help_text=help_text, error_messages=said)


class SwitchForm(forms.Form):
    """Whether it was understood that syncs stand still."""

    confirm = forms.BooleanField(
        required=False, label=_lazy("I understand: these syncs stand still until they are published again.")
    )


class DisconnectForm(forms.Form):
    """The connection's name, typed, and why."""

    typed = forms.CharField(label=_lazy("Type its name to confirm"), max_length=NAME_LIMIT)
    reason = forms.CharField(required=False, label=_lazy("Why (optional)"), max_length=REASON_LIMIT)

    def __init__(self, name: str, posted: Mapping[str, Any] | None = None) -> None:
        super().__init__(posted)
        self.name = name
        self.fields["typed"].widget.attrs.update({"autocomplete": "off", "spellcheck": "false"})
        self.fields["typed"].error_messages["required"] = self._said()

    def _said(self) -> str:
        return _("Type %(name)s exactly. Nothing was disconnected.") % {"name": self.name}

    def clean_typed(self) -> str:
        typed: str = self.cleaned_data["typed"]
        if typed != self.name:
            raise forms.ValidationError(self._said())
        return typed


STREAMS: Final = (
    (Stream.CUSTOMERS.value, _lazy("Customers: contacts who agreed to be mailed, on one list")),
    (Stream.ORDERS.value, _lazy("Orders: orders and events about them")),
)
STARTS: Final[Mapping[str, Mapping[str, Any]]] = {
    Stream.CUSTOMERS.value: {
        "mapping": [{"to": "FIRSTNAME", "source": "firstName"}, {"to": "LASTNAME", "source": "lastName"}]
    },
    Stream.ORDERS.value: {"events": [rules.ORDER_PLACED]},
}
"""What a draft begins with; everything of it can be changed there."""


class NewSyncForm(forms.Form):
    """From where, to where, and what."""

    name = forms.CharField(
        max_length=NAME_LIMIT,
        label=_lazy("Name"),
        help_text=_lazy("What people call it."),
        error_messages={"required": _lazy("Give it a name: it stands in every list and mail.")},
    )
    stream = forms.ChoiceField(
        choices=STREAMS,
        label=_lazy("What"),
        widget=forms.RadioSelect,
        error_messages={"required": _lazy("Choose what is copied.")},
    )
    source = forms.ChoiceField(label=_lazy("Source"))
    destination = forms.ChoiceField(label=_lazy("Destination"))
    list_id = forms.IntegerField(
        required=False,
        min_value=1,
        label=_lazy("List at the destination, for customers"),
        help_text=_lazy("Its number. It can be changed in the draft, until the first publication."),
    )

    def __init__(
        self,
        sources: Iterable[Connection],
        destinations: Iterable[Connection],
        taken: Iterable[str],
        posted: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(posted)
        self.ends = {str(one.pk): one for one in (*sources, *destinations)}
        self.taken = frozenset(taken)
        for name, found in (("source", sources), ("destination", destinations)):
            choices = [(str(one.pk), f"{one.name} ({one.label or one.kind})") for one in found]
            self.fields[name].choices = choices  # type: ignore[attr-defined]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name in self.taken:
            raise forms.ValidationError(_("This workspace has a sync of that name already: choose another name."))
        return name

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("stream") == Stream.CUSTOMERS and not given.get("list_id") and "list_id" not in self.errors:
            self.add_error("list_id", _("Say which list the contacts are put on: its number at the destination."))
        return given

    def rule(self) -> dict[str, Any]:
        """The draft to begin with."""
        stream = self.cleaned_data["stream"]
        listed = {"list_id": self.cleaned_data["list_id"]} if stream == Stream.CUSTOMERS else {}
        return {"stream": stream, **STARTS[stream], **listed}


def kind_of(name: str) -> Any:
    """A kind by its name, None when there is none."""
    return next((one for one in services.connection_kinds() if one.name == name), None)
