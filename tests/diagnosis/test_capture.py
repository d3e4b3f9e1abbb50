"""The capture script: what it is made of, that every shell can run it, and that it leaves the files it promises."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from thpdiag.diagnosis import capture
from thpdiag.engine.load import rule_set
from thpdiag.errors import UsageError
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.knowledge import vocabulary
from thpdiag.parsers import SOURCES_FILE
from thpdiag.parsers._kernel_events import PURPOSES
from thpdiag.parsers.host.process_groups import PROC_CGROUP

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"], "sh": ["sh"]}
ALWAYS = ["host", "settings"]

# What no script can look up: it is said, typed or shown by somebody, or printed by one program only.
NOT_RECORDED = {
    "app.version",
    "app.stance",
    "package.version",
    "app.thp_warning",
    "claim.repeated",
    "mongodb.stalled_operations",
    "allocator.option",  # what programs say of themselves
    "allocator.resident_bytes",
    "allocator.unused_ratio",
    "java.memory",
    "java.option",
    "java.page_size",
    "java.threads",
    "java.uncommitted_ratio",
    "note.counter_rising",
    "jvm_gc_pause_seconds_total",
    "jvm_gc_system_seconds_total",
    "jvm_gc_user_seconds_total",
    "setting_label",
    "work.seconds",
    "work.latency",
    "work.rate",
    "operator_change",
    "recording.other_setting",
    "collectl_map_bytes",
    "setting_written",
    "operator_compaction",
    "operator_drop_caches",
    "capture.tool",  # what other recorders and collectors say of themselves
    "capture.time",
    "capture.plugins",
    "capture.timed_out",
    "capture.left_out",
    "capture.not_found",
    "capture.tail",
    "recorder.options",
    "sysstat.version",
    *(  # tracing costs the host something: asked for by hand
        f"node_{kind}_seconds_total.{purpose}" for kind, purposes in PURPOSES.items() for purpose in purposes
    ),
    *(f"{kind}.spread" for kind in PURPOSES),
    *(rf"node_{kind}_seconds_total\.\w+:rate" for kind in PURPOSES),
    "compaction.longest",
    "node_extfrag_events_total",
    "lock.wait_seconds",  # so do these, or they need a processor's counters
    "lock.wait_ratio",
    "sched.delay_mean",
    "guest.balloon_bytes",
    "guest.cpu_ready_ratio",
    "guest.swapped_bytes",
    "kvm.memory_exit_ratio",
    "postgres.running_backends",
    "c2c.hitm_ratio",
    "tlb.walks_per_instruction",
    "tlb.walk_cycles_ratio",
    "tlb.slow_load_ratio",
    "syscall.memory_ratio",  # strace slows a program down
    "uptime.at_least",  # derived, where the uptime is not there
    "dmesg.last_seconds",
}


def names_of_the_vocabulary() -> list[str]:
    return list(vocabulary.names())


def shell(name: str) -> list[str]:
    command = SHELLS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{name} is not installed")
    return command


def sections_in(text: str) -> list[str]:
    found = re.search(r"^# Sections: (.*)$", text, re.MULTILINE)
    assert found is not None
    return found[1].split()


@pytest.mark.parametrize("name", SHELLS)
def test_every_shell_parses_it(name: str, tmp_path: Path) -> None:
    """The whole script and the smallest one have no syntax error in any shell of this machine."""
    for number, text in enumerate([capture.script(), capture.script([])]):
        path = tmp_path / f"{number}.sh"
        path.write_text(text, "ascii")
        done = subprocess.run([*shell(name), "-n", str(path)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("needs", [None, *([section.supplies[0]] for section in capture.sections())], ids=str)
def test_shellcheck_finds_no_bashism(needs: list[str] | None, tmp_path: Path) -> None:
    """shellcheck for plain sh has nothing to say about the whole script, nor about one with a single section more."""
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    path = tmp_path / "capture.sh"
    path.write_text(capture.script(needs), "ascii")
    command = [
        "shellcheck",
        "-s",
        "sh",
        "-e",
        "SC2034,SC2317,SC2329",
        str(path),
    ]  # functions that this choice does not use
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_no_needs_is_everything() -> None:
    """Without a list of needs every section is in the script, in the order of sections.yaml."""
    assert sections_in(capture.script()) == [section.name for section in capture.sections()]


@pytest.mark.parametrize(
    ("need", "sections"),
    [
        ("profile", ["perf", "stacks"]),
        ("task_stack", ["stacks"]),
        ("kernel_log", ["kernel_log"]),
        ("soft_lockup", ["kernel_log"]),
        ("tuned.profile", ["startup"]),
        ("thp.defrag", []),
        ("node_vmstat_compact_stall", ["zones", "counters"]),
        (r"node_vmstat_\w+", ["zones", "counters"]),
        ("node_vmstat_thp_fault_alloc:rate", ["zones", "counters"]),
        ("cpu_ratio.softirq", ["counters", "cpu"]),
        ("process_anon_huge_bytes", ["processes"]),
        ("interrupts", ["interrupts"]),
        ("work.seconds", []),
    ],
)
def test_needs_choose_the_sections(need: str, sections: list[str]) -> None:
    """A need brings the sections that supply it, on top of host and settings, which every diagnosis wants."""
    assert sections_in(capture.script([need])) == [*ALWAYS, *sections]


def test_a_need_that_cannot_be_recorded_is_named() -> None:
    """What no section supplies is said in the head of the script, as one comment line whatever the name is."""
    text = capture.script(["work.seconds", "x\nrm -rf /"])
    assert "\n# It cannot record: work.seconds, x?rm -rf /\n" in text


def test_supplied_names_are_in_the_vocabulary() -> None:
    """Each name or glob that a section claims to supply fits a name of the vocabulary or is one of the words."""
    known = [*names_of_the_vocabulary(), *capture.words()]
    stale = [
        (section.name, claim)
        for section in capture.sections()
        for claim in section.supplies
        if not any(fnmatchcase(name.replace("\\.", "."), claim) for name in known)
    ]
    assert stale == []


def test_the_vocabulary_can_be_recorded() -> None:
    """Every name of the vocabulary and every word comes from some section, but for those that no script can look up."""
    _, missing = capture.choose_sections([*names_of_the_vocabulary(), *capture.words()])
    assert {name for name in missing if not name.startswith("testimony.")} == NOT_RECORDED


def test_each_fragment_belongs_to_one_section() -> None:
    """The folder holds the frame and one fragment per section, each with at least one hook that the script calls."""
    names = [section.name for section in capture.sections()]
    assert sorted(path.stem for path in (capture.FOLDER / "sh").iterdir()) == sorted([*names, "head", "tail"])
    for section in capture.sections():
        assert re.search(rf"^{section.name}_(start|round|finish)\(\) {{$", section.fragment, re.MULTILINE), section.name


def test_defaults_are_filled_in() -> None:
    """The defaults of the options stand in the text, and no placeholder is left."""
    text = capture.script(seconds=33, interval=7, pid="12, 34")
    assert "\nseconds=33\ninterval=7\npids='12 34'\n" in text
    assert re.search(r"@[A-Z]+@", text) is None


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0}, {"interval": -1}, {"seconds": 10**9}, {"pid": "12; reboot"}, {"pid": "x"}, {"pid": "1'2"}]
)
def test_defaults_that_make_no_sense(wrong: dict[str, int | str]) -> None:
    """A time or a process number that would not work, or would be more than a number, is a usage error."""
    with pytest.raises(UsageError):
        capture.script(**wrong)  # type: ignore[arg-type]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The whole script but for perf, which not every machine has or allows."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc on this machine")
    path = tmp_path / "capture.sh"
    everything = [*names_of_the_vocabulary(), *capture.words()]
    path.write_text(capture.script([need for need in everything if need != "profile"]), "ascii")
    return path


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("name", SHELLS)
def test_a_dry_run_prints_the_plan_and_writes_nothing(name: str, script: Path, tmp_path: Path) -> None:
    """-n says how long, where and what, and leaves the folder as it was."""
    folder = tmp_path / "empty"
    folder.mkdir()
    done = run([*shell(name), str(script), "-n", "-d", "77", "-i", "11", "-p", "1", "-p", "2"], folder)
    assert done.returncode == 0
    assert "for 77 s" in done.stdout
    assert "every 11 s" in done.stdout
    assert "Processes watched:  1 2" in done.stdout
    assert re.search(r"thp-capture-\S+\.tar\.gz", done.stdout)
    assert all(
        f"\n  {section.name.replace('_', ' ')} " in done.stdout
        for section in capture.sections()
        if section.name != "perf"
    )
    assert max(map(len, re.findall(r"^  [a-z].*", done.stdout, re.MULTILINE))) < 80
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["-d", "x"], ["-d", "0"], ["-i", "1.5"], ["-p", "$(id)"], ["-q"], ["stray"]], ids=str
)
def test_wrong_arguments_are_refused(arguments: list[str], script: Path, tmp_path: Path) -> None:
    """An option without sense ends with 2 and a message before anything is written."""
    done = run([*shell("sh"), str(script), *arguments], tmp_path)
    assert done.returncode == 2
    assert "thp-capture: " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["capture.sh"]


def test_a_folder_that_cannot_be_written(script: Path, tmp_path: Path) -> None:
    """-o with a folder that does not exist ends with 2 and says so."""
    done = run([*shell("sh"), str(script), "-d", "1", "-o", str(tmp_path / "missing")], tmp_path)
    assert done.returncode == 2
    assert "cannot write to" in done.stderr


PROMISED = [
    "capture.log",
    "host.txt",
    "settings.txt",
    "startup.txt",
    "loops/counters.txt",
    "loops/processes.txt",
    "loops/interrupts.txt",
    "ps.txt",
    "process-groups.txt",
    "proc/cmdline",
    "proc/meminfo",
    "proc/uptime",
    "proc/version",
    "proc/vmstat",
]


@pytest.mark.parametrize("name", ["dash", "bash", "busybox"])
def test_a_short_run_leaves_the_promised_files(name: str, script: Path, tmp_path: Path) -> None:
    """One second gives the folder and a tarball with the same files, and two rounds in each loop."""
    done = run([*shell(name), str(script), "-d", "1", "-i", "1", "-p", str(os.getpid()), "-o", str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert re.fullmatch(r"thp-capture-[\w.-]*-\d{8}-\d{6}", folder.name)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert [path for path in PROMISED if path not in files] == []
    assert [path for path in files if path.startswith(".")] == []
    with tarfile.open(f"{folder}.tar.gz") as packed:
        inside = {member.name.removeprefix(f"{folder.name}/") for member in packed if member.isfile()}
    assert inside == files
    shown = {section.name for section in capture.sections() if section.is_in(files)}
    assert shown >= {"host", "settings", "startup", "counters", "groups", "processes", "tasks", "interrupts"}
    assert "perf" not in shown
    counters = (folder / "loops/counters.txt").read_text("utf-8")
    assert len(re.findall(r"^\d{10}$", counters, re.MULTILINE)) == 2
    assert len(re.findall(r"^nr_free_pages \d+$", counters, re.MULTILINE)) == 2
    assert len(re.findall(r"^cpu  \d", counters, re.MULTILINE)) == 2
    processes = (folder / "loops/processes.txt").read_text("utf-8")
    assert len(re.findall(rf"^{os.getpid()} \(", processes, re.MULTILINE)) == 2
    assert len(re.findall(rf"^Pid:\t{os.getpid()}$", processes, re.MULTILINE)) == 2
    groups = (folder / "process-groups.txt").read_text("utf-8").splitlines()
    assert not [line for line in groups if not PROC_CGROUP.opens.match(line) or line.endswith(":/")]


UNREAD = {  # what the script leaves and no rule asks for
    "capture.log": "when the script began and ended, and what it left out",
    "startup.txt": "read where a start-up file sets huge pages, and a list of units where none does",
    "sys/kernel/mm/ksm/*": "settings of merging; the kernel's counts of merged pages beside them are read",
}


def test_every_file_of_a_run_has_a_parser(script: Path, tmp_path: Path) -> None:
    """What the customer sends is read: no section records what nobody looks at."""
    done = run(["sh", str(script), "-d", "1", "-i", "1", "-o", str(tmp_path)], tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    given = read_input([folder], Options())
    written = (file for file in folder.rglob("*") if file.is_file() and file.read_bytes())
    members = {file.relative_to(folder).as_posix() for file in written}
    unread = sorted(members - {row.member for row in given.inputs if row.reader})
    assert [member for member in unread if not any(fnmatchcase(member, known) for known in UNREAD)] == []


@pytest.mark.parametrize("section", capture.sections(), ids=lambda section: section.name)
def test_each_section_serves_a_rule(section: capture.Section) -> None:
    """Of what it supplies a parser gives something, and checks of rules ask for something."""
    asked = {name for rule in rule_set() for check in rule.checks.values() for name in check.needs}
    assert any(map(section.gives, asked))
    if not any(map(section.gives, capture.words())):  # which stand for a whole format
        assert any(map(section.gives, given_names()))


def given_names() -> set[str]:
    """The names of the vocabulary that some parser gives."""
    return set(json.loads(SOURCES_FILE.read_text("utf-8")))


def with_df(folder: Path, *answers: str) -> dict[str, str]:
    """An environment in which df gives these answers one after the other, the last one again and again."""
    for number, answer in enumerate(answers):
        (folder / f"answer{number}").write_text(answer)
    (folder / "df").write_text(
        f"""#!/bin/sh
        n=$(cat {folder}/n 2>/dev/null || echo 0)
        cat {folder}/answer"$n"
        [ "$n" -ge {len(answers) - 1} ] || echo $((n + 1)) >{folder}/n
        """
    )
    (folder / "df").chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


def kilobytes_free(count: int) -> str:
    return f"Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda1 9 9 {count} 9% /\n"


@pytest.mark.parametrize(
    ("answers", "code", "said", "packed"),
    [
        ([kilobytes_free(49_000)], 2, "less than 50000 kB are free", 0),
        ([kilobytes_free(10**9), kilobytes_free(19_000)], 0, "it ended early, since the disk is nearly full", 1),
        (["df: no such thing\n"], 0, "", 1),
    ],
    ids=["full at the beginning", "full meanwhile", "df does not tell"],
)
def test_a_disk_is_not_filled(
    answers: list[str], code: int, said: str, packed: int, script: Path, tmp_path: Path
) -> None:
    """A customer's host that is slow must not stop for a full disk as well."""
    tools, target = tmp_path / "tools", tmp_path / "target"
    tools.mkdir()
    target.mkdir()
    long = "1" if len(answers) == 1 else "600"
    command = [*shell("sh"), str(script), "-d", long, "-p", str(os.getpid()), "-o", str(target)]
    done = subprocess.run(command, env=with_df(tools, *answers), capture_output=True, text=True, check=False)
    assert (done.returncode, said in done.stderr) == (code, True)
    assert len(list(target.glob("*.tar.gz"))) == packed
    assert len(list(target.iterdir())) == 2 * packed


def test_a_signal_ends_it_early_with_what_there_is(script: Path, tmp_path: Path) -> None:
    """TERM during the recording packs what was recorded so far, long before the time is over."""
    command = [*shell("dash"), str(script), "-d", "600", "-i", "600", "-p", str(os.getpid()), "-o", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        plan = iter(running.stdout.readline, "Ctrl-C ends it early and keeps what there is.\n")
        assert any("for 600 s" in line for line in list(plan))
        while not list(tmp_path.glob("thp-capture-*/loops/counters.txt")) and running.poll() is None:
            os.sched_yield()
        running.terminate()
        output = running.stdout.read()
    assert running.returncode == 130
    assert "done. Please send" in output
    (packed,) = tmp_path.glob("thp-capture-*.tar.gz")
    with tarfile.open(packed) as bundle:
        assert f"{packed.name.removesuffix('.tar.gz')}/loops/counters.txt" in bundle.getnames()


WORKLOADS = {
    "khugepaged-growth": {"pool"}, "true-leak": {"leak"}, "fork-exec": {"starter"}, "loopback-network": {"talk"},
    "plain-syscalls": {"dd"}, "database-start": {"store"}, "swap-in-cgroup": {"larger"}, "file-streaming": {"stream"},
    "mmap-lock": {"remap"}, "migration": {"sieve"}, "knee": {"grow"}, "pool-without-filling": {"pool"},
    "knee-of-fragmentation": {"growm"}, "small-pages-after-huge-ones": {"grow"},
    "growth-without-knee": {"grow"}, "knee-of-the-host": {"grow"}, "fill-and-end": {"grow"},
    "redis-always": {"redis-server", "redis-benchmark"}, "redis-never": {"redis-server", "redis-benchmark"},
    "stress-cpu": {"stress"}, "stress-io": {"stress"}, "stress-vm": {"stress"}, "stress-vm-always": {"stress"},
    "compact-memory": {"sh"},
}  # fmt: skip
CAPTURES = sorted(path.parent for path in (Path(__file__).parents[2] / "fixtures" / "captures").glob("*/expected.yaml"))


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: folder.name)
def test_a_kept_recording_is_small_and_names_nobody(folder: Path) -> None:
    """Cuts stay below 400 KB, say where they come from, and hold only the workload and the kernel's own threads."""
    files = [path for path in (folder / "bundle").rglob("*") if path.is_file()]
    assert 50_000 < sum(path.stat().st_size for path in files) < 400_000
    assert (folder / "ORIGIN.md").is_file()
    assert re.match("# uname -a\nLinux (host|demo) ", (folder / "bundle/host.txt").read_text("utf-8"))
    loops = "".join(path.read_text("utf-8") for path in (folder / "bundle/loops").iterdir())
    comms = set(re.findall(r"^\d+ \((.+)\) [A-Z] ", loops, re.M))
    assert comms <= {"khugepaged", "kcompactd0", "kswapd0", *WORKLOADS.get(folder.name, {"churn"})}


@pytest.mark.parametrize(
    ("takes", "looks"),
    [(0, "0 2 4 6 8 10"), (1, "0 2 4 6 8 10"), (3, "0 4 8 11"), (5, "0 6 11"), (40, "0 40")],
    ids=lambda value: str(value).replace(" ", "-"),
)
def test_a_host_that_cannot_keep_up_is_not_watched_for_longer(takes: int, looks: str, tmp_path: Path) -> None:
    """Where each look takes seconds there are fewer of them, and the recording ends with one when it was said to."""
    record = re.search(r"(?ms)^record\(\) \{.*?^\}", capture.script())
    assert record
    clock = f"""
        seconds=10; interval=2; stopped=; now=100; round=
        date() {{ echo "$now"; }}
        pause() {{ now=$((now + $1)); }}
        rounds() {{ printf '%s ' $((now - 100)); now=$((now + {takes})); }}
        note() {{ :; }}
        has_room() {{ :; }}
    """
    done = run(["sh", "-c", clock + record[0] + "\nrecord"], tmp_path)
    assert done.stdout.split() == looks.split()
