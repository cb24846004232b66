"""The rule as a form in words: what a person edits instead of JSON (UX, P6).

Whether the rule is one is decided by `syncs.domain.rule` alone; it is asked until it has named every fault. Texts are
passed on as they came: the rule makes line ends and blanks one form, so that a save without a change is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from connectors.protocol import Stream
from syncs.domain import rule as rules
from syncs.domain.limits import SET_ASIDE, STOP
from syncs.errors import RuleInvalid
from syncs.forms import pickers

SPARE_ROWS: Final = 1
"""Empty mapping rows under the filled ones. A button brings more."""

CUT_SHORT: Final = _("The form came without its fields. Load the page again, then save.")

KINDS: Final = (("text", _("text")), ("number", _("number")), ("date", _("date")), ("boolean", _("yes or no")))
CONSENTS: Final = (
    (rules.CONFIRMED_OR_SINGLE, _("Single or confirmed opt-in")),
    (rules.CONFIRMED, _("Confirmed opt-in only")),
)
REJECTIONS: Final = (
    (STOP, _("Stop, until a person decides")),
    (SET_ASIDE, _("Set them aside, up to the limits below")),
)
EVENTS: Final = (
    (rules.ORDER_PLACED, _("Order placed")),
    (rules.ORDER_CANCELLED, _("Order cancelled")),
    (rules.ORDER_REFUNDED, _("Order refunded")),
)


class FieldForm(forms.Form):
    """One row of the mapping: target, where its value comes from, and as what it is written."""

    to = forms.CharField(required=False, strip=False, label=_("Field at the destination"), widget=pickers.Target)
    source = forms.CharField(required=False, strip=False, label=_("Value from the source"), widget=pickers.Suggested)
    kind = forms.ChoiceField(required=False, choices=KINDS, label=_("Written as"))

    @property
    def is_blank(self) -> bool:
        """Whether the row says nothing: blank rows are left out."""
        return not self.cleaned_data.get("to", "").strip() and not self.cleaned_data.get("source", "").strip()


FieldFormSet = forms.formset_factory(FieldForm, extra=SPARE_ROWS)


class RuleForm(forms.Form):
    """What a sync may write. ``revision`` is the draft the person looked at: it guards against two editors."""

    revision = forms.IntegerField(widget=forms.HiddenInput)
    list_id = forms.IntegerField(
        required=False,
        label=_("List at the destination"),
        help_text=_("Its number. Contacts are put on this list, and taken off it when they withdraw."),
    )
    filter = forms.CharField(
        required=False,
        strip=False,
        label=_("Only records for which this holds (JMESPath)"),
        help_text=_("Leave it empty to take all. An example: contains(tags, 'vip')"),
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )
    consent = forms.ChoiceField(
        choices=CONSENTS,
        label=_("Consent that counts as proof"),
        help_text=_("Only subscribed people with a known date are ever sent."),
        widget=forms.RadioSelect,
    )
    refuse_data_sale_opt_out = forms.BooleanField(
        required=False, label=_("Refuse people who opted out of the sale of their data")
    )
    events = forms.MultipleChoiceField(
        required=False, choices=EVENTS, label=_("Events to send"), widget=forms.CheckboxSelectMultiple
    )
    history_events = forms.BooleanField(
        required=False, label=_("Send events of the time before the first publication too")
    )
    include_test_orders = forms.BooleanField(required=False, label=_("Include test orders"))
    on_rejected = forms.ChoiceField(
        choices=REJECTIONS, label=_("Records that the destination rejects"), widget=forms.RadioSelect
    )
    ratio = forms.CharField(
        required=False,
        label=_("Share of a run that may be set aside"),
        help_text=_("0.05 is 5 %. Only with “Set them aside”; empty means 0.05."),
    )
    cap = forms.IntegerField(
        required=False,
        label=_("At most so many records of a run"),
        help_text=_("Only with “Set them aside”; empty means 20."),
    )

    FOR_ORDERS: Final = ("events", "history_events", "include_test_orders")
    FOR_CUSTOMERS: Final = ("list_id",)

    def __init__(self, *args: Any, stream: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stream = Stream(stream)
        foreign = self.FOR_ORDERS if self.stream is Stream.CUSTOMERS else self.FOR_CUSTOMERS
        for name in foreign:
            del self.fields[name]


class Draft:
    """The rule form and its mapping rows as one: filled from a document, or from what was posted.

    ``attributes`` (name -> type) are what the destination has, to suggest targets; None where it could not be asked.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        revision: object,
        posted: Mapping[str, Any] | None = None,
        *,
        attributes: Mapping[str, str] | None = None,
        spare: int = SPARE_ROWS,
    ) -> None:
        self.stream = str(document.get("stream", Stream.CUSTOMERS))
        self.attributes = attributes
        self.form = RuleForm(posted, initial={**document, "revision": revision}, stream=self.stream)
        rows = [dict(one) for one in document.get("mapping", [])]
        self.rows = FieldFormSet(posted, initial=rows, prefix="mapping")
        self.rows.extra = spare
        self._asked: list[FieldForm] = []

    # --- Checking -----------------------------------------------------------------------------------------------------
    def is_valid(self) -> bool:
        """Whether what was posted is a rule. Every fault is told at its field, however many there are."""
        sound = bool(self.form.is_valid() & self.rows.is_valid()) and not self.is_cut_short
        if self.is_cut_short:
            return False
        return self._ask_the_rule() and sound

    def _ask_the_rule(self) -> bool:
        """Let the rule name its faults, one after the other: what it named is mended in a copy before it goes on."""
        document = self.document()
        well = True
        while True:
            try:
                rules.parse(document)
            except RuleInvalid as invalid:
                well = False
                self.refuse(invalid)
                if not _mend(document, invalid.field):
                    return False
            else:
                return well

    @property
    def is_cut_short(self) -> bool:
        """Whether the mapping's rows did not come along: the page sends at least its empty ones."""
        return self.rows.is_bound and (bool(self.rows.non_form_errors()) or not self.rows.forms)

    @property
    def revision(self) -> int:
        return int(self.form.cleaned_data["revision"])

    def document(self) -> dict[str, Any]:
        """The rule as plain JSON, unchecked. What no form field could read is left harmless: its error is told."""
        given = self.form.cleaned_data
        document: dict[str, Any] = {"stream": self.stream, "mapping": self._mapping()}
        for name in self.form.fields:
            if name != "revision":
                document[name] = given[name] if name in given else _harmless(document, name)
        for name in ("ratio", "filter"):
            document[name] = document[name] or None
        return document

    def _mapping(self) -> list[dict[str, str]]:
        self._asked = [row for row in self._rows() if not row.is_blank]
        given = [row.cleaned_data for row in self._asked]
        return [
            {"to": one.get("to", ""), "source": one.get("source", ""), "kind": one.get("kind") or "text"}
            for one in given
        ]

    def _rows(self) -> list[FieldForm]:
        return self.rows.forms

    def refuse(self, invalid: RuleInvalid) -> None:
        """Show why the rule is none, at the field that the sentence is about."""
        if place := re.fullmatch(r"mapping\.(\d+)(?:\.(\w+))?", invalid.field):
            row = self._asked[int(place[1])]
            row.add_error(place[2] if place[2] in row.fields else None, invalid.sentence)
            return
        name = invalid.field.partition(".")[0]
        self.form.add_error(name if name in self.form.fields else None, invalid.sentence)

    # --- Kept text ----------------------------------------------------------------------------------------------------
    @classmethod
    def kept(
        cls, document: Mapping[str, Any], revision: int, posted: QueryDict, attributes: Mapping[str, str] | None = None
    ) -> Draft:
        """What was posted, as if it had been typed over ``revision``: after a conflict the text stays."""
        again = posted.copy()
        again["revision"] = str(revision)
        draft = cls(document, revision, again, attributes=attributes)
        draft.is_valid()
        return draft

    @classmethod
    def reshaped(
        cls,
        document: Mapping[str, Any],
        posted: QueryDict,
        *,
        without: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Draft:
        """What was posted with one more empty row, or ``without`` one: the text is kept, and nothing is judged yet."""
        typed = cls(document, 0, posted)
        rows = [{name: row[name].value() for name in row.fields} for row in typed._rows()]
        kept = [row for at, row in enumerate(rows) if at != without]
        raw = {name: typed.form[name].value() for name in typed.form.fields}
        shown = {"stream": typed.stream, **raw, "mapping": kept}
        spare = 1 if without is None or not kept else 0
        return cls(shown, raw["revision"], attributes=attributes, spare=spare)

    def errors(self) -> list[tuple[str, Any]]:
        """Every error with the id of its field ("" where it concerns the whole), in the order of the page."""
        told = [
            (form[name].auto_id if name in form.fields else "", str(sentence))
            for form, names in self._in_order()
            for name in names
            for sentence in form.errors.get(name, ())
        ]
        return [*told, ("", CUT_SHORT)] if self.is_cut_short else told

    def _in_order(self) -> list[tuple[forms.Form, list[str]]]:
        """The list comes before the mapping, the rest after it."""
        first = ["__all__", "revision", "list_id"]
        rows: list[tuple[forms.Form, list[str]]] = [(row, [*row.fields, "__all__"]) for row in self._rows()]
        return [(self.form, first), *rows, (self.form, [name for name in self.form.fields if name not in first])]


# --- Mending a copy ---------------------------------------------------------------------------------------------------
_HARMLESS: Final[Mapping[str, Any]] = {
    "filter": None,
    "consent": rules.CONFIRMED_OR_SINGLE,
    "refuse_data_sale_opt_out": False,
    "on_rejected": STOP,
    "ratio": None,
    "cap": None,
    "events": (),
    "history_events": False,
    "include_test_orders": False,
}
"""Values that the rule finds no fault with, whatever the others are."""


def _harmless(document: Mapping[str, Any], name: str) -> Any:
    if name == "list_id":
        return 1 if document.get("stream") == Stream.CUSTOMERS else None
    value = _HARMLESS.get(name)
    return list(value) if isinstance(value, tuple) else value


def _mend(document: dict[str, Any], field: str) -> bool:
    """Put something harmless where the rule found a fault; False where nothing can be, or is already."""
    name, _dot, rest = field.partition(".")
    if name == "mapping" and rest:
        return _mend_row(document["mapping"], rest)
    if name not in document or document[name] == (harmless := _harmless(document, name)):
        return False
    document[name] = harmless
    return True


def _mend_row(rows: list[dict[str, str]], place: str) -> bool:
    index, _dot, part = place.partition(".")
    row = rows[int(index)]
    free = next(name for name in (f"FREE_{number}" for number in range(len(rows) + 1)) if _is_free(rows, name))
    harmless = {"to": free, "source": "id", "kind": "text"}
    mended = {**row, part: harmless[part]} if part in harmless else harmless
    if mended == row or (part == "to" and row["to"].startswith("FREE_")):
        return False
    rows[int(index)] = mended
    return True


def _is_free(rows: list[dict[str, str]], name: str) -> bool:
    return all(row["to"].casefold() != name.casefold() for row in rows)
