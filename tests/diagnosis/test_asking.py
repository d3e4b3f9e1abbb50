"""What the customer is asked for: useful, short, and only what can still change the answer."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.fixture_inputs import fixture_inputs
from contract.recorded_answers import recorded_documents

from analyze_bytes import STRICT, documents, result_of, rules
from conftest import ROOT
from thpdiag.diagnosis.missing_data import MAX_REQUESTS, request
from thpdiag.pipeline import analyze

INPUTS = fixture_inputs()
GROUPS = sorted({name.partition("/")[0] for name in INPUTS})


def _asked(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    document = result_of(ROOT / "fixtures" / name / "bundle")
    return document["verdict"], document["ask"]


def test_a_profile_and_the_counters_come_first() -> None:
    """Where nothing was recorded, call stacks, counters and CPU time decide most."""
    _, ask = _asked("stories/sudo-echo")
    assert "capture-script" in ask["text"]
    assert ask["commands"][:3] == [request("profile"), "cat /proc/vmstat, every 10 s", "vmstat -n 2 60"]


def test_what_is_missing_to_be_surer_is_asked_for_and_nothing_else() -> None:
    """A profile alone names the convoy; counters, CPU time and a switch would confirm it, /proc/buddyinfo would not."""
    _, ask = _asked("stories/hadoop-centos62-flat-only")
    assert {"cat /proc/vmstat, every 10 s", "vmstat -n 2 60"} <= set(ask["commands"])
    assert any("after the setting was switched" in c for c in ask["commands"])
    assert not any("buddyinfo" in c or "dmesg" in c for c in ask["commands"])


@pytest.mark.parametrize("name", ["stories/hadoop-centos62", "captures/alloc-churn", "captures/fork-exec"])
def test_what_is_confirmed_asks_for_nothing(name: str) -> None:
    """More data would only be work for the customer."""
    verdict, ask = _asked(name)
    assert (verdict["confidence"], ask["commands"]) == ("confirmed", [])
    assert "no further data" in ask["text"]


def test_a_host_without_huge_pages_is_not_asked_about_them() -> None:
    """Only what could be wrong besides is of use there."""
    _, ask = _asked("stories/uek-without-thp")
    assert ask["commands"]
    assert not any("hugepage" in c or "setting was switched" in c for c in ask["commands"])


def test_a_cause_that_is_not_about_huge_pages_needs_no_switch_of_them() -> None:
    """What takes packets from the network is not surer when huge pages were switched."""
    _, ask = _asked("stories/redis-shop-first-test")
    assert request("profile") in ask["commands"]
    assert not any("setting was switched" in c for c in ask["commands"])


def test_the_names_of_a_recording_that_is_there_come_before_a_new_one(tmp_path: Path) -> None:
    """The kernel's functions in it have none; with them nobody asks for names."""
    recording = ROOT / "fixtures/recordings/fault-compaction"
    shutil.copy(recording / "perf.data", tmp_path / "hurts.data")
    document = analyze([tmp_path], rules(), STRICT)
    first, second, *_ = document["ask"]["commands"]
    assert first.startswith("sudo cat /proc/kallsyms > kallsyms-$(uname -r) (on the host of hurts.data")
    assert second == request("profile")
    assert [(i["reader"], i["records"]) for i in document["inputs"]] == [("perf_data", 107)]

    shutil.copy(recording / "kallsyms", tmp_path)
    document = analyze([tmp_path], rules(), STRICT)
    assert not any("kallsyms" in command for command in document["ask"]["commands"])


def test_a_name_of_a_file_is_no_command(tmp_path: Path) -> None:
    """What the customer is asked to type as root has the name of a recording in quotes."""
    shutil.copy(ROOT / "fixtures/recordings/fault-compaction/perf.data", tmp_path / "a;reboot;b.data")
    document = analyze([tmp_path], rules(), STRICT)
    assert "perf script --no-inline -i 'a;reboot;b.data' > perf.script" in document["ask"]["commands"][0]


@pytest.mark.parametrize("name", ["healthy/sosreport-debian12", "stories/uek-without-thp", "stories/sudo-echo"])
def test_who_has_no_suspicion_is_asked_to_switch_nothing(name: str) -> None:
    """Which setting it would be nobody could say."""
    _, ask = _asked(name)
    assert ask["commands"]
    assert not any("switched" in command for command in ask["commands"])


def test_a_host_without_huge_pages_is_not_said_to_be_perhaps_hurt_by_them() -> None:
    """They are off where an application wants them: what is open is whether that hurts."""
    verdict, _ = _asked("acceptance/mongodb-8-with-never")
    assert verdict["sentence"].endswith(". There is not enough data to show whether this affects the host.")


# What a command would bring, as a pattern over members that a reader took; above all what only the script records.
IN_THE_BUNDLE = {
    "cat /proc/meminfo": r"(?:.*/)?proc/meminfo",
    "cat /proc/buddyinfo": r"(?:.*/)?proc/buddyinfo",
    "cat /proc/uptime": r"(?:.*/)?proc/uptime",
    "uname -a": r"uname(?:\.txt)?|.*/sos_commands/kernel/uname_-a",
    "ps auxwww": r".*/sos_commands/process/ps_auxwww",
    "dmesg": r".*/sos_commands/kernel/dmesg",
    "sysctl -a": r".*/sos_commands/kernel/sysctl_-a",
}
RECORDED = {
    request("profile"): r"perf-script\.txt",
    "cat /proc/vmstat, every 10 s": r"loops/counters\.txt",
    "cat /proc/buddyinfo, every 10 s": r"loops/counters\.txt",
    "cat /proc/meminfo, every 10 s": r"loops/counters\.txt",
    "cat /proc/PID/status, every 10 s": r"loops/smaps\.txt",
    "cat /proc/PID/stat, every 10 s": r"loops/smaps\.txt",
    "vmstat -n 2 60": r"vmstat\.txt",
    "mpstat 2 60": r"mpstat\.txt",
    "dmesg": r"dmesg\.txt",
    "ps auxwww": r"ps\.txt",
    "grep -r . /sys/kernel/mm/*transparent_hugepage/": r"settings\.txt",
    "cat /proc/cmdline; tuned-adm active; grep -r . /sys/kernel/mm/*transparent_hugepage/": r"startup\.txt",
}

EXCERPTS = {  # a few lines of it are in the bundle, or it is damaged
    ("acceptance/greenplum-centos62", "cat /proc/meminfo"), ("readers/buddyinfo/cut", "cat /proc/buddyinfo"),
    ("readers/proc_meminfo/broken-values", "cat /proc/meminfo"),
}  # fmt: skip


def _asked_in_vain(document: dict[str, Any]) -> Iterator[str]:
    members = [item["member"] for item in document["inputs"] if item["reader"]]
    logs = [item["member"] for item in document["inputs"] if item["member"].endswith("capture.log")]
    own = [log.removesuffix("capture.log") for log in logs]
    inside = [member.removeprefix(folder) for folder in own for member in members if member.startswith(folder)]
    asked = [("the host", command) for command in document["ask"]["commands"]]
    asked += [(one["rule"], command) for one in document["unknown"] for command in one["ask_for"]]
    asked += [(f["rule"], c) for f in document["findings"] for step in f["raises"] for c in step["ask_for"]]
    for who, command in asked:
        for known, files in ((IN_THE_BUNDLE, members), (RECORDED, inside)):
            pattern = known.get(command)
            if pattern and any(re.fullmatch(pattern, file) for file in files):
                yield f"{command}, for {who}"


def test_what_is_asked_for_is_short_not_there_and_not_said_twice() -> None:
    """At most eight commands, none that another one contains; a single look is asked for over time, what the script
    recorded by another run of it, what is known not at all. And the table of what is in a bundle names such commands.
    """
    ever: set[str] = set()
    for group in GROUPS:
        answers = {name: values for name, values, _ in recorded_documents(f"analyze.{group}")}
        assert set(answers) >= {name for name in INPUTS if name.startswith(f"{group}/") or name == group}
        for name, values in answers.items():
            for document in documents(values):
                vain = [one for one in _asked_in_vain(document) if (name, one.partition(",")[0]) not in EXCERPTS]
                assert vain == [], name
                _check_form(name, document["ask"]["commands"])
                ever.update(command for one in document["unknown"] for command in one["ask_for"])
    assert set(RECORDED) | {"cat /proc/meminfo", "cat /proc/uptime"} <= ever


def _check_form(name: str, commands: list[str]) -> None:
    assert len(commands) <= MAX_REQUESTS, name
    bare = [command.partition(", every")[0] for command in commands]
    assert len(set(bare)) == len(bare), name
    assert not ("cat /proc/cmdline" in bare and any(c.startswith("cat /proc/cmdline;") for c in bare)), name
