"""THPBench: answers about the lab's bundles against the kernel's labels.

    python lab/score.py build/lab/set                       thpdiag's answers to every bundle
    python lab/score.py build/lab/set --drops 5             and with parts of the input missing
    python lab/score.py build/lab/set --answers FILE.json   another tool's answers

The answers of another tool are an object: {"6.12/idle/during": ["none", ""], "6.12/fork-cow/during": ["fork-cow",
"likely"]}.

What the columns mean is said in docs/how-to/kernel-lab.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from accuracy import Given, given
from analyze_bytes import STRICT
from random_reductions import less_at_random
from thpdiag.diagnosis.ranking import THP, mechanism_kind
from thpdiag.host.reading import read_input
from thpdiag.model import CONFIDENCES

RIGHT, WRONG, UNDECIDED, OTHER = COLUMNS = ("right", "wrong", "undecided", "other")
CHANCE = {"possible": 0.5, "likely": 0.9, "confirmed": 0.99}
_COMPACTION = (
    "fault-compaction",
    "compaction-lock-convoy",
    "compaction-tlb-shootdown",
    "allocation-knee",
    "huge-pages-proven",
)
# What is right to say of a label: itself, or the name of a special case of it or of the effect that it has on the host.
ACCEPTED = {
    "fault-compaction": (*_COMPACTION, "madvise-region-stalls", "thp-direct-reclaim", "fragmentation"),
    "thp-direct-reclaim": (*_COMPACTION, "thp-direct-reclaim"),
    "mthp": ("mthp", *_COMPACTION),
    "background-compaction": ("background-compaction", "kswapd-high-order", "fragmentation"),
    "khugepaged-bloat": ("khugepaged-bloat",),
    "cgroup-bloat": ("cgroup-bloat", "first-touch-bloat", "cgroup-reclaim"),
    "huge-page-swap": ("huge-page-swap", "swap-storm", "memory-pressure"),
    "swap-storm": ("swap-storm", "memory-pressure", "cgroup-reclaim"),
    "memory-pressure": ("memory-pressure", "swap-storm"),
}


@dataclass(frozen=True, slots=True)
class Recording:
    """One bundle, its labels and how it is called: KERNEL/CASE/PHASE."""

    name: str
    bundle: Path
    labels: tuple[str, ...]

    @property
    def kernel(self) -> str:
        return self.name.split("/")[0]


@dataclass(frozen=True, slots=True)
class Score:
    """One answer about a recording, and what it is worth."""

    recording: Recording
    cause: str
    confidence: str
    column: str


def recordings(folder: Path) -> list[Recording]:
    """Of a set that `lab.py` made, or of fixtures/lab: bundles with labels."""
    shipped = folder / "labels.json"
    if shipped.exists():
        rows = json.loads(shipped.read_text("utf-8"))
        return [Recording(name, folder / f"{name}.tar.xz", tuple(row["labels"])) for name, row in sorted(rows.items())]
    found = []
    for path in sorted(folder.glob("*/*/*/label.json")):
        name = str(path.parent.relative_to(folder))
        found.append(
            Recording(name, path.with_name("bundle.tar.gz"), tuple(json.loads(path.read_text("utf-8"))["labels"]))
        )
    return [recording for recording in found if recording.bundle.exists()]


def column(labels: tuple[str, ...], cause: str) -> str:
    """What a cause, or `none`, is worth."""
    if any(cause in ACCEPTED.get(label, (label,)) for label in labels):
        return RIGHT
    if cause != "none":
        return WRONG if mechanism_kind(cause) == THP else OTHER
    return UNDECIDED if any(mechanism_kind(label) == THP for label in labels) else RIGHT


def score(recording: Recording, cause: str, confidence: str) -> Score:
    return Score(recording, cause, confidence, column(recording.labels, cause))


def _scored(recording: Recording, answer: Given) -> Score:
    return score(recording, answer.mechanism, CONFIDENCES[answer.level] if answer.level >= 0 else "")


def own_answers(every: list[Recording], drops: int) -> Iterator[tuple[Score, list[Score]]]:
    """thpdiag's answer to each recording, and to the smaller inputs made of it."""
    for recording in every:
        data = read_input([recording.bundle], STRICT)
        chance = random.Random(recording.name)
        smaller = [_scored(recording, given(less_at_random(data, chance)[1])) for _ in range(drops)]
        yield _scored(recording, given(data)), smaller


def brier(scores: list[Score]) -> float | None:
    """The mean squared error of the confidence in causes about huge pages; None without one."""
    said = [one for one in scores if one.cause != "none" and mechanism_kind(one.cause) == THP]
    errors = [(CHANCE[one.confidence] - (one.column == RIGHT)) ** 2 for one in said]
    return sum(errors) / len(errors) if errors else None


def false_causes(scores: list[Score]) -> list[Score]:
    """Likely or confirmed causes about huge pages where no label is about huge pages."""
    return [s for s in scores if s.column == WRONG and s.confidence != "possible" and not strong(s.recording)]


def strong(recording: Recording) -> bool:
    """Whether a label is about huge pages."""
    return any(mechanism_kind(label) == THP for label in recording.labels)


def table(scores: list[Score]) -> Iterator[str]:
    """A row for each kernel and one for all; with labels about huge pages, and without."""
    yield "kernel      | hurt: right  wrong  undecided | not hurt: none  false  other | Brier"
    for kernel in [*sorted({one.recording.kernel for one in scores}), "all"]:
        rows = [one for one in scores if kernel in (one.recording.kernel, "all")]
        hurt = Counter(one.column for one in rows if strong(one.recording))
        calm = Counter(one.cause if one.cause == "none" else one.column for one in rows if not strong(one.recording))
        worth = brier(rows)
        yield (
            f"{kernel:12}|{hurt[RIGHT]:12}{hurt[WRONG] + hurt[OTHER]:7}{hurt[UNDECIDED]:11} |"
            f"{calm['none']:15}{calm[WRONG]:7}{calm[OTHER] + calm[RIGHT]:7} | "
            + ("-" if worth is None else f"{worth:.3f}")
        )


def confidence_rows(scores: list[Score]) -> Iterator[str]:
    """How often each level of confidence is right about huge pages."""
    for level in CONFIDENCES:
        said = [one for one in scores if one.confidence == level and mechanism_kind(one.cause) == THP]
        if said:
            yield f"{level:10} {sum(one.column == RIGHT for one in said)} of {len(said)} right"


def row(one: Score) -> str:
    """An answer, and below it the labels where it is not right."""
    labels = f"\n    the kernel: {', '.join(one.recording.labels) or 'nothing'}" if one.column != RIGHT else ""
    return f"{one.recording.name:36} {one.column:10} {one.cause} {one.confidence}".rstrip() + labels


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="THPBench: answers against the kernel's labels.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--drops", type=int, default=0, help="smaller inputs made of each bundle")
    parser.add_argument("--answers", type=Path, help="answers of another tool, as JSON")
    given_options = parser.parse_args()
    every = recordings(given_options.folder)
    smaller: list[Score] = []
    if given_options.answers:
        other = json.loads(given_options.answers.read_text("utf-8"))
        scores = [score(one, *other.get(one.name, ("none", ""))) for one in every]
    else:
        pairs = list(own_answers(every, given_options.drops))
        scores = [full for full, _ in pairs]
        smaller = [one for _, less in pairs for one in less]
    lines = [row(one) for one in scores]
    lines += ["", *table(scores), "", *confidence_rows(scores)]
    if smaller:
        lines += [
            "",
            f"with parts of the input missing ({given_options.drops} smaller inputs of each bundle):",
            *table(smaller),
        ]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
