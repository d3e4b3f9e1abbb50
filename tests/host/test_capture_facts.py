"""What a collector says of itself: "absent because sos gave up" is told apart from "absent"."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, rules
from parse_bytes import alone
from sosreports import GENERATIONS, ROOT_NAME, Report, folder, manifest
from thpdiag.diagnosis.remedies import host_view
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.knowledge.paths import collector_source, of_interest
from thpdiag.knowledge.paths import is_older as older
from thpdiag.knowledge.vocabulary import names, term
from thpdiag.model import Clock, Fact, Problem, Record
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import collectors as sos_log
from thpdiag.parsers import collectors as sos_manifest
from thpdiag.pipeline import analyze

STOPPED = {"timeout_hit": True, "timeout": 300, "commands": [], "files": []}
REPORT = GENERATIONS["4.0"]


def given(report: Report, at: Path) -> ParsedInput:
    return read_input([folder(report, at)], STRICT)


def said(report: Report, at: Path) -> dict[str, Any]:
    return analyze([folder(report, at)], rules(), STRICT)


def because(result: dict[str, Any]) -> set[str]:
    return {reason for unknown in result["unknown"] for reason in unknown.get("because", ())}


def with_manifest(report: Report, **plugins: object) -> Report:
    return report.but({"sos_reports/manifest.json": manifest(**plugins)})


def of_manifest(text: str) -> list[Record]:
    found = sos_manifest.parse_sos_manifest(Source("manifest.json"), Content(iter([text.encode()])))
    return [record for record in found if isinstance(record, Fact | Problem)]


def test_a_plugin_that_timed_out_is_the_reason(tmp_path: Path) -> None:
    """Rules that lack what it had not copied say so, and so does what is asked of the customer."""
    report = with_manifest(REPORT.without("proc/vmstat", "proc/meminfo", "sys/kernel"), memory=STOPPED)
    result = said(report, tmp_path)
    wanted = "/proc/vmstat is missing because sos timed out collecting it (plugin memory, after 300 s)."

    assert wanted in because(result)
    assert "because sos timed out collecting it (plugin memory, after 300 s)" in result["ask"]["text"]
    assert [p["kind"] for p in result["problems"] if "stopped waiting for its plugin memory" in p["text"]] == [
        "unreadable"
    ]


def test_what_was_copied_before_is_not_missing(tmp_path: Path) -> None:
    """The plugin was stopped, but this file is there."""
    result = said(with_manifest(REPORT, memory=STOPPED), tmp_path)

    assert not [reason for reason in because(result) if "/proc/vmstat" in reason]


def test_a_plugin_that_did_not_run_is_the_reason(tmp_path: Path) -> None:
    """`sos report -o date,host` brings no counters."""
    few = json.loads(manifest())
    few["components"]["report"]["plugins"] = {"date": {}, "host": {}}
    report = REPORT.without("proc/vmstat").but({"sos_reports/manifest.json": json.dumps(few)})

    assert "/proc/vmstat is missing because sos did not run its plugin memory." in because(said(report, tmp_path))


@pytest.mark.parametrize(("version", "told"), [("3.2", True), ("3.9", True), ("4.0", True), ("4.10", False)])
def test_a_version_that_does_not_copy_it_is_the_reason(version: str, told: bool, tmp_path: Path) -> None:
    """The whole folder of settings is copied since 4.10, and `enabled` long before: it is not said to be missing."""
    reasons = because(said(GENERATIONS[version], tmp_path))

    assert any("sos 4.10 and later do" in reason for reason in reasons) is told
    assert not any(reason.startswith("/sys/kernel/mm/transparent_hugepage is missing") for reason in reasons)


def test_without_a_collector_nothing_is_excused(tmp_path: Path) -> None:
    """A folder of files says nothing of what is not in it."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 16266504 kB\nMemFree: 100 kB\n")

    assert because(analyze([tmp_path], rules(), STRICT)) == set()


def test_a_command_that_was_stopped_rules_nothing_out(tmp_path: Path) -> None:
    """Half a process list cannot say that a process does not run."""
    stopped = {**STOPPED, "timeout_hit": False, "commands": [
        {"exec": "ps auxwww", "filepath": "sos_commands/process/ps_auxwww", "return_code": 124, "run_time": 300.1},
    ]}  # fmt: skip
    whole, cut = said(REPORT, tmp_path / "whole"), said(with_manifest(REPORT, process=stopped), tmp_path / "cut")
    out, kept = ({r["id"] for r in one["rules"] if r["outcome"] == "silent"} for one in (whole, cut))
    problems = [p for p in cut["problems"] if "sos stopped `ps auxwww` after 300 s" in p["text"]]

    assert out - kept
    assert kept <= out
    assert [(p["member"], p["hides"]) for p in problems] == [(f"{ROOT_NAME}/sos_commands/process/ps_auxwww", True)]


def test_the_log_of_an_older_sos_says_it_too(tmp_path: Path) -> None:
    """Without a manifest; a plugin and a command, each once though two logs have it."""
    log = (
        "2018-11-20 09:46:58,101 DEBUG: set sysroot to '/' (default)\n"
        "2018-11-20 09:52:03,411 WARNING: [plugin:kernel] command 'sysctl -a' timed out after 300s\n"
        "2018-11-20 09:57:04,002 WARNING: [plugin:process] command 'lsof -b +M -n -l' timed out after 300s\n"
    )
    report = GENERATIONS["3.9"].without("sos_commands/kernel/sysctl_-a", "proc/meminfo").but(
        {"sos_logs/sos.log": log, "sos_logs/ui.log": "\n Plugin memory timed out\n"}
    )  # fmt: skip
    found = given(report, tmp_path)
    texts = sorted(p.text for p in found.problems)

    assert texts == [
        "sos stopped `sysctl -a` after 300 s; its output is missing",
        "sos stopped waiting for its plugin memory; the rest of its output is missing",
    ]
    assert not any(p.hides_data for p in found.problems)


def test_a_plugin_that_tells_nothing_of_memory_is_no_problem(tmp_path: Path) -> None:
    """`apt` timing out is nobody's concern here."""
    assert list(given(with_manifest(REPORT, apt=STOPPED), tmp_path).problems) == []


def test_the_times_of_a_capture(tmp_path: Path) -> None:
    """From the manifest and from `date`, on the clock each was read from, never from the files' own times."""
    found = given(REPORT, tmp_path)
    times = {
        (fact.label("what"), fact.label("clock"), fact.value)
        for readings in found.readings.values()
        for fact in (r.record for r in readings)
        if isinstance(fact, Fact) and fact.name == "capture.time"
    }
    local = 1795171623.0  # 20 November 2026, 10:47:03

    assert times == {
        ("begun", "local", local - 4.5), ("ended", "local", local + 264.0), ("date", "local", local),
        ("date", "utc", local - 3600),
    }  # fmt: skip


def test_the_manifest_tells_the_zone() -> None:
    """The begin of a plugin by the wall clock, that of its first command since 1970."""
    plugin = {"start_time": "2026-03-02 09:15:30.5", "commands": [{"exec": "ps", "start_time": 1772439330.75}]}
    found = [r for r in of_manifest(manifest(process=plugin)) if isinstance(r, Fact) and r.name == "host.utc_offset"]

    assert [fact.value for fact in found] == [3600]


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", "null", '"x"', "[" * 100_000, '{"version": 4, "components": []}', '{"start_time": "yesterday"}',
        '{"start_time": "2026-11-20T10:00:00+01:00"}', f'{{"start_time": {"9" * 5000}}}',
        '{"components": {"report": {"plugins": {"memory": null, "kernel": {"commands": [1, {"return_code": 124}]}}}}}',
        '{"components": {"report": {"plugins": {"m": {"start_time": "2026-11-20 10:00:00", '
        '"commands": [{"start_time": NaN}, {"start_time": true}, {"start_time": -1}]}}}}}',
    ],
    ids=range(11),
)  # fmt: skip
def test_an_odd_manifest_is_a_problem_at_most(text: str) -> None:
    """Whatever it holds, nothing is raised and nothing is made up."""
    assert all(
        isinstance(r, Problem) or r.name == "capture.plugins"
        for r in of_manifest(text)
        if isinstance(r, Fact | Problem)
    )


def test_lines_that_only_look_like_a_time_out() -> None:
    """A plugin's own message about something else that timed out."""
    lines = b"2026-11-20 09:46:58,101 INFO: [plugin:networking] command output 'ss: timed out'\nPlugin timed out\n"

    assert [r for r in alone(sos_log.SOS_LOG, lines) if isinstance(r, Fact) and r.name == "capture.timed_out"] == []


def test_a_capture_from_inside_a_container(tmp_path: Path) -> None:
    """The remedies are for its host, and the report says so."""
    inside = {"sos_commands/host/hostnamectl_status": "         Chassis: container\n  Virtualization: lxc\n"}
    found = given(REPORT.but(inside), tmp_path)
    (case,) = host_cases(found, STRICT)

    assert host_view(case, None).container == "lxc"
    assert [note.text for note in case.notes if "made inside a container" in note.text]


def test_a_virtual_machine_is_no_container(tmp_path: Path) -> None:
    """systemd names both in the same row."""
    inside = {"sos_commands/host/hostnamectl_status": "         Chassis: vm\n  Virtualization: kvm\n"}
    (case,) = host_cases(given(REPORT.but(inside), tmp_path), STRICT)

    assert host_view(case, None).container == ""
    assert [fact.value for fact in case.facts if fact.name == "host.hypervisor"] == ["kvm"]


def test_what_sos_copies_stands_for_names_that_exist() -> None:
    """Each row of collectors.yaml is for some name of the vocabulary, and its paths are read."""
    known = {row for name in [*names(), "node_vmstat_pgfault", "node_memory_MemFree_bytes", "sysctl.vm.swappiness",
                              "node_buddyinfo_blocks_order9", "node_zoneinfo_free", "node_pagetypeinfo_blocks_Movable",
                              "node_pressure_memory_some_avg10"] if (row := collector_source(name))}  # fmt: skip

    assert len(known) == 17
    assert all(term("thp.enabled") and row.plugins and row.what for row in known)


@pytest.mark.parametrize(
    ("version", "than", "is_older"),
    [("3.2", "3.3", True), ("4.0", "4.10", True), ("4.10.0", "4.10", False), ("4.2", "4.2", False), ("", "3.3", False)],
)
def test_versions_are_compared_by_their_numbers(version: str, than: str, is_older: bool) -> None:
    """4.10 came after 4.9."""
    assert older(version, than) is is_older


def test_commands_of_interest() -> None:
    """A plugin may hold one and many that are not."""
    assert of_interest("process", "ps auxwww")
    assert not of_interest("process", "lsof -b")
    assert not of_interest("apt")


def test_local_times_have_no_zone() -> None:
    """A manifest's times are of the host's wall clock."""
    found = [r for r in of_manifest(manifest()) if isinstance(r, Fact) and r.time]

    assert {fact.time.clock for fact in found if fact.time} == {Clock.LOCAL}
    assert re.match(r"sos \d", str(next(r for r in of_manifest(manifest()) if isinstance(r, Fact)).value))
