"""A setting switched between two measurements is proof on every kernel, whichever way the huge pages hurt."""

from __future__ import annotations

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


def job(real: str) -> str:
    return f"{PROMPT}time ./filter\n\nreal\t{real}\nuser\t10m1.000s\nsys\t1m0.100s\n"


def session(kernel: str, knob: str, *parts: str) -> dict[str, Any]:
    """Under always, never, always and so on, each with what was measured then."""
    text = f"{PROMPT}uname -r\n{kernel}\n{PROMPT}cat {path(kernel, knob)}\n{words(kernel, knob, 'always')}\n{parts[0]}"
    for at, part in enumerate(parts[1:]):
        text += f"{PROMPT}echo {'always' if at % 2 else 'never'} > {path(kernel, knob)}\n{part}"
    return document(text.encode())


MEASURED = {
    "kernel-time": (vmstat(30, 60), vmstat(55, 10)),
    "less-kernel-time": (vmstat(60, 30), vmstat(70, 8)),
    "job-time": (job("61m2.100s"), job("20m30.100s")),
}
WITHOUT_EFFECT = {
    "kernel-time": (vmstat(50, 20), vmstat(51, 19)),
    "load-gone": (vmstat(30, 60), vmstat(3, 1)),
    "job-time": (job("10m2.100s"), job("9m50.100s")),
    "job-time-and-kernel-time": (vmstat(30, 60) + job("10m2.100s"), vmstat(55, 10) + job("10m12.100s")),
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


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("measured", WITHOUT_EFFECT)
@pytest.mark.parametrize("knob", ["enabled", "defrag"])
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
