"""What the demo tells people: progress while a run goes on, and the summary at its end."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from local import stage
    from syncs.models import Run

BAR_WIDTH = 30
LINE_SECONDS = 10.0
STILL_SECONDS = 30.0
"""A run that ends no page for so long stands still: nobody knows how long it will still take."""
FAILED, UNREADABLE = 4, 7
UNBELIEVED = frozenset({"unreadable", "unproven", "short"})


class Progress:
    """Done of expected, rate and time left of one run, on stderr: a bar on a terminal, else a line every 10 s."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = sys.stderr.isatty()
        self._began = self._shown = self._moved = time.monotonic()
        self._before = 0
        self._last: int | None = None
        self._waits_for: datetime | None = None

    def show(self, run: Run, held: stage.Held | None) -> None:
        """``held`` is the lease that the run goes on under, None while nobody holds one."""
        if run.state == "waiting" and run.error_sentence and run.due_after != self._waits_for:
            self._tell_wait(run)
        done = sum(run.states.values())
        self._note(done)
        waits = self._standstill(run, held)
        pace = waits or self._rate(done, run.expected)
        words = f"{done:,} of {'?' if run.expected is None else f'{run.expected:,}'} records, {pace}"
        if self._terminal:
            shown = f"{self._name} {words if waits else f'{self._bar(done, run.expected)} {words}'}"
            # What goes on in a second line stays there for good.
            sys.stderr.write(f"\r\033[K{shown[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()
        elif time.monotonic() - self._shown >= LINE_SECONDS:
            self._shown = time.monotonic()
            self._say(f"{self._name}: {words}")

    def _note(self, done: int) -> None:
        """A standstill is no part of the rate that is shown after it."""
        now = time.monotonic()
        if done == self._last:
            return
        if self._last is None or now - self._moved > STILL_SECONDS:
            self._before, self._began = done, now
        self._last, self._moved = done, now

    def end(self, run: Run) -> None:
        ended = f"{run.outcome.replace('_', ' ')} ({run.verdict.replace('_', ' ')})"
        why = f": {run.error_sentence}" if run.error_sentence else "."
        self._say(f"{self._name}: {sum(run.states.values()):,} records, {ended}{why}")

    def _tell_wait(self, run: Run) -> None:
        self._waits_for = run.due_after
        seconds = max(0.0, (run.due_after - datetime.now(UTC)).total_seconds())
        if seconds > 1:
            when = f"{_clock(run.due_after)}, in {seconds:.0f} s"
            self._say(f"{self._name}: {run.error_sentence} It is tried again at {when}.")

    def _standstill(self, run: Run, held: stage.Held | None) -> str:
        """Of a run that stands still until when, at most, and why; "" for one that goes on."""
        if run.state != "running":
            waits = run.due_after > datetime.now(UTC)
            return f"waits until {_clock(run.due_after)}" if waits else "waits for a worker"
        if held is not None and not held.ours:
            return f"waits until {_clock(held.until)} at the latest, for the lease of a worker that is gone"
        still = time.monotonic() - self._moved
        if still > STILL_SECONDS:
            return f"nothing new for {still:.0f} s{_takeover(held)}"
        return ""

    def _rate(self, done: int, expected: int | None) -> str:
        rate = (done - self._before) / max(time.monotonic() - self._began, 0.001)
        left = "" if expected is None or rate < 1 else f", {max(expected - done, 0) / rate:.0f} s left"
        return f"{rate:,.0f} a second{left}"

    def _bar(self, done: int, expected: int | None) -> str:
        filled = min(BAR_WIDTH, BAR_WIDTH * done // expected) if expected else 0
        return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}]"

    def _say(self, sentence: str) -> None:
        print(f"\r\033[K{sentence}" if self._terminal else sentence, file=sys.stderr, flush=True)


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S} UTC"


def _takeover(held: stage.Held | None) -> str:
    return f", at most until {_clock(held.until)} if its worker is dead" if held else ""


def code_of(run: Run) -> int:
    """The exit code that a finished run calls for."""
    if run.outcome == "succeeded":
        return 0
    return UNREADABLE if UNBELIEVED & {run.outcome, run.verdict} else FAILED


def destination(held: Mapping[str, Any], list_id: int) -> dict[str, int]:
    """What the sandbox Brevo says that it holds, in numbers."""
    counted = {name: int(held[name]) for name in ("contacts", "orders", "events", "duplicate_events", "violations")}
    return {"contacts": counted.pop("contacts"), "list_members": int(held["list_members"][str(list_id)]), **counted}


def summary(result: Mapping[str, Any], runs: Sequence[Run], out: IO[str]) -> None:
    """What was read, what became of it, and what the destination holds now."""
    for shown, run in zip(result["syncs"], runs, strict=True):
        took = "" if shown["seconds"] is None else f", {shown['seconds']:.1f} s"
        print(
            f"{shown['name']} ({shown['stream']}, {shown['lane']} lane): {shown['outcome']}, {shown['verdict']}{took}",
            file=out,
        )
        print(f"  read {shown['read']:,} = {_sum_of(shown)}", file=out)
        if run.error_sentence:
            print(f"  {run.error_sentence}", file=out)
    held = result["destination"]
    print(
        f"Brevo holds {held['contacts']:,} contacts ({held['list_members']:,} on the list), {held['orders']:,} orders "
        f"and {held['events']:,} events, {held['duplicate_events']:,} of them twice. It logged {held['violations']:,} "
        "violations.",
        file=out,
        flush=True,
    )


def _sum_of(shown: Mapping[str, Any]) -> str:
    parts = []
    for state, number in shown.items():
        if state == "refused" and number:
            reasons = ", ".join(f"{count:,} {code}" for code, count in sorted(number.items(), key=lambda c: -c[1]))
            parts.append(f"{sum(number.values()):,} refused ({reasons})")
        elif state not in NOT_STATES and number:
            parts.append(f"{number:,} {state.replace('_', ' ')}")
    return " + ".join(parts) or "0"


NOT_STATES = frozenset({"name", "stream", "lane", "outcome", "verdict", "read", "refused", "seconds"})


def as_json(result: Mapping[str, Any]) -> None:
    """One object, and nothing else, on stdout."""
    print(json.dumps(result, indent=2), flush=True)
