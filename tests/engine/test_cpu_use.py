"""The CPU use of a process: the mean over what was recorded, from averages or from counters of the time used so far."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from analyze_bytes import STRICT, found, rules
from test_series_sources import scene
from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import Process, ProcessCheck
from thpdiag.host.derived import with_sums
from thpdiag.model import Citation, Clock, Moment, Sample, Verdict3
from thpdiag.pipeline import analyze

WHO = (("pid", "60"), ("comm", "khugepaged"))
AVERAGE, LIFETIME, COUNTER = "process_cpu_ratio", "process_cpu_ratio.lifetime", "process_cpu_seconds_total"


def looks(metric: str, values: list[float], member: str = "top.txt", every: float = 10.0, quantum: float = 0.0,
          who: tuple[tuple[str, str], ...] = WHO) -> list[Sample]:  # fmt: skip
    """One sample after another, of one source."""
    return [
        Sample("process", {metric: value}, Citation(member, at + 1), member, who, Moment(1e9 + at * every, Clock.UTC),
               {metric: quantum} if quantum else {})
        for at, value in enumerate(values)
    ]  # fmt: skip


def judged(*samples: Sample, above: str = "20 %") -> CheckResult:
    return judge(ProcessCheck(process=Process(comm="khugepaged", cpu_above=above)), scene(*samples))


@pytest.mark.parametrize(
    ("values", "value", "mean"),
    [([0.9, 0.8, 0.9, 0.8, 0.05], YES, 0.69), ([0.02, 0.01, 0.02, 0.01, 0.6], NO, 0.132), ([0.5], YES, 0.5)],
)
def test_the_mean_decides_and_not_the_last_look(values: list[float], value: Verdict3, mean: float) -> None:
    """A thread that happens to rest at the end worked; one that happens to work at the end did not before."""
    found = judged(*looks(AVERAGE, values))
    assert found.value is value
    assert found.measured == pytest.approx(mean)


def test_counters_tell_it_too() -> None:
    """/proc/PID/stat again and again: what was used between two looks, over the time between them."""
    user, system = ([at * one for at in range(7)] for one in (0.0, 5.0))
    stat = [
        Sample("process", {f"{COUNTER}.user": u, f"{COUNTER}.system": s}, Citation("stat", at + 1), "pid_stat", WHO,
               Moment(1e9 + 10 * at, Clock.UTC))
        for at, (u, s) in enumerate(zip(user, system, strict=True))
    ]  # fmt: skip
    found = judged(*(one for sample in stat if isinstance(one := with_sums(sample), Sample)))
    assert (found.value, found.measured, found.kind) == (YES, pytest.approx(0.5), "cpu")
    assert judged(stat[0]).value is UNKNOWN  # one look at a total since boot says nothing of now


def test_whole_seconds_of_a_short_time_are_left_open() -> None:
    """`ps` prints whole seconds: a second more or less in two looks ten seconds apart is a tenth of a CPU."""
    for seconds, value in (([100.0, 102.0], UNKNOWN), ([100.0, 109.0], YES), ([100.0, 101.0], UNKNOWN)):
        assert judged(*looks(COUNTER, seconds, quantum=1.0)).value is value
    assert judged(*looks(COUNTER, [100.0 + at for at in range(12)], quantum=1.0)).value is NO


def test_the_source_that_covers_more_of_the_time_is_taken() -> None:
    """A glance of top in the one busy moment does not stand against ten minutes of counters."""
    glance = looks(AVERAGE, [0.9, 0.95, 0.9], every=1.0)
    counters = looks(COUNTER, [at * 0.2 for at in range(60)], "stat")
    assert judged(*glance, *counters).value is NO
    assert judged(*glance).value is YES


def test_what_a_life_was_like_says_nothing_beside_what_was_seen() -> None:
    """ps says a third of a CPU since the boot; in the recording it rests. Alone it is a hypothesis."""
    life = looks(LIFETIME, [0.33], "ps.txt")
    rests = judged(*life, *looks(AVERAGE, [0.01, 0.02, 0.01]))
    assert (rests.value, rests.weak) == (NO, False)
    alone = judged(*life)
    assert (alone.value, alone.weak, alone.window) == (YES, True, None)
    assert judged(*looks(LIFETIME, [0.01], "ps.txt")).value is NO


def test_of_several_threads_the_busiest_counts() -> None:
    """kswapd0 rests, kswapd1 works."""
    check = ProcessCheck(process=Process(comm="kswapd[0-9]+", cpu_above="20 %"))
    rests, works = ((("pid", str(pid)), ("comm", f"kswapd{node}")) for node, pid in ((0, 50), (1, 51)))
    found = judge(check, scene(*looks(AVERAGE, [0.0] * 4, who=rests), *looks(AVERAGE, [0.4] * 4, who=works)))
    assert (found.value, "kswapd1" in found.text) == (YES, True)


def stat_line(ticks: int) -> str:
    """khugepaged in /proc/60/stat with so much CPU time in the kernel."""
    return (
        f"60 (khugepaged) S 2 0 0 0 -1 2129984 0 0 0 0 0 {ticks} 0 0 25 5 1 0 41 0 0 18446744073709551615" + " 0" * 26
    )


def test_a_pasted_loop_over_stat_shows_a_busy_khugepaged(tmp_path: Path) -> None:
    """From the terminal to the verdict."""
    looks_ = [f"Fri Nov 20 14:1{at // 6}:{at % 6}0 UTC 2026\n{stat_line(1000 + at * 500)}" for at in range(8)]
    text = "[root@demo ~]# while sleep 10; do date; cat /proc/60/stat; done\n" + "\n".join(looks_) + "\n"
    (tmp_path / "session.txt").write_text(text)
    assert found(analyze([tmp_path], rules(), STRICT))["THP-034"] == "likely"


def listed(at: list[int], reader: str, least: float, rounds: int = 60) -> CheckResult:
    """khugepaged at 49.4 % in some of the rounds of a recording in which another process is listed in all."""
    other = looks(AVERAGE, [least] * rounds, reader, 1.0, who=(("pid", "4711"), ("comm", "postgres")))
    own = [one for round_, one in enumerate(looks(AVERAGE, [0.494] * rounds, reader, 1.0)) if round_ in at]
    return judged(*other, *own)


@pytest.mark.parametrize(
    ("at", "reader", "least", "value", "mean"),
    [
        ([10, 11], "pidstat", 0.9, NO, 0.0165),
        ([*range(0, 60, 2)], "pidstat", 0.9, YES, 0.247),
        ([10, 11], "top", 0.01, NO, 0.0165),
        ([10, 11], "top", 0.3, UNKNOWN, 0.0165),
        ([*range(0, 60, 2)], "top", 0.3, YES, 0.247),
    ],
    ids=["rests", "works half of the time", "below the last row", "perhaps just below it", "works anyway"],
)
def test_a_list_of_what_ran_is_no_list_of_what_rested(
    at: list[int], reader: str, least: float, value: Verdict3, mean: float
) -> None:
    """A mean is over all rounds: who is not in one used nothing, or at most what the last row of a cut list did."""
    found = listed(at, reader, least)

    assert found.value is value
    assert "in 60 samples" in found.text
    assert f"not listed in {60 - len(at)} of them" in found.text
    if found.value is not UNKNOWN:
        assert found.measured == pytest.approx(mean, abs=1e-4)


def test_kcompactd_in_five_of_sixty_three_reports_is_no_cause(tmp_path: Path) -> None:
    """pidstat prints who ran: 49 % of a CPU now and then is 4 % of it."""
    clock = [f"10:{at // 60:02d}:{at % 60:02d}" for at in range(64)]
    text = "Linux 5.14.0-362.el9.x86_64 (db1) \t11/20/2026 \t_x86_64_\t(16 CPU)\n"
    for before, at in pairwise(clock):
        text += f"\n{before}   UID    PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n"
        text += f"{at}  1000   4711   80.00   12.00    0.00    0.00   92.00     3  postgres\n"
        if at in (clock[10], clock[11], clock[30], clock[31], clock[50]):
            text += f"{at}     0    102    0.00   49.40    0.00    0.00   49.40     5  kcompactd0\n"
    (tmp_path / "pidstat.txt").write_text(text)
    document = analyze([tmp_path / "pidstat.txt"], rules(), STRICT)

    assert document["findings"] == []
    (rule,) = (rule for rule in document["rules"] if rule["id"] == "THP-050")
    assert "3.9 % of a CPU on average, 0.0 % to 49.4 % in 63 samples" in rule["tree"]["children"][0]["text"]
