"""Two captures whose hosts have one name: one host, unless they cannot be of one machine."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from analyze_bytes import document, documents
from packed_bundles import tar

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
THP = "sys/kernel/mm/transparent_hugepage"
HOUR = 3600


def capture(name: str, minute: int, up: int | None, *, value: str = "always", stalls: int = 0,
            kernel: str = "6.1.0-18-amd64", faults: int = 1000) -> dict[str, bytes]:  # fmt: skip
    """A small capture made so many minutes past noon, when the host had been up for so many seconds."""
    start = int(NOON.timestamp()) + 60 * minute
    root = f"{name}-{minute}"
    host = f"# uname -a\nLinux {name} {kernel} #1 SMP PREEMPT_DYNAMIC Debian x86_64 GNU/Linux\n"
    when = datetime.fromtimestamp(start, UTC)
    if up is not None:
        days = f"{up // 86400} days, " if up >= 86400 else ""
        host += f"# date\n{when:%a %b %d %H:%M:%S} UTC 2026\n# uptime\n {when:%H:%M:%S} up {days}"
        host += f"{up % 86400 // HOUR:2}:{up % HOUR // 60:02},  1 user,  load average: 1.00, 1.00, 1.00\n"
    loop = "".join(
        f"{start + 5 * at}\nnr_free_pages 51200\npgfault {faults + at}\nthp_fault_alloc {5 * stalls * at}\n"
        f"thp_fault_fallback 0\ncompact_stall {5 * stalls * at}\ncompact_fail {5 * stalls * at}\ncompact_success 0\n"
        for at in range(12)
    )
    setting = {"always": "[always] madvise never", "never": "always madvise [never]"}[value]
    return {
        f"{root}/host.txt": host.encode(), f"{root}/loops/counters.txt": loop.encode(),
        f"{root}/proc/version": f"Linux version {kernel} (gcc) #1 SMP\n".encode(),
        f"{root}/{THP}/enabled": f"{setting}\n".encode(), f"{root}/{THP}/defrag": b"[always] defer madvise never\n",
    }  # fmt: skip


def told(one: dict[str, bytes], other: dict[str, bytes]) -> dict[str, Any]:
    return document(tar(one | other))


@pytest.mark.parametrize(
    ("name", "one", "other", "hosts"),
    [
        ("localhost", {"minute": 0, "up": 10 * HOUR}, {"minute": 30, "up": 10 * HOUR + 1800}, 1),  # the same boot
        ("localhost", {"minute": 0, "up": 10 * HOUR}, {"minute": 30, "up": 600}, 1),  # booted in between
        (
            "localhost",
            {"minute": 0, "up": 10 * HOUR},
            {"minute": 30, "up": 2 * HOUR},
            2,
        ),  # booted before the first ended
        ("db1", {"minute": 0, "up": 10 * HOUR}, {"minute": 30, "up": 2 * HOUR}, 2),
        ("localhost", {"minute": 0, "up": None}, {"minute": 30, "up": None}, 2),  # a name that installers give
        ("db1", {"minute": 0, "up": None}, {"minute": 30, "up": None}, 1),
        ("db1", {"minute": 0, "up": 10 * HOUR}, {"minute": 30, "up": 10 * HOUR + 1800, "kernel": "6.12.1-amd64"}, 2),
        ("db1", {"minute": 0, "up": 10 * HOUR}, {"minute": 30, "up": 600, "kernel": "6.12.1-amd64"}, 1),  # updated
        ("db1", {"minute": 0, "up": 10 * HOUR, "faults": 9000}, {"minute": 30, "up": 10 * HOUR + 1800}, 2),  # it fell
    ],
)
def test_captures_of_one_name_are_of_one_machine_or_not(
    name: str, one: dict[str, Any], other: dict[str, Any], hosts: int
) -> None:
    """By their boots, and under one boot by the kernel and by counters that never fall."""
    result = told(capture(name, **one), capture(name, **other))
    assert len(documents(result)) == hosts
    notes = [note["text"] for one in documents(result) for note in one["notes"]]
    assert any("separate hosts" in text for text in notes) is (hosts == 2)


def test_a_switch_between_two_machines_proves_nothing() -> None:
    """A host that stalls with huge pages on, another one of its name that rests with them off."""
    before = capture("localhost", 0, 10 * HOUR, stalls=40)
    after = {"minute": 30, "value": "never", "faults": 5000}
    same = told(before, capture("localhost", up=10 * HOUR + 1800, **after))
    assert (same["verdict"]["rule"], same["verdict"]["confidence"]) == ("THP-012", "confirmed")
    other = told(before, capture("localhost", up=2 * HOUR, **after))
    assert (other["verdict"]["rule"], other["verdict"]["confidence"]) == ("THP-012", "likely")
    assert len({one["case"]["name"] if isinstance(one["case"], dict) else one["case"] for one in documents(other)}) == 2


def session(host: str, value: str, prompt: str = "$") -> str:
    listed = {"always": "[always] madvise never", "never": "always madvise [never]"}[value]
    return f"{prompt} uname -a\nLinux {host} 6.1.0 #1 SMP x86_64 GNU/Linux\n{prompt} cat /{THP}/enabled\n{listed}\n"


@pytest.mark.parametrize("prompt", ["$", "[root@db1 ~]#"])
@pytest.mark.parametrize("together", [True, False])
def test_hosts_of_one_name_in_two_domains(prompt: str, *, together: bool) -> None:
    """Production and a copy of it are two hosts, in one text and in two; a setting of one is no change of the other."""
    texts = [session("db1.prod.example.com", "never", prompt), session("db1.stage.example.com", "always", prompt)]
    files = {"all.txt": "".join(texts)} if together else {f"{n}.txt": text for n, text in enumerate(texts)}
    result = document(tar({path: text.encode() for path, text in files.items()}))
    found = {one["host"]["name"]: one["host"]["settings"]["thp.enabled"]["value"] for one in documents(result)}
    assert found == {"db1.prod.example.com": "never", "db1.stage.example.com": "always"}


@pytest.mark.parametrize("other", ["db1", "db1.localdomain", "db1.prod.example.com"])
def test_one_host_with_its_domain_and_without(other: str) -> None:
    """What has no domain tells nothing against one that has."""
    texts = {"1.txt": session("db1.prod.example.com", "never"), "2.txt": session(other, "never", "[root@db1 ~]#")}
    result = document(tar({path: text.encode() for path, text in texts.items()}))
    assert [one["host"]["name"] for one in documents(result)] == ["db1"]
