"""The rule as a form in words: what a person edits instead of JSON (UX, P6).

What the forms let through is checked by `syncs.domain.rule` alone; its sentence is shown at the field it names. Texts
are passed on as they came: the rule makes line ends and blanks one form, so that a save without a change is none.
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

SPARE_ROWS: Final = 3
"""Empty mapping rows under the filled ones. Saving brings new ones."""

REASON_LIMIT: Final = 300

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

    to = forms.CharField(required=False, strip=False, label=_("Field at the destination"))
    source = forms.CharField(
        required=False,
        strip=False,
        label=_("Value from the source (JMESPath)"),
        widget=forms.Textarea(attrs={"rows": 1, "spellcheck": "false"}),
    )
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
        help_text=_("Leave it empty to take all."),
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
        required=False, label=_("Share of a run that may be set aside"), help_text=_("0.05 is 5 %.")
    )
    cap = forms.IntegerField(required=False, label=_("At most so many records of a run"))

    FOR_ORDERS: Final = ("events", "history_events", "include_test_orders")
    FOR_CUSTOMERS: Final = ("list_id",)

    def __init__(self, *args: Any, stream: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stream = Stream(stream)
        foreign = self.FOR_ORDERS if self.stream is Stream.CUSTOMERS else self.FOR_CUSTOMERS
        for name in foreign:
            del self.fields[name]


class PauseForm(forms.Form):
    """Why a sync is to stand still."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        label=_("Why is it paused?"),
        error_messages={"required": _("Say why it is paused: the others of your workspace read it here.")},
    )


class PublishForm(forms.Form):
    """Exactly what is published. The digest is the whole one, never its beginning."""

    digest = forms.RegexField(r"\A[0-9a-f]{64}\Z", strip=False)
    reason = forms.CharField(max_length=REASON_LIMIT, required=False, label=_("Why (optional)"))


class Draft:
    """The rule form and its mapping rows as one: filled from a document, or from what was posted."""

    def __init__(self, document: Mapping[str, Any], revision: int, posted: Mapping[str, Any] | None = None) -> None:
        self.stream = str(document.get("stream", Stream.CUSTOMERS))
        initial = {**document, "revision": revision}
        self.form = RuleForm(posted, initial=initial, stream=self.stream)
        rows = [dict(one) for one in document.get("mapping", [])]
        self.rows = FieldFormSet(posted, initial=rows, prefix="mapping")

    def is_valid(self) -> bool:
        return bool(self.form.is_valid() & self.rows.is_valid()) and not self.is_cut_short

    @property
    def is_cut_short(self) -> bool:
        """Whether the mapping's rows did not come along: the page sends at least its empty ones."""
        return self.rows.is_bound and (bool(self.rows.non_form_errors()) or not self.rows.forms)

    @property
    def revision(self) -> int:
        return int(self.form.cleaned_data["revision"])

    def document(self) -> dict[str, Any]:
        """The rule as plain JSON, unchecked. Call it when `is_valid`."""
        given = self.form.cleaned_data
        document: dict[str, Any] = {"stream": self.stream, "mapping": self._mapping()}
        for name in self.form.fields:
            if name != "revision":
                document[name] = given[name]
        for name in ("ratio", "filter"):
            document[name] = document[name] or None
        return document

    def _mapping(self) -> list[dict[str, str]]:
        given = [row.cleaned_data for row in self._filled()]
        return [{"to": one["to"], "source": one["source"], "kind": one["kind"] or "text"} for one in given]

    def _filled(self) -> list[FieldForm]:
        return [row for row in self.rows.forms if not row.is_blank]

    def refuse(self, invalid: RuleInvalid) -> None:
        """Show why the rule is none, at the field that the sentence is about."""
        if place := re.fullmatch(r"mapping\.(\d+)(?:\.(\w+))?", invalid.field):
            row = self._filled()[int(place[1])]
            row.add_error(place[2] if place[2] in row.fields else None, invalid.sentence)
            return
        name = invalid.field.partition(".")[0]
        self.form.add_error(name if name in self.form.fields else None, invalid.sentence)

    @classmethod
    def kept(cls, document: Mapping[str, Any], revision: int, posted: QueryDict) -> Draft:
        """What was posted, as if it had been typed over ``revision``: after a conflict the text stays."""
        again = posted.copy()
        again["revision"] = str(revision)
        draft = cls(document, revision, again)
        draft.is_valid()
        return draft

    def errors(self) -> list[tuple[str, Any]]:
        """Every error with the id of its field ("" where it concerns the whole), for the summary at the top."""
        told = [
            (form[name].auto_id if name in form.fields else "", str(sentence))
            for form in [self.form, *self.rows.forms]
            for name, sentences in form.errors.items()
            for sentence in sentences
        ]
        return [*told, ("", CUT_SHORT)] if self.is_cut_short else told
