"""Compare the samples that thpdiag reads from perf.data with the output of `perf script`.

    python bench/same_samples.py perf.data kallsyms

Both sides become counts of (event, command, pid, tid, CPU, 10 ms, call chain), with kernel functions by name and of
programs the objects that the chain goes through; the summed periods are compared too. Prints how many samples are the
same, and the others by what differs, with an example of each. Needs perf, and the boot that was recorded (perf reads
/proc/kallsyms).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Profile

FIELDS = "comm,pid,tid,cpu,time,period,event,ip,sym,dso"
HEADER = re.compile(r"(.*\S)\s+(-?\d+)/(-?\d+)\s+(?:\[(\d+)\]\s+)?(\d+)\.(\d{9}):\s+(\d+)\s+(\S+?):(?:\s.*)?$")
FRAME = re.compile(r"\s+([0-9a-f]+) (.*) \(((?:[^()]|\(deleted\))*)\)$")
KERNEL_HALF = 1 << 63
UNKNOWN = "[unknown]"
TENTH_MS = 10_000_000  # ns of a bin


class Seen(NamedTuple):
    """A sample, as far as both sides show it."""

    event: str
    comm: str
    pid: int
    tid: int
    cpu: int
    bin: int
    chain: tuple[str, ...]


def main() -> None:
    data, kallsyms = map(Path, sys.argv[1:3])
    theirs, periods = counted(printed(data))
    ours, weights = counted(shown(data, kallsyms))
    same = sum(min(count, ours[key]) for key, count in theirs.items())
    print(f"{sum(theirs.values())} samples printed by perf, {sum(ours.values())} read, {same} the same")
    print(f"summed periods {periods} and {weights}")
    differing = {key for key in theirs.keys() | ours.keys() if theirs[key] != ours[key]}
    told(only(printed(data), differing), only(shown(data, kallsyms), differing))


def counted(samples: Iterator[tuple[Seen, int, int]]) -> tuple[Counter[int], int]:
    """Return samples by hash, and the sum of periods."""
    counts: Counter[int] = Counter()
    total = 0
    for seen, count, period in samples:
        counts[hash(seen)] += count
        total += period
    return counts, total


def only(samples: Iterator[tuple[Seen, int, int]], keys: set[int]) -> Counter[Seen]:
    found: Counter[Seen] = Counter()
    for seen, count, _ in samples:
        if hash(seen) in keys:
            found[seen] += count
    return found


def printed(data: Path) -> Iterator[tuple[Seen, int, int]]:
    """Yield the samples that perf prints."""
    command = ["perf", "script", "--force", "--ns", "--no-inline", "-F", FIELDS, "-i", str(data)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    ) as run:
        assert run.stdout is not None
        header: re.Match[str] | None = None
        frames: list[str] = []
        for line in run.stdout:
            text = line.rstrip("\n")
            if not text:
                continue
            if text.startswith("\t"):
                frames.append(text)
                continue
            if header:
                yield sample(header, frames)
            header, frames = HEADER.match(text), []
            if header is None:
                sys.exit(f"not understood: {text}")
        if header:
            yield sample(header, frames)


def sample(header: re.Match[str], frames: list[str]) -> tuple[Seen, int, int]:
    comm, pid, tid, cpu, seconds, ns, period, event = header.groups()
    moment = int(seconds) * 1_000_000_000 + int(ns)
    seen = Seen(
        event, comm.lstrip(), int(pid), int(tid), -1 if cpu is None else int(cpu), moment // TENTH_MS, merged(frames)
    )
    return seen, 1, int(period)


def merged(lines: list[str]) -> tuple[str, ...]:
    """Return kernel functions by name, of programs each object once."""
    chain: list[str] = []
    for line in lines:
        found = FRAME.match(line)
        if found is None:
            sys.exit(f"not understood: {line}")
        address, name, dso = found.groups()
        if int(address, 16) >= KERNEL_HALF and dso != UNKNOWN:
            chain.append(normalise(name))
        elif not chain or chain[-1] != f"({dso})":
            chain.append(f"({dso})")
    return tuple(chain)


def shown(data: Path, kallsyms: Path) -> Iterator[tuple[Seen, int, int]]:
    """Yield the samples that thpdiag reads."""
    given = read_input([data, kallsyms], Options(strict=True))
    for case in host_cases(given, Options(strict=True)):
        for state in case.states:
            for profile in state.profiles:
                yield from rows(profile)


def rows(profile: Profile) -> Iterator[tuple[Seen, int, int]]:
    names = [frame.name if frame.kernel else f"({frame.dso})" for frame in profile.frames]
    chains = [tuple(names[frame] for frame in chain) for chain in profile.chains]
    first = round(profile.start.seconds * 100) if profile.start else 0
    columns = profile.rows
    for chain, task, cpu, time, weight, count in zip(
        columns.chain.tolist(), columns.task.tolist(), columns.cpu.tolist(), columns.bin.tolist(),
        columns.weight.tolist(), columns.samples.tolist(), strict=True,
    ):  # fmt: skip
        who = profile.tasks[task]
        pid, tid = (-1 if number is None else number for number in (who.pid, who.tid))
        yield Seen(profile.event, who.comm, pid, tid, cpu, first + time, chains[chain]), count, int(weight)


def told(theirs: Counter[Seen], ours: Counter[Seen]) -> None:
    """Yield the differences by reason."""
    places: defaultdict[tuple[int, int, int], tuple[list[Seen], list[Seen]]] = defaultdict(lambda: ([], []))
    for side, (counts, others) in enumerate(((theirs, ours), (ours, theirs))):
        for seen, count in counts.items():
            places[seen.tid, seen.cpu, seen.bin][side].extend([seen] * (count - others[seen]))
    reasons: Counter[str] = Counter()
    examples: dict[str, tuple[Seen | None, Seen | None]] = {}
    for mine, yours in places.values():
        for one, other in paired(mine, yours):
            why = reason(one, other)
            reasons[why] += 1
            examples.setdefault(why, (one, other))
    for why, number in reasons.most_common():
        print(f"{number:8} {why}")
        for name, example in zip(("perf", "here"), examples[why], strict=True):
            print(f"           {name}: {example}")


def paired(theirs: list[Seen], ours: list[Seen]) -> Iterator[tuple[Seen | None, Seen | None]]:
    """Pair samples of one thread on one CPU within 10 ms; the most similar belong together."""
    theirs, ours = list(theirs), list(ours)
    while theirs and ours:
        one = theirs.pop()
        other = max(ours, key=lambda seen: (len(set(seen.chain) & set(one.chain)), seen.comm == one.comm))
        ours.remove(other)
        yield one, other
    yield from ((one, None) for one in theirs)
    yield from ((None, other) for other in ours)


def reason(theirs: Seen | None, ours: Seen | None) -> str:
    if theirs is None or ours is None:
        return "only here" if theirs is None else "only in perf's text"
    fields = [name for name in ("event", "comm", "pid") if getattr(theirs, name) != getattr(ours, name)]
    if fields:
        return f"another {' and '.join(fields)}"
    if not theirs.chain:
        return "perf prints no chain" + (", here one with kernel functions" if kernel(ours) else ", here one without")
    if kernel(theirs) == kernel(ours):
        return "another object of a program"
    if any(name.startswith("(") or name == UNKNOWN for name in (*kernel(theirs), *kernel(ours))):
        return "a kernel function has a name on one side only"
    return "other kernel functions"


def kernel(seen: Seen) -> tuple[str, ...]:
    return tuple(name for name in seen.chain if not name.startswith("("))


if __name__ == "__main__":
    main()
