"""Where sosreports of all generations, insights archives and must-gathers keep things, and how they reach support."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, documents, rules
from command_line import Run
from packed_bundles import gz, tar
from sosreports import GENERATIONS, MEMINFO, MESSAGES, ROOT_NAME, TAIL, UNAME, VMSTAT, WAYS, Report, archive, folder
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.knowledge.paths import is_kernel_file, is_wanted, output_name, output_of, root_of, system_path
from thpdiag.model import Event, Fact, Record, Sample
from thpdiag.pipeline import analyze

READ_BY = {
    "proc/vmstat": "proc_vmstat", "proc/meminfo": "proc_meminfo", "proc/buddyinfo": "buddyinfo",
    "etc/redhat-release": "os_release", "kernel/uname_-a": "uname", "kernel/sysctl_-a": "sysctl",
    "kernel/dmesg": "kernel_log", "memory/free": "free", "memory/free_-m": "free", "process/ps_auxwww": "ps",
    "/date": "capture_date", "/date_--utc": "capture_date", "/uptime": "uptime", "/hostname": "host_name",
    "log/messages": "kernel_log", "var.log.messages.tailed": "kernel_log", "general/dmesg_now": "kernel_log",
    "transparent_hugepage/enabled": "thp_sysfs", "transparent_hugepage/defrag": "thp_sysfs",
    "khugepaged/max_ptes_none": "thp_sysfs", "version.txt": "sos_log", "sos_reports/manifest.json": "sos_manifest",
}  # fmt: skip
SAID = ("verdict", "findings", "ruled_out", "unknown", "host", "timeline", "ask", "notes")


def given(path: Path) -> ParsedInput:
    return read_input([path], STRICT)


def records(found: ParsedInput) -> list[Record]:
    return [reading.record for readings in found.readings.values() for reading in readings]


def facts(found: ParsedInput, name: str) -> list[Fact]:
    return [r for r in records(found) if isinstance(r, Fact) and r.name == name]


def said(path: Path) -> list[dict[str, Any]]:
    """What the result says of the hosts, members of a packed one named as those of a folder."""
    return [{key: one[key] for key in SAID} for one in documents(analyze([path], rules(), STRICT))]


@pytest.mark.parametrize("version", GENERATIONS)
def test_every_file_that_tells_of_memory_is_read_by_its_reader(version: str, tmp_path: Path) -> None:
    """No file of any generation is left out, or read as something else; those of containers and of networks are."""
    report = GENERATIONS[version]
    found = given(folder(report, tmp_path / "in"))
    readers = {item.member.removeprefix(f"{ROOT_NAME}/"): item.reader for item in found.inputs}
    wanted = {path: reader for path in report.files for end, reader in READ_BY.items() if path.endswith(end)}

    assert readers == {path: reader for path, reader in wanted.items() if not path.startswith("sos_containers")}


@pytest.mark.parametrize("version", GENERATIONS)
def test_links_may_be_kept_copied_or_dropped(version: str, tmp_path: Path) -> None:
    """What is said of the host is the same, each measurement once, whatever became of the links on the way."""
    report = GENERATIONS[version]
    answers = {way: said(make(report, tmp_path / way)) for way, make in WAYS.items()}

    for way, answer in answers.items():
        assert answer == answers["unpacked"], way


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_counted_twice(way: str, tmp_path: Path) -> None:
    """One /proc/vmstat, one free -m and one hung task, be there links to them or copies of those links."""
    found = given(WAYS[way](GENERATIONS["4.0"], tmp_path / "in"))
    samples = [r for r in records(found) if isinstance(r, Sample)]

    assert sum(s.reader == "free" for s in samples) == 2
    assert sum("node_vmstat_thp_fault_alloc" in s.values for s in samples) == 1
    assert sum(isinstance(r, Event) and r.kind == "hung_task" for r in records(found)) == 1


def test_free_in_megabytes_is_read_by_its_command(tmp_path: Path) -> None:
    """The name of the file is the only thing that tells the unit of `free -m`."""
    found = given(folder(GENERATIONS["4.0"], tmp_path))
    totals = [
        s.values["node_memory_MemTotal_bytes"] for s in records(found) if isinstance(s, Sample) and s.reader == "free"
    ]

    assert totals == [pytest.approx(16266504 * 1024, rel=1e-3)] * 2


@pytest.mark.parametrize("way", ["unpacked", "links dropped", "packed"])
def test_the_end_of_a_long_log_is_read_as_the_log(way: str, tmp_path: Path) -> None:
    """Its half first line is no oddity, lines keep their numbers, and the report says what is missing."""
    path = WAYS[way](GENERATIONS["3.2"], tmp_path / "in")
    found = given(path)
    hung = next(r for r in records(found) if isinstance(r, Event) and r.kind == "hung_task")
    notes = [note["text"] for one in said(path) for note in one["notes"]]

    assert (hung.cite.member, hung.cite.line) == (f"{ROOT_NAME}/sos_strings/logs/var.log.messages.tailed", 2)
    assert list(found.problems) == []
    assert [note for note in notes if "only the end of var/log/messages is in the capture" in note]


@pytest.mark.parametrize(
    ("tailed", "original"),
    [
        ("logs/var.log.messages.tailed", "var/log/messages"),
        ("logs/var.log.kern.log.tailed", "var/log/kern.log"),
        ("logs/var.log.messages-20261101.tailed", "var/log/messages-20261101"),
        ("redis/var.log.redis.redis-server.log.tailed", "var/log/redis/redis-server/log"),
        ("logs/journalctl_--no-pager.tailed", "sos_commands/logs/journalctl_--no-pager"),
        ("sar/var.log.sa.sar20.tailed", "var/log/sa/sar20"),
    ],
)
def test_the_path_that_a_tail_was_taken_from(tailed: str, original: str) -> None:
    """Dots stand for slashes, and nobody says which."""
    assert system_path(f"{ROOT_NAME}/sos_strings/{tailed}") == original
    assert is_wanted(f"{ROOT_NAME}/sos_strings/{tailed}")


def test_the_end_of_what_nobody_wants_is_not_wanted() -> None:
    """A tail is worth no more than the whole."""
    assert not is_wanted(f"{ROOT_NAME}/sos_strings/mysql/var.log.mysql.error.log.tailed")


def test_a_tail_and_its_copied_link_are_one(tmp_path: Path) -> None:
    """Of two copies of the same bytes the one counts that says by its name that it is cut."""
    found = given(WAYS["links copied"](GENERATIONS["3.9"], tmp_path))
    hung = [r.cite.member for r in records(found) if isinstance(r, Event) and r.kind == "hung_task"]

    assert hung == [f"{ROOT_NAME}/sos_strings/logs/var.log.messages.tailed"]


@pytest.mark.parametrize(
    ("path", "command"),
    [
        (f"{ROOT_NAME}/sos_commands/memory/free_-m", "free -m"),
        ("insights-web1-20261120033500/data/insights_commands/ps_auxww", "ps auxww"),
        (f"{ROOT_NAME}/sos_strings/logs/journalctl_--no-pager.tailed", "journalctl --no-pager"),
        (f"{ROOT_NAME}/proc/vmstat", ""),
        ("ticket.txt", ""),
    ],
)
def test_the_command_behind_a_file(path: str, command: str) -> None:
    """As far as the name still tells."""
    assert output_of(path) == command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("free -m", "free_-m"),
        ("/usr/bin/uptime", "uptime"),
        ("ps axo flags,state,%mem", "ps_axo_flags_state_mem"),
        ("ls -lt /sys/kernel/slab", "ls_-lt_.sys.kernel.slab"),
    ],
)
def test_the_file_that_sos_keeps_a_command_in(command: str, name: str) -> None:
    """As `_mangle_command` of sos does it."""
    assert output_name(command) == name


@pytest.mark.parametrize("name", ["df", "mount", "environment", "installed-debs", "lsof", "meta_data/a.json"])
def test_what_lies_beside_the_tree_and_tells_nothing(name: str) -> None:
    """Links that sos puts at the root, and what insights-client notes of itself; `environment` is private."""
    assert not is_wanted(f"{ROOT_NAME}/{name}")
    assert not is_wanted(name)


def test_containers_files_are_not_the_hosts() -> None:
    """sos_containers/NAME holds copies from inside, whatever their path says."""
    path = f"{ROOT_NAME}/sos_containers/web/proc/meminfo"

    assert not is_wanted(path)
    assert system_path(path) == "sos_containers/web/proc/meminfo"


def test_a_folder_that_sos_packed_has_its_path_on_the_host() -> None:
    """`--pack-dir /sys/kernel/mm` makes a tar inside the tar."""
    path = f"{ROOT_NAME}/sys/kernel/mm.tar/mm/transparent_hugepage/enabled"

    assert system_path(path) == "sys/kernel/mm/transparent_hugepage/enabled"
    assert is_wanted(path)
    assert is_kernel_file(path)


def test_an_insights_archive(tmp_path: Path) -> None:
    """Outputs in data/insights_commands, copies beside them; the notes of the client are not read."""
    root = "insights-web1-20261120033500"
    content = {
        f"{root}/data/proc/meminfo": MEMINFO, f"{root}/data/insights_commands/uname_-a": UNAME,
        f"{root}/data/insights_commands/hostname": "web1\n",
        f"{root}/data/insights_commands/date": "Fri Nov 20 10:47:03 CET 2026\n",
        f"{root}/meta_data/insights.specs.Specs.meminfo.json": '{"name": "meminfo"}', f"{root}/branch_info": "{}",
    }  # fmt: skip
    target = tmp_path / "insights.tar.gz"
    target.write_bytes(gz(tar({path: text.encode() for path, text in content.items()})))
    found = given(target)

    assert {item.member.rpartition("/")[2]: item.reader for item in found.inputs} == {
        "meminfo": "proc_meminfo", "uname_-a": "uname", "hostname": "host_name", "date": "capture_date",
    }  # fmt: skip
    assert {root_of(item.member) for item in found.inputs} == {root}
    assert [case.name for case in host_cases(found, STRICT)] == ["web1"]


def test_a_must_gather_is_one_host_per_node(tmp_path: Path) -> None:
    """What lies in a node's sysinfo.tgz belongs to what lies beside it; descriptions of objects are not read."""
    sysinfo = gz(tar({"proc/vmstat": VMSTAT.encode(), "proc/meminfo": MEMINFO.encode()}))
    for node, release in (("worker-0", "4.18.0-372.el8.x86_64"), ("worker-1", "5.14.0-427.el9.x86_64")):
        at = tmp_path / "must-gather" / "nodes" / node
        at.mkdir(parents=True)
        (at / "sysinfo.tgz").write_bytes(sysinfo)
        (at / "proc_cmdline").write_text(f"BOOT_IMAGE=/vmlinuz-{release} root=/dev/sda1\n")
    objects = tmp_path / "must-gather" / "cluster-scoped-resources" / "core" / "nodes"
    objects.mkdir(parents=True)
    (objects / "worker-0.yaml").write_text("kind: Node\n")
    found = given(tmp_path)

    assert {item.member.rpartition("/")[2] for item in found.inputs} == {"vmstat", "meminfo", "proc_cmdline"}
    assert sorted(case.name for case in host_cases(found, STRICT)) == [f"must-gather/nodes/worker-{n}" for n in (0, 1)]


def test_sos_collect_is_one_host_per_report(tmp_path: Path) -> None:
    """A tar of archives; the collector's own manifest is no host."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as outer:
        for number in (1, 2):
            name = f"sosreport-web{number}-2026-11-20-abcdefg"
            files = {path: text.replace("web1", f"web{number}") for path, text in GENERATIONS["4.0"].files.items()}
            _add(outer, f"sos-collector-x/{name}.tar.xz", archive(Report(files), name))
        _add(outer, "sos-collector-x/sos_reports/manifest.json", b'{"version": "4.0", "components": {}}')
    target = tmp_path / "sos-collector-x.tar"
    target.write_bytes(out.getvalue())

    assert sorted(case.name for case in host_cases(given(target), STRICT)) == ["web1", "web2"]


def _add(outer: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    outer.addfile(info, io.BytesIO(data))


def test_a_member_of_two_formats_is_read_by_both(tmp_path: Path) -> None:
    """By its content; where its path is a reader's own, that reader has all of it."""
    (tmp_path / "notes.txt").write_text(f"{UNAME}\n{MESSAGES}\n{VMSTAT}")
    found = given(tmp_path)

    assert {item.reader for item in found.inputs} >= {"uname", "kernel_log", "proc_vmstat"}
    assert len({item.member for item in found.inputs}) == 1


def test_the_path_goes_before_the_content(tmp_path: Path) -> None:
    """Somebody's log may quote anything; at the log's place it is a log."""
    log = tmp_path / ROOT_NAME / "var" / "log" / "messages"
    log.parent.mkdir(parents=True)
    log.write_text(f"{TAIL}{VMSTAT}")

    assert {item.reader for item in given(tmp_path).inputs} == {"kernel_log"}


def test_what_no_reader_knows_is_listed_with_its_begin(tmp_path: Path, run: Run) -> None:
    """Path, size and first line tell which reader is missing; nothing of that is said of what was read."""
    (tmp_path / "unknown.txt").write_text("\n\n  frobnication of web1: 17 \x1b[31mfrobs\n" + "x\n" * 500)
    (tmp_path / "image.bin").write_bytes(bytes(4096))
    (tmp_path / "vmstat.txt").write_text(VMSTAT)
    rows = {row["member"]: row for row in run("inputs", tmp_path, "-f", "json").document["inputs"]}
    text = run("inputs", tmp_path).out

    assert (rows["unknown.txt"]["size"], rows["unknown.txt"]["first_line"]) == (1040, "frobnication of web1: 17 frobs")
    assert (rows["image.bin"]["size"], rows["image.bin"]["first_line"]) == (4096, "")
    assert "size" not in rows["vmstat.txt"]
    assert 'unknown.txt\n    not recognized: 1,040 bytes, begins "frobnication of web1: 17 frobs"\n' in text
