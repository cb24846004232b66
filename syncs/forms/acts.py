"""What is asked before something is done to a sync: why, exactly what, how often."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.utils.translation import gettext_lazy as _

from syncs import words
from syncs.domain import schedule as schedules

REASON_LIMIT: Final = 300


class PauseForm(forms.Form):
    """Why a sync is to stand still."""

    reason = forms.CharField(
        max_length=REASON_LIMIT,
        label=_("Why is it paused?"),
        error_messages={"required": _("Say why it is paused: the others of your workspace read it here.")},
    )


class PublishForm(forms.Form):
    """Exactly what is published. The digest is the whole one, never its beginning.

    ``confirm`` is asked for only where a publication reaches further than what is published now (UX, P6).
    """

    digest = forms.RegexField(r"\A[0-9a-f]{64}\Z", strip=False)
    reason = forms.CharField(max_length=REASON_LIMIT, required=False, label=_("Why (optional)"))
    confirm = forms.BooleanField(required=False, label=_("Yes, it is to reach that far"))

    def ask_again(self) -> None:
        """Say that the further reach has to be confirmed."""
        said = _("Nothing was published: confirm first that it is to reach that far.")
        self.add_error("confirm", str(said))


class FromVersionForm(forms.Form):
    """Which draft is replaced by the rule of a version: it guards against two editors."""

    revision = forms.IntegerField(widget=forms.HiddenInput)


OFTEN: Final = (5, 10, 15, 30, 60, 120, 240, 360, 720, 1440)
"""Minutes between two starts that are offered by name."""

OTHER: Final = "other"


class ScheduleForm(forms.Form):
    """When a sync runs: an interval out of a list, or any other number of minutes."""

    every = forms.ChoiceField(label=_("How often"))
    minutes = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=schedules.MOST_MINUTES,
        label=_("Another number of minutes"),
        help_text=_("Only when it is chosen above. At most a week: 10,080."),
    )
    active = forms.BooleanField(required=False, label=_("The schedule plans starts"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        named = [(str(one), words.every(one)) for one in OFTEN]
        self.fields["every"].choices = [*named, (OTHER, _("another number of minutes"))]  # type: ignore[attr-defined]

    @staticmethod
    def initially(every_minutes: int, active: bool) -> dict[str, Any]:
        """What the form shows for a schedule as it is."""
        if every_minutes in OFTEN:
            return {"every": str(every_minutes), "active": active}
        return {"every": OTHER, "minutes": every_minutes, "active": active}

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        if given.get("every") == OTHER and given.get("minutes") is None and "minutes" not in self.errors:
            self.add_error("minutes", str(_("Say how many minutes lie between two starts.")))
        return given

    @property
    def every_minutes(self) -> int:
        """The interval. Call it when `is_valid`."""
        given = self.cleaned_data
        return int(given["minutes"]) if given["every"] == OTHER else int(given["every"])
