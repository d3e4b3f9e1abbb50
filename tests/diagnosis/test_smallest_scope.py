"""Advice for the smallest scope first: a program, its service, its container or guest, and only then the host."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from advice_items import advice
from thpdiag.diagnosis.remedies import UNIT_FILE, HostView, host_view, service_of, with_one_unit
from thpdiag.diagnosis.remedies import advice as typed_advice
from thpdiag.knowledge.mechanisms import remedies
from thpdiag.model import Case, Citation, Fact

CITE = Citation("ps", 1)
BLOAT = ["khugepaged-max-ptes-none", "process-opt-out", "restart-application"]


def _process(pid: str, comm: str, command: str) -> Fact:
    return Fact("process.command", command, CITE, (("pid", pid), ("comm", comm)))


@pytest.mark.parametrize(
    ("entity", "units", "inside"),
    [
        ("cgroup /system.slice/redis-server.service", ("redis-server.service",), ""),
        ("cgroup /system.slice/postgresql@15-main.service/worker", ("postgresql@15-main.service",), ""),
        ("cgroup /system.slice/docker-0123456789ab.scope", (), "container"),
        ("cgroup /kubepods.slice/kubepods-burstable.slice/cri-containerd-01.scope", (), "container"),
        ("cgroup /machine.slice/machine-qemu\\x2d1\\x2dweb.scope", (), "guest"),
        ("cgroup /system.slice/evil;reboot.service", (), ""),
        ("mongod (11)", ("mongod.service", "mongodb.service"), ""),
        ("qemu-system-x86_64 (12)", (), "guest"),
        ("churn (13)", (), ""),
        ("java (14)", (), ""),
        ("node 0 zone Normal", (), ""),
        ("", (), ""),
    ],
)
def test_the_service_of_what_was_found(entity: str, units: tuple[str, ...], inside: str) -> None:
    """By the path of the control group, or by the application that the process is; else nothing is guessed."""
    facts = [_process("14", "java", "java -jar unknown.jar"), _process("13", "churn", "./churn")]
    assert service_of(entity, facts) == (units, inside)


@pytest.mark.parametrize(
    ("group", "units", "inside"),
    [
        ("/system.slice/shop.service", ("shop.service",), ""),
        ("/system.slice/shop.service/worker", ("shop.service",), ""),
        ("/kubepods.slice/kubepods-burstable.slice/cri-containerd-01.scope", (), "container"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/shop.service", ("redis.service",), ""),
        ("/", ("redis.service",), ""),
    ],
)
def test_the_control_group_of_a_process_tells_its_service(group: str, units: tuple[str, ...], inside: str) -> None:
    """Before the application, whose packages may call their unit otherwise; a user's session is no service."""
    facts = [
        _process("7", "redis-server", "redis-server *:6379"),
        Fact("process.cgroup", group, CITE, (("pid", "7"),)),
        Fact("process.cgroup", "/system.slice/other.service", CITE, (("pid", "77"),)),
    ]
    found, where = service_of("redis-server (7)", facts)
    assert (found[:1], where) == (units, inside)


def test_the_known_service_stands_before_the_host() -> None:
    """Its step is the first; where the service is not known the setting that can be tried at once is."""
    case = Case("c", (Fact("platform", "debian12", CITE), Fact("kernel.era", "E7", CITE)), ())
    known = host_view(case, None, "redis-server (7)")
    assert next(item["id"] for item in advice(BLOAT, "khugepaged-bloat", known)) == "process-opt-out"
    unknown = host_view(case, None, "churn (7)")
    assert next(item["id"] for item in advice(BLOAT, "khugepaged-bloat", unknown)) == "khugepaged-max-ptes-none"


def test_who_wants_huge_pages_is_not_opted_out() -> None:
    """A known service too."""
    host = HostView("el9", "E7", apps=("mongodb",), versions={"mongodb": "8.0.4"}, units=("mongod.service",))
    assert "process-opt-out" not in [item["id"] for item in advice(BLOAT, "khugepaged-bloat", host)]


@pytest.mark.parametrize(
    ("kernel", "enabled", "flags"),
    [
        ("6.12.0-55.el10", "always", 0),
        ("6.18.3-200.fc43", "always", 2),
        ("6.18.3-200.fc43", "madvise", 0),
        ("6.18.3-200.fc43", "", 0),
        ("", "always", 0),
    ],
)
def test_what_the_service_asks_for_stays_on_newer_kernels(kernel: str, enabled: str, flags: int) -> None:
    """From 6.18 on prctl can except memory that was advised; stalls in just that memory need the whole opt-out.

    So does a host on which only advised memory gets huge pages.
    """
    settings = {"thp.enabled": enabled} if enabled else {}
    host = HostView("fedora43", "E8", units=("app.service",), kernel=kernel, settings=settings)
    (item,) = advice(["process-opt-out"], "khugepaged-bloat", host)
    assert f"prctl(41, 1, {flags}, 0, 0)" in item["now"][0]
    assert f"MemoryTHP={'madvise' if flags else 'disable'}" in item["persist"][0]
    (item,) = advice(["process-opt-out"], "madvise-region-stalls", host)
    assert "prctl(41, 1, 0, 0, 0)" in item["now"][0]


@pytest.mark.parametrize(("kernel", "wanted"), [("6.18.0", 3), ("6.12.0", 1)])
def test_the_wrapper_does_what_it_says(kernel: str, wanted: int, tmp_path: Path) -> None:
    """On this kernel, if it has the flag: a program behind it is told 1, or 3 where advised memory is excepted."""
    libc = ctypes.CDLL(None)
    if (
        wanted == 3
        and subprocess.run(
            [sys.executable, "-c", "import ctypes, sys; sys.exit(ctypes.CDLL(None).prctl(41, 1, 2, 0, 0) != 0)"],
            check=False,
        ).returncode
    ):
        pytest.skip("this kernel has no PR_THP_DISABLE_EXCEPT_ADVISED")
    host = HostView("fedora43", units=("a.service",), kernel=kernel, settings={"thp.enabled": "always"})
    (item,) = advice(["process-opt-out"], "khugepaged-bloat", host)
    (text,) = re.findall(r"<<'EOF'.*?\n(.*)\nEOF", item["now"][0], re.DOTALL)
    script = tmp_path / "without-thp"
    script.write_text(text)
    show = "import ctypes; print(ctypes.CDLL(None).prctl(42, 0, 0, 0, 0))"
    done = subprocess.run([sys.executable, script, sys.executable, "-c", show], capture_output=True, check=True)
    assert int(done.stdout) == wanted
    assert libc.prctl(42, 0, 0, 0, 0) == 0


def test_a_container_has_no_setting_of_its_own() -> None:
    """That is said plainly, and what the program in it can do is said first."""
    first, *_ = advice(["thp-never", "process-opt-out"], "huge-page-zeroing", HostView("el9", "E7", inside="container"))
    assert first["id"] == "process-opt-out"
    assert "a setting of the host that all its containers share" in first["reason"]
    assert "systemd" not in "".join(first["persist"])


def test_a_guest_gets_its_memory_at_its_start() -> None:
    """By its own definition in libvirt, before anything on the host is changed."""
    host = HostView("el9", "E7", apps=("kvm",), inside="guest")
    first, *_ = advice(["defrag-never", "process-opt-out"], "fault-compaction", host)
    assert first["id"] == "process-opt-out"
    assert "<memoryBacking><allocation mode='immediate'/>" in first["persist"][0]


def test_the_c_library_asks_for_one_service() -> None:
    """Where glibc has it, enabled=madvise and a variable are milder than huge pages for all; QEMU asks by itself."""
    ids = ["process-huge-pages", "thp-keep"]
    host = HostView("ubuntu24.04", "E8", settings={"thp.enabled": "never"}, units=("app.service",))
    first, then = advice(ids, "thp-off-where-needed", host)
    assert (first["id"], then["id"]) == ("process-huge-pages", "thp-keep")
    assert "Environment=GLIBC_TUNABLES=glibc.malloc.hugetlb=1" in first["persist"][-1]
    assert [i["id"] for i in advice(ids, "thp-off-where-needed", HostView("el9"))] == ["thp-keep"]
    kvm = advice(ids, "thp-off-where-needed", HostView("el9", apps=("kvm",)))[0]
    assert "QEMU asks" in kvm["reason"]
    mongodb = HostView("debian12", apps=("mongodb",), versions={"mongodb": "8.0.4"})
    assert [i["id"] for i in advice(ids, "thp-off-where-needed", mongodb)] == ["thp-keep"]


def test_of_several_steps_one_has_the_text_of_the_unit() -> None:
    """The others name the step, and add their line to the same unit."""
    items = typed_advice(
        ["defrag-madvise", "defrag-defer", "defrag-never"], "fault-compaction", HostView("debian12", "E7")
    )
    steps = [step.persist for step in with_one_unit(items)]
    assert [sum("[Unit]" in command for command in step) for step in steps] == [1, 0, 0]
    assert ["# in the unit of step 1:" in step for step in steps] == [False, True, True]
    assert [sum("systemctl enable" in command for command in step) for step in steps] == [1, 0, 0]
    assert all(any(f">> {UNIT_FILE}" in command for command in step) for step in steps)


_SENTENCE = re.compile(r"[A-Z][^.]*(?:\.\d[^.]*)*\.")


@pytest.mark.parametrize("name", [*remedies()])
def test_every_remedy_says_what_it_risks(name: str) -> None:
    """In one sentence: whether it is safe on a live host, what of data, and when it takes effect."""
    row = remedies()[name]
    for one in (row, *row.get("variants", ())):
        said = one.get("live", row["live"])
        assert _SENTENCE.fullmatch(said), said
        assert "no data is at risk" in said.lower() or "puts no data at risk" in said
        assert re.search("live production host|restart|maintenance window", said)
        assert re.search("it takes effect|change nothing|is back", said)
