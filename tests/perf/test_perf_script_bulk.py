"""perf script read by remembered blocks says exactly what its grammar of lines says, whatever the text is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import ROOT
from perf_script_twice import SOURCE, by_lines, canonical, in_bulk
from thpdiag.detect import Detector
from thpdiag.model import Problem, ProblemKind, Profile, Sample
from thpdiag.model.parser import Content, Foreign
from thpdiag.parsers import all_parsers, bulk_parsers
from thpdiag.parsers.perf._script_samples import LineByLine
from thpdiag.parsers.perf.script import BULK_PARSER

SCRIPTS = sorted((ROOT / "fixtures" / "readers" / "perf_script").glob("*/script.txt"))
DEFAULT = (ROOT / "fixtures" / "readers" / "perf_script" / "default" / "script.txt").read_bytes()
SIZES = (1 << 20, 1 << 14, 700)  # bytes of a window
OFTEN = settings(
    max_examples=80, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)

HEADS = (
    "churn 7641 [000]  1050.057387:    2500000 cpu-clock: ",
    "hog worker 5  7643 [001]  1050.057982:    2500000 cpu-clock:ppp:",
    ":-1    -1 [001]   999.999999:          1 cpu-clock:",
    "(sd-pam)  2211/2213  [003] 10000.000100123:     250000 page-faults:u:",
    "kworker/0:1-ev    17 [000] U   812.000500: 12345678901 cycles: ",
    "java 19983 cycles:",
    "java 25595      10101 cycles:",
    "   10309278 cycles:",
    "a 1 [001] 5.000000: kmem:kmalloc: call_site=ff ptr=0x1",
    "a 1 [001] 5.000000: ",
    "a 1 [001] 1234567890123.000000:  7 cycles: ",
    "b 2 [000]     0.000000:       1 cpu-clock: ",
    "flat 3 [000]     2.000000:       1 cpu-clock:  ffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])",
    "J\u00e4ger 12 [000]     2.000000:       1 cpu-clock: ",
    "# 12 [000]     2.000000:       1 cpu-clock: ",
    "12.123456: 5 [000]     2.000000:       1 cpu-clock: ",
)
FRAMES = (
    "\tffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])",
    "\tffffffff815ceeb4 compact_zone+0x54 ([kernel.kallsyms])",
    "\t          401a10 main (inlined)",
    "\t    7f41c09a2010 hot_loop+0x10 (/memfd:jit (deleted))",
    "\t          4012f0 (anonymous namespace)::fill(char*, unsigned long)+0x20 (/opt/hog)",
    "\t    7f97cc5c3720 [unknown] ([unknown])",
    "\t    7f97cc5c3728 [unknown] ([unknown])",
    "\t          401000  (/opt/hog)",
    "\t    7f41c0000010 Lorg/Outer;::run->Lorg/Inner;::step (/tmp/perf-3100.map)",
    "        ffffffff814ff1a5 _spin_lock_irq ([kernel.kallsyms])",
    "        ffffffff814ff1a5 _spin_lock_irq+0x5 ([kernel.kallsyms])",
    "ffffffff8103ca3b native_safe_halt ([kernel.kallsyms])",
    "\t            1316 12.123456: compute+0x1 (/x)",
    "\ta           1316 compute (/opt/churn)",
    "\tffffffff815ceeb25 too_long+0x1 (/x)",
    "\tffffffffZ15ceeb2 no_address+0x1 (/x)",
    "\t            1316 f+0xzz (/x)",
    "\t            1316 f+0x12345678901234567 (/x)",
    "\t            1316 g\u00e4nse+0x1 (/x)",
    "\t            1316 " + "n" * 300 + "::" + "m" * 300 + "+0x1 (/x)",
    "\t            1316 " + "n" * 1100 + "+0x1 (/x)",
    "\t            1316",
    "  churn.c:12",
    "\tTHIS LINE IS NO FRAME",
)
BETWEEN = (
    "# hostname : db12",
    "# os release : 3.10.0-229",
    "# what perf does not write",
    "swapper 0 [000] 1.000000: PERF_RECORD_LOST lost 7",
    "churn 12 PERF_RECORD_COMM: churn:12/12",
    "Warning: 3 samples lost",
    "   ",
    "\t",
    "",
    "",
    "> quoted",
    "[root@db12 ~]# free",
    "\x1b[1mbold\x1b[0m",
    "nul\0nul",
    "one\rtwo",
)


def sample() -> st.SearchStrategy[list[str]]:
    return st.tuples(st.sampled_from(HEADS), st.lists(st.sampled_from(FRAMES[:9]), min_size=1, max_size=4)).map(
        lambda pair: [pair[0], *pair[1], ""]
    )


def lines() -> st.SearchStrategy[list[str]]:
    any_line = st.sampled_from(HEADS + FRAMES + BETWEEN).map(lambda line: [line])
    parts = st.one_of(sample(), sample(), sample(), any_line)
    return st.lists(parts, max_size=25).map(lambda found: [line for part in found for line in part])


FLAT = (
    "           churn 27257 [001]  2190.898316:   16393442 cpu-clock:  ffffffff815ff637 migrate_pages+0x27 ([kernel])",
    "  churn worker 2 22367 [001]  2008.739307:   25000000 cpu-clock:      55cdac3cf316 compute+0x16 (/opt/churn)",
    "  churn worker 2 22367 [001]  2008.739308:   25000000 cpu-clock:      55cdac3cf318 compute+0x18 (/opt/churn)",
    "python 27182 [000] 11506.336615:      83333 cpu-clock:ppp:  1061eb is_memoized+0x3b (/lib/libpython3.11.so.1.0)",
    "            perf 1 [000]  11.336615:  1 page-faults:u:      7f2d00001000      7f2d00001234 main+0x4 (/opt/churn)",
    "comm: x 12 [000] 1.000000: 83333 cycles: ffff foo (/x)",
    "            abc 1.000000: 5 cycles: ffff foo (/x)",
    "           churn 27257 [001]  2190.898316:   16393442 cpu-clock:  ffffffff815ff637 PERF_RECORD_X+0x2 ([kernel])",
    "           churn 27257 [001]  2190.898316: kmem:kmalloc: call_site=ffffffff815ff637 ptr=0x1",
)


def flat_lines() -> st.SearchStrategy[list[str]]:
    flat = st.sampled_from(FLAT).map(lambda line: [line])
    others = st.sampled_from((HEADS[0], FRAMES[0], FRAMES[11], *BETWEEN)).map(lambda line: [line])
    same = st.just([HEADS[1], "\t    55cdac3cf320 compute+0x20 (/opt/churn)"])
    parts = st.lists(st.one_of(*[flat] * 6, others, same), max_size=20)
    return parts.map(lambda found: [line for part in found for line in part])


def agree(data: bytes, size: int) -> None:
    """Both ways say the same of all lines that are not set aside as another format's."""
    foreign, found = in_bulk(data, size)
    assert canonical(found) == canonical(by_lines(data, foreign))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.parent.name)
def test_a_fixture_is_read_alike(script: Path, size: int) -> None:
    """All fixtures, in windows of any size; nothing of them is set aside."""
    data = script.read_bytes()
    foreign, found = in_bulk(data, size)
    assert foreign == []
    assert canonical(found) == canonical(by_lines(data))


def test_texts_of_other_projects_are_read_alike(corpus: Path) -> None:
    """Old perf versions, several events, Java, Go, Rust, lines that are odd."""
    differing = []
    for path in sorted((corpus / "perf-script").glob("*.txt")):
        data = path.read_bytes()[: 1 << 20]
        foreign, found = in_bulk(data, 1 << 14)
        if foreign or canonical(found) != canonical(by_lines(data)):
            differing.append(path.name)
    assert differing == []


@OFTEN
@given(
    st.one_of(lines(), lines(), flat_lines()), st.sampled_from(SIZES), st.sampled_from(["\n", "\r\n"]), st.booleans()
)
def test_any_text_is_read_alike(text: list[str], size: int, end: str, final: bool) -> None:
    """Whole samples between anything that may stand there; lines end with one character or two, the last with none."""
    agree((end.join(text) + end * final).encode(), size)


@OFTEN
@given(st.integers(0, len(DEFAULT) - 3000), st.data(), st.sampled_from(SIZES))
def test_damaged_text_is_read_alike(begin: int, data: st.DataObject, size: int) -> None:
    """Bytes of a recording's text exchanged for others, wherever it is cut."""
    text = bytearray(DEFAULT[begin : begin + 3000])
    places = st.lists(st.tuples(st.integers(0, 2999), st.sampled_from(b"\0\r\n\t :.(0a\xe9+#>")), max_size=8)
    for place, byte in data.draw(places):
        text[place] = byte
    agree(bytes(text), size)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"\t            1316 " + b"x" * 70_000 + b"+0x1 (/opt/churn)", id="over-the-limit"),
        pytest.param(b"\t            1316 " + b"x" * 60_000 + b"+0x1 (/opt/churn)", id="under-the-limit"),
        pytest.param(b"\t            1316 caf\xe9+0x1 (/opt/churn)", id="Latin-1"),
        pytest.param(b"\t            1316 \xff\xfe\xc3\xa4+0x1 (/opt/churn)", id="no-encoding"),
        pytest.param(b"\t            1316 nul\0name+0x1 (/opt/churn)", id="NUL"),
    ],
)
@pytest.mark.parametrize("size", SIZES)
def test_odd_lines_are_read_alike(line: bytes, size: int) -> None:
    """Lines beyond the limit and bytes of no encoding: the sample is kept, and what was done to the line is said."""
    begin = DEFAULT.index(b"\n\n") + 2
    end = DEFAULT.index(b"\n", begin) + 1
    data = DEFAULT[:end] + line + b"\n" + DEFAULT[end:]
    agree(data, size)
    told = [r for r in in_bulk(data, size)[1] if isinstance(r, Problem)]
    expected = {b"x" * 70_000: ProblemKind.LIMIT, b"\xff\xfe": ProblemKind.ODD}
    assert [p.kind for p in told] == [kind for mark, kind in expected.items() if mark in line]
    assert {p.cite.line for p in told} <= {DEFAULT[:end].count(b"\n") + 1}


def test_nearly_all_is_read_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only perf's header and the sample right behind it go to the exact grammar, line by line."""
    slow: list[bytes] = []
    monkeypatch.setattr(LineByLine, "add_lines", lambda self, first, data: slow.append(data))
    in_bulk(DEFAULT, SIZES[0])
    assert b"".join(slow).count(b"\n") == DEFAULT[: DEFAULT.index(b"\n\n") + 2].count(b"\n")


def test_other_formats_behind_it_go_to_their_readers() -> None:
    """The output of a further command is set aside whole, with its lines' numbers, and the recogniser has it read."""
    behind = "[root@db12 ~]# cat /proc/vmstat\nnr_free_pages 123456\ncompact_stall 17\ncompact_fail 5\n"
    data = DEFAULT + behind.encode() + DEFAULT[DEFAULT.index(b"\n\n") + 2 :]  # without the first: no copy
    first = DEFAULT.count(b"\n") + 1
    foreign, found = in_bulk(data, SIZES[0])
    assert foreign[:4] == list(enumerate(behind.splitlines(), first))
    (profile,) = [r for r in found if isinstance(r, Profile)]
    (once,) = [r for r in in_bulk(DEFAULT, SIZES[0])[1] if isinstance(r, Profile)]
    assert profile.ledger.kept == 2 * once.ledger.kept - 1
    readings = Detector(all_parsers(), strict=True).bulk(BULK_PARSER, "script.txt", Content(iter((data,))))
    (snapshot,) = [r.record for r in readings if isinstance(r.record, Sample)]
    assert snapshot.values["node_vmstat_compact_stall"] == 17
    assert snapshot.cite.line == first + 1


def test_a_single_foreign_line_ends_nothing() -> None:
    """A message to all terminals in the middle of a chain is counted as odd, the chain goes on."""
    begin = DEFAULT.index(b"\tffffffff8166b457")
    data = DEFAULT[:begin] + b"Broadcast message from root\n" + DEFAULT[begin:]
    foreign, found = in_bulk(data, SIZES[0])
    (profile,) = [r for r in found if isinstance(r, Profile)]
    assert foreign == []
    assert sum(profile.ledger.odd.values()) == 1
    assert canonical(found) == canonical(by_lines(data))


LONG = DEFAULT * 40


@pytest.mark.parametrize(
    ("data", "size"),
    [(LONG, len(LONG)), (LONG, None), (LONG.replace(b"\n", b"\r\n"), len(LONG)), (b"lost 3 samples\n" + LONG, None)],
)
def test_long_texts_are_claimed(data: bytes, size: int | None) -> None:
    """By content alone: the head is plainly perf script, also behind a complaint of perf."""
    assert [r.name for r in bulk_parsers() if r.claims("sos_commands/perf.txt", data[: 1 << 16], size)] == [
        "perf_script"
    ]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(LONG.replace(b"\n", b"\n> "), id="quoted"),
        pytest.param(b"[root@db12 ~]# perf script\n" + LONG, id="prompt"),
        pytest.param(LONG.replace(b"churn", b"\x1b[1mchurn\x1b[0m"), id="escapes"),
        pytest.param(LONG.decode().encode("utf-16"), id="utf-16"),
        pytest.param(b"<html><body><pre>\n<br>\n" + LONG, id="page"),
        pytest.param(b"The kernel wrote\n\n\ta table\n" * 60_000, id="prose"),
        pytest.param((ROOT / "fixtures/readers/perf_report/callee/report.txt").read_bytes() * 40, id="report"),
        pytest.param((ROOT / "fixtures/readers/folded/stackcollapse/out.folded").read_bytes() * 400, id="folded"),
    ],
)
def test_what_needs_a_closer_look_is_not_claimed(data: bytes) -> None:
    """Mails, sessions, pages and other formats are for the readers of lines."""
    assert not BULK_PARSER.claims("mail.txt", data[: 1 << 16], max(len(data), 1 << 21))


def test_short_texts_are_not_claimed() -> None:
    """They are read sooner than numpy is loaded."""
    assert not BULK_PARSER.claims("perf.txt", DEFAULT, len(DEFAULT))
    assert not BULK_PARSER.claims("perf.txt", DEFAULT[:60_000], None)


def test_chunks_of_any_size_are_one_text() -> None:
    """What a member gives is put together again."""
    chunks = iter([DEFAULT[:1], DEFAULT[1:1000], b"", DEFAULT[1000:]])
    found = list(BULK_PARSER.read(SOURCE, Content(chunks)))
    assert not any(isinstance(item, Foreign) for item in found)
    assert canonical(found) == canonical(by_lines(DEFAULT))
