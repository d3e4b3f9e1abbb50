"""What `toggle` compares before and after a setting was switched: name for people, unit, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OTHER_SETTING = "recording.other_setting"  # what a comparison lacks, as the vocabulary names it
ToggleMetric = Literal["sys_share", "sys_total", "compaction_share", "compact_stall_rate", "work_rate", "fault_rate"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One of them. `names` are those of the vocabulary that it is made of (or `profile`), to ask for.

    Of less than `worth` before the switch nobody was hurt, however much less it is after it. `whole` is what one number
    says of a whole state: a recording of call stacks, a run of a job; a single one is enough.
    """

    title: str
    unit: str
    names: tuple[str, ...]
    worth: float = 0.0
    whole: bool = False


COMPARED: Mapping[ToggleMetric, Compared] = {
    "sys_share": Compared(
        "kernel share of busy CPU time", "ratio", ("cpu_ratio.sys_total", "cpu_ratio.user_total"), worth=0.15
    ),
    "sys_total": Compared(
        "CPU time in the kernel", "ratio", ("cpu_ratio.sys_total", "cpu_ratio.user_total"), worth=0.1
    ),
    "compaction_share": Compared(
        "samples in compaction that may be for page faults", "ratio", ("profile",), worth=0.03, whole=True
    ),
    "compact_stall_rate": Compared("compaction stalls", "1/s", ("node_vmstat_compact_stall",), worth=2.0),
    "work_rate": Compared("time for the same work", "seconds", ("work.seconds",), whole=True),
    "fault_rate": Compared("huge-page faults", "1/s", ("node_vmstat_thp_fault_alloc",)),
}
USUAL: tuple[ToggleMetric, ...] = ("sys_share", "sys_total", "compaction_share", "compact_stall_rate", "work_rate")
