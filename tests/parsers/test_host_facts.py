"""What the readers of THP settings, releases, start-up files and notes make of their text."""

from __future__ import annotations

import pytest

from analyze_bytes import document
from thpdiag.model import Fact, Problem, Record
from thpdiag.model.parser import Parser, Source
from thpdiag.parsers import app_notes
from thpdiag.parsers.host import boot as rc_files
from thpdiag.parsers.host import identity as cpu_info
from thpdiag.parsers.host import identity as os_release
from thpdiag.parsers.host import identity as uname
from thpdiag.parsers.host import settings as sysctl
from thpdiag.parsers.host import settings as tuned
from thpdiag.parsers.host import thp_sysfs
from thpdiag.parsers.procfs import system as cmdline

THP = "sys/kernel/mm/transparent_hugepage/"


def read(reader: Parser, text: str, path: str = "") -> list[Record]:
    return list(reader.read(Source("bundle/file", path=path), enumerate(text.split("\n"), 1)))


def facts(records: list[Record]) -> dict[str, object]:
    return {r.name: r.value for r in records if isinstance(r, Fact)}


def odd_lines(records: list[Record]) -> list[int | None]:
    return [r.cite.line for r in records if isinstance(r, Problem)]


@pytest.mark.parametrize("directory", ["transparent_hugepage", "redhat_transparent_hugepage"])
def test_the_word_in_brackets_and_the_name_of_the_directory(directory: str) -> None:
    """Both directories are known, and the list says what the kernel accepts: on RHEL 6.2 no madvise."""
    found = facts(read(thp_sysfs.PARSER, "always [never]", f"sys/kernel/mm/{directory}/enabled"))
    assert found == {"thp.directory": directory, "thp.enabled": "never", "thp.enabled.accepts": "always never"}


@pytest.mark.parametrize(
    ("file", "text", "name", "value"),
    [
        ("defrag", "always defer defer+madvise [madvise] never", "thp.defrag", "madvise"),
        ("shmem_enabled", "always within_size advise [never] deny force", "thp.shmem_enabled", "never"),
        ("khugepaged/defrag", "[yes] no", "thp.khugepaged.defrag", "yes"),
        ("khugepaged/defrag", "0", "thp.khugepaged.defrag", 0),
        ("khugepaged/max_ptes_none", "511", "thp.khugepaged.max_ptes_none", 511),
        ("hpage_pmd_size", "2097152", "thp.hpage_pmd_size", 2097152),
    ],
)
def test_settings_by_their_file(file: str, text: str, name: str, value: object) -> None:
    """The same value by the path of the member, by grep's prefix, and below head's banner."""
    assert facts(read(thp_sysfs.PARSER, text, THP + file))[name] == value
    assert facts(read(thp_sysfs.PARSER, f"/{THP}{file}:{text}"))[name] == value
    assert facts(read(thp_sysfs.PARSER, f"==> /{THP}{file} <==\n{text}"))[name] == value


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("plain/enabled", "[always] madvise never", {"thp.enabled": "always"}),
        ("thp_defrag.txt", "always [never]", {"thp.defrag": "never"}),
        ("plain/enabled", "always inherit [madvise] never", {"setting.unplaced": "madvise"}),
        ("enabled/notes.txt", "always [madvise] never", {"setting.unplaced": "madvise"}),
        ("huge/enabled", "always defer defer+madvise [madvise] never", {"thp.defrag": "madvise"}),
    ],
)
def test_settings_by_the_name_of_a_file_alone(path: str, text: str, found: dict[str, object]) -> None:
    """Somebody copied the one file; values that this setting cannot have are not made its own."""
    got = facts(read(thp_sysfs.PARSER, text, path))
    assert {name: value for name, value in got.items() if not name.endswith("accepts")} == found


@pytest.mark.parametrize(
    "command",
    ["cat enabled defrag", "cat /sys/kernel/mm/transparent_hugepage/{enabled,defrag}", "cat enabled; cat defrag"],
)
def test_settings_by_the_command_that_printed_them(command: str) -> None:
    """Files named without their directory, in the order of the command."""
    source = Source("ticket", command=command)
    lines = [(1, "[always] madvise never"), (2, "always madvise [never]")]
    found = facts(list(thp_sysfs.PARSER.read(source, lines)))
    assert (found["thp.enabled"], found["thp.defrag"]) == ("always", "never")


def test_sizes_are_told_apart_by_a_label() -> None:
    """hugepages-64kB/enabled is another setting than hugepages-2048kB/enabled; the counters of a size are not read."""
    text = (
        f"/{THP}hugepages-64kB/enabled:always inherit madvise [never]\n"
        f"/{THP}hugepages-2048kB/enabled:always [inherit] madvise never\n/{THP}hugepages-64kB/stats/swpout:0"
    )
    found = [r for r in read(thp_sysfs.PARSER, text) if isinstance(r, Fact) and r.name == "thp.size.enabled"]
    assert [(r.label("size"), r.value) for r in found] == [("64kB", "never"), ("2048kB", "inherit")]


@pytest.mark.parametrize(
    "text", ["always madvise never", "[always] [never]", "always [sometimes]", "alway", "[always] \x1b[31mnever", ""]
)
def test_a_list_without_one_known_word_in_brackets_is_no_setting(text: str) -> None:
    """Neither none, two, unknown nor half words give a value."""
    found = read(thp_sysfs.PARSER, text, THP + "enabled")
    assert "thp.enabled" not in facts(found)
    assert odd_lines(found) == ([1] if text else [])


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "9" * 40, "0x10"])
def test_an_integer_setting_must_be_one(text: str) -> None:
    """Odd numbers become Problems."""
    found = read(thp_sysfs.PARSER, text, THP + "khugepaged/max_ptes_none")
    assert "thp.khugepaged.max_ptes_none" not in facts(found)
    assert odd_lines(found) == [1]


def test_a_list_without_its_file_is_a_problem_unless_only_one_file_has_such_words() -> None:
    """enabled and defrag look alike on most kernels; defer stands in defrag only."""
    assert odd_lines(read(thp_sysfs.PARSER, "always madvise [never]")) == [1]
    assert facts(read(thp_sysfs.PARSER, "always defer defer+madvise [madvise] never"))["thp.defrag"] == "madvise"


@pytest.mark.parametrize(
    ("text", "value", "directory"),
    [
        ("hugepages  ksm", "absent", None),
        ("hugepages  ksm  redhat_transparent_hugepage", "redhat_transparent_hugepage", None),
        ("hugepages\nksm\ntransparent_hugepage", "transparent_hugepage", None),
        (f"cat: /{THP}enabled: No such file or directory", "absent", "transparent_hugepage"),
        (f"ls: cannot access '/{THP}': No such file or directory", "absent", "transparent_hugepage"),
        ("ls: cannot access /sys/kernel/mm/*transparent_hugepage: No such file or directory", "absent", None),
        ("/sys/kernel/mm/redhat_transparent_hugepage", "redhat_transparent_hugepage", None),
    ],
)
def test_which_directory_exists(text: str, value: str, directory: str | None) -> None:
    """A listing decides; an error about one name says nothing about the other."""
    found = [r for r in read(thp_sysfs.PARSER, text) if isinstance(r, Fact)]
    assert [(r.name, r.value, r.label("directory")) for r in found] == [("thp.directory", value, directory)]
    assert thp_sysfs.PARSER.opens is not None
    assert thp_sysfs.PARSER.opens.match(text.split("\n")[0])
    assert thp_sysfs.PARSER.confirm is not None
    assert thp_sysfs.PARSER.confirm(text.split("\n"))


@pytest.mark.parametrize(
    "text", ["swap", "numa", "swap\n  total", f"cat: /{THP}khugepaged/max_ptes_shared: No such file or directory"]
)
def test_what_says_nothing_about_the_directory(text: str) -> None:
    """A word alone is no listing, and an old kernel lacks single files."""
    assert "thp.directory" not in facts(read(thp_sysfs.PARSER, text))


@pytest.mark.parametrize(
    ("text", "release", "arch"),
    [
        (
            "Linux h 2.6.32-220.7.1.el6.x86_64 #1 SMP Wed Mar 7 00:52:02 GMT 2012 x86_64 x86_64 x86_64 GNU/Linux",
            "2.6.32-220.7.1.el6.x86_64",
            "x86_64",
        ),
        ("Linux h 6.1.0-18-arm64 #1 SMP Debian 6.1.76-1 (2024-02-01) aarch64 GNU/Linux", "6.1.0-18-arm64", "aarch64"),
        ("3.10.0-229.14.1.el7.x86_64", "3.10.0-229.14.1.el7.x86_64", None),
        ("Linux h 4.2.0-42-generic #49~14.04.1-Ubuntu SMP Wed Jun 29 2016", "4.2.0-42-generic", None),
    ],
)
def test_uname(text: str, release: str, arch: str | None) -> None:
    """The release, and the architecture where it is printed."""
    found = facts(read(uname.UNAME, text))
    assert (found["kernel.release"], found.get("kernel.arch")) == (release, arch)
    assert found.get("host.name") == ("h" if " h " in text else None)


def test_the_head_of_sar_is_no_uname() -> None:
    """sar, iostat and mpstat begin with `Linux RELEASE (HOST)`."""
    assert uname.UNAME.opens is not None
    assert not uname.UNAME.opens.match("Linux 3.10.0-229.el7.x86_64 (host) \t07/25/2018 \t_x86_64_\t(4 CPU)")


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("CentOS release 6.2 (Final)", "", ("centos", "6.2")),
        ("Red Hat Enterprise Linux Server release 7.1 (Maipo)", "", ("rhel", "7.1")),
        ("Oracle Linux Server release 6.6\nRed Hat Enterprise Linux Server release 6.6 (Santiago)", "", ("ol", "6.6")),
        ("Red Hat Enterprise Linux Server release 6.6 (Santiago)\nOracle Linux Server release 6.6", "", ("ol", "6.6")),
        ('ID="centos"\nVERSION_ID="7"\nCentOS Linux release 7.1.1503 (Core)', "", ("centos", "7.1.1503")),
        ('NAME="Red Hat Enterprise Linux"\nID="rhel"\nVERSION_ID="8.10"', "", ("rhel", "8.10")),
        ("SUSE Linux Enterprise Server 11 (x86_64)\nVERSION = 11\nPATCHLEVEL = 2", "", ("sles", "11.2")),
        ("Distributor ID:\tUbuntu\nDescription:\tUbuntu 14.04.5 LTS\nRelease:\t14.04", "", ("ubuntu", "14.04")),
        ("Distributor ID:\tRedHatEnterpriseServer\nRelease:\t6.6", "", ("rhel", "6.6")),
        ("8.11", "etc/debian_version", ("debian", "8.11")),
    ],
)
def test_releases_of_distributions(text: str, path: str, expected: tuple[str, str]) -> None:
    """The rebuild wins over the release file it copied, the exact number over the short one."""
    found = facts(read(os_release.OS_RELEASE, text, path))
    assert (found["os.id"], found["os.version"]) == expected


def test_a_network_interface_is_no_distribution() -> None:
    """NAME= alone stands in many files."""
    assert os_release.OS_RELEASE.confirm is not None
    assert not os_release.OS_RELEASE.confirm(["NAME=eth0", "DEVICE=eth0", "ONBOOT=yes"])
    assert os_release.OS_RELEASE.confirm(['NAME="CentOS Linux"', 'VERSION="7 (Core)"', 'ID="centos"'])


def test_the_last_of_two_boot_parameters_holds() -> None:
    """As the kernel reads them; without any there is no fact."""
    twice = "root=/dev/sda1 transparent_hugepage=always quiet transparent_hugepage=never"
    assert facts(read(cmdline.CMDLINE, twice))["boot.transparent_hugepage"] == "never"
    assert "boot.transparent_hugepage" not in facts(read(cmdline.CMDLINE, "root=/dev/sda1 no_transparent_hugepage=1"))


def test_sysctl_of_the_running_kernel_and_of_a_file() -> None:
    """What is configured is not what holds."""
    running = [
        r
        for r in read(sysctl.SYSCTL, "vm.swappiness = 60\nnet.core.somaxconn = 128\nkernel.sysrq = 0")
        if isinstance(r, Fact)
    ]
    assert [(r.name, r.value, r.provenance) for r in running] == [("sysctl.vm.swappiness", 60, "")]
    written = read(sysctl.SYSCTL, "# why\nvm.swappiness = 60", "etc/sysctl.conf")
    assert [r.provenance for r in written if isinstance(r, Fact)] == ["rc file"]
    single = read(sysctl.SYSCTL, "1", "proc/sys/vm/zone_reclaim_mode")
    assert facts(single) == {"sysctl.vm.zone_reclaim_mode": 1}


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("Current active profile: virtual-guest", "", {"tuned.profile": "virtual-guest"}),
        ("Available profiles:\n- balanced\nCurrent active profile: balanced", "", {"tuned.profile": "balanced"}),
        ("No current active profile.", "", {"tuned.profile": "none"}),
        ("throughput-performance", "etc/tuned/active_profile", {"tuned.profile": "throughput-performance"}),
        ("tuned-2.4.1-1.el7.noarch", "", {"tuned.version": "2.4.1"}),
        ("package tuned is not installed", "", {}),
    ],
)
def test_tuned(text: str, path: str, expected: dict[str, str]) -> None:
    """The active profile and the version."""
    found = read(tuned.TUNED, text, path)
    assert facts(found) == expected
    assert not odd_lines(found)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "etc/rc.local",
            "echo never > /sys/kernel/mm/redhat_transparent_hugepage/enabled",
            ("thp.enabled", "never", "rc file"),
        ),
        (
            "etc/rc.local",
            "echo no | tee /sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
            ("thp.khugepaged.defrag", "no", "rc file"),
        ),
        (
            "etc/rc.local",
            "D=/sys/kernel/mm/transparent_hugepage\necho 'never' > ${D}/defrag",
            ("thp.defrag", "never", "rc file"),
        ),
        ("etc/sysfs.conf", "kernel/mm/transparent_hugepage/enabled = madvise", ("thp.enabled", "madvise", "rc file")),
        (
            "etc/tmpfiles.d/x.conf",
            "w /sys/kernel/mm/transparent_hugepage/defrag - - - - defer",
            ("thp.defrag", "defer", "rc file"),
        ),
        ("usr/lib/tuned/oracle/tuned.conf", "transparent_hugepages=never", ("thp.enabled", "never", "tuned")),
        (
            "etc/tune-profiles/virtual-guest/ktune.sh",
            "        set_transparent_hugepages always",
            ("thp.enabled", "always", "tuned"),
        ),
        (
            "etc/default/grub",
            'GRUB_CMDLINE_LINUX="quiet transparent_hugepage=never"',
            ("thp.enabled", "never", "boot line"),
        ),
    ],
)
def test_start_up_files(path: str, text: str, expected: tuple[str, str, str]) -> None:
    """Each of the places that people use, by its file and by grep's prefix."""
    (found,) = [r for r in read(rc_files.RC_FILES, text, path) if isinstance(r, Fact)]
    assert (found.label("setting"), found.value, found.provenance) == expected
    assert found.label("path") == path
    if "\n" not in text:
        (again,) = [r for r in read(rc_files.RC_FILES, f"/{path}:{text}") if isinstance(r, Fact)]
        assert again.labels == found.labels


def test_what_a_start_up_file_does_not_write() -> None:
    """Comments, variables from elsewhere, and the same words at a prompt are not taken for it."""
    text = "# echo never > /sys/kernel/mm/transparent_hugepage/enabled\necho 0 > $O/enabled\ntransparent_hugepages=no"
    assert read(rc_files.RC_FILES, text, "etc/rc.local") == []
    assert rc_files.RC_FILES.opens is not None
    assert not rc_files.RC_FILES.opens.match("echo never > /sys/kernel/mm/transparent_hugepage/enabled")


def test_cpus_and_hypervisor() -> None:
    """lscpu's rows, and nproc's number by its path."""
    text = "Architecture:   ppc64le\nCPU(s):         160\nOn-line CPU(s) list:  0-159\nHypervisor vendor:  Microsoft"
    assert facts(read(cpu_info.CPU_INFO, text)) == {
        "kernel.arch": "ppc64le",
        "cpu.count": 160,
        "host.hypervisor": "hyperv",
    }
    assert facts(read(cpu_info.CPU_INFO, "48", "insights_commands/nproc")) == {"cpu.count": 48}
    assert odd_lines(read(cpu_info.CPU_INFO, "CPU(s):    -4")) == [1]


@pytest.mark.parametrize(
    ("line", "counter"),
    [
        ("And indeed the compact_fail counter was noticed incrementing.", "compact_fail"),
        ("thp_fault_fallback keeps growing", "thp_fault_fallback"),
        ("We saw thp_split increasing.", "thp_split"),
        ("compact_stall and so on; compact_stall is steadily increasing", "compact_stall"),
        ("compact_fail is incremented if the system tries to compact memory but failed.", None),
        ("Check whether compact_fail keeps growing.", None),
        ("If compact_stall was seen increasing, tell us.", None),
        ("compact_fail was not seen increasing", None),
        ("Does compact_fail keep growing?", None),
    ],
)
def test_only_a_statement_that_a_counter_rose_is_a_note(line: str, counter: str | None) -> None:
    """The kernel's documentation, questions, conditions and denials are none."""
    assert facts(read(app_notes.PARSER, line)).get("note.counter_rising") == counter
    if counter:
        assert app_notes.PARSER.opens is not None
        assert app_notes.PARSER.opens.match(line)


@pytest.mark.parametrize(
    ("line", "app"),
    [
        (
            "12:M 25 Jul 10:00:00.000 # WARNING you have Transparent Huge Pages (THP) support enabled in your kernel.",
            "redis",
        ),
        ("I CONTROL  [initandlisten] ** WARNING: /sys/kernel/mm/transparent_hugepage/defrag is 'always'.", "mongodb"),
        ("Transparent huge pages make this machine slow", None),
    ],
)
def test_warnings_of_applications(line: str, app: str | None) -> None:
    """An application's own words name the application; a person's do not."""
    assert facts(read(app_notes.PARSER, line)).get("app.thp_warning") == app


@pytest.mark.parametrize("release", ["6.18.44", "6.18.44-custom-v657", "5.10.0-rc1+", "2.6.39.4"])
def test_a_release_of_ones_own_after_uname(release: str) -> None:
    """The command says what it is; a bare number elsewhere is none."""
    text = f"[root@db1 ~]# uname -r\n{release}\n"
    assert document(text.encode())["host"]["kernel"] == release
    assert "kernel" not in document(text.replace("uname -r", "cat version.txt").encode())["host"]


SETTING = "cat /sys/kernel/mm/transparent_hugepage/enabled"


@pytest.mark.parametrize("command", ["hostname", "hostname -s", "uname -n", "sudo hostname"])
def test_a_typed_hostname_names_the_host(command: str) -> None:
    """Also twice in one text, of two hosts; a command that failed names none."""
    one = f"$ {command}\ndb1.example.com\n$ {SETTING}\n[always] madvise never\n"
    other = f"$ {command}\ndb2\n$ {SETTING}\nalways madvise [never]\n"
    assert document(one.encode())["host"]["name"].startswith("db1")
    both = {
        case["host"]["name"].split(".")[0]: case["host"]["settings"]
        for case in document((one + other).encode())["cases"]
    }
    assert {name: settings["thp.enabled"]["value"] for name, settings in both.items()} == {
        "db1": "always",
        "db2": "never",
    }
    failed = f"$ {command}\nbash: hostname: command not found\n$ {SETTING}\n[always] madvise never\n"
    assert "bash" not in str(document(failed.encode())["host"].get("name"))


def test_the_name_in_a_prompt_counts_more_than_hostname() -> None:
    """Somebody's own word for it, and localhost, stay the name of all that was typed there: it is one host."""
    for name in ("prod-db", "localhost"):
        text = f"[root@{name} ~]# hostname\nip-10-1-2-3\n[root@{name} ~]# {SETTING}\n[always] madvise never\n"
        found = document(text.encode())
        assert "cases" not in found
        assert (found["host"]["name"], found["host"]["settings"]["thp.enabled"]["value"]) == (name, "always")
