"""What applications say of themselves: Redis, Java, and recordings that another program reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analyze_bytes import STRICT, result_of, rules
from conftest import ROOT
from thpdiag.model import Fact, Problem, Sample
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import databases, java
from thpdiag.pipeline import analyze

READERS = ROOT / "fixtures" / "readers"


def test_latency_doctor_is_a_warning_of_redis() -> None:
    """Its advice about anonymous huge pages is the application's own word."""
    result = result_of(READERS / "app_notes" / "latency-doctor")
    assert "THP-080" in {finding["rule"] for finding in result["findings"]}


def test_two_infos_of_redis_tell_what_happened_between_them() -> None:
    """Counters of CPU time of one process, with the server's own time."""
    text = (
        "# Server\nredis_version:7.0.15\nprocess_id:7\nserver_time_usec:{}\n# CPU\nused_cpu_sys:{}\nused_cpu_user:1.5\n"
    )
    both = (text.format(1_795_803_854_000_000, 10.0) + text.format(1_795_803_864_000_000, 19.5)).splitlines()
    records = databases.REDIS_INFO.read(Source("info.txt"), list(enumerate(both, 1)))
    found = [record for record in records if isinstance(record, Sample)]
    assert [row.values["process_cpu_seconds_total.system"] for row in found] == [10.0, 19.5]
    assert [row.time.seconds for row in found if row.time] == [1_795_803_854.0, 1_795_803_864.0]
    assert {row.entity for row in found} == {(("pid", "7"), ("comm", "redis-server"))}


def test_options_of_java_with_their_origin() -> None:
    """Of JDK 8 a value that is not the default has `:=`."""
    lines = (READERS / "java_flags" / "jdk8" / "flags.txt").read_text().splitlines()
    found = {
        r.label("option"): (r.value, r.label("origin"))
        for r in java.FLAGS_PARSER.read(Source("flags.txt"), list(enumerate(lines, 1)))
        if isinstance(r, Fact)
    }
    assert found["UseTransparentHugePages"] == ("true", "command line")
    assert found["AlwaysPreTouch"] == ("false", "default")


def test_java_version_is_the_version_of_the_virtual_machine(tmp_path: Path) -> None:
    """With the number of its threads and the setting it decides whether stacks are at risk."""
    dump = "Full thread dump OpenJDK 64-Bit Server VM (11.0.20+8 mixed mode):\n\n"
    threads = "".join(
        f'"pool-{n}" #{n} prio=5 os_prio=0 tid=0x00007f8e9811{n:04x} nid=0x{n:x} waiting on condition\n'
        "   java.lang.Thread.State: WAITING (parking)\n\tat jdk.internal.misc.Unsafe.park(Native Method)\n\n"
        for n in range(1200)
    )
    setting = "$ cat /sys/kernel/mm/transparent_hugepage/enabled\n[always] madvise never\n"
    (tmp_path / "ticket.txt").write_text(setting + "$ jstack 4711\n" + dump + threads)
    result = analyze([tmp_path], rules(), STRICT)
    assert "THP-079" in {finding["rule"] for finding in result["findings"]}
    (tmp_path / "ticket.txt").write_text(
        setting
        + '$ java -version\nopenjdk version "17.0.15" 2025-04-15\n$ jstack 4711\n'
        + dump.replace("11.0.20+8", "17.0.15+6")
        + threads
    )
    result = analyze([tmp_path], rules(), STRICT)
    assert "THP-079" not in {finding["rule"] for finding in result["findings"]}


def recording(data: bytes = b"FLR\0" + bytes(64)) -> list[object]:
    return list(java.JFR_BULK_PARSER.read(Source("host/app.jfr"), Content(iter((data,)), len(data))))


def test_a_recording_that_nobody_here_can_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that makes text of it."""
    monkeypatch.setattr(java, "find_program", lambda _: None)
    (problem,) = recording()
    assert isinstance(problem, Problem)
    assert "jfr print --events jdk.JVMInformation" in problem.text
    (problem,) = recording(b"FL")
    assert isinstance(problem, Problem)


@pytest.mark.skipif(os.name != "posix", reason="runs a shell script")
def test_an_installed_jfr_reads_a_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What it prints is read as the text of the same events is; a failure asks for the text."""
    program = tmp_path / "jfr"
    program.write_text(f"#!/bin/sh\ncat {READERS / 'jfr' / 'text' / 'jfr.txt'}\n")
    program.chmod(0o755)
    monkeypatch.setattr(java, "find_program", lambda _: program)
    found = {r.name: r.value for r in recording() if isinstance(r, Fact)}
    assert found["app.version"] == "17.0.15"
    assert "-XX:+UseTransparentHugePages" in str(found["process.command"])
    program.write_text("#!/bin/sh\necho 'Not a Flight Recorder file' >&2\nexit 1\n")
    (problem,) = recording()
    assert isinstance(problem, Problem)
    assert "jfr print" in problem.text
