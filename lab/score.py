"""THPBench: answers about the bundles of the lab, compared with the labels from the kernel.

    python lab/score.py build/lab/set                       thpdiag's answers to every bundle
    python lab/score.py build/lab/set --drops 5             and with parts of the input missing
    python lab/score.py build/lab/set --collections         and with the files of one kind of collection only
    python lab/score.py build/lab/set --answers FILE.json   another tool's answers

The answers of another tool are an object: {"6.12/idle/during": ["none", ""], "6.12/fork-cow/during": ["fork-cow",
"likely"]}.

The columns are explained in docs/how-to/kernel-lab.md.
"""

from __future__ import annotations

import argparse
import json
import random
import re
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
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.model import CONFIDENCES

RIGHT, WRONG, UNDECIDED, OTHER = COLUMNS = ("right", "wrong", "undecided", "other")
COLUMN_TITLES = "| hurt: right  wrong  undecided | not hurt: none  false  other | Brier"
EXPECTED_ACCURACY = {"possible": 0.5, "likely": 0.9, "confirmed": 0.99}
_COMPACTION = (
    "fault-compaction",
    "compaction-lock-convoy",
    "compaction-tlb-shootdown",
    "allocation-knee",
    "huge-pages-proven",
)
# Right answers for a label: itself, a special case of it, or its effect on the host
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
_SETTINGS = r"/sys/kernel/mm/|/(?:settings|host)\.txt$|/etc/|/proc/version$"
# Members of a bundle that a kind of collection has; for the first five with the settings of huge pages
COLLECTIONS = {
    "counters of /proc every 2 s": rf"/loops/counters\.txt$|{_SETTINGS}",
    "vmstat": rf"/vmstat\.txt$|{_SETTINGS}",
    "mpstat": rf"/mpstat\.txt$|{_SETTINGS}",
    "top and ps": rf"/(?:top|ps)\.txt$|{_SETTINGS}",
    "perf": rf"/perf[^/]*$|{_SETTINGS}",
    "counters, no settings": r"/loops/counters\.txt$",
    "one snapshot of /proc": rf"/proc/|/dmesg\.txt$|/sysctl\.txt$|{_SETTINGS}",
    "all but perf": r"^(?!.*/perf[^/]*$)",
}


@dataclass(frozen=True, slots=True)
class Recording:
    """One bundle, its labels and its name KERNEL/CASE/PHASE."""

    name: str
    bundle: Path
    labels: tuple[str, ...]

    @property
    def kernel(self) -> str:
        return self.name.split("/")[0]


@dataclass(frozen=True, slots=True)
class Score:
    """One answer about a recording, and the column that it counts in."""

    recording: Recording
    cause: str
    confidence: str
    column: str


def recordings(folder: Path) -> list[Recording]:
    """Return the labelled bundles of a set that `lab.py` made, or of fixtures/lab."""
    shipped = folder / "labels.json"
    if shipped.exists():
        rows = json.loads(shipped.read_text("utf-8"))
        return [Recording(name, folder / f"{name}.tar.xz", tuple(row["labels"])) for name, row in sorted(rows.items())]
    labelled = []
    for path in sorted(folder.glob("*/*/*/label.json")):
        name = str(path.parent.relative_to(folder))
        labelled.append(
            Recording(name, path.with_name("bundle.tar.gz"), tuple(json.loads(path.read_text("utf-8"))["labels"]))
        )
    return [recording for recording in labelled if recording.bundle.exists()]


def column(labels: tuple[str, ...], cause: str) -> str:
    """Return the column in which a cause, or `none`, counts."""
    if any(cause in ACCEPTED.get(label, (label,)) for label in labels):
        return RIGHT
    if cause != "none":
        return WRONG if mechanism_kind(cause) == THP else OTHER
    return UNDECIDED if any(mechanism_kind(label) == THP for label in labels) else RIGHT


def score(recording: Recording, cause: str, confidence: str) -> Score:
    return Score(recording, cause, confidence, column(recording.labels, cause))


def _score_answer(recording: Recording, answer: Given) -> Score:
    return score(recording, answer.mechanism, CONFIDENCES[answer.level] if answer.level >= 0 else "")


def own_answers(labelled: list[Recording], drops: int) -> Iterator[tuple[Score, list[Score]]]:
    """Yield thpdiag's answer to each recording, and to the smaller inputs made of it."""
    for recording in labelled:
        data = read_input([recording.bundle], STRICT)
        chance = random.Random(recording.name)
        smaller = [_score_answer(recording, given(less_at_random(data, chance)[1])) for _ in range(drops)]
        yield _score_answer(recording, given(data)), smaller


def answers_by_collection(labelled: list[Recording]) -> dict[str, list[Score]]:
    """Return thpdiag's answers to the files of each recording that a kind of collection has."""
    answers: dict[str, list[Score]] = {name: [] for name in COLLECTIONS}
    for recording in labelled:
        data = read_input([recording.bundle], STRICT)
        for name, pattern in COLLECTIONS.items():
            part = {member: rows for member, rows in data.readings.items() if re.search(pattern, member)}
            if any(not re.search(_SETTINGS, member) for member in part):
                answers[name].append(_score_answer(recording, given(ParsedInput(part, data.inputs, data.problems))))
    return answers


def brier(scores: list[Score]) -> float | None:
    """Return the mean squared error of the confidence in causes about huge pages; None without such causes."""
    answers = [answer for answer in scores if answer.cause != "none" and mechanism_kind(answer.cause) == THP]
    errors = [(EXPECTED_ACCURACY[answer.confidence] - (answer.column == RIGHT)) ** 2 for answer in answers]
    return sum(errors) / len(errors) if errors else None


def false_causes(scores: list[Score]) -> list[Score]:
    """Return likely or confirmed causes about huge pages where no label is about huge pages."""
    return [s for s in scores if s.column == WRONG and s.confidence != "possible" and not is_affected(s.recording)]


def is_affected(recording: Recording) -> bool:
    """Return whether a label is about huge pages."""
    return any(mechanism_kind(label) == THP for label in recording.labels)


def table(scores: list[Score]) -> Iterator[str]:
    """Yield a row for each kernel and one for all, split by whether a label is about huge pages."""
    yield f"{'kernel':12}{COLUMN_TITLES}"
    for kernel in [*sorted({answer.recording.kernel for answer in scores}), "all"]:
        yield f"{kernel:12}{_counts([answer for answer in scores if kernel in (answer.recording.kernel, 'all')])}"


def collection_table(answers: dict[str, list[Score]]) -> Iterator[str]:
    """Yield a row for each kind of collection, all kernels together."""
    yield f"{'collection':28}{COLUMN_TITLES}"
    for name, scores in answers.items():
        yield f"{name:28}{_counts(scores)}"


def _counts(scores: list[Score]) -> str:
    affected = Counter(answer.column for answer in scores if is_affected(answer.recording))
    others = (answer for answer in scores if not is_affected(answer.recording))
    unaffected = Counter(answer.cause if answer.cause == "none" else answer.column for answer in others)
    error = brier(scores)
    return (
        f"|{affected[RIGHT]:12}{affected[WRONG] + affected[OTHER]:7}{affected[UNDECIDED]:11} |"
        f"{unaffected['none']:15}{unaffected[WRONG]:7}{unaffected[OTHER] + unaffected[RIGHT]:7} | "
        + ("-" if error is None else f"{error:.3f}")
    )


def confidence_rows(scores: list[Score]) -> Iterator[str]:
    """Yield how often each level of confidence is right about huge pages."""
    for level in CONFIDENCES:
        answers = [answer for answer in scores if answer.confidence == level and mechanism_kind(answer.cause) == THP]
        if answers:
            yield f"{level:10} {sum(answer.column == RIGHT for answer in answers)} of {len(answers)} right"


def row(answer: Score) -> str:
    """Return an answer, and below a wrong one the labels."""
    labels = f"\n    the kernel: {', '.join(answer.recording.labels) or 'nothing'}" if answer.column != RIGHT else ""
    return f"{answer.recording.name:36} {answer.column:10} {answer.cause} {answer.confidence}".rstrip() + labels


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="THPBench: answers against the kernel's labels.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--drops", type=int, default=0, help="smaller inputs made of each bundle")
    parser.add_argument("--collections", action="store_true", help="parts of each bundle, by kind of collection")
    parser.add_argument("--answers", type=Path, help="answers of another tool, as JSON")
    options = parser.parse_args()
    labelled = recordings(options.folder)
    smaller: list[Score] = []
    if options.answers:
        answers = json.loads(options.answers.read_text("utf-8"))
        scores = [score(item, *answers.get(item.name, ("none", ""))) for item in labelled]
    else:
        pairs = list(own_answers(labelled, options.drops))
        scores = [full for full, _ in pairs]
        smaller = [item for _, reduced in pairs for item in reduced]
    lines = [row(item) for item in scores]
    lines += ["", *table(scores), "", *confidence_rows(scores)]
    if smaller:
        lines += [
            "",
            f"with parts of the input missing ({options.drops} smaller inputs of each bundle):",
            *table(smaller),
        ]
    if options.collections:
        lines += ["", *collection_table(answers_by_collection(labelled))]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
