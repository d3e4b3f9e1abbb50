"""One recording, many ways of perf report to print it: all that can tell the stacks tell the same."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest

from analyze_bytes import document, found
from profile_stacks import apart, by_leaf, profile, read, recorded, shares, text, weights, without_comm
from thpdiag.model import Profile, Stacks

ROUNDING = 0.02  # percent: two decimals of a row and of its branches

COMPLETE = [
    *("callee", "caller", "fractal-callee", "flat-callee", "flat-caller", "folded-callee", "folded-caller"),
    *("folded-count", "folded-period", "count", "period", "children", "separated", "hierarchy"),
    *("sort-comm", "sort-pid", "address", "browser", "browser-count", "browser-folded", "browser-levels"),
    "browser-comm",
]
WITHOUT_COMM = ["sort-sym", "sort-dso"]
RECURSIVE = ["fractal-caller", "browser-children"]  # do not print how much of `compute` called itself
PARTIAL = ["children-callee", "limit", "limit-caller", "max-stack", "sort-sym-caller", "browser-closed"]


def report(name: str) -> Profile:
    return profile(text(f"report-{name}"))


@pytest.mark.parametrize("name", COMPLETE)
def test_every_graph_tells_the_stacks_of_the_recording(name: str) -> None:
    """Callee or caller, absolute or relative, counts or percent, stdio or browser: same stacks and weights."""
    found = report(name)
    assert apart(shares(found), recorded()) < ROUNDING
    assert found.stacks is Stacks.FULL
    assert found.chains.cut is None


@pytest.mark.parametrize("name", COMPLETE)
def test_every_graph_agrees_with_the_folded_chains_of_perf(name: str) -> None:
    """The same against `perf report -g folded`, where no reading of a graph is involved."""
    assert apart(shares(report(name)), shares(report("folded-callee"))) < ROUNDING


@pytest.mark.parametrize("name", WITHOUT_COMM)
def test_rows_without_a_task_tell_the_stacks_too(name: str) -> None:
    """Sorted by symbol perf leaves out the first function of a graph; it is the row's."""
    found = report(name)
    assert apart(shares(found), without_comm(recorded())) < ROUNDING
    assert {task.comm for task in found.tasks} == {""}


@pytest.mark.parametrize("name", RECURSIVE)
def test_only_recursion_is_lost_in_relative_shares_root_first(name: str) -> None:
    """What `compute` did itself and what it did called from itself is one figure there; all else agrees."""
    found = {stack: weight for stack, weight in shares(report(name)).items() if "compute" not in stack[1]}
    expected = {stack: weight for stack, weight in recorded().items() if "compute" not in stack[1]}
    assert apart(found, expected) < ROUNDING
    assert apart(by_leaf(shares(report(name))), by_leaf(recorded())) < 0.1


@pytest.mark.parametrize("name", PARTIAL)
def test_chains_that_the_text_cuts_are_marked(name: str) -> None:
    """Below a limit, behind a closed branch, beyond a depth: a chain that is not marked is one of the recording."""
    found = report(name)
    assert found.stacks is Stacks.PARTIAL
    assert found.chains.cut is not None
    sure = {tuple(found.names(i)) for i, cut in enumerate(found.chains.cut.tolist()) if not cut}
    whole = {names for _, names in recorded()}
    inner = {names[:6] for names in whole} if name == "max-stack" else set()
    assert sure <= whole | inner
    hidden = sum(found.rows.weight[found.chains.cut[found.rows.chain]].tolist()) + found.ledger.unlisted
    assert hidden > 2
    assert found.rows.weight.sum() + found.ledger.unlisted == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize("name", [*COMPLETE, *RECURSIVE, "children-callee", "limit-caller", "max-stack", "none"])
def test_every_rendering_tells_the_running_functions(name: str) -> None:
    """Whatever is lost of the callers: the leaf shares are those of the recording."""
    assert apart(by_leaf(shares(report(name))), by_leaf(recorded())) < 0.1


def test_a_report_without_graph_has_no_stacks_but_samples() -> None:
    """`-g none -n`: leaf only, and how many samples each row has."""
    found = report("none")
    assert found.stacks is Stacks.NONE
    assert found.rows.samples.sum() == found.total_samples == found.ledger.read == 107


def test_what_is_not_listed_is_stated() -> None:
    """Rows below --percent-limit are not in the text: their share is in the ledger."""
    assert report("limit").ledger.unlisted == pytest.approx(42.99)
    assert report("callee").ledger.unlisted < 0.005 * 41  # rounding of 41 rows


def test_a_filter_is_named_and_its_task_is_that_of_all_rows() -> None:
    """`--comms churn` leaves out the column of the task and says so above."""
    found = report("only-comm")
    assert {task.comm for task in found.tasks} == {"churn"}
    assert found.facts["filter"] == "comm churn"
    assert found.ledger.unlisted == pytest.approx(30.94, abs=0.1)


@pytest.mark.parametrize("name", ["group", "group-none"])
def test_events_of_a_group_are_profiles_of_their_own(name: str) -> None:
    """Two shares in a row are two events, not Children and Self; the graph is that of the first."""
    (clock, faults), problems = read(text(f"report-{name}"))
    assert problems == []
    assert (clock.event, faults.event) == ("cpu-clock", "page-faults")
    assert clock.rows.weight.sum() == pytest.approx(100, abs=0.1)
    assert faults.rows.weight.sum() == pytest.approx(100, abs=0.1)
    assert clock.stacks is (Stacks.NONE if name == "group-none" else Stacks.PARTIAL)
    assert faults.stacks is Stacks.NONE
    assert clock.total_samples is None  # the text tells the sum of both


def test_events_one_after_another_are_profiles_of_their_own() -> None:
    """Each with its own samples and period."""
    found, problems = read(text("report-events"))
    assert problems == []
    assert [(p.event, p.total_samples, p.facts["event_count"]) for p in found] == [
        ("cpu-clock", 38, "1652173880"),
        ("page-faults", 25, "220839083"),
    ]


def quoted(content: str) -> str:
    return "\n".join(f"> {line}" for line in content.split("\n"))


def marked_up(content: str) -> str:
    return f"<html><body><p>It looks like this:</p><pre>\n{html.escape(content)}</pre></body></html>"


def with_commas(content: str) -> str:
    return re.sub(r"(\d)\.(\d\d%)", r"\1,\2", content)


def coloured(content: str) -> str:
    return re.sub(r"(\d+\.\d\d%)", "\x1b[31m\\1\x1b[m", content)


def of_2013(content: str) -> str:
    return re.sub(r"(--|%--)(?=[A-Za-z_])", r"\1 ", content)


@pytest.mark.parametrize("copy", [quoted, marked_up, with_commas, coloured, of_2013])
@pytest.mark.parametrize("name", ["callee", "fractal-callee", "folded-callee", "browser"])
def test_copies_tell_the_same(copy: Callable[[str], str], name: str) -> None:
    """Quoted in a mail, escaped in a web page, of another locale, from a colour terminal, of perf 3.x."""
    assert apart(shares(profile(copy(text(f"report-{name}")))), recorded()) < ROUNDING


def test_rows_that_sum_up_to_more_than_the_whole_are_told() -> None:
    """Without its header a report of shares with callees is not taken for one of own shares in silence."""
    rows = "\n".join(f"    {share}%  churn  [kernel.kallsyms]  [k] f{share[:2]}" for share in ("90.00", "80.00"))
    (found,), (problem,) = read(f"# Samples: 10 of event 'cycles'\n#\n{rows}\n")
    assert "170 %" in problem.text
    assert found.rows.weight.sum() == 170


def test_lines_that_fit_nothing_are_counted() -> None:
    """A row in a form that is not known is a problem with a count, and the rest stays."""
    content = text("report-none").replace(" 15.89%", " 15,8,9%").replace(" 14.95%", " 14,9,5%")
    (found,), (problem,) = read(content)
    assert problem.count == 2
    assert found.ledger.unlisted == pytest.approx(100 - sum(weights(found).values()), abs=0.01)


@pytest.mark.parametrize(("lost", "share"), [("0", 0.0), ("107", 0.5)], ids=["none", "half"])
def test_lost_samples_are_in_the_ledger(lost: str, share: float) -> None:
    """What `Total Lost Samples` tells, against the samples that are there."""
    found = profile(text("report-callee").replace("Total Lost Samples: 0", f"Total Lost Samples: {lost}"))
    assert found.ledger.lost == int(lost)
    assert found.ledger.lost_share == share


def test_lost_samples_belong_to_the_event_below() -> None:
    """Newer versions print them above each event."""
    first, second = text("report-events").split("# Samples: 25")
    found, _ = read(f"{first}# Total Lost Samples: 7\n#\n# Samples: 25{second}")
    assert [p.ledger.lost for p in found] == [0, 7]


def test_the_cpu_of_a_row_is_kept() -> None:
    """`--sort cpu,sym`: -001 where it was not recorded."""
    content = "# Samples: 3 of event 'cycles'\n#\n# Overhead  CPU  Symbol\n"
    rows = "    66.67%  003  [k] compact_zone\n    33.33%  -001  [k] clear_page_erms\n"
    assert profile(content + rows).rows.cpu.tolist() == [3, -1]


HEAD = "# Samples: 10 of event 'cycles'\n#\n# Overhead  Command  Shared Object      Symbol\n# ........\n#\n"


def test_functions_without_names_tell_their_order_by_kernel_and_program() -> None:
    """Addresses are printed in two ways, so that a row's own is not found; but programs call the kernel."""
    row = "    100.00%  java  libjvm.so  [.] 0x0000000000412c27\n            |\n"
    names = ["0x7f5e74a10000", "0xffffffff81021961", "0xffffffff810bfcc6"]
    graph = "\n".join("            " + ("---" if not i else "   ") + name for i, name in enumerate(names))
    found = profile(HEAD + row + graph + "\n")
    assert found.facts["order"] == "caller"
    assert next(iter(shares(found)))[1] == ("0x0000000000412c27", "0xffffffff81021961", "0x7f5e74a10000")


def test_a_function_at_address_0_is_part_of_the_graph() -> None:
    """A line with a number alone."""
    row = "    100.00%  java  libjvm.so  [.] work\n            |\n            ---work\n               0\n"
    assert shares(profile(HEAD + row + "\n    0.00%  java  libjvm.so  [.] rest\n"))["java", ("work", "0")] == 100


def test_many_small_branches_are_not_taken_for_shares_of_the_parent() -> None:
    """Each of thirty branches is rounded up: together they exceed the row by more than a single one may."""
    branches = "\n".join(f"            |--0.34%--caller{i}\n            |" for i in range(30))
    row = f"    10.10%  java  [kernel.kallsyms]  [k] work\n            |\n            ---work\n{branches}\n"
    found = profile(HEAD + row.replace("            |--", "               |--"))
    assert found.facts["shares"] == "absolute"
    assert found.rows.weight.sum() == pytest.approx(10.1)


def test_numbers_of_samples_are_no_shares_if_periods_vary() -> None:
    """Rows tell different shares for a sample: each row is split by its own, and the profile says so."""
    rows = (
        "    80.00%  java  [kernel.kallsyms]  [k] work\n6 work;main\n"
        "    20.00%  java  [kernel.kallsyms]  [k] rest\n2 rest;main\n2 rest;init\n"
    )
    found = profile(HEAD + rows)
    assert shares(found)["java", ("rest", "init")] == pytest.approx(10)
    assert "vary" in found.facts["shares"]


def test_reports_of_branches_are_no_profile() -> None:
    """With branch stacks perf sorts by jumps: from, to, cycles."""
    head = (
        "# Samples: 10 of event 'cycles'\n#\n# Overhead  Command  Source Shared Object  Source Symbol  Target Symbol\n"
    )
    found, (problem,) = read(
        head + "    60.00%  java  libjvm.so  [.] a  [.] b\n    40.00%  java  libjvm.so  [.] b  [.] a\n"
    )
    assert found == []
    assert problem.count == 2


def excerpt(content: str) -> str:
    """Rows without their header, with perf's empty columns `IPC [IPC Coverage]`, of which the middle was left out."""
    rows = [f"{line:<120}-      -" for line in content.splitlines() if line and not line.startswith("#")]
    return "\n".join(["The trace shows it:", "", *rows[:6], "", "[...]", "", *rows[10:60]])


def test_shares_with_callees_count_in_an_excerpt_without_header() -> None:
    """Two shares that together exceed the whole have samples in common: compaction within page faults."""
    diagnosed = document(excerpt(text("report-children-sym")).encode())
    assert found(diagnosed)["THP-010"] == "possible"
    assert any(
        "at least 23.4 % of the non-idle samples are in memory compaction called from page faults" in e["text"]
        for f in diagnosed["findings"] if f["rule"] == "THP-010" for e in f["evidence"]
    ), [e["text"] for f in diagnosed["findings"] for e in f["evidence"]]  # fmt: skip
    assert [p["line"] for p in diagnosed["profiles"]] == [3]
