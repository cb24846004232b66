"""What every source keeps (PRODUCT 1, 3.10, 5.1), as two suites over a small rig.

`SourceContract` holds for all of them, `WiredSource` for those that get their records as bytes from somewhere else. A
connector's test module makes a rig for it, names it in the fixture ``rig`` and subclasses what applies.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Protocol, TypeVar

import pytest

from connectors import errors
from connectors.protocol import Count, Record, Source, Stream, Window
from syncs.domain import keys

T = TypeVar("T")
Doing = Callable[[Source], Awaitable[T]]

PAGE = 3
SECOND = timedelta(seconds=1)
START = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
EVER = Window(None, START + timedelta(days=1))
# Case DATA-09: two ids that are one binary float.
TWINS = (9_007_199_254_740_992, 9_007_199_254_740_993)
# (number, seconds after START): ties of two, four and five rows lie across the edges of pages of three.
ROWS = (
    (40, 0), (7, 0), (300, 5), (12, 5), (5, 5), (90, 5), (11, 9), (2, 9), (TWINS[1], 9), (TWINS[0], 9), (1000, 9),
    (6, 30),
)  # fmt: skip
IN_ORDER = [str(number) for number, _ in sorted(ROWS, key=lambda row: (row[1], row[0]))]
WRITES = re.compile(r"write|update|delete|mutat|create|remove|upsert|insert|save|patch", re.IGNORECASE)


class SourceRig(Protocol):
    """A source at something that a test can change, read in pages of `PAGE`.

    ``edge`` is how far past ``until`` a record may still come, because the vendor's own filter includes its edge.
    ``run`` opens a source, does something with it and closes it. ``run_renewed`` does so with another valid token of
    the same account, ``run_next_version`` with another version of the vendor's interface.
    """

    edge: timedelta

    def put(self, stream: Stream, number: int, at: datetime, *, name: str = "Ada", lines: int = 1) -> None: ...
    def remove(self, stream: Stream, number: int) -> None: ...
    def name_of(self, record: Record) -> str: ...
    def run(self, doing: Doing[T]) -> T: ...
    def run_renewed(self, doing: Doing[T]) -> T: ...
    def run_next_version(self, doing: Doing[T]) -> T: ...
    def lose_scope(self, scope: str) -> None: ...
    def refuse_token(self) -> None: ...
    def throttle(self, wait: timedelta) -> None: ...


class WiredSourceRig(SourceRig, Protocol):
    """A rig whose vendor answers in bytes. ``damage`` spoils the next answer in the way named; ``run_unreachable`` runs
    where nobody listens."""

    def run_unreachable(self, doing: Doing[T]) -> T: ...
    def damage(self, name: str) -> None: ...


# --- Asking -----------------------------------------------------------------------------------------------------


async def pages(source: Source, stream: Stream, window: Window = EVER, after: str | None = None) -> list[Any]:
    """Every page from ``after`` on; a read without an end fails."""
    found = []
    for _ in range(50):
        page = await source.read_page(stream, window, after)
        assert [record.position for record in page.records] == list(range(len(page.records)))
        found.append(page)
        after = page.next
        if after is None:
            return found
    raise AssertionError("the read did not end")


async def read_all(source: Source, stream: Stream, window: Window = EVER, after: str | None = None) -> list[Record]:
    return [record for page in await pages(source, stream, window, after) for record in page.records]


def ids(records: Sequence[Record | None]) -> list[str | None]:
    return [None if record is None else record.id for record in records]


def fill(rig: SourceRig, stream: Stream) -> None:
    for number, seconds in ROWS:
        rig.put(stream, number, START + seconds * SECOND)


def page_of(stream: Stream, after: str | None = None, window: Window = EVER) -> Doing[Any]:
    return lambda source: source.read_page(stream, window, after)


QUESTIONS: dict[str, Callable[[Stream], Doing[Any]]] = {
    "page": page_of,
    "count": lambda stream: lambda source: source.count(stream, EVER),
    "reread": lambda stream: lambda source: source.reread(stream, ["7"]),
}
EVERY_QUESTION = {**QUESTIONS, "identify": lambda stream: lambda source: source.identify()}


def failing(rig: SourceRig, doing: Doing[Any], run: Callable[[Doing[Any]], Any] | None = None) -> errors.ConnectorError:
    with pytest.raises(errors.ConnectorError) as caught:
        (run or rig.run)(doing)
    return caught.value


@pytest.mark.parametrize("stream", list(Stream))
class SourceContract:
    # --- pages --------------------------------------------------------------------------------------------------

    def test_every_record_is_read_once_in_order_and_no_tie_is_lost_at_an_edge(
        self, rig: SourceRig, stream: Stream
    ) -> None:
        """Cases READ-16, DATA-09."""
        fill(rig, stream)

        found = rig.run(lambda source: pages(source, stream))

        assert [ids(page.records) for page in found] == [IN_ORDER[at : at + PAGE] for at in range(0, len(ROWS), PAGE)]
        assert all(record.stream is stream for page in found for record in page.records)
        assert all((record.order is not None) is (stream is Stream.ORDERS) for record in found[0].records)

    def test_a_read_goes_on_from_any_cursor_with_exactly_the_rest(self, rig: SourceRig, stream: Stream) -> None:
        """PRODUCT 1.5. Each rest is read by a source that knows nothing but the cursor."""
        fill(rig, stream)
        found = rig.run(lambda source: pages(source, stream))

        for number, page in enumerate(found[:-1], 1):
            after = page.next
            rest = rig.run(lambda source, after=after: read_all(source, stream, after=after))
            assert ids(rest) == IN_ORDER[number * PAGE :]

    def test_the_same_page_asked_twice_is_the_same_page(self, rig: SourceRig, stream: Stream) -> None:
        """PRODUCT 2.1: a retry of a read derives the same delivery keys."""
        fill(rig, stream)

        one, other = (rig.run(page_of(stream)) for _ in range(2))

        assert one == other

    def test_the_count_is_the_number_of_rows_of_the_same_window(self, rig: SourceRig, stream: Stream) -> None:
        """PRODUCT 5.2."""
        fill(rig, stream)
        for window in (EVER, Window(START + 5 * SECOND, EVER.until), Window(START, START + 8 * SECOND)):
            rows = rig.run(lambda source, window=window: read_all(source, stream, window))
            count = rig.run(lambda source, window=window: source.count(stream, window))
            assert count == Count(len(rows), exact=True)
            assert rows

    def test_a_window_holds_its_first_instant_and_ends_at_its_last(self, rig: SourceRig, stream: Stream) -> None:
        fill(rig, stream)
        since, until = START + 5 * SECOND, START + 9 * SECOND

        read = rig.run(lambda source: read_all(source, stream, Window(since, until)))

        at_edge = [record for record in read if record.updated_at and until <= record.updated_at < until + rig.edge]
        inside = [record for record in read if record not in at_edge]
        assert ids(inside) == ["5", "12", "90", "300"]
        assert all(record.updated_at and since <= record.updated_at < until for record in inside)
        assert bool(at_edge) is (rig.edge > timedelta(0))

    def test_nothing_falls_between_two_windows_that_meet_inside_a_second(self, rig: SourceRig, stream: Stream) -> None:
        """Case READ-04."""
        meeting = START + timedelta(milliseconds=614)
        rows = {1: meeting - timedelta(milliseconds=466), 2: meeting, 3: meeting + timedelta(milliseconds=286)}
        for number, at in rows.items():
            rig.put(stream, number, at)

        before = rig.run(lambda source: read_all(source, stream, Window(START, meeting)))
        behind = rig.run(lambda source: read_all(source, stream, Window(meeting, START + SECOND)))

        assert "1" in ids(before)
        assert {"2", "3"} <= set(ids(behind))
        assert {record.id: record.updated_at for record in [*before, *behind]} == {str(n): at for n, at in rows.items()}

    def test_a_window_in_another_zone_is_the_same_window(self, rig: SourceRig, stream: Stream) -> None:
        """Case READ-05."""
        fill(rig, stream)
        window = Window(START + 5 * SECOND, EVER.until)
        berlin = timezone(timedelta(hours=2))
        assert window.since is not None
        moved = Window(window.since.astimezone(berlin), window.until.astimezone(berlin))

        assert rig.run(page_of(stream, None, moved)) == rig.run(page_of(stream, None, window))
        assert rig.run(_digest(stream, moved)) == rig.run(_digest(stream, window))

    def test_a_window_without_records_is_an_empty_page_and_a_count_of_none(
        self, rig: SourceRig, stream: Stream
    ) -> None:
        fill(rig, stream)
        quiet = Window(START + timedelta(hours=1), START + timedelta(hours=2))

        page = rig.run(page_of(stream, None, quiet))

        assert (page.records, page.next) == ((), None)
        assert rig.run(lambda source: source.count(stream, quiet)) == Count(0, exact=True)

    def test_the_inner_cursor_starts_again_in_the_next_window(self, rig: SourceRig, stream: Stream) -> None:
        """Case READ-02: a smaller id in the next window is not behind the cursor of the last."""
        for number, hour in ((899, 0), (900, 0), (150, 1), (901, 1)):
            rig.put(stream, number, START + timedelta(hours=hour, minutes=10))

        hours = [Window(START + timedelta(hours=hour), START + timedelta(hours=hour + 1)) for hour in (0, 1)]
        read = [rig.run(lambda source, window=window: read_all(source, stream, window)) for window in hours]

        assert [ids(records) for records in read] == [["899", "900"], ["150", "901"]]

    def test_a_record_that_changes_between_two_pages_is_not_lost(self, rig: SourceRig, stream: Stream) -> None:
        fill(rig, stream)
        first = rig.run(page_of(stream))
        moved = IN_ORDER[PAGE]
        rig.put(stream, int(moved), START + timedelta(minutes=9), name="Augusta")

        rest = rig.run(lambda source: read_all(source, stream, after=first.next))

        assert ids(rest) == [*IN_ORDER[PAGE + 1 :], moved]
        assert rig.name_of(rest[-1]) == "Augusta"

    def test_a_record_that_goes_between_two_pages_takes_no_other_with_it(self, rig: SourceRig, stream: Stream) -> None:
        """The one the cursor stands on goes too."""
        fill(rig, stream)
        first = rig.run(page_of(stream))
        for gone in (IN_ORDER[PAGE - 1], IN_ORDER[PAGE + 1]):
            rig.remove(stream, int(gone))

        rest = rig.run(lambda source: read_all(source, stream, after=first.next))

        assert ids(rest) == [IN_ORDER[PAGE], *IN_ORDER[PAGE + 2 :]]

    # --- cursors ------------------------------------------------------------------------------------------------

    def test_a_cursor_of_another_window_or_stream_is_stale(self, rig: SourceRig, stream: Stream) -> None:
        """Case READ-11, PRODUCT 1.7."""
        other = next(one for one in Stream if one is not stream)
        for filled in Stream:
            fill(rig, filled)
        after = rig.run(page_of(stream)).next
        assert after is not None

        for asked in (page_of(stream, after, Window(START, EVER.until)), page_of(other, after)):
            assert type(failing(rig, asked)) is errors.CursorStale
        assert ids(rig.run(page_of(stream, after)).records) == IN_ORDER[PAGE : 2 * PAGE]

    def test_a_cursor_that_is_none_of_its_own_is_stale(self, rig: SourceRig, stream: Stream) -> None:
        fill(rig, stream)

        assert type(failing(rig, page_of(stream, "k7"))) is errors.CursorStale

    def test_the_digest_is_bound_to_stream_window_and_version_and_to_nothing_else(
        self, rig: SourceRig, stream: Stream
    ) -> None:
        """PRODUCT 1.7."""
        other = next(one for one in Stream if one is not stream)
        digest = rig.run(_digest(stream, EVER))
        fill(rig, stream)

        others = {
            rig.run(_digest(other, EVER)),
            rig.run(_digest(stream, Window(START, EVER.until))),
            rig.run(_digest(stream, Window(None, EVER.until + SECOND))),
            rig.run_next_version(_digest(stream, EVER)),
        }

        assert rig.run(_digest(stream, EVER)) == rig.run_renewed(_digest(stream, EVER)) == digest
        assert len(others) == 4
        assert digest not in others

    # --- reading again by id ------------------------------------------------------------------------------------

    def test_records_read_again_are_fresh_in_the_order_asked_and_none_where_there_is_none(
        self, rig: SourceRig, stream: Stream
    ) -> None:
        """PRODUCT 3.8."""
        fill(rig, stream)
        rig.put(stream, 12, START + timedelta(hours=3), name="Augusta")
        rig.remove(stream, 90)
        asked = ["1000", "12", "90", "7", "424242", "12", str(TWINS[0]), str(TWINS[1])]

        again = rig.run(lambda source: source.reread(stream, asked))

        assert ids(again) == ["1000", "12", None, "7", None, "12", str(TWINS[0]), str(TWINS[1])]
        assert again[1] is not None and rig.name_of(again[1]) == "Augusta"
        assert again[1].updated_at == START + timedelta(hours=3)

    def test_a_record_read_again_is_the_record_of_the_page(self, rig: SourceRig, stream: Stream) -> None:
        fill(rig, stream)
        read = rig.run(lambda source: read_all(source, stream))

        again = rig.run(lambda source: source.reread(stream, [record.id for record in read]))

        assert [replace(record, position=0) for record in again if record] == [
            replace(record, position=0) for record in read
        ]

    def test_reading_none_again_is_no_question_and_more_than_250_a_fault(self, rig: SourceRig, stream: Stream) -> None:
        assert list(rig.run(lambda source: source.reread(stream, []))) == []
        assert ids(rig.run(lambda source: source.reread(stream, ["1"] * 250))) == [None] * 250
        with pytest.raises(ValueError, match="250"):
            rig.run(lambda source: source.reread(stream, ["1"] * 251))

    # --- what ends a read ---------------------------------------------------------------------------------------

    def test_a_lost_scope_is_named_and_is_no_empty_shop(self, rig: SourceRig, stream: Stream) -> None:
        """Case READ-13, PRODUCT 5.1."""
        fill(rig, stream)
        needed = rig.run(_needs)[stream]
        assert needed <= set(rig.run(lambda source: source.identify()).scopes)

        for scope in sorted(needed, key=lambda name: stream.value in name):
            rig.lose_scope(scope)
            assert scope not in rig.run(lambda source: source.identify()).scopes
            for question in ("page", "reread"):
                error = failing(rig, QUESTIONS[question](stream))
                assert type(error) is errors.ScopeMissing
                assert scope in error.sentence
        assert type(failing(rig, QUESTIONS["count"](stream))) is errors.ScopeMissing

    @pytest.mark.parametrize("question", EVERY_QUESTION)
    def test_a_refused_token_ends_the_run(self, rig: SourceRig, stream: Stream, question: str) -> None:
        fill(rig, stream)
        rig.refuse_token()

        assert type(failing(rig, EVERY_QUESTION[question](stream))) is errors.TokenRefused

    @pytest.mark.parametrize("question", EVERY_QUESTION)
    def test_throttling_names_the_wait_and_the_same_question_goes_well_afterwards(
        self, rig: SourceRig, stream: Stream, question: str
    ) -> None:
        """Case HTTP-03."""
        fill(rig, stream)
        asked = EVERY_QUESTION[question](stream)
        rig.throttle(timedelta(seconds=4))

        error = failing(rig, asked)

        assert isinstance(error, errors.Throttled)
        assert (error.code, error.wait) == ("throttled", timedelta(seconds=4))
        assert rig.run(asked)

    # --- who it is ----------------------------------------------------------------------------------------------

    def test_a_renewed_token_of_the_same_account_is_the_same_identity(self, rig: SourceRig, stream: Stream) -> None:
        """PRODUCT 6.3."""
        before, after = (run(lambda source: source.identify()) for run in (rig.run, rig.run_renewed))

        assert (before.account, before.label, before.scopes) == (after.account, after.label, after.scopes)
        assert before.account
        assert before.version_asked == before.version_served
        assert abs(after.server_time - datetime.now(UTC)) < timedelta(minutes=1)

    def test_nothing_of_it_can_write(self, rig: SourceRig, stream: Stream) -> None:
        """PRODUCT 3.10."""

        async def names(source: Source) -> list[str]:
            return [name for name in dir(source) if not name.startswith("__") and callable(getattr(source, name))]

        found = rig.run(names)

        assert {"read_page", "reread", "count", "identify", "query_digest", "close"} <= set(found)
        assert [name for name in found if WRITES.search(name)] == []

    def test_it_says_what_an_engine_must_know(self, rig: SourceRig, stream: Stream) -> None:
        async def traits(source: Source) -> Any:
            return source.traits

        said = rig.run(traits)

        assert 0 < said.page_size <= 250
        assert said.settle >= timedelta(0) and said.overlap >= timedelta(0)
        assert said.needs[stream]
        assert stream is Stream.ORDERS or stream in said.starts_with_history


async def _needs(source: Source) -> Any:
    return source.traits.needs


def _digest(stream: Stream, window: Window) -> Doing[str]:
    async def digest(source: Source) -> str:
        return source.query_digest(stream, window)

    return digest


# --- Sources that read bytes ------------------------------------------------------------------------------------

# What an answer can look like, and what it means. None of them is an empty page (PRODUCT 5.1).
DAMAGES: dict[str, type[errors.ConnectorError]] = {
    "cut": errors.Passing,
    "html": errors.Passing,
    "empty": errors.Passing,
    "outage": errors.Passing,
    "reset": errors.Passing,
    "nan": errors.Unreadable,
    "huge_number": errors.Unreadable,
    "duplicate_key": errors.Unreadable,
    "too_deep": errors.Unreadable,
    "errors_beside": errors.Unreadable,
    "key_missing": errors.Unreadable,
    "nothing": errors.Unreadable,
    "other_shape": errors.Unreadable,
    "more_without_a_cursor": errors.Unreadable,
}
HALF = "Ma\ud83dra \udc00"
WHOLE = "Ma\ufffdra \ufffd"


@pytest.mark.parametrize("stream", list(Stream))
class WiredSource:
    @pytest.mark.parametrize("name", DAMAGES)
    def test_a_spoilt_answer_is_never_an_empty_page_and_the_next_one_is_read(
        self, rig: WiredSourceRig, stream: Stream, name: str
    ) -> None:
        """Cases HTTP-04, HTTP-05, READ-08."""
        fill(rig, stream)
        rig.damage(name)

        error = failing(rig, page_of(stream))

        assert type(error) is DAMAGES[name]
        assert "example.com" not in str(error) and "Mara" not in str(error)
        assert ids(rig.run(page_of(stream)).records) == IN_ORDER[:PAGE]

    @pytest.mark.parametrize("question", EVERY_QUESTION)
    @pytest.mark.parametrize("name", ["cut", "nan", "duplicate_key", "errors_beside", "nothing"])
    def test_no_question_believes_a_spoilt_answer(
        self, rig: WiredSourceRig, stream: Stream, question: str, name: str
    ) -> None:
        rig.damage(name)

        assert type(failing(rig, EVERY_QUESTION[question](stream))) is DAMAGES[name]

    @pytest.mark.parametrize("question", EVERY_QUESTION)
    def test_where_nobody_listens_every_question_passes(
        self, rig: WiredSourceRig, stream: Stream, question: str
    ) -> None:
        error = failing(rig, EVERY_QUESTION[question](stream), rig.run_unreachable)

        assert type(error) is errors.Passing

    def test_half_a_character_in_a_name_does_not_cost_the_page(self, rig: WiredSourceRig, stream: Stream) -> None:
        """Valid JSON can hold half of a surrogate pair; no key could be made of it, so U+FFFD stands in its place."""
        for number, name in ((1, "Ada"), (2, HALF), (3, "\U0001f600")):
            rig.put(stream, number, START + number * SECOND, name=name)

        read = rig.run(lambda source: read_all(source, stream))
        again = rig.run(lambda source: source.reread(stream, ["2"]))

        assert [rig.name_of(record) for record in read] == ["Ada", WHOLE, "\U0001f600"]
        assert again[0] is not None and rig.name_of(again[0]) == WHOLE
        for record in [*read, *again]:
            assert record is not None and keys.canonical(record.fields)
