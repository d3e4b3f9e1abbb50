"""A setting switched between two measurements is proof on every kernel, whichever way the huge pages hurt."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, document, rules
from thpdiag.pipeline import analyze

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


def hyperfine(mean: float, command: str = "./filter", spread: float = 0.03, system: float | None = None) -> str:
    system = max(mean - 1.3, 0.2 * mean) if system is None else system
    return f"""{PROMPT}hyperfine {command!r}
Benchmark 1: {command}
  Time (mean ± σ):     {mean:.3f} s ±  0.021 s    [User: 1.201 s, System: {system:.3f} s]
  Range (min … max):    {mean - spread:.3f} s … {mean + spread:.3f} s    10 runs

"""


def perf_stat(seconds: float, variables: str = "") -> str:
    return f"""{PROMPT}{variables}perf stat ./filter

 Performance counter stats for './filter':

          6,012.11 msec task-clock                #    0.999 CPUs utilized
                12      context-switches          #    2.000 /sec

       {seconds:.9f} seconds time elapsed

       1.200000000 seconds user
       {seconds - 1.3:.9f} seconds sys

"""


def gatling(p95: int) -> str:
    """Lines that begin with the sign of a quotation."""
    return f"""{PROMPT}./gatling.sh -s Shop
---- Global Information --------------------------------------------------------
> request count                                      10000 (OK=10000  KO=0     )
> mean response time                                   {p95 // 2} (OK={p95 // 2}    KO=-     )
> response time 95th percentile                        {p95} (OK={p95}    KO=-     )
> mean requests/sec                                 150.12 (OK=150.12 KO=-     )
"""


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
    "hyperfine": (hyperfine(6.118), hyperfine(2.012)),
    "hyperfine-brief": (hyperfine(0.618, spread=0.01), hyperfine(0.212, spread=0.01)),
    "hyperfine-kernel": (hyperfine(3.018, system=1.7), hyperfine(1.812, system=0.51)),
    "perf-stat": (perf_stat(6.118), perf_stat(2.012)),
    "gatling": (gatling(812), gatling(60)),
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
    "starts-only-often": (hyperfine(0.041, spread=0.001), hyperfine(0.012, spread=0.001)),
    "hyperfine-not-the-kernel": (hyperfine(2.518, system=0.51), hyperfine(1.812, system=0.21)),
    "hyperfine-little": (hyperfine(1.418, system=0.31), hyperfine(1.212, system=0.11)),
    "another-command": (hyperfine(6.118), hyperfine(2.012, "./filter -q")),
    "runs-overlap": (hyperfine(6.118, spread=4.5), hyperfine(2.912)),
    "shown-from-a-file": (own(91.5, "cat load.txt") * 2, own(12.5, "cat load.txt") * 2),
}  # fmt: skip
# All of them with THPDIAG_PROOF=1, by default some: each way with several kernels, each kernel with several ways.
EVERY = 1 if os.environ.get("THPDIAG_PROOF") == "1" else 5
SOME_WITH_EFFECT = [*product(KERNELS, MEASURED, ("enabled", "defrag"))][::EVERY]
SOME_WITHOUT_EFFECT = [*product(KERNELS, WITHOUT_EFFECT, ("enabled", "defrag"))]
SOME_WITHOUT_EFFECT = SOME_WITHOUT_EFFECT[::EVERY]
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


@pytest.mark.parametrize(("kernel", "measured", "knob"), SOME_WITH_EFFECT)
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


UNIT = "/etc/systemd/system/shop.service.d/thp.conf"
RESTART = f"{PROMPT}systemctl daemon-reload\n{PROMPT}systemctl restart shop\n"
GLIBC = "GLIBC_TUNABLES=glibc.malloc.hugetlb="


def unit(line: str, then: str = RESTART) -> str:
    return f"{PROMPT}cat > {UNIT} <<E\n[Service]\n{line}\nE\n{then}"


def sed(old: str, new: str, path: str, service: str) -> str:
    return f"{PROMPT}sudo sed -i 's/{old}/{new}/' {path}\n{PROMPT}sudo systemctl restart {service}\n"


def shown(line: str, path: str, service: str) -> str:
    return f"{PROMPT}grep -i opt {path}\n{line}\n{PROMPT}sudo systemctl restart {service}\n"


JVM, CONF = "XX:{}UseTransparentHugePages", "/etc/redis/redis.conf"
ALWAYS_READ = f"{PROMPT}cat {ENABLED}\n[always] madvise never\n"
GRUBBY = f"{PROMPT}grubby --update-kernel=ALL --args=transparent_hugepage=never\n{PROMPT}reboot\n"
# What is done before each measurement, what it shows, and how surely: a restart on one side alone, or whatever else a
# reboot or a profile changes, leaves it open.
CONFIGURED = {
    "unit": (unit(f"Environment={GLIBC}1"), unit(f"Environment={GLIBC}0"), "huge-pages-proven", "likely"),
    "jemalloc": (unit("Environment=MALLOC_CONF=a:b,thp:always"), unit("Environment=MALLOC_CONF=a:b,thp:never"),
                 "huge-pages-proven", "likely"),
    "systemd": (RESTART, unit("MemoryTHP=disable"), "huge-pages-proven", "likely"),
    "one restart": ("", unit("MemoryTHP=disable"), "huge-pages-proven", "possible"),
    "java": (shown(f'JAVA_OPTS="-{JVM.format("+")}"', "/etc/default/tomcat9", "tomcat9"),
             sed(JVM.format("+"), JVM.format("-"), "/etc/default/tomcat9", "tomcat9"), "huge-pages-proven", "likely"),
    "redis": (shown("disable-thp no", CONF, "redis"), sed("^disable-thp no", "disable-thp yes", CONF, "redis-server"),
              "huge-pages-proven", "possible"),
    "profile": (ALWAYS_READ, f"{PROMPT}tuned-adm profile network-latency\n", "huge-pages-proven", "possible"),
    "boot line": (ALWAYS_READ, GRUBBY, "huge-pages-proven", "possible"),
    "never read": ("", f"{PROMPT}echo never > {ENABLED}\n", "huge-pages-proven", "possible"),
    "two at once": (ALWAYS_READ + f"{PROMPT}cat {path('6.8', 'defrag')}\n{words('6.8', 'defrag', 'always')}\n",
                    f"{PROMPT}echo madvise > {ENABLED}\n{PROMPT}echo defer > {path('6.8', 'defrag')}\n",
                    "huge-pages-proven", "likely"),
    "not restarted": (RESTART, unit("MemoryTHP=disable", ""), None, None),
    "another restarted": ("", unit("MemoryTHP=disable", f"{PROMPT}systemctl restart nginx\n"), None, None),
    "another variable": (unit("Environment=LOG=debug"), unit("Environment=LOG=info"), None, None),
    "refused": ("", f"{PROMPT}redis-cli config set disable-thp yes\nERR CONFIG SET failed (possibly related to "
                "argument 'disable-thp') - can't set immutable config\n", None, None),
    "profile not there": (ALWAYS_READ, f"{PROMPT}tuned-adm profile oracle\n-bash: tuned-adm: command not found\n",
                          None, None),
    "restart failed": (unit("MemoryTHP=inherit"), unit("MemoryTHP=disable") + "Job for shop.service failed.\n",
                       None, None),
    "option of an example": (RESTART, shown("disable-thp yes", "/usr/share/doc/redis/redis.conf", "redis"), None, None),
    "option in a comment": (RESTART, shown("# disable-thp yes", CONF, "redis"), None, None),
    "unknown profile": (ALWAYS_READ, f"{PROMPT}tuned-adm profile our-own\n", None, None),
    "profile without": (ALWAYS_READ, f"{PROMPT}tuned-adm profile latency-performance\n", None, None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "measured"),
    [
        *((form, "latency") for form in CONFIGURED),
        ("unit", "less-load"),
        ("profile", "less-load"),
        ("boot line", "slower"),
    ],
)
def test_a_service_a_profile_or_the_boot_line_as_the_switch(form: str, measured: str) -> None:
    """What the kernel or the service has from its restart on; nothing where nothing went with it."""
    before, after, mechanism, confidence = CONFIGURED[form]
    slow, quick = {**WITHOUT_EFFECT, **MEASURED}[measured]
    text = f"{PROMPT}uname -r\n5.14.0-70.el9.x86_64\n{before}{slow}{after}{quick}"
    result = document(text.encode())
    expected = (mechanism, confidence) if measured == "latency" else (None, None)
    assert (result["verdict"].get("mechanism"), result["verdict"].get("confidence")) == expected
    if measured == "latency" and form == "two at once":
        assert "thp.enabled always and thp.defrag always" in result["findings"][0]["evidence"][0]["text"]
    if form == "unknown profile":
        [tree] = [rule["tree"] for rule in result["rules"] if rule["id"] == "THP-007"]
        assert measured != "latency" or "our-own" in str(tree)


def test_two_profiles_back_and_forth_leave_open_what_helped() -> None:
    """Each of them sets more than huge pages, every time."""
    slow, quick = MEASURED["latency"]
    profiles = (f"{PROMPT}tuned-adm profile {name}\n" for name in ("hpc-compute", "network-latency", "hpc-compute"))
    text = "".join(map("".join, zip(profiles, (slow, quick, slow), strict=True)))
    verdict = document(f"{PROMPT}uname -r\n4.18.0-305.el8.x86_64\n{text}".encode())["verdict"]
    assert (verdict["mechanism"], verdict["confidence"]) == ("huge-pages-proven", "possible")


def bare(text: str) -> str:
    """Without the prompt and the command."""
    return text.partition("\n")[2]


WRK, REDIS, TIMES = MEASURED["latency"], MEASURED["requests"], MEASURED["job-time"]
READ = {v: f"{PROMPT}cat {ENABLED}\n{words('6.8', 'enabled', v)}\n" for v in ("always", "never")}


def files(form: str, sides: tuple[str, str], values: tuple[str, str] = ("always", "never")) -> dict[str, str]:
    return {form.format(value): bare(text) for value, text in zip(values, sides, strict=True)}


def headings(form: str, sides: tuple[str, str] = WRK) -> dict[str, str]:
    return {"a.txt": "".join(f"{form.format(v)}\n{bare(t)}\n" for v, t in zip(("always", "never"), sides, strict=True))}


PROVEN, POSSIBLE, LIKELY = "huge-pages-proven", "possible", "likely"
LABELLED: dict[str, tuple[dict[str, str], str | None, str | None]] = {
    "names": (files("run-{}.txt", WRK), PROVEN, POSSIBLE),
    "names and no": (files("{}.log", REDIS, ("thp", "nothp")), PROVEN, POSSIBLE),
    "folders": (files("thp_{}/vmstat.txt", MEASURED["kernel-time"]), PROVEN, POSSIBLE),
    "folders with =": (files("results/thp={}/run1.log", WRK, ("madvise", "never")), PROVEN, POSSIBLE),
    "numbers": ({f"run-{v}-{n}.txt": bare(t) for v, t in zip(READ, WRK, strict=True) for n in "12"}, PROVEN, POSSIBLE),
    "defrag": (files("defrag-{}.txt", WRK), "fault-compaction", POSSIBLE),
    "headings": (headings("=== THP {} ==="), PROVEN, POSSIBLE),
    "Markdown": (headings("## defrag {}, run 2"), "fault-compaction", POSSIBLE),
    "bare": (headings("THP={}:"), PROVEN, POSSIBLE),
    "both": (headings("--- enabled={0} defrag={0} ---"), PROVEN, POSSIBLE),
    "read back": ({f"run-{v}.txt": READ[v] + t for v, t in zip(READ, TIMES, strict=True)}, PROVEN, LIKELY),
    "read back below": (
        headings("=== THP {} ===", (f"\n{READ['always']}{WRK[0]}", f"\n{READ['never']}{WRK[1]}")), PROVEN, LIKELY,
    ),
    "lines": (
        {"a.txt": "p99 of the shop\ndefrag=always: p99 = 812 ms\ndefrag=never: p99 = 12 ms\n"},
        "fault-compaction", POSSIBLE,
    ),
    "columns": ({"a.txt": "| | THP always | THP never |\n|---|---|---|\n| req/s | 1100 | 4150 |\n"}, PROVEN, POSSIBLE),
    "tabs": ({"a.txt": "\tTHP=always\tTHP=never\nreq/s\t1100\t4150\np99 ms\t812\t16\n"}, PROVEN, POSSIBLE),
    "contradicted": ({f"run-{v}.txt": READ["never"] + t for v, t in zip(READ, WRK, strict=True)}, None, None),
    "no effect": (files("run-{}.txt", WITHOUT_EFFECT["latency"]), None, None),
    "better with": (files("run-{}.txt", (REDIS[1], REDIS[0])), None, None),
    "of something else": (files("{}-encrypted.txt", WRK), None, None),
    "one of them": (files("run-{}.txt", WRK, ("always", "other")), None, None),
    "two hosts": ({"run-always.txt": WRK[0], "run-never.txt": WRK[1].replace("db1", "db2")}, None, None),
    "other jobs": ({"run-always.txt": TIMES[0], "run-never.txt": TIMES[1].replace("filter", "sort")}, None, None),
    "idle": (files("thp_{}/vmstat.txt", WITHOUT_EFFECT["load-gone"]), None, None),
    "same headings": (headings("=== THP always ===="), None, None),
    "advice": (headings("=== THP {} recommended ==="), None, None),
    "quoted": (
        {"a.txt": "".join(f"> {line}\n" for line in headings("== THP {} ==")["a.txt"].split("\n")[:9])}, None, None,
    ),
    "advice in a table": (
        {"a.txt": "| app | THP | pause |\n|---|---|---|\n| Redis | never | 1 ms |\n| Java | always | 99 ms |\n"},
        None, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", LABELLED)
def test_two_labelled_runs_of_one_job(form: str, tmp_path: Path) -> None:
    """A name or a heading is a hypothesis, unless the kernel shows the setting beside it."""
    texts, mechanism, confidence = LABELLED[form]
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    verdict = analyze([tmp_path], rules(), STRICT)["verdict"]
    assert (verdict.get("mechanism"), verdict.get("confidence")) == (mechanism, confidence)
