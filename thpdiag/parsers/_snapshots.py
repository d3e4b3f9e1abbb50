"""Files of /proc and /sys: blocks of one snapshot, or of many where a loop prints a file again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from re import Match, Pattern

from thpdiag.model import Record, Sample
from thpdiag.model.parser import Lines, Source
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers._time import with_block_time
from thpdiag.parsers._units import NOT_A_COUNT, parse_count

Read = Callable[[Source, Lines], Iterator[Record]]
ReadBlock = Callable[[Source, Lines, ParseErrors], Iterator[Record]]
Row = tuple[int, str, str, float]  # line number, line, metric name, value

CGROUP_COUNTER = (
    r"(?:(?:total_)?(?:cache|rss|rss_huge|shmem|mapped_file|dirty|writeback|swap|swapcached|pgpgin|pgpgout|pgfault|"
    r"pgmajfault|unevictable|(?:in)?active_(?:anon|file)|workingset_[a-z_]{1,30})|hierarchical_(?:memory|memsw)_limit|"
    r"anon|file|kernel|kernel_stack|pagetables|sec_pagetables|percpu|sock|vmalloc|zswap|zswapped|"
    r"file_(?:mapped|dirty|writeback|thp)|(?:anon|shmem)_thp|slab|slab_(?:un)?reclaimable|hugetlb|"
    r"pg(?:refill|scan|steal|activate|deactivate|lazyfreed?|demote|promote|scan_[a-z_]{1,20}|steal_[a-z_]{1,20}|"
    r"demote_[a-z_]{1,20}|promote_[a-z_]{1,20})|swp(?:in|out)_zero|zswp(?:in|out|wb)|thp_[a-z_]{1,40}|"
    r"numa_[a-z_]{1,30}) \d{1,20}\s*$"
)
"""A line of a memory cgroup's memory.stat (versions 1 and 2), as it also stands in the report on a cgroup at its limit.

The names are partly those of /proc/vmstat, but the numbers are of one cgroup.
"""


def snapshots(name: str) -> Callable[[ReadBlock], Read]:
    """The reader of a format, of a function that gives its records and notes what does not fit.

    A single snapshot has the time of the block; facts and problems come behind the samples.
    """

    def decorate(read_block: ReadBlock) -> Read:
        @wraps(read_block)
        def read(source: Source, lines: Lines) -> Iterator[Record]:
            odd, others = ParseErrors(source, name), list[Record]()

            def samples() -> Iterator[Sample]:
                for record in read_block(source, lines, odd):
                    if isinstance(record, Sample):
                        yield record
                    else:
                        others.append(record)

            yield from with_block_time(source, samples())
            yield from others
            yield from odd.problems()

        return read

    return decorate


def matches(
    lines: Lines, pattern: Pattern[str], odd: ParseErrors, misfit: str
) -> Iterator[tuple[int, str, Match[str]]]:
    """Number, text and match of each line; another one is odd unless it is empty."""
    for number, line in lines:
        if found := pattern.match(line):
            yield number, line, found
        elif line.strip():
            odd.note(number, line, misfit)


def count_of(number: int, line: str, text: str, odd: ParseErrors) -> int | None:
    """A count as the kernel prints it; anything else is odd."""
    value = parse_count(text)
    if value is None:
        odd.note(number, line, NOT_A_COUNT)
    return value


def counts_of(
    number: int, line: str, names: Iterable[str], columns: Sequence[str], odd: ParseErrors
) -> dict[str, float]:
    """The columns of a row by name, without what is no count."""
    counts = ((name, count_of(number, line, text, odd)) for name, text in zip(names, columns, strict=False))
    return {name: count for name, count in counts if count is not None}


def system_samples(source: Source, reader: str, rows: Iterable[Row], head: str = "") -> Iterator[Sample]:
    """Samples of the whole system from `name value` rows; a new one begins where a name comes again.

    `head` is the metric that every whole file begins with.
    """
    values: dict[str, float] = {}
    cite = None
    for number, line, name, value in rows:
        if cite is not None and (name in values or name == head):
            yield Sample("system", values, cite, reader)
            values, cite = {}, None
        cite = cite or source.cite(number, line)
        values[name] = value
    if cite is not None:
        yield Sample("system", values, cite, reader)
