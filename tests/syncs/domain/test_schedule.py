from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncs.domain import schedule
from syncs.domain.schedule import Every

AT = datetime(2026, 11, 30, 12, 7, 31, tzinfo=UTC)
INSTANTS = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def starts(every: Every, after: datetime, count: int) -> list[datetime]:
    found = [after]
    for _ in range(count):
        found.append(schedule.next_start(every, found[-1]))
    return found[1:]


def test_a_quarter_of_an_hour_falls_on_the_quarters():
    assert starts(Every(15), AT, 3) == [AT.replace(minute=minute, second=0) for minute in (15, 30, 45)]


def test_the_next_start_is_later_than_the_instant_itself():
    on_the_grid = AT.replace(minute=15, second=0)
    assert schedule.next_start(Every(15), on_the_grid) == on_the_grid + timedelta(minutes=15)
    just_before = on_the_grid - timedelta(microseconds=1)
    assert schedule.next_start(Every(15), just_before) == on_the_grid


def test_an_offset_shifts_the_whole_grid():
    every = Every(15, timedelta(seconds=100))
    assert starts(every, AT, 2) == [AT.replace(minute=16, second=40), AT.replace(minute=31, second=40)]


def test_the_night_of_a_clock_change_has_as_many_starts_as_any_other():
    """Case SCHED-03."""
    new_york = ZoneInfo("America/New_York")
    first = datetime(2026, 11, 1, 4, 59, tzinfo=UTC).astimezone(new_york)
    found = [at for at in starts(Every(15), first, 14) if at < datetime(2026, 11, 1, 8, tzinfo=UTC)]
    assert found[0] == datetime(2026, 11, 1, 5, tzinfo=UTC)
    assert len(found) == 12
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(seconds=900)}


def test_starts_are_given_in_utc():
    kathmandu = AT.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert schedule.next_start(Every(15), kathmandu).utcoffset() == timedelta(0)
    assert schedule.next_start(Every(15), kathmandu) == schedule.next_start(Every(15), AT)


@given(INSTANTS, st.integers(1, schedule.MOST_MINUTES), st.integers(0, 10**6))
def test_the_next_start_is_the_first_of_its_grid_and_nothing_shifts_it(after, minutes, sync_id):
    every = Every(minutes, schedule.spread_offset(sync_id, minutes))
    start = schedule.next_start(every, after)
    assert after < start <= after + every.step
    assert (start - datetime(1970, 1, 1, tzinfo=UTC) - every.offset) % every.step == timedelta(0)
    late = after + (start - after) * 0.5
    assert late >= start or schedule.next_start(every, late) == start


def test_an_instant_without_a_zone_is_refused():
    with pytest.raises(ValueError, match="with a zone"):
        schedule.next_start(Every(15), datetime(2026, 11, 30))


@pytest.mark.parametrize("minutes", [0, -15, schedule.MOST_MINUTES + 1])
def test_an_interval_has_bounds(minutes):
    with pytest.raises(ValueError, match="1 to 10080 minutes"):
        Every(minutes)


@pytest.mark.parametrize("seconds", [-1, 900])
def test_an_offset_stays_within_the_interval(seconds):
    with pytest.raises(ValueError, match="shorter than the interval"):
        Every(15, timedelta(seconds=seconds))


def test_a_sync_keeps_its_offset_for_ever():
    assert [schedule.spread_offset(sync_id, 15).total_seconds() for sync_id in (1, 2, 3)] == [313.0, 346.0, 43.0]


def test_many_syncs_are_spread_over_the_interval():
    offsets = [schedule.spread_offset(sync_id, 15) for sync_id in range(900)]
    per_minute = [sum(int(offset.total_seconds()) // 60 == minute for offset in offsets) for minute in range(15)]
    assert min(per_minute) > 30
    assert max(per_minute) < 100


@pytest.mark.parametrize(("seconds", "late"), [(-5, 0), (0, 0), (1, 1), (3600, 3600)])
def test_lateness_is_never_negative(seconds, late):
    assert schedule.lateness(AT, AT + timedelta(seconds=seconds)) == timedelta(seconds=late)
