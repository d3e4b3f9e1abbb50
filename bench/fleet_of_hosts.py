"""Results of synthetic hosts, as a night of a large fleet might produce them: the same for the same numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from thpdiag.store.results import BundleResult

GROUPS = (  # distribution, platform, kernels, applications, policy of huge pages
    ("Red Hat Enterprise Linux Server release 6.6 (Santiago)", "el6.5", ("2.6.32-504.el6.x86_64",), ("jvm",), "always"),
    ("CentOS Linux release 7.9.2009 (Core)", "el7", tuple(f"3.10.0-1160.{n}.1.el7.x86_64" for n in (11, 71, 95, 118)),
     ("jvm", "hadoop"), "always"),
    ("Red Hat Enterprise Linux 8.10 (Ootpa)", "el8", tuple(f"4.18.0-553.{n}.1.el8_10.x86_64" for n in (5, 16, 34)),
     ("postgresql",), "never"),
    ("Ubuntu 20.04.6 LTS", "ubuntu20.04", tuple(f"5.4.0-{n}-generic" for n in (150, 174, 190)), ("redis",), "madvise"),
    ("Ubuntu 22.04.4 LTS", "ubuntu22.04", tuple(f"5.15.0-{n}-generic" for n in (101, 113, 122)), ("redis", "php-fpm"),
     "madvise"),
    ("SUSE Linux Enterprise Server 15 SP5", "sles15", ("5.14.21-150500.55.68-default",), ("sap-hana",), "always"),
    ("Debian GNU/Linux 12 (bookworm)", "debian12", ("6.1.0-21-amd64", "6.1.0-28-amd64"), (), "always"),
)  # fmt: skip
FINDINGS = (  # rule, mechanism, severity, sentence
    ("THP-001", "compaction-lock-convoy", "critical", "CPUs queue at the memory zone's lock while page faults compact "
     "memory for huge pages. {share} % of the non-idle samples are in spin locks (top frame)."),
    ("THP-010", "fault-compaction", "high", "Page faults compact memory themselves to get a huge page. {share} % of "
     "the non-idle samples are in memory compaction called from huge-page faults."),
    ("THP-030", "khugepaged-bloat", "high", "Resident memory of a process grows without page faults, as khugepaged "
     "makes huge pages of untouched memory. Resident memory of java (24817) changed by {share} MiB in 300 s."),
    ("ALT-14", "non-thp-high-order", "medium", "Memory is compacted for something other than transparent huge pages. "
     "{share} % of the non-idle samples are in memory compaction called from other users of large blocks."),
    ("ALT-05", "io-wait", "medium", "Programs wait for disks, or the kernel time goes into writing to them. CPUs idle "
     "while I/O is outstanding: above {share} % in 24 of 24 samples."),
    ("THP-061", "high-order-allocation-failure", "low", "A driver or another part of the kernel could not get a large "
     "block of memory. {share} times in the kernel log."),
)  # fmt: skip
WELL = "No huge-page problem: all known huge-page problems were checked; none was found."
OPEN = "Inconclusive. See what to send."
FAILED = (
    ("timeout", "it took longer than 600 s"),
    ("refused", "nothing in it was recognized"),
    ("out of memory", "it asked for more than 2 GiB"),
    ("signal 11", "the process that read it died"),
)


def results(hosts: int, night: int = 0) -> Iterator[BundleResult]:
    """Yield one bundle for each host; one in a hundred has no result. Another night has other findings."""
    for number in range(hosts):
        chance = random.Random(f"{number} {night}")
        sha = sha256(f"{number} {night}".encode()).hexdigest()
        path = f"nightly/2026-11-{1 + night:02}/rack{number % 40:02}/{name(number)}.tar.xz"
        if chance.random() < 0.01:
            status, reason = chance.choice(FAILED)
            yield BundleResult(sha, path, chance.randrange(1 << 24), status, reason, 2 if "signal" in status else 1)
        else:
            yield BundleResult(sha, path, chance.randrange(1 << 24), "ok", document=document(number, chance, night))


def name(number: int) -> str:
    return f"{('web', 'db', 'cache', 'node', 'app')[number % 5]}{number:05}.example.com"


def document(number: int, chance: random.Random, night: int = 0) -> dict[str, Any]:
    """Return a small result: verdict, host, and findings."""
    rule = chance.choices((None, *FINDINGS), (95, 0.3, 1, 1, 1, 1, 0.7))[0]
    os, platform, kernels, apps, enabled = GROUPS[number % 7]
    verdict: dict[str, Any] = {"status": "nothing_found", "sentence": WELL}
    findings = []
    if rule:
        sentence = rule[3].format(share=round(chance.uniform(10, 99), 1))
        found = {"rule": rule[0], "mechanism": rule[1], "severity": rule[2], "state": "present",
                 "confidence": chance.choice(("confirmed", "likely", "likely", "possible"))}  # fmt: skip
        verdict = {**found, "status": "found", "sentence": sentence}
        findings = [{**found, "role": "root_cause", "fingerprint": f"{number:016x}", "entity": None}]
    elif chance.random() < 0.1:
        verdict = {"status": "cannot_tell", "sentence": OPEN}
    if chance.random() < 0.01:
        enabled = chance.choice(("always", "madvise", "never"))
    return {
        "schema": "thpdiag/result/1", "case": name(number), "verdict": verdict, "findings": findings, "unknown": [],
        "host": {
            "name": name(number), "kernel": chance.choice(kernels), "os": os, "platform": platform,
            "era": f"E{1 + number % 7}", "apps": list(apps),
            "settings": {
                "thp.enabled": {"value": enabled, "provenance": "measured"},
                "thp.defrag": {"value": "madvise", "provenance": "measured"},
            },
            "measures": measures(chance, 20 if rule else 1),
            "free_blocks": [],
        },
        "timeline": {"series": [{"clock": "utc", "points": [[1793491200 + 86400 * night, 0, 0, 0]]}]},
    }  # fmt: skip


def measures(chance: random.Random, times: int) -> dict[str, Any]:
    odd = 40 if chance.random() < 0.004 else 1
    return {
        "node_memory_MemTotal_bytes": {"value": float(64 << 30), "unit": "bytes"},
        "node_memory_AnonHugePages_bytes": {"value": round(chance.uniform(0.2, 0.4) * (64 << 30)), "unit": "bytes"},
        "node_vmstat_compact_stall": {"value": round(chance.expovariate(2) * times * odd, 3), "unit": "1/s"},
        "cpu_ratio.sys_share": {"value": round(min(1.0, chance.uniform(0.05, 0.2) * odd), 4), "unit": "ratio"},
    }
