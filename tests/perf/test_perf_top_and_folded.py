"""Screens of perf top, with and without call graphs, and counts of folded stacks: samples or periods."""

from __future__ import annotations

import pytest

from profile_stacks import apart, profile, read, recorded, shares, text, weights
from thpdiag.model import Stacks


def test_a_screen_with_call_graphs_gives_the_stacks_of_own_shares() -> None:
    """`perf top -g`: of a row's graph only chains that end in its function are its own, whatever they sum up to."""
    found = profile(text("top-graph"))
    assert found.facts["screen"] == "the last complete one"
    assert found.stacks is Stacks.PARTIAL
    of = weights(found)
    zeroing = [(names, weight) for (_, names), weight in of.items() if names[0] == "folio_zero_user"]
    assert [weight for _, weight in zeroing] == [pytest.approx(4.45)]
    assert zeroing[0][0][-3:] == ("touch", "main", "__libc_start_call_main")
    assert sum(w for (_, names), w in of.items() if names[0] == "clear_page_erms") == pytest.approx(37.03)
    assert sum(of.values()) + found.ledger.unlisted == pytest.approx(100)


def test_of_several_screens_the_last_whole_one_counts() -> None:
    """Shares of perf top are not additive over screens; which one was taken is told."""
    content = text("top")
    last = content.rsplit("PerfTop:", 1)[1]
    found = profile(content)
    assert (found.facts["screens"], len(found.rows)) == ("2", 20)
    assert sum(weights(found).values()) == pytest.approx(sum(weights(profile("   PerfTop:" + last)).values()))
    cut = profile(content[: -len(last) // 2])
    assert found.rows.weight.tolist() != cut.rows.weight.tolist()
    assert len(cut.rows) == 20


@pytest.mark.parametrize(("shown", "lost", "share"), [("0/0", 0, 0.0), ("0/12", 0, 0.0), ("947/947", 947, 0.2)])
def test_lost_samples_of_the_screen_are_in_the_ledger(shown: str, lost: int, share: float) -> None:
    """Those lost while the screen was collected, against the samples of a second."""
    found = profile(text("top").replace("lost: 0/0", f"lost: {shown}"))
    assert found.ledger.lost == lost
    assert found.ledger.lost_share == pytest.approx(share, abs=0.001)


def test_old_screens_without_title_are_told_by_their_columns() -> None:
    """The layout with numbers of samples, a comma as decimal sign."""
    found = profile("samples  pcnt function      DSO\n\n 1640,00 82,0% clear_page_c [kernel.kallsyms]\n")
    assert shares(found) == {("", ("clear_page_c",)): 82.0}
    assert found.ledger.unlisted == 18


def folded(each: int) -> str:
    rows = (line.rsplit(" ", 1) for line in text("folded").splitlines())
    return "\n".join(f"{stack} {int(count) * each}" for stack, count in rows)


@pytest.mark.parametrize("each", [1, 20408163])
def test_sums_of_periods_are_no_numbers_of_samples(each: int) -> None:
    """Collapsers add up periods where the script has them: of a constant one the samples are known."""
    found = profile(folded(each))
    assert apart(shares(found), recorded()) < 1e-6
    assert found.rows.weight.sum() == 107 * each
    assert found.rows.samples.sum() == found.ledger.read == found.total_samples == 107
    assert ("counts" in found.facts) == (each > 1)


def test_varying_periods_leave_the_samples_open() -> None:
    """There is at least one sample for each line."""
    lines = text("folded").splitlines()
    found = profile("\n".join(f"{line.rsplit(' ', 1)[0]} {1_000_003 + 7919 * i}" for i, line in enumerate(lines)))
    assert found.total_samples is None
    assert found.rows.samples.sum() == len(lines)


def test_names_of_the_java_runtime_may_hold_a_semicolon() -> None:
    """`Lorg/Inner;::step` is one function."""
    (found,), _ = read("java;start_thread;Lorg/Outer;::run;Lorg/Inner;::step 7\njava;start_thread;Lorg/Outer;::run 3\n")
    assert ("java", ("Lorg/Inner;::step", "Lorg/Outer;::run", "start_thread")) in weights(found)


def test_lines_that_are_no_stacks_are_counted() -> None:
    """What stands between is in the ledger and in a problem."""
    lines = ["a;main;compact_zone_[k] 5", "a;main;work 6", "stack;without count", ";; 5", "a;main;rest 1"]
    (found,), (problem,) = read("\n".join(lines))
    assert problem.count == 2
    assert sum(found.ledger.odd.values()) == 2
    assert found.ledger.kept == 12
