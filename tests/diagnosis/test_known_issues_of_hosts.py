"""Known issues on whole hosts: a made host of SAP HANA, and all stories, healthy hosts and rows of the table."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import result_of
from command_line import Run
from conftest import ROOT
from thpdiag.diagnosis import known_issues
from thpdiag.knowledge.known_issues import Catalogue, catalogue

HANA = "hana-thp-defrag-many-sockets"
SETTINGS = "/sys/kernel/mm/transparent_hugepage"
AFFECTED, FIXED = "6.4.0-150600.23.70-default", "6.4.0-150600.23.87-default"
WORKAROUND = [f"echo never > {SETTINGS}/defrag", f"echo 0 > {SETTINGS}/khugepaged/defrag"]
BACK = [f"echo madvise > {SETTINGS}/defrag", f"echo 1 > {SETTINGS}/khugepaged/defrag"]


def hana_host(release: str = AFFECTED, *, sockets: int | None = 4, defrag: str = "madvise", own: str = "1") -> bytes:
    """A pasted session of a host of SAP HANA on SLES 15 SP6."""
    cpus = f"# lscpu\nArchitecture: x86_64\nCPU(s): 224\nSocket(s): {sockets}\nNUMA node(s): {sockets}\n"
    words = " ".join(f"[{w}]" if w == defrag else w for w in ["always", "defer", "defer+madvise", "madvise", "never"])
    return f"""# uname -a
Linux node1 {release} #1 SMP PREEMPT_DYNAMIC Wed Sep  3 10:00:00 UTC 2025 x86_64 x86_64 x86_64 GNU/Linux
# cat /etc/os-release
NAME="SLES"
VERSION_ID="15.6"
PRETTY_NAME="SUSE Linux Enterprise Server 15 SP6"
ID="sles"
{cpus if sockets else ""}# ps auxwww
USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root         1  0.0  0.0 170000 12000 ?        Ss   Sep01   0:10 /usr/lib/systemd/systemd
hdbadm    4711 90.0 60.0 2000000000 1800000000 ? Sl Sep01 9000:00 hdbindexserver -port 30003
# grep -r . {SETTINGS}/
{SETTINGS}/enabled:always [madvise] never
{SETTINGS}/defrag:{words}
{SETTINGS}/khugepaged/defrag:{own}
""".encode()


def entry(run: Run, host: bytes) -> Mapping[str, Any] | None:
    """The entry of the defect in the result of a host."""
    found = run("analyze", "-", "-f", "json", stdin=host).document.get("known_issues", [])
    return next((one for one in found if one["id"] == HANA), None)


def test_the_defect_of_hana_is_named(run: Run) -> None:
    """The fixed kernel, both commands, how to take them back, the lines that it rests on."""
    found = entry(run, hana_host())
    assert found is not None
    assert found["state"] == "affected"
    assert found["fixed"] == "kernel of SLES 15 SP6: 6.4.0-150600.23.87"
    assert found["now"] == WORKAROUND
    assert found["undo"][:2] == BACK
    assert {fact["line"] for fact in found["facts"]} == {2, 11, 16, 18, 19, 20}
    assert all(fact["excerpt"] for fact in found["facts"])


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_report_names_it(run: Run, form: str) -> None:
    """With the date of the catalogue, the fixed kernel and both commands."""
    report = run("analyze", "-", "-v", "-f", form, stdin=hana_host()).out.replace("&gt;", ">")
    for words in (catalogue().date, HANA, "6.4.0-150600.23.87", "SUSE KBA 000022286", *WORKAROUND):
        assert words in report


def test_the_workaround_on_a_fixed_kernel_is_to_be_undone(run: Run) -> None:
    """On the kernel that needs it, it is told to be on; without it the fixed kernel is silent."""
    found = entry(run, hana_host(FIXED, defrag="never", own="0"))
    assert found is not None
    assert (found["state"], found["undo"][:2]) == ("fixed-but-workaround-on", BACK)
    assert "now" not in found
    text = run("analyze", "-", stdin=hana_host(FIXED, defrag="never", own="0")).out
    assert "the workaround is still on: undo it" in " ".join(text.split())
    assert BACK[0] in text
    kept = entry(run, hana_host(defrag="never", own="0"))
    assert kept is not None
    assert kept["state"] == "workaround-on"
    assert entry(run, hana_host(FIXED)) is None


def test_two_sockets_are_silent_and_none_is_unknown(run: Run) -> None:
    """Without lscpu the host may be affected: the default text only counts it."""
    assert entry(run, hana_host(sockets=2)) is None
    found = entry(run, hana_host(sockets=None))
    assert found is not None
    assert (found["state"], found["missing"], found["ask_for"]) == ("possible", ["cpu.sockets"], ["lscpu"])
    text = run("analyze", "-", stdin=hana_host(sockets=None)).out
    assert HANA not in text
    assert "that may apply" in text
    assert HANA in run("analyze", "-", "-v", stdin=hana_host(sockets=None)).out


def test_half_a_workaround_is_none(run: Run) -> None:
    """One of two settings: the other command is told, and on a fixed kernel nothing is."""
    found = entry(run, hana_host(defrag="never"))
    assert found is not None
    assert (found["state"], found["now"]) == ("affected", WORKAROUND[1:])
    assert entry(run, hana_host(FIXED, defrag="never")) is None


def test_the_commands_do_what_they_say(run: Run, tmp_path: Path) -> None:
    """Run against files, twice: the workaround is written, and taken back to what the makers recommend."""
    found = entry(run, hana_host())
    assert found is not None
    (tmp_path / "khugepaged").mkdir()
    steps = ((found["now"], "never", "0"), (found["undo"][:2], "madvise", "1"))
    for commands, defrag, own in steps:
        for command in (*commands, *commands):
            subprocess.run(["sh", "-ec", command.replace(SETTINGS, str(tmp_path))], check=True)
        assert (tmp_path / "defrag").read_text() == f"{defrag}\n"
        assert (tmp_path / "khugepaged/defrag").read_text() == f"{own}\n"
    assert any("systemctl disable thp-settings.service" in command for command in found["undo"])


SHARED = f"""# ps auxwww
USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
couch     4711 90.0 60.0 20000000 18000000 ? Sl Sep01 9000:00 /opt/couchbase/bin/memcached -C /opt/couchbase/etc
qemu      4712 90.0 60.0 20000000 18000000 ? Sl Sep01 9000:00 /usr/bin/qemu-system-x86_64 -name guest=node2
# grep -r . {SETTINGS}/
{SETTINGS}/enabled:[always] madvise never
{SETTINGS}/defrag:always defer defer+madvise [madvise] never
"""


def test_whoever_wants_huge_pages_is_named(run: Run) -> None:
    """A host that two applications share: one wants them off, the other on."""
    found = run("analyze", "-", "-f", "json", stdin=SHARED.encode()).document["known_issues"]
    couchbase = next(one for one in found if one["id"] == "couchbase-thp-on")
    assert couchbase["now"] == [
        "# kvm also runs here and needs huge pages: decide which matters more first",
        f"echo never > {SETTINGS}/enabled",
    ]  # fmt: skip
    assert [one["id"] for one in found if one["id"] == "kvm-host-without-huge-pages"] == []


@pytest.mark.parametrize(
    ("version", "affected"), [("10.3.9", True), ("10.6.12", True), ("10.6.17", False), ("10.11.2", False)]
)
@pytest.mark.parametrize(
    "form", ["mariadbd  Ver {}-MariaDB for Linux", "Version: '{}-MariaDB-log'  socket: ''  port: 3306"]
)
def test_mariadb_is_known_by_what_it_prints(version: str, affected: bool, form: str, run: Run) -> None:
    """The series whose fixed release is known, and those that ended before it."""
    host = SHARED.replace("/opt/couchbase/bin/memcached -C /opt/couchbase/etc", "/usr/sbin/mariadbd")
    told = f"{host}[root@node1 ~]# mariadbd --version\n{form.format(version)}\n"
    found = run("analyze", "-", "-f", "json", stdin=told.encode()).document.get("known_issues", [])
    assert ("mariadb-huge-pages-memory" in [one["id"] for one in found if one["state"] == "affected"]) is affected


def test_a_container_sends_to_its_node(run: Run) -> None:
    """The settings are those of the node, which a container cannot change."""
    inside = SHARED.replace("/usr/bin/qemu-system-x86_64", "/usr/bin/sleep")
    inside += "# hostnamectl\n Static hostname: node1\n         Chassis: container\n  Virtualization: lxc\n"
    found = run("analyze", "-", "-f", "json", stdin=inside.encode()).document["known_issues"]
    assert found[0]["now"][0] == "# on the node, as root; a container cannot change this"


def test_a_redacted_result_keeps_the_entry(run: Run, tmp_path: Path) -> None:
    """What the catalogue says is public; the customer's path is not."""
    place = tmp_path / "secretcustomer.txt"
    place.write_bytes(hana_host())
    found = run("analyze", place, "-f", "json", "--redact").document
    assert found["known_issues"][0]["now"] == WORKAROUND
    assert "secretcustomer" not in str(found["known_issues"])


def test_the_doctor_tells_the_catalogue(run: Run) -> None:
    """Its date and how many entries it has."""
    known = catalogue()
    assert f"known issues: catalogue of {known.date}, {len(known.issues)} entries" in run("doctor").out


# Each was held against its host: the release lies in the range of its own line, and the settings are measured there.
EL6_ALWAYS = (
    "el6-fault-compaction-convoy",
    "el6-streaming-freezes",
    "el6-compaction-holds-locks",
    "el6-two-words-only",
)
OF_6_1_176 = ("huge-zero-page-race", "split-holds-lock-of-freed-pages")
OF_6_1_76 = (
    "huge-page-swap-tail-6.1", "thp-per-cpu-lists-mixed", "huge-page-migration-entry", "huge-page-swap-entry-lock",
    "khugepaged-anonymous-as-file", "khugepaged-file-bug-6.1", "file-huge-page-counter-falls", *OF_6_1_176,
)  # fmt: skip
FIRES: Mapping[str, tuple[str, ...]] = {
    "stories/bioinformatics-ubuntu1404": ("compaction-each-fault-before-4.6",),
    "stories/hadoop-centos62": ("el6-two-words-only",),  # of the state of the verdict the settings are not measured
    "stories/hadoop-centos62-flat-only": ("el6-two-words-only",),
    "stories/mero-centos7": ("el7-sync-compaction-in-faults",),
    "stories/sles11-raw-spin-lock": ("sles11-fault-compaction-convoy",),
    "collectors/supportconfig/nts_erp5_261127_1806": ("sles11-fault-compaction-convoy",),
    "stories/sudo-echo": EL6_ALWAYS[1:],  # defrag is not in the input
    "stories/tuned-overrides-boot-line": ("tuned-overrides-boot-line",),
    "stories/winbindd-after-the-fix": ("el6-two-words-only",),
    "healthy/plain-files": OF_6_1_176,
    "healthy/sosreport-debian12": ("sos-without-defrag-settings",),
    "healthy/sosreport-debian12-guest": ("sos-without-defrag-settings", *OF_6_1_176),
    "acceptance/debian-fallback-without-stalls": OF_6_1_76,
    "acceptance/defrag-off-and-still-busy": ("el6-two-words-only",),
    "acceptance/go-1210-service": (*OF_6_1_76[:7], "file-huge-pages-negative", *OF_6_1_176),  # 6.1.52
    "acceptance/greenplum-centos62": ("el6-two-words-only",),
    "acceptance/mongodb-8-with-never": ("file-huge-page-counter-falls",),
    "acceptance/sles11-spin-only": ("sles11-fault-compaction-convoy",),
    "acceptance/threads-in-select": EL6_ALWAYS,
    "acceptance/tomcat-after-a-month": (EL6_ALWAYS[0], *EL6_ALWAYS[2:]),  # of 6.3
    "comparisons/hadoop-centos62/before": ("el6-two-words-only",),
    "comparisons/hadoop-centos62/after": ("el6-two-words-only",),
}  # of captures, of what was recorded in guests of the lab and with `reproduce`, and of other supportconfigs: none


def hosts() -> dict[str, Path]:
    """All made and recorded hosts: those with an expected diagnosis, and the two sides of pairs."""
    fixtures = ROOT / "fixtures"
    whole = [
        path.parent
        for group in ("stories", "healthy", "acceptance", "captures")
        for path in fixtures.glob(f"{group}/*/bundle")
    ]
    sides = [
        path for group in ("comparisons", "reproduce", "lab") for path in fixtures.glob(f"{group}/*/*") if path.is_dir()
    ]
    sides += (fixtures / "collectors" / "supportconfig").iterdir()
    named = {str(path.relative_to(fixtures)): path / "bundle" for path in whole}
    return dict(sorted((named | {str(path.relative_to(fixtures)): path for path in sides}).items()))


@pytest.mark.parametrize("name", hosts())
def test_only_what_is_true_of_a_host_is_told(name: str) -> None:
    """The entries that are certain, by host; what may apply is not told there."""
    sure = [one["id"] for one in result_of(hosts()[name]).get("known_issues", []) if one["state"] != "possible"]
    assert tuple(sure) == FIRES.get(name, ())


def test_each_host_that_is_listed_is_tried() -> None:
    """A fixture that was renamed would pass with nothing."""
    assert set(FIRES) <= set(hosts())


def test_the_verdict_is_the_same_without_the_catalogue(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are facts about versions and settings; they have no part in it."""
    bundle = ROOT / "fixtures/stories/hadoop-centos62/bundle"
    document = run("analyze", bundle, "-f", "json").document
    assert document.pop("known_issues")
    assert document["tool"].pop("known_issues")
    monkeypatch.setattr(known_issues, "catalogue", lambda: Catalogue((), ""))
    assert run("analyze", bundle, "-f", "json").document == document
