"""perf stat: whose counts they are, and what they are counted over."""

from __future__ import annotations

import pytest

from thpdiag.model import Fact, Problem, Record, Sample
from thpdiag.model.parser import Source
from thpdiag.parsers.perf.stat import command_scope, read


def records(text: str, command: str = "") -> list[Record]:
    return list(read(Source("session.txt", command=command), enumerate(text.splitlines(), 1)))


@pytest.mark.parametrize(
    ("command", "scope"),
    [
        ("perf stat -a sleep 5", (True, ())),
        ("sudo perf stat -I 500 -e page-faults -a -- sleep 5", (True, ())),
        ("perf stat -e page-faults ./job -a", (False, ())),
        ("perf stat --pid=4711 sleep 5", (False, (("pid", "4711"),))),
        ("perf stat -p 4711,4712 sleep 5", (False, ())),
        ("perf stat -a -G app.slice sleep 5", (False, ())),
        ("perf stat -a -C 0-3 sleep 5", (False, ())),
        ("cat stat.csv", (False, ())),
    ],
)
def test_a_command_tells_what_is_counted(command: str, scope: tuple[bool, object]) -> None:
    """The options of a job are not those of perf; a part of the host is not the host."""
    assert command_scope(command) == scope


def test_counts_of_nobody_are_no_rates() -> None:
    """Rows of a file do not say whether all CPUs were counted, and a run without its end not for how long."""
    rows = "1.000100000,52392,,page-faults,1001315121,100.00,,\n"
    (problem,) = records(rows)
    assert isinstance(problem, Problem)
    assert len(records(rows, "perf stat -x, -a -I 1000 sleep 1")) == 1
    assert records(" Performance counter stats for 'system wide':\n\n   41,302      page-faults\n") == []


def test_what_is_not_supported_is_unknown() -> None:
    """No share of walks without both of its counts, nor of a few instructions."""
    text = " Performance counter stats for './job':\n\n {}  instructions\n {}  dTLB-load-misses\n"
    assert records(text.format("<not supported>", "1,000,000")) == []
    assert records(text.format("9,000,000,000", "<not counted>")) == []
    assert records(text.format("9,000", "90")) == []
    (fact,) = records(text.format("9,000,000,000", "90,000,000"))
    assert isinstance(fact, Fact)
    assert (fact.name, fact.value) == ("tlb.walks_per_instruction", 0.01)


def test_a_second_run_is_one_of_its_own() -> None:
    """Its counts are not added, and its interval begins anew."""
    run = (
        " Performance counter stats for process id '{}':\n\n  {}  page-faults\n\n   2.000000000 seconds time elapsed\n"
    )
    samples = records(run.format(1, 100) + run.format(2, 300))
    assert [(s.entity, s.values) for s in samples if isinstance(s, Sample)] == [
        ((("pid", "1"),), {"process_faults_total:rate": 50}),
        ((("pid", "2"),), {"process_faults_total:rate": 150}),
    ]


def test_counts_of_a_part_are_named() -> None:
    """Columns of CPUs or groups stand where others have an event."""
    (problem,) = records("CPU0,110534,,page-faults,2004378562,100.00,,\n", "perf stat -a -A -x, sleep 1")
    assert isinstance(problem, Problem)


@pytest.mark.parametrize("what", ["process id '1,2'", "thread id '5'", "'CPU(s) 0-3'", "'system wide'"])
def test_how_long_somebody_looked_is_no_work(what: str) -> None:
    """The time of `sleep 10` is the same under each setting."""
    text = f" Performance counter stats for {what}:\n\n  7  context-switches\n\n  10.001 seconds time elapsed\n"
    assert [one for one in records(text) if isinstance(one, Fact)] == []
