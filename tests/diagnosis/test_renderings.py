"""One recording in all its renderings gets one verdict, or none where the rendering cannot tell."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, document, found, rules, sure
from profile_stacks import RECORDING, profile, read, recorded, text
from thpdiag.engine.compiled_profile import CompiledProfile
from thpdiag.engine.stacks import Place
from thpdiag.pipeline import analyze

TELLING = [
    ("perf.data", "kallsyms"),
    ("script.txt",),
    ("folded.txt",),
    *((f"report-{name}.txt",) for name in ("callee", "caller", "flat-callee", "folded-count", "fractal-caller")),
    *((f"report-{name}.txt",) for name in ("children", "children-callee", "hierarchy", "limit-caller", "separated")),
    *((f"report-{name}.txt",) for name in ("sort-comm", "sort-sym-caller", "browser", "browser-levels")),
]
SILENT = [
    ("perf.data",),  # nobody can name the functions of the kernel
    ("report-none.txt",),
    ("report-browser-closed.txt",),
    ("report-max-stack.txt",),
    ("top.txt",),
    ("top-graph.txt",),  # 20 rows
]


def judged(files: tuple[str, ...], folder: Path) -> dict[str, Any]:
    for name in files:
        shutil.copy(RECORDING / name, folder)
    return analyze([folder], rules(), STRICT)


@pytest.mark.parametrize("files", TELLING, ids=lambda files: files[0])
def test_a_rendering_with_callers_gets_the_verdict(files: tuple[str, ...], tmp_path: Path) -> None:
    """Page faults compact memory: likely, from stacks alone, and no other cause beside it."""
    document = judged(files, tmp_path)
    verdict = document["verdict"]
    assert (verdict["status"], verdict["rule"], verdict["confidence"]) == ("found", "THP-010", "likely")
    assert set(sure(found(document))) == {"THP-010"}


@pytest.mark.parametrize("files", SILENT, ids=lambda files: files[0])
def test_a_rendering_without_callers_is_unknown(files: tuple[str, ...], tmp_path: Path) -> None:
    """Who called the compaction is not in it: neither yes nor no."""
    document = judged(files, tmp_path)
    assert document["verdict"]["status"] == "cannot_tell"
    assert sure(found(document)) == {}
    assert {r["id"]: r["outcome"] for r in document["rules"]}["THP-010"] == "unknown"


@pytest.mark.parametrize("rendering", ["folded.txt", "report-callee.txt", "script.txt"])
def test_two_renderings_of_a_recording_do_not_contradict(rendering: str, tmp_path: Path) -> None:
    """They are one source: no disagreement, and not one step surer than either."""
    document = judged((rendering, "report-flat-caller.txt", "report-none.txt"), tmp_path)
    assert [p for p in document["problems"] if p["kind"] == "disagreement"] == []
    assert found(document)["THP-010"] == "likely"


CHILDREN = ("report-children", "report-children-callee", "report-browser-children")
FAMILIES = (
    "compaction",
    "direct_compact",
    "migrate",
    "page_alloc",
    "reclaim",
    "spin_lock",
    "thp_fault",
    "tlb_flush",
    "zeroing",
)


@pytest.mark.parametrize(("name", "lines"), [*zip(CHILDREN, (40, 400, 20), strict=True), (CHILDREN[0], 200)])
def test_the_beginning_of_a_report_with_children_gets_the_verdict(name: str, lines: int) -> None:
    """What ran stands at the end of perf's default report; the graphs of its first rows hold it too."""
    head = "\n".join(text(name).splitlines()[:lines])
    result = found(document(head.encode()))
    assert (set(sure(result)), result["THP-010"]) == ({"THP-010"}, "likely")


@pytest.mark.parametrize("name", CHILDREN)
def test_the_beginning_of_a_report_with_children_never_tells_more_than_all_of_it(name: str) -> None:
    """Wherever it is cut: what surely is of a family, under huge page faults too, is; what is may be."""
    lines, whole = text(name).splitlines(), CompiledProfile(profile(text("folded")))
    wrong = []
    for end in range(14, len(lines), 61):
        head = read("\n".join(lines[:end]))[0][0]
        for family in FAMILIES:
            for place, under in ((Place.SELF, []), (Place.ANYWHERE, []), (Place.ANYWHERE, [("thp_fault",)])):
                true = whole.weights[whole.find((family,), place, under=under).sure].sum() / whole.weight
                part = CompiledProfile(head)
                marks = part.find((family,), place, under=under)
                low = part.weights[marks.sure].sum() / part.weight
                high = (part.weights[marks.possible].sum() + head.ledger.unlisted) / part.weight
                if not low - 0.02 <= true <= high + 0.02:
                    wrong.append((end, family, place, under, low, true, high))
    assert wrong == []


SETTINGS = """[root@db7 ~]# uname -r
3.10.0-514.el7.x86_64
[root@db7 ~]# cat /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag
[always] madvise never
[always] madvise never
[root@db7 ~]# perf report --stdio
# Samples: 124K of event 'cycles'
#
"""
WITH_CALLEES = """# Children      Self  Command  Shared Object      Symbol
    66.10%     0.50%  java     [kernel.kallsyms]  [k] do_huge_pmd_anonymous_page
    61.10%     8.30%  java     [kernel.kallsyms]  [k] compact_zone
    31.30%    31.20%  java     [kernel.kallsyms]  [k] isolate_freepages_block
    22.00%    {rest}%  java     [kernel.kallsyms]  [k] isolate_migratepages_range
     5.00%     5.00%  java     libjvm.so          [.] JavaThread::run
"""


def of_text(report: str) -> dict[str, Any]:
    return document((SETTINGS + report).encode())


def test_shares_with_callees_overlap_at_least_by_what_exceeds_all() -> None:
    """66 % under huge page faults and 61 % in compaction of one task: 27 % and more are both."""
    result = of_text(WITH_CALLEES.format(rest="22.00"))
    (finding,) = (f for f in result["findings"] if f["rule"] == "THP-010")
    assert finding["confidence"] == "likely"
    (evidence,) = (e for e in finding["evidence"] if e["check"] == "compacting")
    assert evidence["text"].startswith("at least 27.2 % of the non-idle samples are in memory compaction")
    assert evidence["line"] == 11
    half = WITH_CALLEES.replace("66.10", "36.10").format(rest="22.00")  # both may be apart
    assert "THP-010" not in found(of_text(half))


def test_shares_with_callees_never_tell_more_than_the_chains() -> None:
    """Of a recording: the lower bound for each pair of families, beside what the chains tell."""
    chains = recorded()
    inclusive, own = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (comm, stack), weight in chains.items():
        own[comm, stack[0]] += weight
        inclusive.update(dict.fromkeys(((comm, name) for name in stack), weight))
    rows = [f"{share:9.2f}% {own[who]:8.2f}%  {who[0]}  [kernel]  [k] {who[1]}\n" for who, share in inclusive.items()]
    header = "# Children      Self  Command  Shared Object      Symbol\n"
    flat, whole = CompiledProfile(profile(header + "".join(rows))), CompiledProfile(profile(text("folded")))
    for pair in (("compaction", "thp_fault"), ("compaction", "page_alloc"), ("zeroing", "thp_fault")):
        first, *outer = ((family,) for family in pair)
        true = whole.weights[whole.find(first, Place.ANYWHERE, under=outer).sure].sum() / whole.weight
        assert flat.min_share([(family,) for family in pair], None)[0] <= true + 0.001
        assert flat.min_share([first], None)[0] <= whole.share(pair[0]) + 0.001
    assert flat.min_share([("compaction",)], None)[0] > 0.1


def test_functions_of_compaction_without_tasks_are_a_hypothesis() -> None:
    """perf report sorted by symbol: kcompactd may run them too."""
    rows = ((31.2, "isolate_freepages_block"), (8.3, "compact_zone"), (6.0, "isolate_migratepages_range"), (54, "main"))
    report = "# Overhead  Symbol\n" + "".join(f"    {share:5.2f}%  [k] {name}\n" for share, name in rows)
    result = of_text(report)
    assert result["verdict"]["rule"] == "THP-096"
    assert result["verdict"]["confidence"] == "possible"
    assert "THP-096" not in found(
        of_text(report.replace("Symbol", "Command  Symbol").replace("%  [k]", "%  java  [k]"))
    )


def test_what_a_cut_text_holds_of_a_lock_is_not_zero() -> None:
    """No row spins for a lock, and a third of the rows is cut off."""
    result = of_text(WITH_CALLEES.format(rest=" 6.00"))
    (rule,) = (r for r in result["rules"] if r["id"] == "ALT-10")
    assert rule["outcome"] == "unknown"
    assert "0.0 %" not in str(rule["tree"])
