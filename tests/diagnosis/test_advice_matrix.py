"""Every remedy on every platform, run in a folder that stands for the host: it works, twice as well, and goes back."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from advice_items import advice
from command_sandbox import SHELLS, CommandRoot
from thpdiag.diagnosis.remedies import HostView
from thpdiag.knowledge.mechanisms import cures, mechanisms, remedies
from thpdiag.knowledge.platforms import directory

PLATFORMS = (  # one of each that gets commands of its own
    "", "el6.2", "el6.5", "el7", "el8", "el10", "oracle6", "sles11", "sles12", "sles16", "ubuntu14.04", "ubuntu22.04",
    "debian13",
)  # fmt: skip
OTHER_SHELLS = ("", "el6.2", "debian13")
SH = Path(shutil.which("sh") or "sh").resolve()  # dash on Debian, which then is not tried a second time
OTHERS = [name for name, words in SHELLS.items() if (found := shutil.which(words[0])) and Path(found).resolve() != SH]
SHELLED = [("sh", platform) for platform in PLATFORMS] + [
    (name, platform) for name in OTHERS for platform in OTHER_SHELLS
]
ANY = ("fault-compaction", "khugepaged-bloat", "fix-without-effect", "setting-overridden")
# These look at the running host, measure for minutes, or are for another machine; they change nothing.
ONLY_LOOK = (
    "not-thp", "collect-more", "hypervisor", "restart-application", "kernel-update", "application-switch",
    "cgroup-limit-review", "hugetlb-for-giants", "toggle-test",
)  # fmt: skip
# What cannot be taken back: it happened.
ONCE = ("drop-caches-compact", "split-huge-pages", "apply-correctly")


def _items(host: HostView) -> dict[str, dict[str, Any]]:
    """Each remedy in all forms that the host can get."""
    found: dict[str, dict[str, Any]] = {}
    for name, row in remedies().items():
        for mechanism in ANY if row["cures"] == "any" else mechanisms():
            if cures(row, mechanism):
                for item in advice([name], mechanism, host):
                    if item["id"] == name:
                        found.setdefault(f"{name} {item['now']} {item['persist']} {item['undo']}", item)
    return found


def _changing(host: HostView) -> list[dict[str, Any]]:
    return [item for item in _items(host).values() if item["id"] not in ONLY_LOOK]


def _host(platform: str) -> HostView:
    return HostView(platform, tuned="balanced" if re.match("el|oracle", platform) else "")


def _place(platform: str) -> str:
    """The directory of the settings below /sys/kernel/mm."""
    return directory(platform) or "transparent_hugepage"


def _commands(item: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(item[key]) for key in ("now", "persist", "undo"))


@cache
def _first_platforms() -> dict[tuple[str, tuple[tuple[str, ...], ...]], str]:
    """Place and commands of all remedies, each with the first platform that gets them: the same commands are run once.

    The folder that stands for the host differs by the place alone.
    """
    platforms: dict[tuple[str, tuple[tuple[str, ...], ...]], str] = {}
    for platform in PLATFORMS:
        for item in _changing(_host(platform)):
            platforms.setdefault((_place(platform), _commands(item)), platform)
    return platforms


@pytest.mark.parametrize(("shell", "platform"), SHELLED)
def test_a_remedy_works_twice_and_goes_back(platform: str, shell: str, tmp_path: Path) -> None:
    """After `now` and `persist` something changed, a second time nothing more, and `undo` leaves no trace."""
    place, items = _place(platform), _changing(_host(platform))
    assert len(items) > 12
    if shell == "sh":
        items = [item for item in items if _first_platforms()[place, _commands(item)] == platform]
    for number, item in enumerate(items):
        root = CommandRoot(tmp_path / str(number), place, shell)
        before = root.state()
        root.run(_runnable([*item["now"], *item["persist"]]))
        after = root.state()
        assert after != before, item
        root.run(_runnable([*item["now"], *item["persist"]]))
        assert root.state() == after, item
        root.run(_runnable(item["undo"]))
        if item["id"] not in ONCE:
            assert root.state() == before, item


@pytest.mark.parametrize("platform", ["el8", "sles16", "ubuntu22.04", "debian13"])
def test_settings_beyond_their_defaults_go_back_to_them(platform: str, tmp_path: Path) -> None:
    """Only those that are measured and beyond, twice as well; their undo brings the host's own values back."""
    eager = {"compaction_proactiveness": "100", "watermark_boost_factor": "0", "extfrag_threshold": "300"}
    host = HostView(platform, settings={f"sysctl.vm.{name}": value for name, value in eager.items()})
    (item,) = advice(["block-settings-defaults"], "background-compaction", host)
    root = CommandRoot(tmp_path, "transparent_hugepage", "sh")
    for name, value in eager.items():
        (root.folder / "proc/sys/vm" / name).write_text(f"{value}\n")
    before = root.state()
    for _ in range(2):
        root.run([*item["now"], *item["persist"]])
        after = {name: root.state()[f"proc/sys/vm/{name}"].strip() for name in eager}
        assert after == {**eager, "compaction_proactiveness": "20", "extfrag_threshold": "500"}
    assert "defrag_mode" not in "".join([*item["now"], *item["persist"]])
    root.run(item["undo"])
    assert root.state() == before


def _service_items(platform: str) -> list[dict[str, Any]]:
    """What can be done to a service alone, on kernels and for programs that differ in it."""
    units = ("redis.service", "redis-server.service")
    apps = ("jemalloc", "mimalloc", "go")
    always = {"thp.enabled": "always"}
    hosts = [HostView(platform, units=units, kernel=k, settings=always) for k in ("5.14.0-427.el9", "6.18.3")]
    hosts += [HostView(platform, units=units, apps=(app,), versions={"go": "1.22.4"}) for app in apps]
    return [item for host in hosts for item in _items(host).values() if "$u.d" in "".join(item["persist"])]


@pytest.mark.parametrize("systemd", ["252", "260"])
def test_a_service_is_changed_alone_and_goes_back(systemd: str, tmp_path: Path) -> None:
    """By MemoryTHP= where systemd has it, else by a wrapper, and by variables; twice as well, and without a trace."""
    different: dict[tuple[tuple[str, ...], ...], dict[str, Any]] = {}
    for platform in ("el7", "el9", "sles15", "ubuntu22.04", "debian13"):
        items = _service_items(platform)
        assert {item["id"] for item in items} >= {"process-opt-out", "application-switch"}
        different |= {_commands(item): item for item in items}
    for number, item in enumerate(different.values()):
        root = CommandRoot(tmp_path / str(number), "transparent_hugepage", "sh")
        (root.folder / "systemd").write_text(f"{systemd}\n")
        before = root.state()
        changes = _runnable([*(item["now"] if item["id"] != "application-switch" else ()), *item["persist"]])
        root.run(changes)
        after = root.state()
        root.run(changes)
        assert root.state() == after
        (drop_in,) = (text for path, text in after.items() if "redis-server.service.d" in path)
        if item["id"] == "process-opt-out":
            word = "disable" if "prctl(41, 1, 0," in item["now"][0] else "madvise"
            wrapped = (
                f"ExecStart=\nExecStart={root.folder}/usr/local/bin/without-thp /usr/bin/redis-server /etc/redis.conf"
            )
            assert drop_in.startswith(f"[Service]\nMemoryTHP={word}\n" if systemd == "260" else f"[Service]\n{wrapped}")
        else:
            assert re.fullmatch(r"\[Service\]\nEnvironment=\w+=\S+\n", drop_in)
        _is_valid(drop_in, root.folder, tmp_path)
        root.run(_runnable(item["undo"]))
        assert root.state() == before, item


@cache
def _systemd_here() -> int:
    """The version of this machine's systemd-analyze; 0 without it."""
    if not (program := shutil.which("systemd-analyze")):
        return 0
    found = re.match(r"systemd (\d+)", subprocess.check_output([program, "--version"], text=True))
    return int(found[1]) if found else 0


def _is_valid(drop_in: str, root: Path, folder: Path) -> None:
    """systemd has nothing to say about the service with its drop-in, if its own version has what is in it."""
    if _systemd_here() < (260 if "MemoryTHP=" in drop_in else 1):
        return
    unit = folder / "checked.service"
    unit.write_text(
        "[Service]\nExecStart=/bin/true\n" + drop_in.replace(f"{root}/usr/local/bin/without-thp", "/bin/true")
    )
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert not [line for line in done.stderr.splitlines() if unit.name in line and "not executable" not in line]


def test_a_cluster_gets_the_setting_on_labelled_nodes_only(tmp_path: Path) -> None:
    """One object and one label, twice as well; without them afterwards."""
    host = HostView("ubuntu22.04", "E7", apps=("kubernetes",))
    (item,) = advice(["defrag-never"], "fault-compaction", host)
    root = CommandRoot(tmp_path, "transparent_hugepage", "sh")
    before = root.state()
    for _ in range(2):
        root.run(_runnable(item["persist"]))
        state = root.state()
        assert state["labels"] == "thp-settings=on\n"
        pod = yaml.safe_load(state["daemonset"])["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"thp-settings": "on"}
    root.run(_runnable(item["undo"][1:]))
    assert root.state() == before


def _runnable(commands: list[str]) -> list[str]:
    """Without words for the reader and without searches that may find nothing."""
    return [c for c in commands if not (c.startswith(("#", "grep")) and "||" not in c) and "| grep -E" not in c]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_is_written_lasts(platform: str, tmp_path: Path) -> None:
    """Each value that `now` writes stands in what `persist` leaves behind: boot line, unit, start file or sysctl."""
    names = ("defrag-never", "thp-never", "khugepaged-defaults", "numa-settings", "khugepaged-max-ptes-none")
    for number, item in enumerate(i for i in _changing(_host(platform)) if i["id"] in names):
        root = CommandRoot(tmp_path / str(number), _place(platform), "sh")
        before = root.state()
        root.run(_runnable(item["persist"]))
        lasting = "".join(text for path, text in root.state().items() if text != before.get(path))
        for command in item["now"]:
            if written := re.search(r"^(?:sysctl -w ([\w.]+)=(\w+)$|echo (\w+) > \S*hugepage/(\S+))", command):
                name, value = (written[1], written[2]) if written[1] else (written[4], written[3])
                wanted = rf"{re.escape(name)}\s*=\s*{value}|{value} > \S*{name}|transparent_hugepage={value}"
                assert re.search(wanted, lasting), (command, lasting)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
@pytest.mark.parametrize("platform", PLATFORMS)
def test_shellcheck_finds_no_mistake(platform: str) -> None:
    """All commands of a platform in plain sh; `~` and words without blanks are meant as they stand."""
    items = _items(_host(platform)).values()
    commands = {c for i in items for key in ("now", "persist", "undo") for c in i[key]}
    commands |= {i["verify"]["how"] for i in items if i["verify"]}
    script = "#!/bin/sh\n" + "\n".join(f"(\n{c}\n)" for c in sorted(commands) if not c.startswith("#"))
    ignored = "SC2086,SC2046,SC2009,SC2013,SC2038,SC2012,SC2016,SC2015,SC2002,SC2034"
    done = subprocess.run(
        ["shellcheck", "-s", "sh", "-e", ignored, "-S", "info", "-"], input=script, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[:3000]


def test_units_start_before_the_application_and_after_tuned() -> None:
    """What starts earlier would keep huge pages; tuned would take the setting back."""
    host = HostView("el9", apps=("mongodb",), versions={"mongodb": "7.0.1"})
    (unit, *_) = advice(["khugepaged-max-ptes-none"], "khugepaged-bloat", host)[0]["persist"]
    assert "Before=mongod.service" in unit
    assert re.search("After=.*tuned.service", unit)


def test_nodes_of_a_cluster_get_it_from_the_cluster() -> None:
    """A node is replaced, and its files with it; the object is valid YAML and writes the value."""
    host = HostView("ubuntu22.04", apps=("kubernetes",))
    item = advice(["defrag-never"], "fault-compaction", host)[0]
    text = next(c for c in item["persist"] if "DaemonSet" in c)
    pod = yaml.safe_load(text.split("<<'EOF'\n")[1].split("\nEOF")[0])["spec"]["template"]["spec"]
    assert pod["containers"][0]["securityContext"] == {"privileged": True}
    assert "echo never > /sys/kernel/mm/transparent_hugepage/defrag" in pod["containers"][0]["command"][2]
    assert "kubectl -n kube-system delete daemonset thp-defrag" in item["undo"]
    assert not any(
        "DaemonSet" in c for c in advice(["defrag-never"], "fault-compaction", HostView("el9"))[0]["persist"]
    )


@pytest.mark.parametrize(
    ("line", "then"),
    [
        ("GRUB_CMDLINE_LINUX='quiet'", "GRUB_CMDLINE_LINUX='quiet transparent_hugepage=never'"),
        ('GRUB_CMDLINE_LINUX="quiet"  ', 'GRUB_CMDLINE_LINUX="quiet transparent_hugepage=never"  '),
        ('GRUB_CMDLINE_LINUX="a transparent_hugepage=always b"', 'GRUB_CMDLINE_LINUX="a b transparent_hugepage=never"'),
    ],
)
def test_the_boot_line_in_other_quotes(line: str, then: str, tmp_path: Path) -> None:
    """What shells take in /etc/default/grub is found, and an older word goes."""
    root = CommandRoot(tmp_path, "transparent_hugepage", "sh")
    grub = root.folder / "etc/default/grub"
    grub.write_text(f"{line}\n")
    root.run(_runnable(advice(["thp-never"], "huge-page-zeroing", HostView("el7"))[0]["persist"]))
    assert grub.read_text() == f"{then}\n"


def test_unknown_hosts_without_systemd_get_a_start_file(tmp_path: Path) -> None:
    """Where systemd runs the unknown host gets a unit, else a line of rc.local that stands before any exit."""
    root = CommandRoot(tmp_path, "transparent_hugepage", "sh")
    shutil.rmtree(root.folder / "run/systemd")
    shutil.rmtree(root.folder / "etc/rc.d")
    before = root.state()
    item = advice(["defrag-never"], "fault-compaction", HostView())[0]
    root.run(_runnable(item["persist"]))
    start = (root.folder / "etc/rc.local").read_text().splitlines()
    assert start[-1] == "exit 0"
    assert start[1].endswith("# thpdiag defrag")
    assert not list((root.folder / "etc/systemd/system").iterdir())
    root.run(_runnable(item["undo"][1:]))
    assert root.state() == before


def test_sizes_of_huge_pages_follow(tmp_path: Path) -> None:
    """From 6.8 on a size that says always goes on whatever `enabled` says."""
    root = CommandRoot(tmp_path, "transparent_hugepage", "sh")
    size = root.settings / "hugepages-64kB/enabled"
    for remedy, word in (("thp-never", "never"), ("thp-madvise", "inherit")):
        item = advice([remedy], "huge-page-zeroing", HostView("debian13"))[0]
        size.write_text("[always] inherit madvise never\n")
        root.run(_runnable(item["now"]))
        assert size.read_text() == f"{word}\n"
        root.run(_runnable(item["undo"]))
        assert size.read_text() == "always\n"
    assert "hugepages-" not in str(advice(["thp-never"], "huge-page-zeroing", HostView("el9")))


def test_a_container_is_sent_to_its_node_for_all_of_the_host() -> None:
    """Also where a remedy has commands of its own that write below /proc and /sys."""
    host = HostView("debian13", container="docker")
    for item in _items(host).values():
        writes = any(re.search(r"> /(?:sys|proc)/|sysctl -w|mount -o", c) for c in item["now"])
        assert writes is item["now"][0].startswith("# on the node"), item["now"]
