"""A clock that jumps ahead makes nothing old: what would be pruned for it waits."""

from __future__ import annotations

from thpdiag.serve.running import ClockWatch

HOUR, DAY = 3600.0, 86_400.0


class Clocks:
    def __init__(self) -> None:
        self.steady, self.ahead = 1000.0, 0.0
        self.watch = ClockWatch(lambda: self.steady + self.ahead, lambda: self.steady)

    def after(self, seconds: float, ahead: float) -> float:
        """The jump that is seen when so much time has passed and the clock is so far ahead."""
        self.steady += seconds
        self.ahead = ahead
        return self.watch.jump()


def test_a_clock_that_runs_or_is_corrected() -> None:
    """Time that passes is no jump, nor is a minute an hour, however long that goes on."""
    clocks = Clocks()
    assert [clocks.after(HOUR, 60.0 * hour) for hour in range(200)] == [0.0] * 200


def test_a_jump_is_believed_after_a_day() -> None:
    """Until then it is one; then it is the time, and only the next jump is one."""
    clocks = Clocks()
    assert clocks.after(HOUR, 200 * DAY) == 200 * DAY
    assert clocks.after(23 * HOUR, 200 * DAY) == 200 * DAY
    assert clocks.after(2 * HOUR, 200 * DAY) == 0.0
    assert clocks.after(HOUR, 400 * DAY) == 200 * DAY


def test_a_clock_that_is_set_right_again() -> None:
    """Ahead and back, or back and ahead: at the end it is where it was, and the next jump is one."""
    clocks = Clocks()
    assert clocks.after(HOUR, 5 * DAY) == 5 * DAY
    assert clocks.after(HOUR, 0.0) == 0.0
    assert clocks.after(HOUR, -5 * DAY) == 0.0
    assert clocks.after(HOUR, 0.0) == 0.0
    assert clocks.after(HOUR, 2 * HOUR) == 2 * HOUR
