"""The kernel lab: boots a distribution's kernel in QEMU, runs cases and the capture script, and collects the bundles.

    python lab/lab.py run --kernel 6.1 --case fork-cow   one guest; results in build/lab/set/6.1/fork-cow
    python lab/lab.py all                                every kernel and case without results

The kernel comes from Debian's packages through the machine's own package sources, with the suite that kernels.tsv
names; it is unpacked, never installed. The root of the guest has busybox, perf, ps, top, vmstat and mpstat, and the
programs of the lab. These tools are copied from this machine; for a kernel of another architecture they come from
packages too. The lab needs no root, no network in the guest, and no device of this machine.
"""

from __future__ import annotations

import argparse
import io
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

LAB = Path(__file__).parent
BUILD = Path(os.environ.get("LAB_FOLDER", LAB.parent / "build" / "lab"))
TOOLS = ("busybox", "dash", "perf", "ps", "top", "vmstat", "mpstat", "lscpu")
TOOL_PACKAGES = ("busybox-static", "dash", "linux-perf", "procps", "sysstat", "util-linux")
# In the order of loading; a kernel with a built-in module, or another version of it, has no such file.
MODULES = (
    "virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk",
    "crc16", "crc32c_generic", "libcrc32c", "mbcache", "jbd2", "ext4",
)  # fmt: skip
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MEMORY_MIB, CPUS, CASES_PER_GUEST = 2048, 2, 8
SLOT_MIB, FILES_MIB, SWAP_MIB = 16, 1400, 1024


@dataclass(frozen=True)
class Architecture:
    """The differences between architectures of guests."""

    triplet: str  # name of the folder of libraries
    compiler: str
    qemu: str
    machine: str
    cpu: str  # emulated model
    console: str


_AMD64 = Architecture("x86_64-linux-gnu", "x86_64-linux-gnu-gcc", "qemu-system-x86_64", "pc", "Nehalem", "ttyS0")
_ARM64 = Architecture(
    "aarch64-linux-gnu", "aarch64-linux-gnu-gcc", "qemu-system-aarch64", "virt", "cortex-a57", "ttyAMA0"
)
ARCHITECTURES = {"amd64": _AMD64, "arm64": _ARM64}  # by Debian's name


def run(*command: str | Path, **options: object) -> str:
    """Return the output of a program."""
    done = subprocess.run([str(part) for part in command], check=True, text=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
    return str(done.stdout)


def cases() -> list[str]:
    """Return the names of all cases."""
    return sorted(path.stem for path in (LAB / "cases").glob("*.sh"))


def kernels() -> dict[str, tuple[str, str]]:
    """Return suite and package pattern of each kernel."""
    rows = (line.split("\t") for line in (LAB / "kernels.tsv").read_text("utf-8").splitlines() if line[:1] != "#")
    return {name: (suite, pattern) for name, suite, pattern in rows}


def architecture(name: str) -> str:
    """Return Debian's name of a kernel's architecture, which ends the name of its package."""
    return kernels()[name][1].rpartition("-")[2]


@cache
def is_native(arch: str) -> bool:
    """Return whether this machine has an architecture."""
    return run("dpkg", "--print-architecture").strip() == arch


# Packages.


def apt_options(suite: str, arch: str) -> list[str]:
    """Return options of apt for one suite of the repositories of this machine, with a separate apt state."""
    folder = BUILD / "apt" / arch / suite
    fields = "$(REPO_URI) $(RELEASE)"
    targets = run("apt-get", "indextargets", "--format", fields, "Created-By: Packages", "Origin: Debian").splitlines()
    uris = {line.split()[0] for line in targets if ("security" in line) == suite.endswith("-security")}
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sources = folder / "lab.sources"
    text = "\n".join(
        f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n" for uri in sorted(uris)
    )
    options = {
        "Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "-", "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache", "Acquire::Languages": "none", "APT::Sandbox::User": "",
        "APT::Architecture": arch, "APT::Architectures": arch,
    }  # fmt: skip
    flat = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    if not sources.exists() or sources.read_text("utf-8") != text:
        sources.write_text(text, "utf-8")
        run("apt-get", *flat, "update")
    return flat


def unpack(packages: list[str], options: list[str], target: Path) -> None:
    """Fetch packages and unpack them to a folder, which then has a file `done`."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "packages").mkdir(parents=True)
    run("apt-get", *options, "download", *packages, cwd=target / "packages")
    for package in (target / "packages").glob("*.deb"):
        run("dpkg-deb", "-x", package, target)
    shutil.rmtree(target / "packages")
    (target / "done").touch()


def tools(arch: str) -> Path:
    """Return the folder with tools of an architecture: this machine's root, or packages of the same release."""
    if is_native(arch):
        return Path("/")
    target = BUILD / "tools" / arch
    if not (target / "done").exists():
        options = apt_options(platform.freedesktop_os_release()["VERSION_CODENAME"], arch)
        from_scratch = ("-o", "Dir::State::status=/dev/null", "--no-install-recommends")
        plan = run("apt-get", *options, *from_scratch, "--simulate", "install", *TOOL_PACKAGES)
        libraries = re.findall(r"^Inst ((?:lib|zlib)\S+)", plan, re.MULTILINE)
        unpack([*TOOL_PACKAGES, *libraries], options, target)
    return target


def kernel(name: str) -> Path:
    """Return the folder with the unpacked packages of a kernel, fetched once."""
    target = BUILD / "kernels" / name
    if (target / "done").exists():
        return target
    suite, pattern = kernels()[name]
    options = apt_options(suite, architecture(name))
    packages = [
        line.split()[0] for line in run("apt-cache", *options, "search", "--names-only", f"^{pattern}$").splitlines()
    ]
    if not packages:
        raise SystemExit(f"lab: {suite} has no package {pattern}")
    newest = max(packages, key=lambda package: [int(number) for number in re.findall(r"\d+", package)])
    depends = run("apt-cache", *options, "depends", newest)
    parts = re.findall(r"Depends: (linux-(?:binary|modules)-\S+)", depends)  # two packages since 7.3
    unpack([newest, *parts], options, target)
    return target


def image(folder: Path) -> Path:
    """Return the kernel image in the folder."""
    return next(path for path in sorted(folder.rglob("vmlinuz*")) if path.is_file())


# The root of the guest.


def copy_program(program: Path, folder: Path, triplet: str, root: Path) -> None:
    """Copy a program with its shared libraries, which are read from the files: the program may not run here."""
    shutil.copy(program, root / "bin" / program.name)
    places = [folder / "lib" / triplet, folder / "usr" / "lib" / triplet]
    libraries: dict[str, Path] = {}
    files = [program]
    while files:
        text = run("readelf", "-ld", files.pop())
        for name in re.findall(r"(?:Shared library: \[|program interpreter: )(\S+?)\]", text):
            if name not in libraries:
                candidates = [path for place in places if (path := place / Path(name).name).exists()]
                if not candidates:
                    raise SystemExit(f"lab: {program} needs {name}, which is not in {places[-1]}")
                libraries[name] = candidates[0]
                files.append(libraries[name])
    for name, library in libraries.items():
        target = root / (name.lstrip("/") if "/" in name else f"lib/{triplet}/{name}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


@cache
def base_root(arch: str) -> Path:
    """Return the root that all kernels of an architecture share: tools, programs, cases."""
    root, folder, triplet = BUILD / "root" / arch, tools(arch), ARCHITECTURES[arch].triplet
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "tmp", "etc", "mnt", "modules", "boot"):
        (root / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    if busybox is None:
        raise SystemExit("lab: needs busybox (package busybox-static)")
    for applet in set(run(busybox, "--list").split()) - {"busybox", "rpm", "sh"}:
        (root / "bin" / applet).symlink_to("busybox")
    path = os.pathsep.join(str(folder / part) for part in ("usr/bin", "bin"))
    for tool in TOOLS:  # the shell of busybox prefers its own ps to that of procps
        if program := shutil.which(tool, path=path):
            (root / "bin" / tool).unlink(missing_ok=True)
            copy_program(Path(program), folder, triplet, root)
    (root / "bin" / "sh").symlink_to("dash")
    (root / "lib" / "terminfo" / "d").mkdir(parents=True)
    shutil.copy("/lib/terminfo/d/dumb", root / "lib" / "terminfo" / "d" / "dumb")  # needed by top
    flags = ("-O1", "-Wall", "-Wno-format-truncation", "-static", "-pthread")
    for source in (LAB / "programs").glob("*.c"):
        run(ARCHITECTURES[arch].compiler, *flags, "-o", root / "bin" / source.stem, source)
    shutil.copytree(LAB / "cases", root / "cases")
    shutil.copy(LAB / "guest" / "init", root / "init")
    shutil.copy("/etc/os-release", root / "etc" / "os-release")
    script = run(sys.executable, "-m", "thpdiag", "capture-script", cwd=LAB.parent)
    (root / "capture.sh").write_text(script, "utf-8")
    return root


def initramfs(name: str, root: Path) -> Path:
    """Return the packed root with modules and build options of a kernel."""
    folder = kernel(name)
    for old in (*(root / "modules").iterdir(), *(root / "boot").iterdir()):
        old.unlink()
    for number, module in enumerate(MODULES):
        for path in folder.rglob(f"{module}.ko*"):
            data = path.read_bytes()
            packed = lzma.decompress(data) if path.suffix == ".xz" else data
            (root / "modules" / f"{number:02}-{module}.ko").write_bytes(packed)
    for path in folder.rglob("config-*"):
        lines = path.read_text("utf-8").splitlines(keepends=True)
        (root / "boot" / path.name).write_text(
            "".join(x for x in lines if "HUGEPAGE" in x or "COMPACTION" in x), "utf-8"
        )
    target = BUILD / f"{name}.cpio.gz"
    command = f"cd {root} && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet | gzip -1"
    with target.open("wb") as out:
        subprocess.run(["sh", "-c", command], check=True, stdout=out)
    return target


# The guest.


def disk(path: Path, size_mib: int) -> Path:
    """Create a sparse file as a disk."""
    with path.open("wb") as file:
        file.truncate(size_mib << 20)
    return path


def disks(folder: Path, slots: int) -> list[str]:
    """Return options for vda for the result, vdb with a file system and a large file, vdc for swap, a slow vdd."""
    tree = folder / "tree"
    tree.mkdir()
    disk(tree / "data", FILES_MIB - 200)
    files, swap = disk(folder / "files", FILES_MIB), disk(folder / "swap", SWAP_MIB)
    run("mke2fs", "-q", "-t", "ext4", "-d", tree, files, env={**os.environ, "PATH": "/usr/sbin:/sbin:/bin:/usr/bin"})
    run("mkswap", swap, env={**os.environ, "PATH": "/usr/sbin:/sbin:/bin:/usr/bin"}, stderr=subprocess.DEVNULL)
    slow = f"file={disk(folder / 'slow', 512)},throttling.iops-total=60"
    names = [f"file={disk(folder / 'out', SLOT_MIB * slots)}", f"file={files}", f"file={swap}", slow]
    return [word for name in names for word in ("-drive", f"{name},format=raw,if=virtio,cache=unsafe")]


def machine(arch: str) -> list[str]:
    """Return the emulator. KVM is used only on request: under some hypervisors it exists but runs no stock kernel."""
    target = ARCHITECTURES[arch]
    with_kvm = is_native(arch) and os.environ.get("LAB_KVM")
    accelerator = ["-accel", "kvm", "-cpu", "host"] if with_kvm else ["-accel", "tcg,thread=multi", "-cpu", target.cpu]
    return [target.qemu, "-machine", target.machine, *accelerator]


def boot(name: str, wanted: list[str], seconds: int, limit: int) -> None:
    """Run one guest for some cases, at most `limit` seconds for each, and collect its results."""
    arch = architecture(name)
    root = base_root(arch)
    folder = BUILD / "guest"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kernel_arguments = (
        f"console={ARCHITECTURES[arch].console} panic=-1 quiet mitigations=off nowatchdog "
        "rcupdate.rcu_cpu_stall_suppress=1"
    )
    (root / "lab.conf").write_text(f"seconds={seconds}\ncases='{' '.join(wanted)}'\n", "utf-8")
    command = [
        *machine(arch), "-m", str(MEMORY_MIB), "-smp", str(CPUS), "-nodefaults", "-no-reboot",
        "-display", "none", "-serial", f"file:{folder / 'console'}", "-kernel", str(image(kernel(name))),
        "-initrd", str(initramfs(name, root)), "-append", kernel_arguments, *disks(folder, len(wanted)),
    ]  # fmt: skip
    begin = time.monotonic()
    try:
        subprocess.run(
            ["nice", "-n", "10", *command], check=True, timeout=limit * len(wanted), stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        print(f"{name}: ended after {limit * len(wanted)} s")
    with (folder / "out").open("rb") as out:
        for slot, case in enumerate(wanted):
            out.seek(slot * SLOT_MIB << 20)
            take_out(out, BUILD / "set" / name / case)
    shutil.copy(folder / "console", BUILD / "set" / name / f"console-{wanted[0]}.txt")
    print(f"{name} {' '.join(wanted)}: {time.monotonic() - begin:.0f} s", flush=True)
    shutil.rmtree(folder)


def take_out(out: IO[bytes], target: Path) -> None:
    """Extract the results of one case; none if the guest did not finish it."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(out.read(SLOT_MIB << 20))) as results:
            results.extractall(target, filter="data")
    except tarfile.TarError:
        print(f"{target.parent.name} {target.name}: nothing recorded", flush=True)


def complete(name: str, case: str) -> bool:
    """Return whether both bundles of a case exist."""
    return all((BUILD / "set" / name / case / phase / "bundle.tar.gz").exists() for phase in ("during", "after"))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The kernel lab.")
    parser.add_argument("what", choices=("run", "all"), help="all leaves out what is there")
    parser.add_argument("--kernel", action="append", choices=sorted(kernels()))
    parser.add_argument("--case", action="append", choices=cases())
    parser.add_argument("--seconds", type=int, default=24, help="of the capture under load")
    parser.add_argument("--limit", type=int, default=240, help="seconds after which a guest is ended, for each case")
    options = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in options.kernel or kernels():
        target = ARCHITECTURES[architecture(name)]
        if missing := [program for program in (target.qemu, target.compiler) if shutil.which(program) is None]:
            print(f"{name}: needs {' and '.join(missing)}", flush=True)
            continue
        missing_cases = [case for case in options.case or cases() if options.what == "run" or not complete(name, case)]
        for first in range(0, len(missing_cases), CASES_PER_GUEST):
            try:
                boot(name, missing_cases[first : first + CASES_PER_GUEST], options.seconds, options.limit)
            except subprocess.CalledProcessError as error:
                print(f"{name}: {error}", flush=True)


if __name__ == "__main__":
    main()
