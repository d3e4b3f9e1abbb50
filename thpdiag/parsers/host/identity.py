"""Identity of the host: uname, host name, distribution, packages, virtualization, CPUs, page size.

`uname -a`: host name, kernel release, build and architecture; also `uname -r`.

    Linux chaos 2.6.32-220.7.1.el6.x86_64 #1 SMP Wed Mar 7 00:52:02 GMT 2012 x86_64 x86_64 x86_64 GNU/Linux
    uname: Linux 4.18.0-477.10.1.el8_8.x86_64 #1 SMP Wed Apr 5 13:35:01 EDT 2023 x86_64     a Java virtual machine
    3.10.0-229.14.1.el7.x86_64

Older coreutils print machine, processor and platform, newer ones only the machine. `uname -r` is detected by its
command, and without one by the suffixes that distributions add to a release. Source: coreutils uname(1).

The host name: `hostname`, as sos and insights-client save it, and /etc/hostname.

    db1.example.com

It is the name that `uname -n` prints. A host name in a prompt takes precedence; it may be a custom one. `hostname -f`
queries a name server and is not read. Source: hostname(1); sos host plugin, general up to 3.4.

The distribution: os-release, lsb-release, redhat-release and similar files, SuSE-release, lsb_release -a,
debian_version, `cat /etc/*release`.

    CentOS release 6.2 (Final)
    PRETTY_NAME="Ubuntu 14.04.5 LTS"

One line on RHEL 6 and its rebuilds, shell assignments from RHEL 7 on, `VERSION = 11` and `PATCHLEVEL = 2` below the
name on SLES 11. Several files are combined: name and id of os-release come first, the file of a rebuild before the
redhat-release that it also has, and the most precise release number that is consistent with the first (7.1.1503 rather
than 7). Source: os-release(5), lsb_release(1), the distributions.

Installed packages of the applications that react to huge pages, and of tuned: lists of rpm and dpkg.

    mongodb-org-server-7.0.12-1.el8.x86_64               Mon 05 Aug 2024 10:00:00 AM UTC
    ii  redis-server   5:6.0.16-1ubuntu1   amd64   Persistent key-value database with network interface
    redis                               SUSE Linux Enterprise 15            6.2.6-150400.3.22.1

sosreport saves them as installed-rpms and installed-debs (`rpm -qa` followed by the date, `dpkg -l`). In dpkg lists
only rows with `ii` are installed. supportconfig has names, distributions and versions below a title line. Release
and epoch are left out, because the distribution defines them. Other packages are not read. An installed package does
not necessarily run.

Virtualization: `hostnamectl`, `systemd-detect-virt`, `virt-what`.

         Chassis: container
  Virtualization: lxc
    kvm

systemd prints one word for containers and virtual machines; virt-what prints one fact per line (`kvm`, `aws`). A
capture from inside a container shows settings and counters of the host's kernel, but memory size, CPUs and uptime may
be those of the container (lxcfs). Source: systemd src/basic/virt.c, virt-what(1).

Number of CPUs, sockets and NUMA nodes, architecture and hypervisor: `lscpu`, `nproc`.

    CPU(s):                16
    Socket(s):             2
    NUMA node(s):          2
    Hypervisor vendor:     KVM

lscpu of util-linux 2.37 and later indents its rows; the names are the same. nproc prints only a number, so it is
identified by the path of its saved output. /proc/cpuinfo is not read, because lscpu and /proc/stat have the same data.
Source: lscpu(1), nproc(1).

The size of a small page: `getconf PAGESIZE` (PAGE_SIZE is the same), or these rows of `getconf -a`.

    4096
    PAGESIZE                           4096

Bytes: 4096 on x86, 4096, 16384 or 65536 on 64-bit ARM, 65536 on most kernels for ppc64le. It determines the size of a
huge page. Only powers of two from 4 KiB to 1 MiB are accepted. Source: getconf(1), sysconf(3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.knowledge.applications import application_of_package
from thpdiag.model import Citation, Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors
from thpdiag.parsers._units import parse_count

_RELEASE = r"\d{1,2}\.\d{1,3}(?:\.\d{1,5})?[-+~_.\w]{0,80}"
_ARCH = r"(?:x86_64|i[3-6]86|aarch64|ppc64(?:le)?|s390x|riscv64|armv\w{1,8}|loongarch64|ia64)"
_UNAME_A = re.compile(
    rf"Linux (\S{{1,255}}) ({_RELEASE}) (#.{{1,200}}?)(?: ({_ARCH}))(?: (?:{_ARCH}|unknown)){{0,2}}"
    r"(?: GNU/Linux| Linux)?\s*$"
)
_UNAME_WITHOUT_ARCH = re.compile(rf"Linux (\S{{1,255}}) ({_RELEASE}) (#.{{1,200}})$")
_UNAME_WITHOUT_BUILD = re.compile(rf"(?:Linux (?:(\S{{1,255}}) )??)?({_RELEASE})(?: ({_ARCH}))?(?: GNU/Linux)?\s*$")
_UNAME_WITHOUT_NAME = re.compile(rf"Linux ({_RELEASE}) (#.{{1,200}}?)(?: ({_ARCH}))?\s*$")
_UNAME_OPENS = re.compile(
    rf"(?:uname: ?)?Linux \S{{1,255}} {_RELEASE} #|uname: ?Linux {_RELEASE} #|"
    rf"Linux {_RELEASE}(?: {_ARCH})?(?: GNU/Linux)?\s*$|"
    rf"\d\.\d{{1,3}}\.\d{{1,5}}-[-+~_.\w]{{0,60}}(?:{_ARCH}|el\d\w{{0,10}}|generic|lowlatency|amd64|default|aws|azure|gcp|uek)(?:[-+](?:64k|debug|rt))?\s*$"
)


def parse_uname(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield host.name, kernel.release, kernel.build and kernel.arch, as far as printed."""
    for number, line in lines:
        host = build = release = arch = None
        text = line.removeprefix("uname:").lstrip()
        if match := _UNAME_A.match(text) or _UNAME_WITHOUT_ARCH.match(text):
            host, release, build = match[1], match[2], match[3].strip()
            arch = match[4] if match.re is _UNAME_A else None
        elif match := _UNAME_WITHOUT_BUILD.match(text):
            release, arch = match[2], match[3]
        elif match := _UNAME_WITHOUT_NAME.match(text):
            release, build, arch = match.groups()
        cite = source.cite(number, line)
        values = {"host.name": host, "kernel.release": release, "kernel.build": build, "kernel.arch": arch}
        yield from (Fact(name, value, cite, time=source.time) for name, value in values.items() if value)


UNAME = Parser(
    "uname", "uname", parse_uname, opens=_UNAME_OPENS, continues=lambda _: False,
    paths=(re.compile(r"(?:^|/)uname[/_ ]-r$"),),
)  # fmt: skip


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}$")


@with_errors("host_name")
def parse_host_name(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield host.name."""
    for number, line in lines:
        if _NAME.match(line.strip()):
            yield Fact("host.name", line.strip(), source.cite(number, line))
        elif line.strip():
            errors.note(number, line, "no host name")


HOST_NAME = Parser(
    "host_name", "hostname", parse_host_name,
    paths=(
        re.compile(r"(?:^|/)(?:sos_commands/(?:host|general)|insights_commands|etc)/hostname$"),
        re.compile(r"(?:^|/)sosreport-[^/]{1,200}/hostname$|^hostname$"),
    ),
)  # fmt: skip


_IDS = {  # ID of /etc/os-release, tried in this order, so that the file of a rebuild precedes redhat-release
    "CentOS": "centos",
    "Oracle": "ol",
    "Rocky": "rocky",
    "AlmaLinux": "almalinux",
    "Scientific": "scientific",
    "Amazon": "amzn",
    "Fedora": "fedora",
    "SUSE Linux Enterprise": "sles",
    "openSUSE": "opensuse",
    "Ubuntu": "ubuntu",
    "Debian": "debian",
    "Red Hat": "rhel",
}
_ONE_LINE = re.compile(
    r"((?:CentOS|Red Hat|Oracle|Rocky|AlmaLinux|Scientific|Amazon|Fedora)[A-Za-z ]{0,50}? release (\d[\d.]{0,15})"
    r"(?: \([\w .-]{1,40}\))?)"
    r"(?: \([\w .-]{1,40}\)| Update \d+)*\s*$"
)
_SUSE = re.compile(r"((?:SUSE Linux Enterprise|openSUSE) [\w .]{0,50}?(\d+(?:\.\d+)?) \(\w{3,10}\))\s*$")
_SUSE_ROW = re.compile(r"(VERSION|PATCHLEVEL|CODENAME) = (\S.{0,40})\s*$")
_KEY = re.compile(r"([A-Z][A-Z_]{1,40})=(.*)$")
_OS_KEY = re.compile(
    r"(?:NAME|VERSION|ID|ID_LIKE|VERSION_ID|VERSION_CODENAME|PRETTY_NAME|ANSI_COLOR|CPE_NAME|LOGO|BUILD_ID|"
    r"VARIANT(?:_ID)?|PLATFORM_ID|"
    r"[A-Z_]{2,30}_URL|DISTRIB_\w+|LSB_VERSION|UBUNTU_CODENAME|DEBIAN_CODENAME|(?:REDHAT|CENTOS|ROCKY|ALMALINUX|ORACLE)_\w+|SUPPORT_END)=\S?"
)
_LSB = re.compile(r"(LSB Version|Distributor ID|Description|Release|Codename):\s*(\S.*)$")
_DEBIAN = re.compile(r"(\d{1,2}(?:\.\d{1,2})?|[a-z]+/sid)\s*$")
_OS_RELEASE_OPENS = re.compile(
    rf"{_ONE_LINE.pattern}|{_SUSE.pattern}|(?:PRETTY_NAME|NAME|ID|VERSION_ID|VERSION|DISTRIB_(?:ID|RELEASE|DESCRIPTION))=\S|"
    r"(?:LSB Version|Distributor ID):\s*\S|Description:\s+(?:CentOS|Ubuntu|Debian|Red Hat|SUSE|openSUSE|Oracle|Fedora)"
)
_PLAIN = re.compile(r"(?:NAME|ID|VERSION_ID|VERSION)=")


def _confirm(lines: list[str]) -> object:
    """Require another key of os-release after NAME= and similar keys, which also occur in other files."""
    return not _PLAIN.match(lines[0]) or any(re.match(r"(?:VERSION_ID|ID|PRETTY_NAME|ID_LIKE)=", x) for x in lines[1:6])


def _continues(line: str) -> object:
    return (
        any(p.match(line) for p in (_OS_KEY, _ONE_LINE, _SUSE, _SUSE_ROW, _LSB))
        or line == "No LSB modules are available."
    )


CitedText = tuple[str, Citation]


class _Release:
    """The contents of release files; the first value of each key."""

    def __init__(self) -> None:
        self.keys: dict[str, CitedText] = {}
        self.lines: list[tuple[str, str, str, Citation]] = []  # id, name, release
        self.debian: CitedText | None = None

    def parse_line(self, text: str, cite: Citation, path: str) -> bool:
        """Parse a line; return False if it is not a line of a release file."""
        if line := _ONE_LINE.match(text) or _SUSE.match(text):
            distribution = next((short for word, short in _IDS.items() if line[1].startswith(word)), "")
            self.lines.append((distribution, line[1], line[2], cite))
        elif pair := _SUSE_ROW.match(text) or _KEY.match(text) or _LSB.match(text):
            key = f"SUSE {pair[1]}" if pair.re is _SUSE_ROW else pair[1]
            if pair[2].strip("\"' "):
                self.keys.setdefault(key, (pair[2].strip("\"' "), cite))
        elif path.endswith("debian_version") and _DEBIAN.match(text):
            self.debian = (text, cite)
        else:
            return False
        return True

    def first(self, *names: str) -> CitedText | None:
        return next((self.keys[name] for name in names if name in self.keys), None)

    def main_line(self) -> tuple[str, str, str, Citation] | None:
        """Return the line of the distribution's own one-line file, because rebuilds also have a redhat-release."""
        return min(self.lines, key=lambda line: line[0] == "rhel", default=None)

    def patch_level(self) -> str:
        patch = self.keys.get("SUSE PATCHLEVEL", ("0",))[0]
        return patch if patch.isdigit() and patch != "0" else ""

    def name(self) -> CitedText | None:
        if pretty := self.first("PRETTY_NAME"):
            return pretty
        if line := self.main_line():
            patch = self.patch_level()
            return (line[1].replace(" (", f" SP{patch} (") if patch else line[1]), line[3]
        description = self.first("Description", "DISTRIB_DESCRIPTION")
        if description or not self.debian:
            return description or self.first("NAME")
        return f"Debian GNU/Linux {self.debian[0]}", self.debian[1]

    def id(self) -> CitedText | None:
        if key := self.first("ID"):
            return key
        if (line := self.main_line()) and line[0]:
            return line[0], line[3]
        if lsb := self.first("Distributor ID", "DISTRIB_ID"):
            joined = lsb[0].lower()  # RedHatEnterpriseServer
            words = {word.lower().replace(" ", ""): short for word, short in _IDS.items()}
            return next((short for word, short in words.items() if joined.startswith(word)), joined), lsb[1]
        return ("debian", self.debian[1]) if self.debian else None

    def version(self) -> CitedText | None:
        """Return the most precise release number that is consistent with the first one."""
        versions = [self.keys[k] for k in ("VERSION_ID", "Release", "DISTRIB_RELEASE") if k in self.keys]
        if line := self.main_line():
            patch = self.patch_level()
            versions.append((f"{line[2]}.{patch}" if patch else line[2], line[3]))
        if self.debian:
            versions.append(self.debian)
        consistent = [v for v in versions if v[0] == versions[0][0] or v[0].startswith(f"{versions[0][0]}.")]
        return max(consistent, key=lambda v: len(v[0]), default=None)


@with_errors("os_release")
def parse_os_release(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield os.name, os.id and os.version once for the block."""
    release = _Release()
    for number, line in lines:
        is_parsed = release.parse_line(line.strip(), source.cite(number, line), source.path)
        if not is_parsed and line.strip() and not _continues(line):
            errors.note(number, line, "not a line of a release file")
    for name, value in (("os.name", release.name()), ("os.id", release.id()), ("os.version", release.version())):
        if value:
            yield Fact(name, value[0], value[1], time=source.time)


OS_RELEASE = Parser(
    "os_release", "release files of distributions", parse_os_release, opens=_OS_RELEASE_OPENS, confirm=_confirm,
    continues=_continues, paths=(re.compile(r"(?:^|/)etc/debian_version$"),),
)  # fmt: skip


_RPM = re.compile(r"([\w.+]{1,60}(?:-[\w.+]{1,60}){0,8})-(\d[\w.+~^]{0,40})-[\w.+~^]{1,60}\.(?:\w{4,7})(?:\s|$)")
_DEB = re.compile(r"ii\s+([\w.+-]{1,80})(?::\w+)?\s+(?:\d+:)?(\d[\w.+~]{0,60})\S{0,60}(?:\s|$)")
_SUPPORTCONFIG_HEAD = re.compile(r"NAME\s{1,40}DISTRIBUTION\s{1,40}VERSION\s*$")
_SUPPORTCONFIG = re.compile(r"([\w.+-]{1,80})\s{1,40}[A-Z(].{0,60}?\s{1,40}(\d[\w.+~^]{0,40})-[\w.+~^]{1,60}\s*$")
_LIST = re.compile(r"(?:^|/)(?:installed-(?:rpms|debs)|sos_commands/(?:rpm/sh_-c_rpm_\S*-qa|dpkg/dpkg_-l)[^/]*)$")


def parse_packages(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield package.version of applications, and tuned.version."""
    for number, line in lines:
        match = _RPM.match(line) or _DEB.match(line) or _SUPPORTCONFIG.match(line)
        if not match:
            continue
        name, version = match.groups()
        if name == "tuned":
            yield Fact("tuned.version", version, source.cite(number, line), time=source.time)
        elif app := application_of_package(name):
            labels = (("app", app.name), ("package", name))
            yield Fact("package.version", version, source.cite(number, line), labels, source.time)


PACKAGES = Parser(
    "packages", "lists of installed packages: rpm -qa, dpkg -l", parse_packages,
    opens=re.compile(rf"Desired=Unknown/Install/Remove/Purge/Hold|{_SUPPORTCONFIG_HEAD.pattern}"),
    continues=lambda _: True, paths=(_LIST,),
)  # fmt: skip


_CONTAINERS = frozenset({
    "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman", "rkt", "wsl", "proot", "pouch", "openvz", "oci",
    "linux_vserver", "container-other", "container",
})  # fmt: skip
_MACHINES = {
    "kvm": "kvm", "qemu": "kvm", "vmware": "vmware", "microsoft": "hyperv", "hyperv": "hyperv", "xen": "xen",
    "xen-hvm": "xen", "xen-domu": "xen", "oracle": "virtualbox", "virtualbox": "virtualbox", "amazon": "kvm",
}  # fmt: skip
_VIRTUALIZATION_ROW = re.compile(r"\s{0,24}(Chassis|Virtualization): +([\w-]{1,40})(?: \S{1,8})?\s*$")
_WORD = re.compile(r"\s*([a-z][\w-]{1,40})\s*$")
_VIRTUALIZATION_OPENS = re.compile(r"\s{0,24}(?:Static hostname|Icon name): +\S")


def parse_virtualization(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield host.container and host.hypervisor."""
    for number, line in lines:
        row = _VIRTUALIZATION_ROW.match(line)
        word = (row[2] if row else match[1] if (match := _WORD.match(line)) else "").lower()
        if word in _CONTAINERS:
            yield Fact("host.container", word, source.cite(number, line), time=source.time)
        elif word in _MACHINES and (row is None or row[1] == "Virtualization"):
            yield Fact("host.hypervisor", _MACHINES[word], source.cite(number, line), time=source.time)


VIRTUALIZATION = Parser(
    "virtualization", "hostnamectl, systemd-detect-virt, virt-what", parse_virtualization, opens=_VIRTUALIZATION_OPENS,
    continues=re.compile(r"\s{0,24}[A-Z][\w ]{2,30}: ").match,
    paths=(
        re.compile(
            r"(?:^|/)(?:sos_commands/\w+|insights_commands)/(?:hostnamectl|virt-what|systemd-detect-virt)[^/]*$"
        ),
    ),
)  # fmt: skip


_CPU_INFO_ROW = re.compile(r"\s*([A-Z][\w()\-/. ]{0,50}?(?:\(s\))?[\w ]{0,20}):(.*)$")
_CPU_INFO_OPENS = re.compile(
    r"\s*(?:Architecture|CPU op-mode\(s\)|CPU\(s\)|Hypervisor vendor|Virtualization type|Thread\(s\) per core):\s+\S"
)
_CONTINUES = re.compile(
    r"\s*(?:Architecture|CPU op-mode\(s\)|Address sizes|Byte Order|CPU\(s\)|O(?:n|ff)-line CPU\(s\) (?:list|mask)|"
    r"Vendor ID|Model name|BIOS [\w ]+|CPU family|Model|Thread\(s\) per core|Core\(s\) per (?:socket|cluster)|"
    r"(?:CPU s|S)ocket\(s\)|Cluster\(s\)|Drawer\(s\)|Book\(s\)|Stepping|Frequency boost|CPU\(s\) scaling MHz|"
    r"CPU (?:max |min |dynamic |static )?MHz|BogoMIPS|Flags|Virtualization(?: features| type)?|Hypervisor(?: vendor)?|"
    r"Caches \(sum of all\)|L\d[di]?(?: cache)?|NUMA(?: node(?:\(s\)|\d+ CPU\(s\)))?|Vulnerabilit(?:y|ies)(?: [\w ]+)?|"
    r"Gather data sampling|Itlb multihit|L1tf|Mds|Meltdown|Mmio stale data|Reg file data sampling|Retbleed|Spec [\w ]+|"
    r"Spectre v\d|Srbds|Tsx async abort|Tsa|Vmscape|Old microcode|Indirect target selection|Ghostwrite):"
)
_VENDORS = {
    "kvm": "kvm", "vmware": "vmware", "xen": "xen", "microsoft": "hyperv", "innotek gmbh": "virtualbox",
    "oracle": "virtualbox",
}  # fmt: skip


_COUNTS = {
    "CPU(s)": ("cpu.count", "CPUs"),
    "Socket(s)": ("cpu.sockets", "sockets"),
    "CPU socket(s)": ("cpu.sockets", "sockets"),  # up to util-linux 2.19
    "NUMA node(s)": ("numa.nodes", "NUMA nodes"),
}


@with_errors("cpu_info")
def parse_cpu_info(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield cpu.count, cpu.sockets, numa.nodes, kernel.arch and host.hypervisor."""
    for number, line in lines:
        cite, row = source.cite(number, line), _CPU_INFO_ROW.match(line)
        name, text = (row[1], row[2].strip()) if row else ("", line.strip())
        if name == "Hypervisor vendor":
            yield Fact("host.hypervisor", _VENDORS.get(text.lower(), text.lower()), cite, time=source.time)
        elif name == "Architecture":
            yield Fact("kernel.arch", text, cite, time=source.time)
        elif name in _COUNTS and text == "-":
            continue  # many virtual machines do not report sockets
        elif name in _COUNTS or (text.isdigit() and not row):
            count, (fact, noun) = parse_count(text), _COUNTS.get(name, _COUNTS["CPU(s)"])
            if count is None or not 0 < count < 2**20:
                errors.note(number, line, f"not a number of {noun}")
            else:
                yield Fact(fact, count, cite, time=source.time)
        elif text and not row:
            errors.note(number, line, "not a `name: value` row")


CPU_INFO = Parser(
    "cpu_info", "lscpu and nproc", parse_cpu_info, opens=_CPU_INFO_OPENS, continues=_CONTINUES.match,
    paths=(re.compile(r"(?:^|/)nproc$"),),
)  # fmt: skip


_PAGE_SIZE_ROW = re.compile(r"PAGE_?SIZE\s{1,60}\d{4,7}\s*$")
_SIZE = re.compile(r"(?:PAGE_?SIZE\s{1,60})?(\d{4,7})\s*$")
PAGE_SIZES = frozenset(4096 << shift for shift in range(9))


@with_errors("page_size")
def parse_page_size(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield kernel.page_size."""
    for number, line in lines:
        size = _SIZE.match(line.strip())
        if size and int(size[1]) in PAGE_SIZES:
            yield Fact("kernel.page_size", int(size[1]), source.cite(number, line), time=source.time)
        elif line.strip():
            errors.note(number, line, "not a page size")


PAGE_SIZE = Parser(
    "page_size", "getconf PAGESIZE", parse_page_size, opens=_PAGE_SIZE_ROW, continues=_PAGE_SIZE_ROW.match,
    paths=(re.compile(r"(?:^|/)getconf[/_ ]PAGE_?SIZE$"),),
)  # fmt: skip
