"""What joins the clocks of one host: the wall clock's time of a boot, from which perf and the kernel's log count."""

from __future__ import annotations

from dataclasses import dataclass

from thpdiag.model.facts import Citation, Clock, Moment

DAY = 86_400.0  # seconds
MAX_DRIFT = 1e-4  # of the time since boot: a crystal is good to 50 parts in a million, its calibration adds as much


@dataclass(frozen=True, slots=True)
class ClockAnchor:
    """The wall clock's time at second 0 of the boot's clock, right to `within` seconds and `drift` per second since.

    `read` is when it was read, if that is known: the boot lasted until then.
    """

    zero: Moment
    within: float
    how: str
    cite: Citation
    drift: float = MAX_DRIFT
    read: Moment | None = None

    def wall_time(self, boot: Moment) -> Moment:
        """The time of day of a moment on the boot's clock; of a clock without date that of its first day."""
        at = self.zero.seconds + boot.seconds
        return Moment(at % DAY if self.zero.clock is Clock.DAY else at, self.zero.clock)

    def uncertainty(self, boot: Moment) -> float:
        """By how many seconds `wall_time` may be wrong, either way."""
        return self.within + self.drift * abs(boot.seconds)
