"""What people ask of a list, and why they do what they do: the small forms of pages that show."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, tzinfo
from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _lazy

from syncs import words
from syncs.domain.lifecycle import Lane, Trigger
from syncs.forms import REASON_LIMIT
from syncs.queries import activity, listing


class ReasonForm(forms.Form):
    """Why somebody does it. It is in the activity of the workspace."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        label=_lazy("Why?"),
        error_messages={"required": _lazy("Say why: the others of your workspace read it in the activity.")},
    )


class RecordForm(ReasonForm):
    """Which record."""

    record = forms.IntegerField(min_value=1, widget=forms.HiddenInput)


class RetryForm(ReasonForm):
    """Which record, or all of one reason code."""

    record = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)
    code = forms.CharField(max_length=60, required=False, widget=forms.HiddenInput)


EARLIEST: Final = date(1970, 1, 1)
LATEST: Final = date(9000, 1, 1)
"""Beyond these no record lies; at both ends of the calendar a zone leads out of it."""


def plausible(at: datetime) -> None:
    """Raises ValidationError for an instant that no clock was ever at."""
    if not EARLIEST <= at.date() <= LATEST:
        raise forms.ValidationError(_lazy("Write a date and a time, such as 2026-10-08 14:05."))


class CursorForm(forms.Form):
    """Which lane goes back, and how far. Without an instant: to the beginning."""

    lane = forms.ChoiceField(label=_lazy("Which cursor?"))
    to = forms.DateTimeField(
        required=False,
        label=_lazy("Back to"),
        help_text=_lazy("In the workspace's time. Empty: back to the beginning."),
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        error_messages={"invalid": _lazy("Write a date and a time, such as 2026-10-08 14:05.")},
        validators=[plausible],
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(lane.value, str(words.LANES[lane])) for lane in Lane]
        self.fields["lane"].choices = choices  # type: ignore[attr-defined]

    def instant(self, zone: tzinfo) -> datetime | None:
        """Where to, on the workspace's clock. Call it when `is_valid`."""
        to: datetime | None = self.cleaned_data["to"]
        return to.replace(tzinfo=zone) if to is not None else None


class ResetForm(ReasonForm):
    """What was previewed, posted again with the reason."""

    lane = forms.ChoiceField(choices=[(lane.value, lane.value) for lane in Lane], widget=forms.HiddenInput)
    to = forms.DateTimeField(
        required=False,
        widget=forms.HiddenInput,
        input_formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"],
        validators=[plausible],
    )


class DatesForm(forms.Form):
    """From one day to another, both whole days of the workspace's clock."""

    since = forms.DateField(required=False, label=_lazy("From"), widget=forms.DateInput(attrs={"type": "date"}))
    until = forms.DateField(required=False, label=_lazy("To"), widget=forms.DateInput(attrs={"type": "date"}))
    before = forms.CharField(required=False, max_length=80, widget=forms.HiddenInput)

    def span(self, zone: tzinfo) -> tuple[datetime | None, datetime | None]:
        """Inclusive start, exclusive end."""
        given = self.cleaned_data if self.is_valid() else {}
        return _begins(given.get("since"), zone), _begins(given.get("until"), zone, after=timedelta(days=1))


def _begins(day: date | None, zone: tzinfo, after: timedelta = timedelta(0)) -> datetime | None:
    """Dates that no record can have ask for nothing."""
    if day is None or not EARLIEST <= day <= LATEST:
        return None
    return datetime.combine(day + after, time(), tzinfo=zone)


class RunsForm(DatesForm):
    """Which runs."""

    outcome = forms.ChoiceField(required=False, label=_lazy("Outcome"))
    started_by = forms.ChoiceField(required=False, label=_lazy("Started by"))

    field_order = ("outcome", "started_by", "since", "until", "before")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        starters = [(trigger.value, str(words.TRIGGERS[trigger])) for trigger in Trigger]
        self.fields["outcome"].choices = [("", _lazy("all")), *listing.outcome_choices()]  # type: ignore[attr-defined]
        self.fields["started_by"].choices = [("", _lazy("all")), *starters]  # type: ignore[attr-defined]

    def asked(self, zone: tzinfo) -> listing.Asked:
        """What is asked for; everything when it cannot be read."""
        since, until = self.span(zone)
        given = self.cleaned_data if self.is_valid() else {}
        return listing.Asked(
            outcome=given.get("outcome", ""),
            started_by=given.get("started_by", ""),
            since=since,
            until=until,
            before=activity.marked(given.get("before", "")),
        )


class ActivityForm(DatesForm):
    """Which deeds."""

    who = forms.CharField(required=False, max_length=200, label=_lazy("Who"))
    action = forms.ChoiceField(required=False, label=_lazy("Did what"))
    subject = forms.CharField(required=False, max_length=200, label=_lazy("To what"))

    field_order = ("who", "action", "subject", "since", "until", "before")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = {**words.ACTIONS, **words.OTHER_ACTIONS}
        choices = sorted(((code, str(word)) for code, word in known.items()), key=lambda pair: pair[1])
        self.fields["action"].choices = [("", _lazy("anything")), *choices]  # type: ignore[attr-defined]

    def asked(self, zone: tzinfo) -> activity.Asked:
        """What is asked for; everything when it cannot be read."""
        since, until = self.span(zone)
        given = self.cleaned_data if self.is_valid() else {}
        return activity.Asked(
            who=given.get("who", ""),
            action=given.get("action", ""),
            subject=given.get("subject", ""),
            since=since,
            until=until,
            before=activity.marked(given.get("before", "")),
        )
