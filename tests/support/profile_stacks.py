"""The stacks of a profile by name, and one recording as text in all formats."""

from __future__ import annotations

from collections import defaultdict

from command_line import ROOT
from thpdiag.detect import Detector
from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Problem, Profile
from thpdiag.parsers import all_parsers

RECORDING = ROOT / "fixtures" / "recordings" / "fault-compaction"
RECOGNISER = Detector(all_parsers(), strict=True)

Stack = tuple[str, tuple[str, ...]]  # command, functions, leaf first


def text(name: str) -> str:
    return (RECORDING / f"{name}.txt").read_text()


def read(content: str) -> tuple[list[Profile], list[Problem]]:
    """Return what a text is detected as."""
    found = [r.record for r in RECOGNISER.read("perf.txt", enumerate(content.split("\n"), 1), content[:65536])]
    return [r for r in found if isinstance(r, Profile)], [r for r in found if isinstance(r, Problem)]


def profile(content: str) -> Profile:
    """Return the only profile of a text without problems."""
    (found,), problems = read(content)
    assert problems == []
    return found


def weights(found: Profile) -> dict[Stack, float]:
    """Return the weight of each stack, as printed."""
    summed: dict[Stack, float] = defaultdict(float)
    rows = found.rows
    for chain, task, weight in zip(rows.chain.tolist(), rows.task.tolist(), rows.weight.tolist(), strict=True):
        summed[found.tasks[task].comm, tuple(found.names(chain))] += weight
    return dict(summed)


def shares(found: Profile) -> dict[Stack, float]:
    """Return the percentage of each stack."""
    whole = 100 / float(found.rows.weight.sum()) if not found.percent_only else 1
    return {stack: weight * whole for stack, weight in weights(found).items()}


def recorded() -> dict[Stack, float]:
    """Return the percentage of each stack, read from the collapsed file by simple code."""
    counts: dict[Stack, int] = defaultdict(int)
    for line in text("folded").splitlines():
        stack, count = line.rsplit(" ", 1)
        comm, *names = stack.split(";")
        counts[comm, tuple(normalise(n) for n in reversed(names))] += int(count)
    return {stack: 100 * count / sum(counts.values()) for stack, count in counts.items()}


def without_comm(stacks: dict[Stack, float]) -> dict[Stack, float]:
    summed: dict[Stack, float] = defaultdict(float)
    for (_, names), weight in stacks.items():
        summed["", names] += weight
    return dict(summed)


def apart(one: dict[Stack, float], other: dict[Stack, float]) -> float:
    """Return the largest difference of any stack, in percent."""
    return max(abs(one.get(stack, 0.0) - other.get(stack, 0.0)) for stack in {*one, *other})


def by_leaf(stacks: dict[Stack, float]) -> dict[Stack, float]:
    """Return the percentage of each running function."""
    summed: dict[Stack, float] = defaultdict(float)
    for (_, names), weight in stacks.items():
        summed["", names[:1]] += weight
    return dict(summed)
