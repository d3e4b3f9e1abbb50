"""A setting switched between two measurements is proof on every kernel, whichever way the huge pages hurt."""

from __future__ import annotations

import os
from itertools import product
from typing import Any

import pytest

from analyze_bytes import document

KERNELS = (
    "2.6.32-220.el6.x86_64", "3.10.0-957.el7.x86_64", "4.2.0-42-generic", "4.4.0-142-generic",
    "4.18.0-305.el8.x86_64", "5.15.0-91-generic", "6.8.0-31-generic",
)  # fmt: skip
PROMPT = "[root@db1 ~]# "
VMSTAT = f"""{PROMPT}vmstat 5 10
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
"""


def path(kernel: str, knob: str) -> str:
    return f"/sys/kernel/mm/{'redhat_' if 'el6' in kernel else ''}transparent_hugepage/{knob}"


def words(kernel: str, knob: str, value: str) -> str:
    """The words that this kernel offers, with the one in force in brackets."""
    offered = ["always", "never"] if "el6" in kernel else ["always", "madvise", "never"]
    if knob == "defrag" and kernel.startswith(("4.18", "5.", "6.")):
        offered = ["always", "defer", "defer+madvise", "madvise", "never"]
    return " ".join(f"[{word}]" if word == value else word for word in offered)


def vmstat(user: int, kernel: int) -> str:
    row = (
        f" 4  0      0 812300  20000 900000    0    0     0    20 1000 2000 {user} {kernel} {98 - user - kernel} 2  0\n"
    )
    return VMSTAT + 10 * row


def job(real: str, sys: str = "1m0.100s", command: str = "./filter") -> str:
    return f"{PROMPT}time {command}\n\nreal\t{real}\nuser\t10m1.000s\nsys\t{sys}\n"


def wrk(p99: str, rate: float, command: str = "wrk -t4 -c64 -d30s --latency http://shop/") -> str:
    """wrk as it prints: latencies and requests per second."""
    return f"""{PROMPT}{command}
Running 30s test @ http://shop/
  4 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    12.42ms    2.01ms 116.69ms   86.07%
    Req/Sec     1.86k   362.94     2.71k    60.00%
  Latency Distribution
     50%   11.67ms
     75%   12.95ms
     90%   15.17ms
     99%   {p99}
  {int(rate * 30)} requests in 30.00s, 1.42MB read
Requests/sec:   {rate:.2f}
Transfer/sec:    727.78KB
"""


def redis(rate: float) -> str:
    return f"{PROMPT}redis-benchmark -n 1000000 -t set -q\nSET: {rate:.2f} requests per second, p50=0.287 msec\n"


def ab(p99: int) -> str:
    return f"{PROMPT}ab http://shop/\nPercentage of the requests served within a certain time (ms)\n  99%      {p99}\n"


def own(p99: float, command: str = "./load --clients 8") -> str:
    """What some program prints of itself."""
    return f"{PROMPT}{command}\n1200 requests per second\np99 = {p99} ms\n"


def session(kernel: str, knob: str, *parts: str) -> dict[str, Any]:
    """Under always, never, always and so on, each with what was measured then."""
    text = f"{PROMPT}uname -r\n{kernel}\n{PROMPT}cat {path(kernel, knob)}\n{words(kernel, knob, 'always')}\n{parts[0]}"
    for at, part in enumerate(parts[1:]):
        text += f"{PROMPT}echo {'always' if at % 2 else 'never'} > {path(kernel, knob)}\n{part}"
    return document(text.encode())


MEASURED = {
    "kernel-time": (vmstat(30, 60), vmstat(55, 10)),
    "less-kernel-time": (vmstat(60, 30), vmstat(70, 8)),
    "job-time": (job("61m2.100s", "51m0.000s"), job("20m30.100s", "10m9.000s")),
    "job-time-twice": (job("61m2.100s") + job("60m2.100s"), job("20m30.100s") + job("20m0.100s")),
    "latency": (wrk("812.34ms", 4100), wrk("16.02ms", 4150)),
    "throughput": (wrk("20.01ms", 1100), wrk("16.02ms", 4150)),
    "requests": (redis(40123), redis(109321)),
    "own-latency": (own(91.5) + own(88.25), own(12.5) + own(11.75)),
}
WITHOUT_EFFECT = {
    "kernel-time": (vmstat(50, 20), vmstat(51, 19)),
    "load-gone": (vmstat(30, 60), vmstat(3, 1)),
    "job-time": (job("10m2.100s"), job("9m50.100s")),
    "job-time-and-kernel-time": (vmstat(30, 60) + job("10m2.100s"), vmstat(55, 10) + job("10m12.100s")),
    "first-run-reads-files": (job("10m2.100s"), job("2m30.100s")),
    "warm-up-before": (job("10m2.100s") + job("2m31.100s"), job("2m30.100s")),
    "single-runs-differ": (job("10m2.100s") + job("2m10.100s") + job("9m10.100s"), job("3m1.100s") + job("2m30.100s")),
    "starts-only": (job("0m0.031s", "0m0.030s"), job("0m0.004s", "0m0.003s")),
    "another-job": (job("61m2.100s", "51m0.000s"), job("2m30.100s", "0m9.000s", "./filter --day 2")),
    "latency": (wrk("21.34ms", 4100), wrk("16.02ms", 4150)),
    "less-load": (wrk("812.34ms", 4100), wrk("16.02ms", 1150)),
    "fewer-clients": (wrk("812.34ms", 4100), wrk("16.02ms", 4150, "wrk -t4 -c2 -d30s --latency http://shop/")),
    "requests": (redis(101123), redis(109321)),
    "slower": (redis(109321), redis(40123)),
    "too-short": (f"{PROMPT}hey http://shop/\n  Total:\t0.1126 secs\n  Requests/sec:\t105.7151\n",
                  f"{PROMPT}hey http://shop/\n  Total:\t0.0126 secs\n  Requests/sec:\t1105.7151\n"),
    "rounded": (ab(2), ab(1)),
    "shown-from-a-file": (own(91.5, "cat load.txt") * 2, own(12.5, "cat load.txt") * 2),
}  # fmt: skip
# All of them with THPDIAG_PROOF=1, by default every fifth: each way with several kernels.
SOME_WITHOUT_EFFECT = [*product(KERNELS, WITHOUT_EFFECT, ("enabled", "defrag"))]
SOME_WITHOUT_EFFECT = SOME_WITHOUT_EFFECT[:: 1 if os.environ.get("THPDIAG_PROOF") == "1" else 5]
NAMED = {
    "restart": "restart of shop", "caches": "drop_caches", "compacted": "compact_memory", "sysctl": "swappiness",
    "kernel": "another kernel", "profile": "latency-performance", "reboot": "a reboot",
}  # fmt: skip
BETWEEN = {
    "restart": f"{PROMPT}systemctl restart shop.service\n",
    "caches": f"{PROMPT}echo 3 > /proc/sys/vm/drop_caches\n",
    "compacted": f"{PROMPT}echo 1 > /proc/sys/vm/compact_memory\n",
    "sysctl": f"{PROMPT}sysctl -w vm.swappiness=1\nvm.swappiness = 1\n",
    "kernel": f"{PROMPT}uname -r\n6.1.0-13-amd64\n",
    "profile": f"{PROMPT}tuned-adm profile latency-performance\n",
    "reboot": f"{PROMPT}uptime\n 18:25:40 up 0 min,  1 user,  load average: 1.07, 1.53, 2.62\n",
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("measured", MEASURED)
@pytest.mark.parametrize("knob", ["enabled", "defrag"])
def test_what_goes_with_the_switch_is_found(kernel: str, knob: str, measured: str) -> None:
    """Defrag decides what page faults do; enabled leaves open in which way huge pages hurt, unless the kernel tells."""
    verdict = session(kernel, knob, *MEASURED[measured])["verdict"]
    assert verdict["confidence"] in ("likely", "confirmed")
    expected = {"enabled": "huge-pages-proven", "defrag": "fault-compaction"}[knob]
    old = (kernel, measured) == (KERNELS[0], "kernel-time")
    assert verdict["mechanism"] == ("compaction-lock-convoy" if old else expected)


@pytest.mark.parametrize(("kernel", "measured", "knob"), SOME_WITHOUT_EFFECT)
def test_a_switch_without_effect_proves_nothing(kernel: str, knob: str, measured: str) -> None:
    """Nor does one that came as the load ended."""
    verdict = session(kernel, knob, *WITHOUT_EFFECT[measured])["verdict"]
    assert verdict.get("confidence") in (None, "possible")
    assert verdict.get("mechanism") != "huge-pages-proven"


@pytest.mark.parametrize(
    ("last", "confidence"), [(vmstat(30, 60), "confirmed"), (vmstat(55, 10), None)], ids=["back", "not back"]
)
def test_switched_back_and_forth(last: str, confidence: str | None) -> None:
    """What comes back with huge pages is proven twice; what stays away was moved by something else."""
    verdict = session("5.15.0-91-generic", "enabled", *MEASURED["kernel-time"], last)["verdict"]
    assert verdict.get("confidence") == confidence


def test_what_is_open_and_what_decides_it_are_told() -> None:
    """The ways in which huge pages can hurt, and the recording that tells them apart."""
    [finding] = session("6.8.0-31-generic", "enabled", *MEASURED["kernel-time"])["findings"][:1]
    assert all(word in finding["means"] for word in ("compact", "clear", "fork", "khugepaged"))
    remedies = {remedy["id"]: remedy for remedy in finding["remedies"]}
    assert {"thp-never", "thp-madvise", "collect-more"} <= remedies.keys()
    assert "call chains" in remedies["collect-more"]["reason"].lower()


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("knob", ["enabled", "defrag"])
def test_what_else_was_changed_is_told_and_leaves_it_open(knob: str, between: str) -> None:
    """Which of two things helped a switch cannot tell; what was done before either measurement is no difference."""
    slow, quick = MEASURED["throughput"]
    up = f"{PROMPT}uptime\n 18:25:40 up 20 days,  3:20,  1 user,  load average: 1.07, 1.53, 2.62\n"
    told = session("5.15.0-91-generic", knob, up + slow, BETWEEN[between] + quick)["findings"][0]
    assert told["confidence"] == "possible"
    assert NAMED[between] in " ".join(row["text"] for row in told["evidence"])
    if between not in ("kernel", "reboot"):
        both = session("5.15.0-91-generic", knob, BETWEEN[between] + slow, BETWEEN[between] + quick)["verdict"]
        assert both["confidence"] in ("likely", "confirmed")


def test_two_effects_that_agree_and_a_latency_that_comes_back_confirm() -> None:
    """Kernel share and latency are two effects; latency and pace of one run are not."""
    slow, quick = MEASURED["latency"]
    both = session("6.8.0-31-generic", "enabled", vmstat(30, 60) + slow, vmstat(55, 10) + quick)["verdict"]
    assert (both["mechanism"], both["confidence"]) == ("huge-pages-proven", "confirmed")
    assert session("6.8.0-31-generic", "enabled", slow, quick)["verdict"]["confidence"] == "likely"
    assert session("6.8.0-31-generic", "enabled", slow, quick, slow)["verdict"]["confidence"] == "confirmed"
    once = MEASURED["own-latency"][0][: len(own(91.5))]
    assert session("6.8.0-31-generic", "enabled", once, own(12.5), once)["verdict"]["confidence"] == "confirmed"


def test_a_job_that_got_slow_when_they_were_switched_on_was_not_warming_up() -> None:
    """The second run is the slow one."""
    text = f"{PROMPT}cat {path('5.15', 'enabled')}\n{words('5.15', 'enabled', 'never')}\n{own(12.5)}"
    text += f"{PROMPT}echo always > {path('5.15', 'enabled')}\n{own(91.5)}"
    assert document(text.encode())["verdict"]["confidence"] == "likely"


@pytest.mark.parametrize("command", ["./load --clients 8", "fio job.fio", "pgbench -T 60 shop"])
def test_one_run_of_what_may_have_been_cold_is_a_hypothesis(command: str) -> None:
    """What nobody knows, and what reads from disk, is slow the first time."""
    finding = session("6.8.0-31-generic", "enabled", own(91.5, command), own(12.5, command))["findings"][0]
    assert (finding["rule"], finding["confidence"]) == ("THP-007", "possible")
    assert "a first run is slower" in " ".join(row["text"] for row in finding["evidence"])
    assert "two runs of the same job" in " ".join(finding["raise_confidence"])


SWITCHES = {
    "khugepaged/pages_to_scan": ("16384", "512", "khugepaged-cpu"),
    "khugepaged/defrag": ("1", "0", "khugepaged-cpu"),
    "khugepaged/scan_sleep_millisecs": ("10", "10000", "khugepaged-cpu"),
    "khugepaged/max_ptes_none": ("511", "0", "khugepaged-bloat"),
    "shmem_enabled": ("always", "never", "huge-pages-proven"),
    "hugepages-64kB/enabled": ("always", "never", "huge-pages-proven"),
}


@pytest.mark.parametrize("measured", ["kernel-time", "latency"])
@pytest.mark.parametrize("knob", SWITCHES)
def test_each_setting_is_proof_of_what_it_decides(knob: str, measured: str) -> None:
    """And of nothing, where nothing went with it, or where it was set the other way."""
    loose, strict, mechanism = SWITCHES[knob]
    offered = "always inherit madvise never" if "kB" in knob else "always within_size advise never"

    def switched(first: str, second: str, before: str, after: str) -> dict[str, Any]:
        shown = first if first.isdecimal() else offered.replace(first, f"[{first}]")
        text = f"{PROMPT}uname -r\n6.8.0-31-generic\n{PROMPT}cat {path('6.8', knob)}\n{shown}\n{before}"
        text += f"{PROMPT}echo {second} > {path('6.8', knob)}\n{after}"
        verdict: dict[str, Any] = document(text.encode())["verdict"]
        return verdict

    slow, quick = MEASURED[measured]
    verdict = switched(loose, strict, slow, quick)
    assert (verdict.get("mechanism"), verdict.get("confidence")) == (mechanism, "likely")
    assert switched(strict, loose, quick, slow).get("mechanism") == mechanism
    for before, after in (WITHOUT_EFFECT[measured], (quick, slow)):
        assert switched(loose, strict, before, after).get("mechanism") != mechanism


def test_a_setting_of_compaction_is_proof_of_background_compaction() -> None:
    """Of a sysctl the value before has to be known."""
    known = f"{PROMPT}sysctl vm.compaction_proactiveness\nvm.compaction_proactiveness = 60\n"
    slow, quick = MEASURED["kernel-time"]
    text = f"{slow}{PROMPT}sysctl -w vm.compaction_proactiveness=0\nvm.compaction_proactiveness = 0\n{quick}"
    verdict = document((known + text).encode())["verdict"]
    assert (verdict.get("mechanism"), verdict.get("confidence")) == ("background-compaction", "likely")
    assert document(text.encode())["verdict"].get("mechanism") is None


JAVA = "java {}-Xmx8g -jar shop.jar"


@pytest.mark.parametrize(
    ("loose", "strict"),
    [
        (JAVA.format("-XX:+UseTransparentHugePages "), JAVA.format("-XX:-UseTransparentHugePages ")),
        (JAVA.format("-XX:+UseTransparentHugePages "), JAVA.format("")),
        ("GLIBC_TUNABLES=glibc.malloc.hugetlb=1 ./filter", "GLIBC_TUNABLES=glibc.malloc.hugetlb=0 ./filter"),
        ("MALLOC_CONF=thp:always ./filter", "MALLOC_CONF=thp:never ./filter"),
    ],
)
def test_a_program_without_its_own_huge_pages(loose: str, strict: str) -> None:
    """Two runs of one command that differ in that option alone."""
    slow, quick = own(91.5, loose) + own(88.5, loose), own(12.5, strict) + own(11.5, strict)
    [finding] = document((slow + quick).encode())["findings"][:1]
    assert (finding["rule"], finding["confidence"]) == ("THP-025", "likely")
    assert "thp.of_program" in finding["evidence"][0]["text"]
    assert not document((quick + slow).replace(loose, "").encode())["findings"]
    other = quick.replace(strict, f"{strict} --day 2")
    assert document((slow + other).encode())["verdict"].get("mechanism") is None


def test_memory_that_grows_no_more_after_the_switch() -> None:
    """Resident memory that grew within what was mapped all along."""

    def ps(start: int, grows: int) -> str:
        rows = [f" 4711  9000000 {start + grows * n} java" for n in range(8)]
        looks = [f"{row}" for row in rows]
        listing = "".join(
            f"Thu Nov 26 10:0{n // 6}:{n % 6}0 UTC 2026\n  PID    VSZ   RSS COMMAND\n{row}\n"
            for n, row in enumerate(looks)
        )
        return f"{PROMPT}while sleep 10; do date; ps -C java -o pid,vsz,rss,comm; done\n{listing}^C\n"

    slow, quick = ps(1000000, 20480), ps(1163840, 0).replace(" 10:", " 10:1")
    found = session("6.8.0-31-generic", "enabled", slow, quick.replace(":10:1", ":10:"))["findings"]
    assert "growth of a process" in found[0]["evidence"][0]["text"]
    assert (found[0]["rule"], found[0]["confidence"]) == ("THP-007", "likely")


ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"
SLOW, QUICK = (text.partition("time ./filter\n")[2] for text in MEASURED["job-time"])
BODY = f"echo $v > {ENABLED}; time ./filter"
LOOP = f"for v in always never; do {BODY}; done"
THREE = "for i in 1 2 3; do time ./filter; done"
LINES = LOOP.replace("; ", "\n").replace("do echo", "do\necho")
SCRIPT = f"{PROMPT}cat thp.sh\n#!/bin/bash\n{LINES}\n{PROMPT}"
TRACE = "+ for v in always never\n+ echo {0}\n{1}+ ./filter\n"
AT_ONE_PROMPT = {
    "loop": f"{PROMPT}{LOOP}\n{SLOW}{QUICK}",
    "from never": f"{PROMPT}{LOOP.replace('always never', 'never always')}\n{QUICK}{SLOW}",
    "lines": f"{PROMPT}{LINES.replace(chr(10), chr(10) + '> ')}\n{SLOW}{QUICK}",
    "list": f"{PROMPT}echo always > {ENABLED}; time ./filter; echo never > {ENABLED}; time ./filter\n{SLOW}{QUICK}",
    "three each": f"{PROMPT}{LOOP.replace('time ./filter', THREE)}\n{3 * SLOW}{3 * QUICK}",
    "three rounds": f"{PROMPT}for i in $(seq 3); do {LOOP}; done\n{3 * (SLOW + QUICK)}",
    "counted": f"{PROMPT}for ((i=0;i<2;i++)); do {LOOP}; done\n{2 * (SLOW + QUICK)}",
    "tee": f"{PROMPT}{LOOP.replace('$v >', '$v | sudo tee')}\nalways\n{SLOW}never\n{QUICK}",
    "named": f"{PROMPT}{LOOP.replace('do echo', 'do echo == $v; echo')}\n== always\n{SLOW}== never\n{QUICK}",
    "shown": f"{PROMPT}{LOOP.replace('time', f'cat {ENABLED}; time')}\n[always] never\n{SLOW}always [never]\n{QUICK}",
    "while read": f"{PROMPT}printf 'always\\nnever\\n' | while read v; do {BODY}; done\n{SLOW}{QUICK}",
    "here document": f"{PROMPT}while read v; do {BODY}; done <<E\nalways\nnever\nE\n{SLOW}{QUICK}",
    "sh -c": f"{PROMPT}sudo sh -c '{LOOP}'\n{SLOW}{QUICK}",
    "function": f"{PROMPT}f() {{ {BODY.replace('$v', '$1')}; }}\n{PROMPT}f always\n{SLOW}{PROMPT}f never\n{QUICK}",
    "variable": f"{PROMPT}f={ENABLED}\n" + "".join(
        f"{PROMPT}echo {v} > $f\n{PROMPT}time ./filter\n{t}" for v, t in (("always", SLOW), ("never", QUICK))
    ),
    "script": f"{SCRIPT}./thp.sh\n{SLOW}{QUICK}",
    "written script": f"{PROMPT}cat > thp.sh <<'E'\n{LINES}\nE\n{PROMPT}bash thp.sh\n{SLOW}{QUICK}",
    "trace": f"{SCRIPT}bash -x thp.sh\n{TRACE.format('always', '')}{SLOW}{TRACE.format('never', '')}{QUICK}",
    "trace of a pipe": f"{PROMPT}bash -x a.sh\n" + "".join(
        f"{TRACE.format(v, f'+ sudo tee {ENABLED}{chr(10)}{v}{chr(10)}')}{t}"
        for v, t in (("always", SLOW), ("never", QUICK))
    ),
    "samples": f"{PROMPT}{LOOP.replace('time ./filter', 'vmstat 5 10')}\n" + "".join(
        part.partition("vmstat 5 10\n")[2] for part in MEASURED["kernel-time"]
    ),
}  # fmt: skip
NOT_TOLD_APART = {
    "one missing": AT_ONE_PROMPT["three each"].removesuffix(QUICK),
    "no effect": f"{PROMPT}{LOOP}\n{2 * SLOW}",
    "other way round": f"{PROMPT}{LOOP}\n{QUICK}{SLOW}",
    "refused": AT_ONE_PROMPT["loop"].replace("real", "bash: permission denied\nreal").replace("\n\nbash", "\nbash"),
    "another job": AT_ONE_PROMPT["loop"].replace("./filter", "./filter $v"),
    "another file": AT_ONE_PROMPT["loop"].replace(ENABLED, "/tmp/enabled"),
    "the same value": AT_ONE_PROMPT["loop"].replace("echo $v", "echo never"),
    "into a file": f"{PROMPT}({LOOP}) > out.txt 2>&1\n{PROMPT}cat out.txt\n{SLOW}{QUICK}",
    "under a condition": AT_ONE_PROMPT["loop"].replace("echo", "if true; then echo").replace("; time", "; fi; time"),
    "trace without a file": AT_ONE_PROMPT["trace"].removeprefix(SCRIPT).replace("bash", f"{PROMPT}bash"),
}  # fmt: skip


@pytest.mark.parametrize("form", [*AT_ONE_PROMPT, *NOT_TOLD_APART])
def test_switches_behind_one_prompt(form: str) -> None:
    """As the shell runs it; where it cannot be told which output belongs to which setting, nothing is concluded."""
    text = f"{PROMPT}uname -r\n5.15.0-91-generic\n{AT_ONE_PROMPT.get(form) or NOT_TOLD_APART[form]}"
    verdict = document(text.encode())["verdict"]
    expected = ("huge-pages-proven", True) if form in AT_ONE_PROMPT else (None, False)
    assert (verdict.get("mechanism"), verdict.get("confidence") in ("likely", "confirmed")) == expected
