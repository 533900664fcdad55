import pytest

from runtime.clock import PS_PER_S, VirtualClock, WallClock, seconds


def test_virtual_time_stands_still_until_it_is_told():
    clock = VirtualClock(5)
    assert clock.now_ps() == clock.now_ps() == 5


def test_virtual_time_goes_where_it_is_told_and_may_stay():
    clock = VirtualClock()
    clock.advance_to(7)
    clock.advance_to(7)
    assert clock.now_ps() == 7


def test_virtual_time_never_goes_back():
    clock = VirtualClock(9)
    with pytest.raises(ValueError, match="time cannot go back from 9 ps to 8 ps"):
        clock.advance_to(8)
    assert clock.now_ps() == 9


def test_the_wall_clock_starts_near_zero_and_never_falls():
    clock = WallClock()
    times = [clock.now_ps() for _ in range(100)]
    assert times == sorted(times)
    assert 0 <= times[0] < 10 * PS_PER_S


def test_seconds_are_only_for_people():
    assert seconds(PS_PER_S // 4) == 0.25
