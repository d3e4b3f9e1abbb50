"""perf script read by its grammar alone, and by cached blocks; both in a form without row order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from thpdiag.bundle.member import LineDamage, number_lines
from thpdiag.detect.transcript import clean_lines
from thpdiag.model import Problem, Profile, Record
from thpdiag.model.parser import Foreign, Source
from thpdiag.parsers.perf._script_samples import MAX_LINE_BYTES, read_bytes
from thpdiag.parsers.perf.script import PARSER

SOURCE = Source("script.txt")


def by_lines(data: bytes, without: Iterable[tuple[int, str]] = ()) -> list[Record]:
    """Return what the line reader makes of the text, without some of its lines."""
    raw = list(number_lines(b"", iter((data,)), MAX_LINE_BYTES, LineDamage()))
    left = Counter(without)
    kept = []
    for line, text in zip(raw, clean_lines(raw, markup=False), strict=True):
        if left[line]:
            left[line] -= 1
        else:
            kept.append((text.number, text.text))
    assert not +left, "lines that the text does not have"
    return list(PARSER.read(SOURCE, iter(kept)))


def in_bulk(data: bytes, size: int) -> tuple[list[tuple[int, str]], list[Record]]:
    """Return the lines set aside, and the records."""
    found = list(read_bytes(SOURCE, iter((data,)), size))
    return set_aside(found), [item for item in found if not isinstance(item, Foreign)]


def set_aside(found: Iterable[Record | Foreign]) -> list[tuple[int, str]]:
    return [line for item in found if isinstance(item, Foreign) for line in item.lines]


def canonical(found: Iterable[Record | Foreign]) -> list[Any]:
    """Return all content of profiles, facts and problems of the parser."""
    items = (_profile(item) if isinstance(item, Profile) else item for item in _own(found))
    return sorted(items, key=str)


def _own(found: Iterable[Record | Foreign]) -> Iterator[Record]:
    """Return records without the problems that intake adds when lines are read one by one."""
    for item in found:
        if not isinstance(item, Foreign) and not (isinstance(item, Problem) and not item.reader):
            yield item


def _profile(profile: Profile) -> tuple[Any, ...]:
    rows = profile.rows
    chains = [tuple(profile.frames[i] for i in chain) for chain in profile.chains]
    weights: Counter[Any] = Counter()
    samples: Counter[Any] = Counter()
    keys = zip(rows.chain.tolist(), rows.task.tolist(), rows.cpu.tolist(), rows.bin.tolist(), strict=True)
    for (chain, task, *at), weight, count in zip(keys, rows.weight.tolist(), rows.samples.tolist(), strict=True):
        key = chains[chain], profile.tasks[task], *at
        weights[key] += weight
        samples[key] += count
    cut = profile.chains.cut
    cited = [
        (chain, line, text)
        for chain, line, text in zip(chains, profile.chains.lines.tolist(), profile.chains.texts, strict=True)
    ]
    return (
        (profile.event, profile.cite, profile.ledger, profile.stacks, profile.has_time, profile.start, profile.end),
        (profile.total_samples, dict(profile.facts), len(rows)),
        Counter(profile.frames),
        Counter(profile.tasks),
        Counter(cited),
        Counter(chain for chain, is_cut in zip(chains, cut, strict=True) if is_cut) if cut is not None else None,
        weights,
        samples,
    )
