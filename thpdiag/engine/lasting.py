"""`for:` of a check: for how long a condition must hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from thpdiag.engine.quantity import quantity

_FOR = re.compile(r"(?P<samples>\d+) samples?|(?P<share>\d+(?:\.\d+)?) ?% of samples|(?P<time>.+)")


@dataclass(frozen=True, slots=True)
class Lasting:
    """How long a condition must hold: `seconds`, `samples` or `share` of all samples."""

    seconds: float | None = None
    samples: int | None = None
    share: float | None = None


def lasting(text: str | None) -> Lasting:
    """Read `30 s`, `3 samples`, `50 % of samples`; nothing means one sample."""
    if text is None:
        return Lasting(samples=1)
    found = _FOR.fullmatch(text.strip())
    if found and found["samples"]:
        return Lasting(samples=int(found["samples"]))
    if found and found["share"]:
        return Lasting(share=float(found["share"]) / 100)
    return Lasting(seconds=quantity(text))
