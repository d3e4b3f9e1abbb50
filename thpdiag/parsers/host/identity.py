"""What the host is: uname, host name, distribution, packages, virtualization, CPUs, page size.

`uname -a`: host name, kernel release, build and architecture; also `uname -r`.

    Linux chaos 2.6.32-220.7.1.el6.x86_64 #1 SMP Wed Mar 7 00:52:02 GMT 2012 x86_64 x86_64 x86_64 GNU/Linux
    uname: Linux 4.18.0-477.10.1.el8_8.x86_64 #1 SMP Wed Apr 5 13:35:01 EDT 2023 x86_64     a Java virtual machine
    3.10.0-229.14.1.el7.x86_64

Older coreutils print machine, processor and platform, newer ones only the machine. `uname -r` is known by its
command, and alone by what distributions put at the end of a release. Source: coreutils uname(1).

The host's name: `hostname`, as sos and insights-client keep it, and /etc/hostname.

    db1.example.com

It is what `uname -n` prints. Where a prompt names the host, the prompt counts: it may be somebody's own word for it.
`hostname -f` asks a name server and is not read. Source: hostname(1); sos host plugin, general up to 3.4.

The distribution: os-release, lsb-release, redhat-release and its kin, SuSE-release, lsb_release -a, debian_version,
`cat /etc/*release`.

    CentOS release 6.2 (Final)
    PRETTY_NAME="Ubuntu 14.04.5 LTS"

One line on RHEL 6 and its rebuilds, shell assignments from RHEL 7 on, `VERSION = 11` and `PATCHLEVEL = 2` below the
name on SLES 11. A mix of several files gives one answer: the os-release name and id first, a rebuild's own file before
the redhat-release it carries too, and the most exact release number that does not contradict (7.1.1503 rather than 7).
Source: os-release(5), lsb_release(1), the distributions.

Installed packages of the applications that react to huge pages, and of tuned: lists of rpm and dpkg.

    mongodb-org-server-7.0.12-1.el8.x86_64               Mon 05 Aug 2024 10:00:00 AM UTC
    ii  redis-server   5:6.0.16-1ubuntu1   amd64   Persistent key-value database with network interface
    redis                               SUSE Linux Enterprise 15            6.2.6-150400.3.22.1

sosreport keeps them as installed-rpms and installed-debs (`rpm -qa` with the date behind, `dpkg -l`). Of dpkg only rows
that begin with `ii` are installed. supportconfig has names, distributions, and versions below a line of titles. Release
and epoch are left out: they are the distribution's. Other packages yield nothing. That a package is installed does not
say that it runs.

What a host runs in: `hostnamectl`, `systemd-detect-virt`, `virt-what`.

         Chassis: container
  Virtualization: lxc
    kvm

systemd names containers and machines in one word; virt-what prints one fact a line (`kvm`, `aws`). A capture from
inside a container shows settings and counters of the host's kernel, but sizes of memory, CPUs and the uptime may be
the container's own (lxcfs). Source: systemd src/basic/virt.c, virt-what(1).

Number of CPUs, sockets and NUMA nodes, architecture and hypervisor: `lscpu`, `nproc`.

    CPU(s):                16
    Socket(s):             2
    NUMA node(s):          2
    Hypervisor vendor:     KVM

lscpu of util-linux 2.37 and later indents its rows, older ones do not; the names are the same. nproc prints a number
alone, so it is known by the path of its recorded output. /proc/cpuinfo is not read: lscpu and /proc/stat say the same.
Source: lscpu(1), nproc(1).

The size of a small page: `getconf PAGESIZE` (PAGE_SIZE is the same), or these rows of `getconf -a`.

    4096
    PAGESIZE                           4096

Bytes: 4096 on x86, 4096, 16384 or 65536 on 64-bit ARM, 65536 on most kernels for ppc64le. It decides how large a huge
page is. Anything that is no power of two from 4 KiB to 1 MiB is no page size. Source: getconf(1), sysconf(3).
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
_ALL = re.compile(
    rf"Linux (\S{{1,255}}) ({_RELEASE}) (#.{{1,200}}?)(?: ({_ARCH}))(?: (?:{_ARCH}|unknown)){{0,2}}"
    r"(?: GNU/Linux| Linux)?\s*$"
)
_ANY = re.compile(rf"Linux (\S{{1,255}}) ({_RELEASE}) (#.{{1,200}})$")
_FEW = re.compile(rf"(?:Linux (?:(\S{{1,255}}) )??)?({_RELEASE})(?: ({_ARCH}))?(?: GNU/Linux)?\s*$")
_WITHOUT_NAME = re.compile(rf"Linux ({_RELEASE}) (#.{{1,200}}?)(?: ({_ARCH}))?\s*$")
_UNAME_OPENS = re.compile(
    rf"(?:uname: ?)?Linux \S{{1,255}} {_RELEASE} #|uname: ?Linux {_RELEASE} #|"
    rf"Linux {_RELEASE}(?: {_ARCH})?(?: GNU/Linux)?\s*$|"
    rf"\d\.\d{{1,3}}\.\d{{1,5}}-[-+~_.\w]{{0,60}}(?:{_ARCH}|el\d\w{{0,10}}|generic|lowlatency|amd64|default|aws|azure|gcp|uek)(?:[-+](?:64k|debug|rt))?\s*$"
)


def parse_uname(source: Source, lines: Lines) -> Iterator[Record]:
    """host.name, kernel.release, kernel.build and kernel.arch, as far as printed."""
    for number, line in lines:
        host = build = release = arch = None
        text = line.removeprefix("uname:").lstrip()
        if found := _ALL.match(text) or _ANY.match(text):
            host, release, build = found[1], found[2], found[3].strip()
            arch = found[4] if found.re is _ALL else None
        elif few := _FEW.match(text):
            release, arch = few[2], few[3]
        elif nameless := _WITHOUT_NAME.match(text):
            release, build, arch = nameless.groups()
        cite = source.cite(number, line)
        told = {"host.name": host, "kernel.release": release, "kernel.build": build, "kernel.arch": arch}
        yield from (Fact(name, value, cite, time=source.time) for name, value in told.items() if value)


UNAME = Parser(
    "uname", "uname", parse_uname, opens=_UNAME_OPENS, continues=lambda _: False,
    paths=(re.compile(r"(?:^|/)uname[/_ ]-r$"),),
)  # fmt: skip


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}$")


@with_errors("host_name")
def parse_host_name(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """host.name."""
    for number, line in lines:
        if _NAME.match(line.strip()):
            yield Fact("host.name", line.strip(), source.cite(number, line))
        elif line.strip():
            odd.note(number, line, "no host name")


HOST_NAME = Parser(
    "host_name", "hostname", parse_host_name,
    paths=(
        re.compile(r"(?:^|/)(?:sos_commands/(?:host|general)|insights_commands|etc)/hostname$"),
        re.compile(r"(?:^|/)sosreport-[^/]{1,200}/hostname$|^hostname$"),
    ),
)  # fmt: skip


_IDS = {  # as /etc/os-release calls it; tried in this order, so that a rebuild's own file wins over redhat-release
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
    """NAME= and the like also stand in other files: only beside their kin."""
    return not _PLAIN.match(lines[0]) or any(re.match(r"(?:VERSION_ID|ID|PRETTY_NAME|ID_LIKE)=", x) for x in lines[1:6])


def _continues(line: str) -> object:
    return (
        any(p.match(line) for p in (_OS_KEY, _ONE_LINE, _SUSE, _SUSE_ROW, _LSB))
        or line == "No LSB modules are available."
    )


Said = tuple[str, Citation]


class _Release:
    """What the files say, by kind of statement; of each kind the first."""

    def __init__(self) -> None:
        self.keys: dict[str, Said] = {}
        self.lines: list[tuple[str, str, str, Citation]] = []  # id, name, release
        self.debian: Said | None = None

    def take(self, text: str, cite: Citation, path: str) -> bool:
        """Whether it is a line of a release file."""
        if one := _ONE_LINE.match(text) or _SUSE.match(text):
            known = next((short for word, short in _IDS.items() if one[1].startswith(word)), "")
            self.lines.append((known, one[1], one[2], cite))
        elif pair := _SUSE_ROW.match(text) or _KEY.match(text) or _LSB.match(text):
            key = f"SUSE {pair[1]}" if pair.re is _SUSE_ROW else pair[1]
            if pair[2].strip("\"' "):
                self.keys.setdefault(key, (pair[2].strip("\"' "), cite))
        elif path.endswith("debian_version") and _DEBIAN.match(text):
            self.debian = (text, cite)
        else:
            return False
        return True

    def first(self, *names: str) -> Said | None:
        return next((self.keys[name] for name in names if name in self.keys), None)

    def main_line(self) -> tuple[str, str, str, Citation] | None:
        """The one-line file of the distribution itself: rebuilds carry a redhat-release too."""
        return min(self.lines, key=lambda line: line[0] == "rhel", default=None)

    def name(self) -> Said | None:
        if pretty := self.first("PRETTY_NAME"):
            return pretty
        if own := self.main_line():
            patch = self.keys.get("SUSE PATCHLEVEL", ("0",))[0]
            return (own[1].replace(" (", f" SP{patch} (") if patch.isdigit() and patch != "0" else own[1]), own[3]
        described = self.first("Description", "DISTRIB_DESCRIPTION")
        if described or not self.debian:
            return described or self.first("NAME")
        return f"Debian GNU/Linux {self.debian[0]}", self.debian[1]

    def id(self) -> Said | None:
        own, named = self.main_line(), self.first("ID")
        if named:
            return named
        if own and own[0]:
            return own[0], own[3]
        if lsb := self.first("Distributor ID", "DISTRIB_ID"):
            joined = lsb[0].lower()  # RedHatEnterpriseServer
            words = {word.lower().replace(" ", ""): short for word, short in _IDS.items()}
            return next((short for word, short in words.items() if joined.startswith(word)), joined), lsb[1]
        return ("debian", self.debian[1]) if self.debian else None

    def version(self) -> Said | None:
        """The most exact of the release numbers that agree with the first one."""
        found = [self.keys[k] for k in ("VERSION_ID", "Release", "DISTRIB_RELEASE") if k in self.keys]
        if own := self.main_line():
            patch = self.keys.get("SUSE PATCHLEVEL", ("0",))[0]
            found.append((f"{own[2]}.{patch}" if patch.isdigit() and patch != "0" else own[2], own[3]))
        if self.debian:
            found.append(self.debian)
        agreeing = [f for f in found if f[0] == found[0][0] or f[0].startswith(f"{found[0][0]}.")]
        return max(agreeing, key=lambda f: len(f[0]), default=None)


@with_errors("os_release")
def parse_os_release(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """os.name, os.id and os.version, once for the block."""
    release = _Release()
    for number, line in lines:
        taken = release.take(line.strip(), source.cite(number, line), source.path)
        if not taken and line.strip() and not _continues(line):
            odd.note(number, line, "not a line of a release file")
    for name, found in (("os.name", release.name()), ("os.id", release.id()), ("os.version", release.version())):
        if found:
            yield Fact(name, found[0], found[1], time=source.time)


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
    """package.version of applications, tuned.version."""
    for number, line in lines:
        found = _RPM.match(line) or _DEB.match(line) or _SUPPORTCONFIG.match(line)
        if not found:
            continue
        name, version = found.groups()
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
    """host.container and host.hypervisor."""
    for number, line in lines:
        found = _VIRTUALIZATION_ROW.match(line)
        word = (found[2] if found else one[1] if (one := _WORD.match(line)) else "").lower()
        if word in _CONTAINERS:
            yield Fact("host.container", word, source.cite(number, line), time=source.time)
        elif word in _MACHINES and (found is None or found[1] == "Virtualization"):
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
def parse_cpu_info(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """cpu.count, cpu.sockets, numa.nodes, kernel.arch and host.hypervisor."""
    for number, line in lines:
        cite, row = source.cite(number, line), _CPU_INFO_ROW.match(line)
        name, text = (row[1], row[2].strip()) if row else ("", line.strip())
        if name == "Hypervisor vendor":
            yield Fact("host.hypervisor", _VENDORS.get(text.lower(), text.lower()), cite, time=source.time)
        elif name == "Architecture":
            yield Fact("kernel.arch", text, cite, time=source.time)
        elif name in _COUNTS and text == "-":
            continue  # many virtual machines do not tell their sockets
        elif name in _COUNTS or (text.isdigit() and not row):
            count, (fact, what) = parse_count(text), _COUNTS.get(name, _COUNTS["CPU(s)"])
            if count is None or not 0 < count < 2**20:
                odd.note(number, line, f"not a number of {what}")
            else:
                yield Fact(fact, count, cite, time=source.time)
        elif text and not row:
            odd.note(number, line, "not a `name: value` row")


CPU_INFO = Parser(
    "cpu_info", "lscpu and nproc", parse_cpu_info, opens=_CPU_INFO_OPENS, continues=_CONTINUES.match,
    paths=(re.compile(r"(?:^|/)nproc$"),),
)  # fmt: skip


_PAGE_SIZE_ROW = re.compile(r"PAGE_?SIZE\s{1,60}\d{4,7}\s*$")
_SIZE = re.compile(r"(?:PAGE_?SIZE\s{1,60})?(\d{4,7})\s*$")
PAGE_SIZES = frozenset(4096 << doubled for doubled in range(9))


@with_errors("page_size")
def parse_page_size(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """kernel.page_size."""
    for number, line in lines:
        found = _SIZE.match(line.strip())
        if found and int(found[1]) in PAGE_SIZES:
            yield Fact("kernel.page_size", int(found[1]), source.cite(number, line), time=source.time)
        elif line.strip():
            odd.note(number, line, "not a page size")


PAGE_SIZE = Parser(
    "page_size", "getconf PAGESIZE", parse_page_size, opens=_PAGE_SIZE_ROW, continues=_PAGE_SIZE_ROW.match,
    paths=(re.compile(r"(?:^|/)getconf[/_ ]PAGE_?SIZE$"),),
)  # fmt: skip
