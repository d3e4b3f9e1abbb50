"""How the values of a group lie, and which of them lie apart.

Numbers: the modified z-score of Iglewicz and Hoaglin, 0.6745 * (x - median) / MAD, above 3.5 ("How to Detect and Handle
Outliers", ASQC Basic References in Quality Control 16, 1993). MAD is the median of the distances from the median;
0.6745 is the third quartile of the normal distribution, so that of normal data the score is about that of the mean and
the standard deviation, which outliers themselves would move. The MAD of a small group is often small by chance: of
eight normal values 2 in 100 score above 3.5. A value must therefore also lie beyond the outer fences of Tukey
("Exploratory Data Analysis", 1977), three times the interquartile range below the lower or above the upper quartile:
of eight normal values 6 in 1,000 do both, of twenty 1 in 1,000, of a hundred hardly any.

Numbers that span orders of magnitude (rates) must lie apart on both scales, plain and logarithmic; the score is the
smaller of the two. On the plain one alone 4 in 100 of exponential values would, on the other those near 0. The unit of
their distance is at least the difference that counts: of hosts that hardly stall, all that do would lie apart.

Where more than half of the values are the same, MAD is 0: then the interquartile range / 1.349 takes its place (what
it is of normal data, in standard deviations). Where that is 0 too, what differs lies apart if at most `RARE` of the
group, or a single host, does; of rates also what is `FAR` times what all but `RARE` of the group have, however many
differ a little: of 80 hosts without a stall, 19 with three a second and one with 5,000 that is the one.

Values: one lies apart that at most `RARE` of the group, or a single host, have, while `COMMON` have another.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from thpdiag.triage.fleet.subjects import Number

MOST_SCORE: Final = 3.5
NORMAL: Final = 0.6745
IQR_OF_NORMAL: Final = 1.349
FENCE: Final = 3.0
RARE: Final = 0.1
FAR: Final = 10.0
COMMON: Final = 0.6
TOLD: Final = 5  # values of a distribution that are told, the most frequent


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, MAD and quartiles on one scale: of the values, or of their logarithms. `least` is a deviation."""

    median: float
    mad: float
    lower: float
    upper: float
    least: float = 0.0

    @property
    def alike(self) -> bool:
        """Whether at least the middle half are the same."""
        return self.lower == self.upper

    @property
    def deviation(self) -> float:
        """What stands for the standard deviation."""
        return max(self.mad / NORMAL or (self.upper - self.lower) / IQR_OF_NORMAL, self.least)

    def score(self, value: float) -> float:
        """The modified z-score of a value that lies beyond Tukey's outer fences, else 0."""
        reach = FENCE * (self.upper - self.lower)
        inside = self.lower - reach <= value <= self.upper + reach
        return 0.0 if inside else (value - self.median) / self.deviation


@dataclass(frozen=True, slots=True)
class Numbers:
    """The five numbers of a distribution with the number of its values, in the unit of the values.

    `away` is how many values are further from the median than counts, `common` what all but `RARE` of them do not
    exceed; these decide where MAD and quartiles say that all are the same. `spreads` are what scores go by, one for
    each scale on which values are compared.
    """

    n: int
    least: float
    lower: float
    median: float
    upper: float
    most: float
    away: int
    spreads: tuple[Spread, ...]
    common: float = 0.0


@dataclass(frozen=True, slots=True)
class Counts:
    """How many hosts have each value: the `TOLD` most frequent; `others` is how many have none of these."""

    n: int
    counts: tuple[tuple[str, int], ...]
    others: int


@dataclass(frozen=True, slots=True)
class Apart:
    """That a number lies apart. `score` is its modified z-score, None where half of the others or more are the same."""

    score: float | None


def numbers(found: Iterable[float], kind: Number) -> Numbers:
    """Of at least one value."""
    values = array("d", sorted(found))
    lower, median, upper = (quantile(values, share) for share in (0.25, 0.5, 0.75))
    return Numbers(
        n=len(values), least=values[0], lower=lower, median=median, upper=upper, most=values[-1],
        away=sum(_counts(value, median, kind) for value in values), common=quantile(values, 1 - RARE),
        spreads=tuple(_spreads(values, median, kind)),
    )  # fmt: skip


def apart(value: float, group: Numbers, kind: Number) -> Apart | None:
    """Whether a number lies apart from its group, of which it is one."""
    if not _counts(value, group.median, kind):
        return None
    if group.spreads[0].alike:
        far = kind.skewed and value >= FAR * max(group.common, kind.floor)
        return Apart(None) if far or rare(group.away, group.n) else None
    scores = [spread.score(on) for spread, on in zip(group.spreads, _scales(value, kind), strict=True)]
    least = min(scores, key=abs)
    return Apart(least) if abs(least) > MOST_SCORE else None


def _counts(value: float, median: float, kind: Number) -> bool:
    """Whether the difference is one that anybody would act upon."""
    near, far = sorted((value, median))
    return far - near >= kind.floor and far >= kind.factor * near


def _scales(value: float, kind: Number) -> tuple[float, ...]:
    """Skewed numbers are compared on both scales: on one alone either the long tail or what is near 0 lies apart."""
    return (value, math.log(value + kind.floor)) if kind.skewed else (value,)


def _spreads(values: Sequence[float], centre: float, kind: Number) -> Iterator[Spread]:
    """On each scale; of skewed values a deviation is at least what counts, so that half a stall is no unit."""
    steps = zip(_scales(centre + kind.floor, kind), _scales(centre, kind), strict=True)
    for number, (above, at) in enumerate(steps):
        scale = array("d", (_scales(value, kind)[number] for value in values))
        lower, median, upper = (quantile(scale, share) for share in (0.25, 0.5, 0.75))
        mad = quantile(sorted(abs(value - median) for value in scale), 0.5)
        yield Spread(median, mad, lower, upper, above - at if kind.skewed else 0.0)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest values in proportion, as spreadsheets and numpy do."""
    at = share * (len(ordered) - 1)
    below, above = ordered[math.floor(at)], ordered[math.ceil(at)]
    return below + (above - below) * (at - math.floor(at))


def counts(found: Counter[str]) -> Counts:
    n, first = found.total(), sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:TOLD]
    return Counts(n, tuple(first), n - sum(count for _, count in first))


def rare(count: int, n: int) -> bool:
    """Whether so few of a group are exceptions."""
    return count <= max(1, math.floor(RARE * n))


def strange(count: int, group: Counts) -> bool:
    """Whether so few have a value while most have one other."""
    return rare(count, group.n) and group.counts[0][1] >= COMMON * group.n
