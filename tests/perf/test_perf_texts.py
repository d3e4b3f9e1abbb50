"""What perf texts mean: the same recording must tell the same in every rendering."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from conftest import ROOT
from thpdiag.detect import Detector
from thpdiag.detect.transcript import clean
from thpdiag.knowledge.symbols import families
from thpdiag.model import Problem, Profile, Record, Stacks, Task
from thpdiag.model.parser import Parser, Source
from thpdiag.model.profile import UNKNOWN
from thpdiag.parsers import all_parsers

FIXTURES = ROOT / "fixtures" / "readers"
READERS = {r.name: r for r in all_parsers()}
NAMES = ("compaction", "zeroing", "page_fault", "operator_compaction", "migrate", "fork_cow", "base_page_fault")


def text(case: str) -> str:
    (file,) = (p for p in (FIXTURES / case).iterdir())
    return file.read_text()


def records(reader: str, content: str) -> list[Record]:
    lines = [(number, clean(line)) for number, line in enumerate(content.split("\n"), 1)]
    return list(READERS[reader].read(Source("perf.txt"), lines))


def profiles(reader: str, content: str) -> list[Profile]:
    return [r for r in records(reader, content) if isinstance(r, Profile)]


def profile(case: str) -> Profile:
    (found,) = profiles(case.split("/")[0], text(case))
    return found


@dataclass(frozen=True)
class Row:
    """One row of a profile in words."""

    names: tuple[str, ...]  # leaf first
    weight: float
    samples: int
    task: Task


def rows(found: Profile) -> list[Row]:
    chains = [tuple(found.frames[i].name for i in chain) for chain in found.chains]
    numbers = (found.rows.chain, found.rows.weight, found.rows.samples, found.rows.task)
    return [Row(chains[c], w, n, found.tasks[t]) for c, w, n, t in zip(*(x.tolist() for x in numbers), strict=True)]


def share(found: Profile, family: str, *, self_only: bool = False) -> float:
    """Percent of the weight that is in the family, at the leaf or anywhere."""
    member = families()[family]
    every = rows(found)
    hits = sum(r.weight for r in every if any(member.matches(n) for n in r.names[: 1 if self_only else None]))
    return 100 * hits / sum(r.weight for r in every)


def stacks(found: Profile) -> dict[tuple[str, ...], float]:
    """Percent per stack of names."""
    total = float(found.rows.weight.sum())
    summed: dict[tuple[str, ...], float] = defaultdict(float)
    for row in rows(found):
        summed[row.names] += 100 * row.weight / total
    return summed


REFERENCE = "folded/stackcollapse"
WHOLE = [
    "perf_report/callee", "perf_report/caller", "perf_report/fractal_callee", "perf_report/fractal_caller",
    "perf_report/flat_chains", "perf_report/folded_chains", "perf_report/counts", "perf_report/by_pid_verbose",
    "perf_report/by_task", "perf_script/default",
]  # fmt: skip


@pytest.mark.parametrize("case", WHOLE)
@pytest.mark.parametrize("family", NAMES)
def test_every_rendering_of_a_recording_gives_the_same_share(case: str, family: str) -> None:
    """Script, folded stacks and all kinds of call graph agree within the rounding of perf report."""
    assert share(profile(case), family) == pytest.approx(share(profile(REFERENCE), family), abs=0.06)


@pytest.mark.parametrize("case", WHOLE)
def test_every_rendering_of_a_recording_gives_the_same_stacks(case: str) -> None:
    """Not only the sums agree: each stack of the script has its weight in the other text, and there is no other one."""
    expected, found = stacks(profile(REFERENCE)), stacks(profile(case))
    assert sum(abs(expected.get(s, 0) - found.get(s, 0)) for s in {*expected, *found}) < 0.5


@pytest.mark.parametrize("case", ["perf_report/children_caller", "perf_report/children_callee"])
def test_children_columns_are_never_added(case: str) -> None:
    """With --children the weights are those of Self, and what is known of the chains agrees with the script."""
    found = profile(case)
    assert found.rows.weight.sum() == pytest.approx(100 - found.ledger.unlisted, abs=0.1)
    assert found.rows.weight.sum() <= 100.1
    expected = stacks(profile(REFERENCE))
    assert stacks(found)[("compute", "start_thread")] >= expected[("compute", "start_thread")] - 0.1


@pytest.mark.parametrize("case", ["perf_report/flat", "perf_report/separated", "perf_report/hierarchy"])
def test_flat_reports_know_the_leaf_only(case: str) -> None:
    """Without a call graph the leaf shares agree, and the profile says that it has no stacks."""
    found, reference = profile(case), profile(REFERENCE)
    assert found.stacks is Stacks.NONE
    assert share(found, "zeroing", self_only=True) == pytest.approx(
        share(reference, "zeroing", self_only=True), abs=0.06
    )
    tasks: dict[str, float] = defaultdict(float)
    for row in rows(found):
        tasks[row.task.comm] += row.weight
    assert tasks["churn worker 2"] == pytest.approx(50.6, abs=0.06)


def test_a_report_says_in_which_order_its_chains_were() -> None:
    """Callee and caller order, absolute and relative shares are recognised, not assumed."""
    told = {c: (profile(f"perf_report/{c}").facts["order"], profile(f"perf_report/{c}").facts["shares"])
            for c in ("callee", "caller", "fractal_callee", "fractal_caller")}  # fmt: skip
    assert told["callee"] == ("callee", "absolute")
    assert told["caller"] == ("caller", "absolute")
    assert told["fractal_callee"] == ("callee", "relative")
    assert told["fractal_caller"] == ("caller", "relative")


def test_several_events_are_several_profiles() -> None:
    """Two events of one recording are never added."""
    assert [p.event for p in profiles("perf_report", text("perf_report/two_events"))] == ["cpu-clock", "page-faults"]
    assert {p.event for p in profiles("perf_script", text("perf_script/two_events"))} == {"cpu-clock", "page-faults"}


@pytest.mark.parametrize("case", ["perf_top/el6", "perf_top/mail"])
def test_perf_top_of_the_hadoop_story_spins_for_locks(case: str) -> None:
    """95.4 % in spin locks, compaction beside it, the JVM's own spinning is no lock; also quoted in a mail."""
    content = re.sub(r"(?m)^> ?", "", text(case))
    (found,) = profiles("perf_top", content)
    member = families()["spin_lock"]
    assert sum(r.weight for r in rows(found) if member.matches(r.names[0])) == pytest.approx(95.4)
    assert found.percent_only
    assert found.stacks is Stacks.NONE
    assert found.facts["kernel_percent"] == "92.6"
    assert found.facts["cpus"] == "16"
    assert found.event == "cycles"
    kernel = {f.name: f.kernel for f in found.frames}
    assert kernel["_spin_lock_irq"] is True
    assert kernel["SpinPause"] is False


def test_perf_top_takes_the_last_complete_screen() -> None:
    """A screen that was cut in the middle is not taken for the whole."""
    found = profile("perf_top/current")
    assert len(found.rows) == 20
    assert int(found.facts["screens"]) > 2


def test_perf_top_without_data_says_so() -> None:
    """Prompts alone are no measurement."""
    (only,) = records("perf_top", text("perf_top/prompts_only"))
    assert isinstance(only, Problem)
    assert "no samples" in only.text


@pytest.mark.parametrize("case", ["perf_report/browser_copy", "perf_report/browser_copy_collapsed"])
def test_the_browser_tree_of_the_mero_story_is_one_chain(case: str) -> None:
    """99.92 % of the row come from compaction in a huge page fault, 99.66 % of these from new_heap."""
    content = "\n".join(line for line in text(case).split("\n") if not re.match(r"(One|We) ", line))
    (found,) = profiles("perf_report", content)
    whole = [r for r in rows(found) if r.names[0] == "generic_exec_single"]
    chain = [r for r in whole if "do_huge_pmd_anonymous_page" in r.names]
    heap = [r for r in chain if r.names[-1] == "new_heap"]
    assert sum(r.weight for r in whole) == pytest.approx(2.76)
    assert sum(r.weight for r in chain) / sum(r.weight for r in whole) == pytest.approx(0.9992, abs=1e-4)
    assert sum(r.weight for r in heap) / sum(r.weight for r in chain) == pytest.approx(0.9966, abs=1e-4)
    assert found.total_samples == 124_000
    assert whole[0].task.comm == "m0d"


def test_an_el6_report_splits_rows_over_relative_branches() -> None:
    """Percent of the parent, blanks after the dashes, a hidden remainder: the parts of a row sum up to it."""
    found = profile("perf_report/el6")
    by_root = {r.names[-1]: r.weight for r in rows(found) if r.names[0] == "_spin_lock_irq"}
    assert by_root == pytest.approx({"0x7f10d4a1b2c3": 57.0, "new_heap": 19.0, "child_rip": 3.2, "_spin_lock_irq": 0.8})
    assert share(found, "compaction") == pytest.approx(100 * 76 / 94)
    assert found.facts["release"] == "2.6.32-279.el6.x86_64"


def test_odd_samples_are_kept_with_what_they_have() -> None:
    """Comm with digits, tid -1, brackets in objects, a head without frames, inlined runtime frames, lost samples."""
    found = profile("perf_script/odd_lines")
    by_comm = {r.task.comm: r for r in rows(found)}
    assert set(by_comm) == {"hog worker 5", "(sd-pam)", "kworker/0:1", ":-1", "V8 WorkerThread"}
    assert by_comm[":-1"].task.tid == -1
    assert by_comm["hog worker 5"].task == Task("hog worker 5", 25595, 25601)
    hot = next(f for f in found.frames if f.name == "hot_loop")
    assert hot.dso == "/memfd:jit (deleted)"
    assert any(f.name == "(anonymous namespace)::fill(char*, unsigned long)" for f in found.frames)
    assert by_comm["V8 WorkerThread"].names[1:] == ("Lorg/Inner;::step", "Lorg/Outer;::run")
    assert by_comm["kworker/0:1"].names == ()
    assert found.ledger.read == found.ledger.kept == 6
    assert found.ledger.without_stack == 1
    assert found.ledger.lost == 7
    assert sum(found.ledger.odd.values()) == 1


@pytest.mark.parametrize(
    ("line", "comm", "pid", "tid", "period", "event"),
    [
        (
            "hog worker 5 25595 [001]   812.000100:     250000 cpu-clock:ppp:",
            "hog worker 5",
            None,
            25595,
            250000,
            "cpu-clock:ppp",
        ),
        ("hog worker 5 25595 cycles:", "hog worker 5", None, 25595, None, "cycles"),
        ("java 25595      10101 cycles:", "java", None, 25595, 10101, "cycles"),
        (":1688  1688/1690   812.000100:          1 cpu_core/cycles/:", ":1688", 1688, 1690, 1, "cpu_core/cycles/"),
        (
            "kworker/u8:2  91 [003] K 812.000100123: kmem:kmalloc: call_site=ff",
            "kworker/u8:2",
            None,
            91,
            None,
            "kmem:kmalloc",
        ),
        (
            "foobar [worker]  7 [000] 812.000100: 3 sched:s: prev_pid=3 ==> next_pid=4",
            "foobar [worker]",
            None,
            7,
            3,
            "sched:s",
        ),
    ],
)
def test_the_head_of_a_sample(line: str, comm: str, pid: int | None, tid: int, period: int | None, event: str) -> None:
    """Every field of the head is found in its variations."""
    (found,) = profiles("perf_script", f"{line}\n\tffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])\n")
    (row,) = rows(found)
    assert row.task == Task(comm, pid, tid)
    assert row.weight == (period or 1)
    assert found.event == event
    assert row.names == ("compact_zone",)


def test_relative_times_are_no_moments() -> None:
    """--reltime begins at 0: no start, no bins."""
    found = profile("perf_script/relative_time")
    assert not found.has_time
    assert found.start is None
    assert set(found.rows.bin.tolist()) == {UNKNOWN}


def test_folded_tasks_and_marks() -> None:
    """Task, ids and the marks of kernel frames are taken off the names."""
    found = profile("folded/marks")
    assert {t.comm for t in found.tasks} == {"java", "swapper", "kworker/0:1"}
    assert next(f for f in found.frames if f.name == "compact_zone").kernel is True
    ids = profile("folded/with_ids")
    assert {(t.comm, t.pid is not None, t.tid is not None) for t in ids.tasks} == {("churn", True, True)}
    bcc = profile("folded/profile_bpfcc")
    assert next(f for f in bcc.frames if f.name == "clear_page_erms").kernel is True
    assert next(f for f in bcc.frames if f.name == "exec_simple_query").kernel is None


@pytest.mark.parametrize("last", ["grow;main;asm_exc_page", "grow;main;", "worker 1;do_fault"])
def test_folded_stacks_cut_in_a_line(last: str) -> None:
    """A stack without its count belongs to them, and is named: the shares are of what is left."""
    whole = "\n".join(("grow;main;clear_page_rep 4", "grow;main;asm_exc_page_fault;compact_zone 7", last))
    lines = [(number, line) for number, line in enumerate(whole.split("\n"), 1)]
    found = [one.record for one in Detector(all_parsers()).read("stacks.folded", lines)]
    assert [one.total_samples for one in found if isinstance(one, Profile)] == [11]
    assert [(one.cite.line, "a;b;c count" in one.text) for one in found if isinstance(one, Problem)] == [(3, True)]


PROSE = [
    "We tried this; then that; and rebooted in 2012",
    "name;uid;home 7",
    "2018-07-25;10:00:00;12;13 14",
    "The 93.8% figure is from the first node",
    "In all, 12.5% [of] them were slow",
    "java 1234 is the process: it hangs",
    "total 1234",
    "cycles: none",
]


@pytest.mark.parametrize("line", PROSE)
def test_prose_opens_no_perf_text(line: str) -> None:
    """Sentences and tables with separators are not taken for profiles."""
    for name in ("perf_top", "perf_report", "perf_script", "folded"):
        reader: Parser = READERS[name]
        opened = (
            reader.opens is not None and reader.opens.match(line) and (not reader.confirm or reader.confirm([line]))
        )
        assert not opened, name


@pytest.mark.parametrize(
    "case", ["perf_report/callee", "perf_report/browser_copy", "perf_top/current", "perf_script/default"]
)
def test_a_paragraph_ends_the_block(case: str) -> None:
    """What follows a profile in a ticket is not swallowed."""
    reader = READERS[case.split("/")[0]]
    for line in (
        "The situation looked exactly as described.",
        "echo never > /sys/kernel/mm/transparent_hugepage/defrag",
        "MemTotal:  12 kB",
    ):
        assert not reader.continues(line)


def test_texts_of_other_projects(corpus: Path) -> None:
    """Samples and summed periods of public perf script texts."""
    expected = yaml.safe_load((corpus / "perf-script" / "expected.yaml").read_text())
    recogniser = Detector([READERS["perf_script"]], strict=True)
    differing = {}
    for name, told in expected.items():
        content = (corpus / "perf-script" / name).read_text(errors="replace")
        found = [r.record for r in recogniser.read(name, enumerate(content.split("\n"), 1), content[:1000])]
        read = [p for p in found if isinstance(p, Profile)]
        figures = (sum(p.ledger.kept for p in read), sum(float(p.rows.weight.sum()) for p in read))
        if figures != (told["samples"], told["weight"]) or {p.event for p in read} != set(
            told.get("events", [p.event for p in read])
        ):
            differing[name] = figures
    assert differing == {}


@pytest.mark.parametrize(
    "lines",
    [
        ["  302  353", "  310  360", "  288  301"],
        [
            " 100  96   572    233 13373836 10300",
            "  99  95   570    240 13373801 10300",
            " 100  96   572    233 13373836 1030",
        ],
        [
            "Stack:",
            " ffff880079a6fd28 0000000000000086 ffff880079a6fc98",
            " ffff880079a6fd28 ffffffff81055f74 ffff8800",
        ],
        ["total:", "  1024 pages", "  2048 pages"],
    ],
)
def test_tables_and_stack_dumps_open_no_perf_script(lines: list[str]) -> None:
    """Numbers below a short line are no chain of addresses."""
    reader = READERS["perf_script"]
    assert reader.opens is not None
    assert reader.confirm is not None
    assert not (reader.opens.match(lines[0]) and reader.confirm(lines))
