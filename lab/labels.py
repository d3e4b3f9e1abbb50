"""Labels of the lab's recordings, from what the kernel itself said: its trace, and its counters at both ends.

    python lab/labels.py build/lab/set          writes label.json beside each bundle

Nothing of the bundle and nothing of thpdiag is read. A recording folder holds `trace.gz` (tracefs: compaction,
khugepaged, reclaim), `lost` (events that did not fit) and `begin` and `end` (/proc/vmstat, CPU times, memory of the
load).
The rule is the table in docs/how-to/kernel-lab.md.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

PHASES = ("before", "during", "after")
TICKS = 100  # a second
_EVENT = re.compile(r" *(?P<comm>.{1,16})-(?P<task>\d+) +\[\d+\] \S+ +(?P<time>\d+\.\d+): (?P<event>\w+): (?P<rest>.*)")
_ORDER = re.compile(r"order=(\d+)")
_HUGE_ORDER = 9
_DAEMONS = ("kcompactd", "khugepaged", "kswapd")


def trace_measures(lines: list[str]) -> dict[str, float]:
    """Seconds in compaction and reclaim by kind, and bytes that khugepaged added."""
    spent: dict[str, float] = defaultdict(float)
    begun: dict[tuple[str, str], float] = {}
    requests: dict[str, str] = {}  # what a task allocates, since an allocation asked for compaction
    reclaims: dict[str, str] = {}
    scanned: dict[str, int] = {}
    for line in lines:
        if not (found := _EVENT.match(line)):
            continue
        comm, task, event, rest = found["comm"], found["task"], found["event"], found["rest"]
        time = float(found["time"])
        if event == "mm_compaction_try_to_compact_pages":
            requests[task] = _purpose(rest)
        elif event.endswith("_begin"):
            begun[task, event[:-6]] = time
            if event == "mm_vmscan_direct_reclaim_begin":
                reclaims[task] = _purpose(rest)
        elif event.endswith("_end") and (task, event[:-4]) in begun:
            purpose = reclaims.get(task, "single") if "direct" in event else requests.get(task)
            spent[_kind(event[:-4], comm, purpose)] += time - begun.pop((task, event[:-4]))
        elif event == "mm_khugepaged_scan_pmd" and "status=succeeded" in rest:
            scanned[task] = int(re.search(r"none_or_zero=(\d+)", rest)[1])  # type: ignore[index]
        elif event == "mm_collapse_huge_page":
            spent["khugepaged_added_mib"] += scanned.pop(task, 0) / 256 if "status=succeeded" in rest else 0
    return dict(spent)


def _purpose(request: str) -> str:
    """What a block of pages is for: page faults for huge pages of all sizes have flags that no other request has."""
    order = int(_ORDER.search(request)[1])  # type: ignore[index]
    if order == 0:
        return "single"
    if "GFP_TRANSHUGE" not in request:
        return "other"  # read-ahead of files into large folios, slabs, network buffers
    return "huge" if order == _HUGE_ORDER else "middle"


def _kind(span: str, comm: str, purpose: str | None) -> str:
    if comm.startswith(_DAEMONS):
        return "daemon"
    what = "compaction" if "compaction" in span else "group_reclaim" if "memcg" in span else "reclaim"
    return "operator_compaction" if purpose is None else f"{what}_{purpose}"


def witness(text: str) -> dict[str, float]:
    """Counters at one end of a recording; those of the load's processes are added up."""
    values: Counter[str] = Counter()
    for line in text.splitlines():
        head, *fields = line.split()
        if head in ("time", "processes"):
            values[head] = float(fields[0])  # type: ignore[assignment]
        elif head == "cpu":
            values["cpu"] = sum(int(field) for field in fields[:8])
            values["system"], values["iowait"] = int(fields[2]), int(fields[4])
        elif head == "load":
            values[f"load_{fields[1].rstrip(':')}"] += int(fields[2])
        elif head in ("vmstat", "thread", "group"):
            values[f"{head}_{fields[0]}"] = int(fields[1])
    return dict(values)


def share(part: float, rest: float) -> float:
    """Of both together; 0 of nothing."""
    return part / (part + rest) if part + rest else 0


def measures(folder: Path) -> dict[str, float]:
    """What a recording's trace and counters say, a second where it is no state."""
    begin, end = (witness((folder / name).read_text("utf-8")) for name in ("begin", "end"))
    with gzip.open(folder / "trace.gz", "rt", errors="replace") as file:
        trace = trace_measures(file.readlines())
    seconds = end["time"] - begin["time"]

    def rate(name: str) -> float:
        return (end.get(name, 0) - begin.get(name, 0)) / seconds

    found = {f"{name}_ms_per_s": 1000 * value / seconds for name, value in trace.items() if not name.endswith("mib")}
    found |= {
        "seconds": seconds,
        "khugepaged_added_mib": trace.get("khugepaged_added_mib", 0),
        "kcompactd_cpu": rate("thread_kcompactd0") / TICKS,
        "khugepaged_cpu": rate("thread_khugepaged") / TICKS,
        "kswapd_cpu": rate("thread_kswapd0") / TICKS,
        "huge_fault_mib_per_s": 2 * rate("vmstat_thp_fault_alloc"),
        "huge_share_of_faults": share(2 * rate("vmstat_thp_fault_alloc"), rate("vmstat_pgfault") / 256),
        "system": share(rate("system"), rate("cpu") - rate("system")),
        "splits_per_s": rate("vmstat_thp_split_page"),
        "mapping_splits_per_s": rate("vmstat_thp_split_pmd"),
        "forks_per_s": rate("processes"),
        "swapped_per_s": rate("vmstat_pswpin") + rate("vmstat_pswpout"),
        "iowait": share(rate("iowait"), rate("cpu") - rate("iowait")),
        "load_mib": end.get("load_Rss", 0) / 1024,
        "load_huge_mib": end.get("load_AnonHugePages", 0) / 1024,
        "load_grew_mib": (end.get("load_Rss", 0) - begin.get("load_Rss", 0)) / 1024,
        "group_limit_per_s": rate("group_max"),
    }
    lost = (folder / "lost").read_text("utf-8")
    found["events_lost"] = sum(int(number) for number in re.findall(r"(?:dropped events|overrun): (\d+)", lost))
    return {name: round(value, 2) for name, value in sorted(found.items())}


def labels(m: dict[str, float]) -> list[str]:
    """Everything that the kernel says was strong in one recording, by the table above."""

    def over(name: str, least: float) -> bool:
        return m.get(name, 0) >= least

    swapping = over("swapped_per_s", 500)
    rules = {
        "fault-compaction": over("compaction_huge_ms_per_s", 50),
        "mthp": over("compaction_middle_ms_per_s", 50),
        "background-compaction": over("kcompactd_cpu", 0.2),
        "operator-compaction": over("operator_compaction_ms_per_s", 50),
        "khugepaged-bloat": over("khugepaged_added_mib", max(64, m["load_mib"] / 4))
        and over("load_grew_mib", m["khugepaged_added_mib"] / 2),
        "khugepaged-cpu": over("khugepaged_cpu", 0.2),
        "huge-page-zeroing": over("huge_fault_mib_per_s", 100)
        and over("huge_share_of_faults", 0.8)
        and over("system", 0.5),
        "split-storm": over("splits_per_s", 20) and not swapping,
        "fork-cow": over("mapping_splits_per_s", 2) and over("forks_per_s", 0.2) and not over("splits_per_s", 20),
        "cgroup-bloat": over("group_limit_per_s", 0.1) and over("load_huge_mib", max(1, m["load_mib"] / 2)),
        "thp-direct-reclaim": over("reclaim_huge_ms_per_s", 50),
        "memory-pressure": over("reclaim_single_ms_per_s", 50) or over("kswapd_cpu", 0.2),
        "swap-storm": swapping,
        "huge-page-swap": swapping and over("splits_per_s", 10),
        "io-wait": over("iowait", 0.3),
        "memory-leak": over("load_grew_mib", 48)
        and not over("huge_fault_mib_per_s", 1)
        and not over("load_huge_mib", 8),
    }
    return [name for name, said in rules.items() if said]


def is_first_touch(during: dict[str, float], cured: dict[str, float]) -> bool:
    """Whether the load has that much more memory than under the cure, in huge pages that faults gave."""
    more = during["load_mib"] - cured["load_mib"]
    huge = during["load_huge_mib"] >= 0.75 * during["load_mib"]
    return (
        more >= 64
        and during["load_mib"] >= 3 * cured["load_mib"]
        and huge
        and during["khugepaged_added_mib"] < more / 4
    )


def label_case(folder: Path) -> None:
    """Writes label.json into each phase of one case."""
    found = {phase: measures(folder / phase) for phase in PHASES if (folder / phase / "end").exists()}
    for phase, measured in found.items():
        said = labels(measured)
        if phase == "during" and "after" in found and is_first_touch(measured, found["after"]):
            said = [name for name in said if name != "memory-leak"] + ["first-touch-bloat"]
        text = json.dumps({"labels": said, "measures": measured}, indent=1)
        (folder / phase / "label.json").write_text(text + "\n", "utf-8")


def main() -> None:
    """Labels a whole set."""
    for folder in sorted({path.parent.parent for path in Path(sys.argv[1]).glob("*/*/*/end")}):
        label_case(folder)


if __name__ == "__main__":
    main()
