"""The commands of advice, run against files: they write, last and take back what they say."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from advice_items import advice
from thpdiag.diagnosis.remedies import HostView

SETTINGS = {"thp.enabled": "always", "thp.defrag": "always"}


@pytest.mark.parametrize("platform", ["", "el6.2", "el8"])
@pytest.mark.parametrize("known", [SETTINGS, {}], ids=["known", "unknown"])
def test_commands_do_what_they_say(platform: str, known: dict[str, str], tmp_path: Path) -> None:
    """Run against files: `now` writes, twice does no harm, `undo` brings the old value back."""
    name = "redhat_transparent_hugepage" if platform.startswith("el6") else "transparent_hugepage"
    folder = tmp_path / "sys/kernel/mm" / name
    folder.mkdir(parents=True)
    (tmp_path / "root").mkdir()
    setting = folder / "defrag"
    setting.write_text("[always] madvise never\n")
    item = advice(["defrag-never"], "fault-compaction", HostView(platform, settings=known))[0]
    for _ in range(2):
        _run(item["now"], tmp_path)
        assert setting.read_text() == "never\n"
    _run(item["undo"][:1], tmp_path)
    assert setting.read_text() == "always\n"


@pytest.mark.parametrize(
    ("platform", "file"), [("", "rc.local"), ("el6.2", "rc.d/rc.local"), ("sles11", "init.d/boot.local")]
)
def test_start_files_are_written_and_cleaned(platform: str, file: str, tmp_path: Path) -> None:
    """`persist` adds one line that sh accepts, done twice as well; `undo` takes it out and leaves the rest."""
    path = tmp_path / "etc" / file
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\ntrue\n")
    item = advice(["khugepaged-max-ptes-none"], "khugepaged-bloat", HostView(platform))[0]
    for _ in range(2):
        _run(item["persist"], tmp_path)
        assert path.read_text().count("max_ptes_none") == 1
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0
    _run([line for line in item["undo"] if "/etc/" in line], tmp_path, check=False)
    assert path.read_text() == "#!/bin/sh\ntrue\n"


@pytest.mark.parametrize(
    ("platform", "file", "line"),
    [
        ("sles11", "/boot/grub/menu.lst", "    kernel /vmlinuz root=/dev/sda1 quiet"),
        ("el7", "/etc/default/grub", 'GRUB_CMDLINE_LINUX="rhgb quiet"'),
        ("sles15", "/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"'),
        ("debian12", "/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT=""'),
    ],
)
def test_the_boot_line_is_set_once_and_cleared(platform: str, file: str, line: str, tmp_path: Path) -> None:
    """Done twice it still stands there once, and `undo` leaves no trace."""
    path = tmp_path / file.strip("/")
    path.parent.mkdir(parents=True)
    path.write_text(f"# first\n{line}\n")
    item = advice(["thp-never"], "huge-page-zeroing", HostView(platform, settings=SETTINGS))[0]
    for _ in range(2):
        _run([c for c in item["persist"] if file in c and c.startswith("sed")], tmp_path)
        assert path.read_text().count("transparent_hugepage=never") == 1
        assert re.search(r'transparent_hugepage=never"?$', path.read_text(), re.M)
    _run([c for c in item["undo"] if file in c and c.startswith("sed")], tmp_path)
    assert path.read_text() == f"# first\n{line}\n"


def test_systemd_units_are_written_whole(tmp_path: Path) -> None:
    """The unit writes each setting of a remedy; `undo` removes it. systemd has nothing to say about it."""
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    item = advice(["khugepaged-defaults"], "khugepaged-cpu", HostView("el9"))[0]
    _run(item["persist"][:2], tmp_path)
    (unit,) = (tmp_path / "etc/systemd/system").iterdir()
    starts = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    assert [start.count("echo ") for start in starts] == [1] * 4
    assert f"systemctl enable {unit.name}" in item["persist"][2]
    assert any(f"systemctl disable {unit.name}" in command for command in item["undo"])
    if shutil.which("systemd-analyze"):
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
        assert unit.name not in done.stderr


def test_one_unit_has_all_values_that_were_chosen(tmp_path: Path) -> None:
    """A second step adds its line, another word for a setting takes the place of the first, and each goes alone."""
    unit = tmp_path / "etc/systemd/system/thp-settings.service"
    unit.parent.mkdir(parents=True)
    host = HostView("debian12", "E7")
    milder, harder = advice(["defrag-madvise", "defrag-never"], "fault-compaction", host)
    (other,) = advice(["khugepaged-max-ptes-none"], "khugepaged-bloat", host)
    for item in (milder, other, harder):
        _run(item["persist"][:2], tmp_path)
    assert [path.name for path in unit.parent.iterdir()] == [unit.name]
    written = re.findall(r"echo (\S+) > \S+hugepage/(\S+?)\"", unit.read_text())
    assert sorted(written) == [("0", "khugepaged/max_ptes_none"), ("never", "defrag")]
    for item, left in ((harder, 1), (other, 0)):
        _run([command for command in item["undo"] if command.startswith("sed ")], tmp_path)
        assert unit.read_text().count("ExecStart=") == left


def test_sysfsutils_gets_its_own_names(tmp_path: Path) -> None:
    """/etc/sysfs.conf counts from /sys; `undo` takes out just these lines."""
    path = tmp_path / "etc/sysfs.conf"
    path.parent.mkdir()
    (tmp_path / "root").mkdir()
    path.write_text("# mine\n")
    item = advice(["khugepaged-defaults"], "khugepaged-cpu", HostView("ubuntu14.04"))[0]
    _run([line for line in item["persist"] if "sysfs.conf" in line], tmp_path)
    assert "kernel/mm/transparent_hugepage/khugepaged/pages_to_scan = 4096\n" in path.read_text()
    _run([line for line in item["undo"] if "sysfs.conf" in line], tmp_path)
    assert path.read_text() == "# mine\n"


def test_no_older_redis_gets_a_line_that_stops_it() -> None:
    """A directive that its version does not know would keep Redis from starting: it is asked first."""
    host = HostView("ubuntu16.04", apps=("redis",))
    (line,) = advice(["application-switch"], "huge-page-zeroing", host)[0]["persist"]
    assert line.index("CONFIG GET disable-thp | grep -q") < line.index("&& echo 'disable-thp yes'")


def test_what_overrides_the_boot_line_is_looked_for() -> None:
    """Cloud images of Debian and Ubuntu set the kernel command line in a file that counts more than the usual one."""
    item = advice(["thp-never"], "huge-page-zeroing", HostView("ubuntu22.04"))[0]
    assert any("/etc/default/grub.d" in command for command in item["persist"])


def test_tuned_is_part_of_the_step_that_it_would_take_back() -> None:
    """On RHEL 6 its profiles write `enabled`; who stops at the step before must know that this one belongs to it."""
    host = HostView("el6.2", settings=SETTINGS)
    step = advice(["thp-never", "tuned-profile"], "compaction-lock-convoy", host)[1]
    assert step["reason"].startswith("Needed with the step that changes enabled")
    alone = advice(["tuned-profile"], "setting-overridden", host)[0]
    assert alone["reason"].startswith("On this release")


def _run(commands: list[str], root: Path, check: bool = True) -> None:
    """Commands with every absolute path moved below a folder."""
    moved = "\n".join(re.sub(r"/(?=(?:sys|root|etc|boot)/)", f"{root}/", command) for command in commands)
    subprocess.run(["sh", "-c", moved], check=check, capture_output=True)
