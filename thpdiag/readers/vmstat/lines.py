"""What a line of vmstat is: banner, header, row, or a part of one of its other tables (-d, -D, -m, -p, -f)."""

from __future__ import annotations

import re
from collections.abc import Sequence

HEADER = re.compile(r"\s*r\s+b(?:\s+\S+){4}\s+si\s+so\s+bi\s+bo\s+in\s+cs\s+us\s+sy\s+id\s+wa(?:\s|$)")
BANNER = re.compile(
    r"\s*-{0,2}[^\W\d]+-{0,2}\s+-{3,}[^\W\d]+-{3,}\s+-+[^\W\d]+-+(?:\s+-*[^\W\d]+(?:/[^\W\d]+)?-*){2,4}\s*$"
)
ROW = re.compile(r"\s*-?\d+(?:\s+[-+]?\d[\d:.,+-]*){9,22}(?:\s+[A-Z]{2,5})?\s*$")
OTHER = re.compile(
    r"disk-+ -+reads-+ |\s+total merged sectors\s+ms\s+total|Cache\s+Num\s+Total\s+Size\s+Pages\s*$|"
    r"\S+\s+reads\s+read sectors\s+writes\s+requested writes|\s+\d+ (?:disks|forks)\s*$"
)
OTHER_ROW = re.compile(
    r"(?!cpu)[a-z][\w!-]*(?:\s+\d+){10}\s*$|[A-Za-z][\w:.()-]*(?:\s+\d+){4}\s*$|"
    r"\s+(?:\d+\s+){3}\d+\s*$|\s+\d+ [a-z][a-z ]{3,30}$"
)
SHORTEST = 16  # columns before st, gu and the time


_ANY = re.compile("|".join(pattern.pattern for pattern in (ROW, HEADER, BANNER, OTHER, OTHER_ROW)))


def belongs(text: str) -> bool:
    return bool(_ANY.match(text))


def is_header(text: str, words: Sequence[str], *, after_banner: bool) -> bool:
    """Whether a line names the columns; below a banner its words may be of any language."""
    return bool(HEADER.match(text)) or (after_banner and len(words) >= SHORTEST and words[0][-1] not in "0123456789")
