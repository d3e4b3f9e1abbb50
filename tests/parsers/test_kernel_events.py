"""Times from events of the kernel: what is lost or cut off is not known, and never counted as nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import ROOT
from thpdiag.model import Fact, Problem, Record, Sample
from thpdiag.model.parser import Content, Source
from thpdiag.parsers.kernel_events import KERNEL_EVENTS_BULK, read_kernel_events

FOLDER = ROOT / "fixtures" / "readers" / "kernel_events"
HEAD = "           store-7     [000] .....   "


def records(text: str) -> list[Record]:
    return list(read_kernel_events(Source("trace"), enumerate(text.split("\n"), 1)))


def spreads(found: list[Record]) -> dict[tuple[str, ...], str]:
    facts = [r for r in found if isinstance(r, Fact) and r.name.endswith(".spread")]
    return {tuple(value for key, value in f.labels if key != "tasks"): str(f.value) for f in facts}


def test_a_pair_over_a_loss_is_unknown() -> None:
    """Of what began before LOST the end may be missing: the next end is not its own."""
    found = records((FOLDER / "lost_events" / "trace").read_text())
    assert not any("2.4" in text for text in spreads(found).values())
    assert sorted(p.kind.value for p in found if isinstance(p, Problem)) == ["damaged", "odd"]


@pytest.mark.parametrize("case", ["trace_cmd/report.txt", "ftrace/trace", "perf_trace/perf-trace.txt"])
def test_bytes_and_lines_read_alike(case: str) -> None:
    """The parser of whole members says what the one of lines says, in chunks of any size."""
    data = (FOLDER / case).read_bytes()
    lines = records(data.decode())
    for size in (1 << 12, 1 << 17):
        chunks: Iterator[bytes] = (data[at : at + size] for at in range(0, len(data), size))
        found = list(KERNEL_EVENTS_BULK.read(Source("trace"), Content(chunks)))
        assert [repr(r) for r in found] == [repr(r) for r in lines]


def test_a_text_cut_at_any_byte_says_no_more_than_the_whole() -> None:
    """No time is longer than in the whole, and a cut line is no event."""
    text = (FOLDER / "look_alikes" / "trace").read_text()
    whole = [r for r in records(text) if isinstance(r, Sample)][-1].values
    for end in range(0, len(text), 7):
        for sample in (r for r in records(text[:end]) if isinstance(r, Sample)):
            for name, value in sample.values.items():
                assert value <= whole.get(name, 0.0) + 1e-9 or name.endswith((".unknown", ".command")), (end, name)


def test_a_command_is_told_from_a_request_that_is_over() -> None:
    """A shell that once compacted for itself, and then writes to compact_memory."""
    begin, end = "zone_start=0x1 migrate_pfn=0x1 free_pfn=0x2 zone_end=0x3, mode=", " status=complete"
    text = "\n".join(
        f"{HEAD}{time}: {event}"
        for time, event in (
            ("10.000000", "mm_compaction_try_to_compact_pages: order=9 gfp_mask=GFP_TRANSHUGE priority=2"),
            ("10.000010", f"mm_compaction_begin: {begin}async"),
            ("10.002010", f"mm_compaction_end: {begin}async{end}"),
            ("15.000000", f"mm_compaction_begin: {begin}sync"),
            ("16.000000", f"mm_compaction_end: {begin}sync{end}"),
        )
    )
    purposes = {key[1] for key in spreads(records(text))}
    assert purposes == {"huge_page", "command"}
