from datetime import UTC, datetime, timedelta, timezone

import pytest

from syncs.domain.clock import ManualClock, SystemClock

AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_a_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock(AT)
    assert (clock.now(), clock.monotonic()) == (AT, 0.0)
    assert (clock.now(), clock.monotonic()) == (AT, 0.0)


def test_advancing_moves_both_hands_together():
    clock = ManualClock(AT)
    clock.advance(timedelta(minutes=1, milliseconds=500))
    assert (clock.now(), clock.monotonic()) == (AT + timedelta(seconds=60.5), 60.5)


def test_a_manual_clock_speaks_utc_whatever_zone_it_was_set_in():
    local = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert ManualClock(local).now().utcoffset() == timedelta(0)


def test_a_manual_clock_refuses_an_instant_without_a_zone():
    with pytest.raises(ValueError, match="with a zone"):
        ManualClock(datetime(2026, 11, 30))


def test_a_manual_clock_is_not_turned_back():
    with pytest.raises(ValueError, match="not turned back"):
        ManualClock(AT).advance(timedelta(seconds=-1))


def test_the_system_clock_is_aware_and_in_utc():
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_the_system_clock_never_goes_back():
    clock = SystemClock()
    first = clock.monotonic()
    assert clock.monotonic() >= first
