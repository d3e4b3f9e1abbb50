"""What a sentence says of kernel messages with something in their trace is what a plain search of the file counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import document, documents, result_of
from conftest import ROOT
from thpdiag.knowledge.symbols import Family, families

KINDS = ("kernel_log", "kernel_trace", "journal_export", "journal_json", "dmesg_json", "sysrq")
LOGS = [path for path in sorted((ROOT / "fixtures").glob("*/*/*")) if path.is_dir() and path.parts[-2] in KINDS]
LOGS += sorted(path for group in ("acceptance", "stories") for path in (ROOT / "fixtures" / group).glob("*/bundle"))
SENTENCE = re.compile(r"(?P<kinds>.+) \(with (?P<trace>.+) in the trace\): (?P<count>\d+) times in (?P<member>.+)")
MESSAGES = {
    "a CPU was stuck in the kernel": r"soft lockup",
    "a CPU did not answer at all": r"hard LOCKUP",
    "a task did not run for a long time": r"blocked for more than",
    "a CPU held up read-copy-update": r"rcu.*(?:stall|expedited)",
    "the kernel could not get contiguous memory": r"page allocation failure",
    "the kernel hit an error in its own code": r"(?:BUG: (?:unable to|kernel NULL)|kernel BUG at|Oops\b)",
}
FUNCTION = re.compile(r"\b([a-zA-Z_][\w.]*)\+0x[0-9a-f]+/0x")


@cache
def by_title() -> dict[str, Family]:
    return {family.title: family for family in families().values()}


def named(words: str) -> list[Family] | None:
    """The families of `one or another`; None if it speaks of callers or of single functions, which this leaves out."""
    found = [by_title().get(word) for word in words.split(" or ")]
    return None if None in found else [family for family in found if family]


def traces(text: str, kinds: str) -> Iterator[set[str]]:
    """The functions in the trace after each message of these kinds: 60 lines, up to the next message or trace."""
    starts = re.compile("|".join(MESSAGES[kind] for kind in kinds.split(" or ")))
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if starts.search(line):
            part = lines[at + 1 : at + 60]
            heads = [n for n, other in enumerate(part) if any(re.search(m, other) for m in MESSAGES.values())]
            begins = [n for n, other in enumerate(part) if "Call Trace" in other]
            end = min([*heads[:1], *begins[1:2], 60])
            yield set(FUNCTION.findall("\n".join(part[:end])))


def sentences(bundle: Path) -> Iterator[re.Match[str]]:
    result = result_of(bundle)
    for entry in (*result["ruled_out"], *result["findings"]):
        for line in (*entry.get("evidence", ()), *entry.get("against", ())):
            if match := SENTENCE.fullmatch(line["text"]):
                yield match


@pytest.mark.parametrize("bundle", LOGS, ids=lambda path: "-".join(path.parts[-3:]))
def test_nothing_is_said_to_be_absent_that_a_search_finds(bundle: Path) -> None:
    """With one of the functions that a sentence names, and none of those that it says are not counted."""
    for match in sentences(bundle):
        with_, _, without = match["trace"].partition(" and without ")
        wanted, other = named(with_), named(without) if without else []
        if wanted is None or other is None or match["count"] != "0":
            continue
        text = (bundle / match["member"]).read_text("utf-8", "replace")
        for functions in traces(text, match["kinds"]):
            present = [f.name for f in wanted if any(map(f.matches, functions))]
            beside = [f.name for f in other if any(map(f.matches, functions))]
            assert not present or beside, match[0]


def test_a_sentence_names_what_it_leaves_out() -> None:
    """A task that waits inside kcompactd has compaction in its trace, and is not what page faults suffer from."""
    told = [m["trace"] for bundle in LOGS for m in sentences(bundle) if m["trace"].startswith("memory compaction and")]
    assert told
    assert all("without kcompactd" in trace for trace in told)


HUNG = """[  483.616000] INFO: task java:4711 blocked for more than 120 seconds.
[  483.616010] Call Trace:
[  483.616020]  [<ffffffff81523a70>] schedule+0x29/0x70
[  483.616030]  [<ffffffff81524a70>] io_schedule+0x73/0xc0
[  483.616040]  [<ffffffffa0123a70>] {function}+0x20/0x30 [nfs]
[  483.616050]  [<ffffffffa0124a70>] nfs_file_write+0xa4/0x1d0 [nfs]
"""


def notes(text: str) -> list[str]:
    return [note["text"] for note in document(text.encode())["notes"] if "no finding explains" in note["text"]]


def test_a_hung_task_that_nothing_explains_is_told() -> None:
    """With the function that it waits in, not that of every wait, and how often."""
    [note] = notes(HUNG.format(function="nfs_wait_bit_killable") * 2)
    assert "a task did not run for a long time (java, in nfs_wait_bit_killable), 2 times" in note


def test_work_that_is_not_begun_is_told_with_what_keeps_the_worker() -> None:
    """Where no stack of the worker follows (to 6.4) its function stands in the list of pools."""
    lines = (
        "BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 31s!",
        "Showing busy workqueues and worker pools:",
        "workqueue events: flags=0x0",
        "  pwq 6: cpus=3 node=0 flags=0x0 nice=0 active=2/256 refcnt=3",
        "    in-flight: 4711:mlx5_health_poll_work [mlx5_core]",
        "    pending: vmstat_shepherd",
    )
    [note] = notes("".join(f"[  483.616000] {line}\n" for line in lines))
    assert note.endswith("kernel work did not start for a long time (in mlx5_health_poll_work)")


def test_what_a_finding_explains_is_no_loose_end() -> None:
    """Compaction below a huge-page fault is what the finding is about."""
    text = HUNG.format(function="compact_zone").replace("nfs_file_write", "do_huge_pmd_anonymous_page")
    assert document(text.encode())["verdict"]["status"] == "found"
    assert notes(text) == []
    [note] = notes(text + HUNG.format(function="nfs_wait_bit_killable"))
    assert "nfs_wait_bit_killable" in note


def test_an_oops_outside_memory_management_is_told() -> None:
    """It is explained where its trace passes through compaction or huge pages, and listed where it does not."""
    oops = "".join(
        f"[ 4001.{100000 + i}] {line}\n"
        for i, line in enumerate(("Oops: 0000 [#1] SMP PTI", "RIP: 0010:{0}+0x2/0x3c0", "Call Trace:", " {1}+0x9/0x12"))
    )
    crash = oops.format("__reset_isolation_pfn", "kswapd")
    assert document(crash.encode())["verdict"]["mechanism"] == "memory-code-crash"
    assert notes(crash) == []
    [note] = notes(crash + oops.format("xfs_iext_lookup_extent", "xfs_bmapi_read"))
    assert "xfs_iext_lookup_extent" in note


HEADLINES = {
    "a task did not run for a long time": r"INFO: task .{1,20} blocked .{0,20}for more than",
    "a CPU was stuck in the kernel": r"BUG: soft lockup",
    "a CPU did not answer at all": r"hard LOCKUP",
    "a CPU held up read-copy-update": r"INFO: rcu\w+ (?:self-)?detected",
    "the kernel could not get contiguous memory": r": page allocation failure[.:] order",
    "an allocation took long": r"page allocation stalls",
    "the out-of-memory killer ran": r"invoked oom-killer",
    "the kernel hit an error in its own code": r"(?:BUG: (?:unable to|kernel NULL)|kernel BUG at|Oops\b)",
}


def in_words(title: str, result: dict[str, Any]) -> bool:
    """Whether a finding or a note speaks of messages of the kind."""
    parts = [part for one in documents(result) for part in (*one["findings"], *one["ruled_out"])]
    texts = [line["text"] for part in parts for line in (*part.get("evidence", ()), *part.get("against", ()))]
    texts += [
        note["text"] for one in documents(result) for note in one["notes"] if "no finding explains" in note["text"]
    ]
    return any(title in text and "0 times" not in text for text in texts)


@pytest.mark.parametrize("bundle", LOGS, ids=lambda path: "-".join(path.parts[-3:]))
def test_each_report_of_the_kernel_is_explained_or_listed(bundle: Path) -> None:
    """What a plain search of the log finds is in the evidence of a finding or among the unexplained messages."""
    if bundle.name in {"hostile", "order_9"}:  # programs that quote the kernel
        pytest.skip("its lines only look like messages")
    result = result_of(bundle)
    text = "\n".join(path.read_text("utf-8", "replace") for path in bundle.rglob("*") if path.is_file())
    for title, pattern in HEADLINES.items():
        assert not re.search(pattern, text) or in_words(title, result), title


def frames(*names: str, old: bool) -> list[str]:
    """A call trace as kernels to 4.8 and later ones print it."""
    if old:
        return ["Call Trace:", *(f" [<ffffffff81{n:06x}>] {name}+0x2a/0x80" for n, name in enumerate(names, 4096))]
    return ["Call Trace:", " <TASK>", *(f" {name}+0x2a/0x80" for name in names), " </TASK>"]


def reports(kernel: str) -> list[str]:
    """Reports that no rule is about: each names a function that says what it is about below those of every wait."""
    old, rcu = kernel < "4", "rcu: INFO: rcu_sched" if kernel > "4.2" else "INFO: rcu_sched"
    mode = "0xd0" if old else "0x6040c0(GFP_KERNEL|__GFP_COMP)" if kernel < "5" else "0x40cc0(GFP_KERNEL|__GFP_COMP)"
    after = "" if old else ", nodemask=(null),cpuset=/,mems_allowed=0"
    by = f"CPU: 3 PID: 4711 Comm: app {'' if old else 'Kdump: loaded '}Not tainted {kernel} #1"
    watchdog = "BUG: soft lockup" if old else "watchdog: BUG: soft lockup"
    wait = ("__schedule", "schedule", "schedule_timeout", "wait_for_completion", "flush_work", "drv_reset")
    warn = ("dump_stack", "warn_alloc", "__alloc_pages_slowpath", "kmalloc_order", "drv_receive")
    return [
        "INFO: task app:4711 blocked for more than 120 seconds.",
        f"      Not tainted {kernel} #1",
        '"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.',
        *frames(*wait, old=old),
        f"{watchdog} - CPU#3 stuck for 23s! [app:4711]",
        "Modules linked in: drv",
        by,
        "RIP: 0010:[<ffffffff812a5b50>]  [<ffffffff812a5b50>] drv_poll+0x20/0x30"
        if old
        else "RIP: 0010:drv_poll+0x20/0x30",
        *frames("drv_work", "process_one_work", old=old),
        f"{rcu} self-detected stall on CPU",
        by,
        *frames("drv_spin", "do_syscall_64", old=old),
        f"app: page allocation failure{'.' if old else ':'} order:3, mode:{mode}{after}",
        by,
        *frames(*warn, old=old),
        "Mem-Info:",
        "Node 0 DMA free:15904kB min:12kB low:24kB high:36kB",
        "lowmem_reserve[]: 0 0 0 0",
        "Node 0 Normal free:487600kB min:90112kB low:112640kB high:135168kB",
        "lowmem_reserve[]: 0 0 0 0",
        "Node 0 DMA: 2*4kB (U) 1*8kB (U) = 16kB",
        "Node 0 Normal: 41222*4kB (UE) 0*8kB 0*16kB 0*32kB 0*64kB = 164888kB",
        f"app invoked oom-killer: gfp_mask={mode}, order=0, oom_score_adj=0",
        by,
        *frames("dump_stack", "oom_kill_process", "out_of_memory", "drv_charge", old=old),
        "Out of memory: Killed process 812 (app) total-vm:100kB, anon-rss:50kB, file-rss:0kB, shmem-rss:0kB",
    ]


STAMPED = {
    "rhel-messages": "Nov 20 03:35:{s:02d} web1 kernel: {m}",
    "ubuntu-kern.log": "Nov 20 03:35:{s:02d} web1 kernel: [ 1055.{n:06d}] {m}",
    "sles-messages": "2026-11-20T03:35:{s:02d}.061951+01:00 web1 kernel: [ 1055.{n:06d}][    C3] {m}",
    "journalctl-short-iso": "2026-11-20T03:35:{s:02d}+0100 web1 kernel: {m}",
    "dmesg-T": "[Fri Nov 20 03:35:{s:02d} 2026] {m}",
    "dmesg": "[ 1055.{n:06d}] {m}",
    "console": "[ 1055.{n:06d}] {m}",
}


def log(form: str, kernel: str) -> str:
    """The reports in one form; on a console other messages of the kernel stand between the lines that list zones."""
    lines = reports(kernel)
    if form == "console":
        at = lines.index("Mem-Info:") + 2
        lines[at:at] = ["usb 1-1: new high-speed USB device number 4 using xhci_hcd"]
    if form == "journalctl-json":
        entries = [
            {
                "_TRANSPORT": "kernel", "_HOSTNAME": "web1", "__REALTIME_TIMESTAMP": str(1795145743188049 + n),
                "_SOURCE_MONOTONIC_TIMESTAMP": str(1055000000 + n), "MESSAGE": line,
            }
            for n, line in enumerate(lines)
        ]  # fmt: skip
        return "".join(json.dumps(entry) + "\n" for entry in entries)
    return "".join(STAMPED[form].format(s=n // 20, n=n, m=line) + "\n" for n, line in enumerate(lines))


KERNELS = ("3.10.0-1160.el7.x86_64", "4.18.0-348.el8.x86_64", "5.15.0-91-generic", "6.8.0-31-generic")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("form", [*STAMPED, "journalctl-json"])
def test_reports_of_every_kernel_in_every_form_are_listed(form: str, kernel: str) -> None:
    """Five reports, each once, with the first function that says what it is about."""
    told = notes(log(form, kernel))
    for words in (
        "a task did not run for a long time (app, in flush_work)",
        "a CPU was stuck in the kernel (app, in drv_poll)",
        "a CPU held up read-copy-update (app, in drv_spin)",
        "the out-of-memory killer ran (app, in drv_charge, order 0)",
        "the kernel could not get contiguous memory (app, in drv_receive, order 3)",
    ):
        assert [note for note in told if words in note], (words, told)
    assert len(told) == 5


def test_many_kinds_of_reports_are_all_counted() -> None:
    """What is not told one by one is counted in one note."""
    told = notes("".join(HUNG.format(function=f"drv_wait{n}") for n in range(20)))
    assert told[-1].startswith("12 more kernel messages that no finding explains: a task did not run")
    assert len(told) == 9


KERNEL, ATOMIC = "0x40cc0(GFP_KERNEL|__GFP_COMP)", "0x40a20(GFP_ATOMIC|__GFP_COMP)"
PLENTY, NONE = 487600, 80000  # kB free, beside a watermark of 90112 kB
SMALL, LARGE = "121892*4kB (UE) 1*32kB (U) 0*64kB", "100000*4kB (UME) 2737*32kB (U) 1*64kB (U)"
PAGES = "121898*4kB (UE) 1*8kB (U) 0*16kB"
RESERVED = "121876*4kB (UE) 0*32kB 1*64kB (H)"


@pytest.mark.parametrize(
    ("order", "mode", "free", "blocks", "rule", "confidence"),
    [
        (4, KERNEL, PLENTY, SMALL, "THP-061", "likely"),
        (9, KERNEL, PLENTY, LARGE, "THP-061", "likely"),
        (4, KERNEL, PLENTY, RESERVED, "THP-061", "likely"),
        (3, KERNEL, PLENTY, SMALL, "", ""),
        (4, ATOMIC, PLENTY, SMALL, "THP-065", "possible"),
        (4, KERNEL, NONE, SMALL, "ALT-30", "likely"),
        (4, ATOMIC, NONE, SMALL, "ALT-31", "likely"),
        (0, ATOMIC, NONE, SMALL, "ALT-31", "likely"),
        (2, ATOMIC, PLENTY, PAGES, "THP-065", "possible"),
        (2, ATOMIC, PLENTY, LARGE, "", ""),
        (2, ATOMIC, NONE, PAGES, "ALT-31", "likely"),
        (2, KERNEL, PLENTY, PAGES, "", ""),
        (9, "0x4020", PLENTY, SMALL, "THP-065", "possible"),
        (9, "0x40d0", PLENTY, SMALL, "THP-061", "likely"),
        (9, "0x24040c0", PLENTY, SMALL, "THP-061", "likely"),
        (5, "0x2204020", PLENTY, SMALL, "THP-065", "possible"),
    ],
)
@pytest.mark.parametrize("strange", ["", "usb 1-1: new high-speed USB device", "Node 0 Normal: 3*4kB = 9kB"])
def test_what_was_missing_decides_the_rule(
    order: int, mode: str, free: int, blocks: str, rule: str, confidence: str, strange: str
) -> None:
    """Memory in pieces, too little memory, a reserve that is used up; by the list of zones, whatever stands in it."""
    total = sum(int(n) * int(size) for n, size in re.findall(r"(\d+)\*(\d+)kB", blocks))
    lines = [
        f"app: page allocation failure: order:{order}, mode:{mode}",
        *frames("dump_stack", "warn_alloc", "__alloc_pages_slowpath", "drv_open", old=False),
        "Mem-Info:",
        "Node 0 DMA free:15904kB min:12kB low:24kB high:36kB",
        "lowmem_reserve[]: 0 2660 15392 15392",
        *([strange] if strange else []),
        f"Node 0 Normal free:{free}kB min:90112kB low:112640kB high:135168kB",
        "lowmem_reserve[]: 0 0 0 0",
        f"Node 0 Normal: {blocks} = {total}kB",
    ]
    result = document("".join(f"[ 1055.{n:06d}] {line}\n" for n, line in enumerate(lines)).encode())
    assert {f["rule"]: f["confidence"] for f in result["findings"] if f["role"] != "contributing"} == (
        {rule: confidence} if rule else {}
    )
