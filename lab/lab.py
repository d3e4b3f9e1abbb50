"""The kernel lab: boots a distribution's kernel in QEMU, runs cases and the capture script, takes the bundles out.

    python lab/lab.py run --kernel 6.1 --case fork-cow   one guest; results in build/lab/set/6.1/fork-cow
    python lab/lab.py all                                every kernel and case that is not there yet

The kernel comes from Debian's packages through the machine's own package sources, with the suite that kernels.tsv
names; it is unpacked, never installed. The root of the guest is busybox, what is
installed here of perf, ps, top, vmstat and mpstat, and the lab's programs. No root, no network in the guest, and no
device of this machine is needed.
"""

from __future__ import annotations

import argparse
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import IO

LAB = Path(__file__).parent
BUILD = Path(os.environ.get("LAB_FOLDER", LAB.parent / "build" / "lab"))
TOOLS = ("dash", "perf", "ps", "top", "vmstat", "mpstat", "lscpu")
# In this order; kernels that have one built in, or another version of it, lack the file.
MODULES = (
    "virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk",
    "crc16", "crc32c_generic", "libcrc32c", "mbcache", "jbd2", "ext4",
)  # fmt: skip
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MEMORY_MIB, CPUS, CASES_A_GUEST = 2048, 2, 8
SLOT_MIB, FILES_MIB, SWAP_MIB = 16, 1400, 1024


def run(*command: str | Path, **options: object) -> str:
    """What a program prints."""
    done = subprocess.run([str(part) for part in command], check=True, text=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
    return str(done.stdout)


def cases() -> list[str]:
    """Names of all cases."""
    return sorted(path.stem for path in (LAB / "cases").glob("*.sh"))


def kernels() -> dict[str, tuple[str, str]]:
    """By name: suite, and the pattern of the package."""
    rows = (line.split("\t") for line in (LAB / "kernels.tsv").read_text("utf-8").splitlines() if line[:1] != "#")
    return {name: (suite, pattern) for name, suite, pattern in rows}


# The kernel.


def apt_options(suite: str, folder: Path) -> list[str]:
    """Options of apt for one suite of the repositories that this machine has, with state of its own below `folder`."""
    form = "$(REPO_URI) $(RELEASE)"
    known = run("apt-get", "indextargets", "--format", form, "Created-By: Packages", "Origin: Debian").splitlines()
    places = {line.split()[0] for line in known if ("security" in line) == suite.endswith("-security")}
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sources = folder / "lab.sources"
    text = "\n".join(
        f"Types: deb\nURIs: {uri}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n" for uri in sorted(places)
    )
    options = {
        "Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "-", "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache", "Acquire::Languages": "none", "APT::Sandbox::User": "",
    }  # fmt: skip
    flat = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    if not sources.exists() or sources.read_text("utf-8") != text:
        sources.write_text(text, "utf-8")
        run("apt-get", *flat, "update")
    return flat


def kernel(name: str) -> Path:
    """The folder that an image's packages are unpacked to: fetched once."""
    target = BUILD / "kernels" / name
    if (target / "done").exists():
        return target
    suite, pattern = kernels()[name]
    options = apt_options(suite, BUILD / "apt" / suite)
    found = [
        line.split()[0] for line in run("apt-cache", *options, "search", "--names-only", f"^{pattern}$").splitlines()
    ]
    if not found:
        raise SystemExit(f"lab: {suite} has no package {pattern}")
    newest = max(found, key=lambda package: [int(number) for number in re.findall(r"\d+", package)])
    shutil.rmtree(target, ignore_errors=True)
    (target / "packages").mkdir(parents=True)
    depends = run("apt-cache", *options, "depends", newest)
    parts = re.findall(r"Depends: (linux-(?:binary|modules)-\S+)", depends)  # since 7.3 the image is in two parts
    run("apt-get", *options, "download", newest, *parts, cwd=target / "packages")
    for package in (target / "packages").glob("*.deb"):
        run("dpkg-deb", "-x", package, target)
    shutil.rmtree(target / "packages")
    (target / "done").touch()
    return target


def image(folder: Path) -> Path:
    """The kernel in its folder."""
    return next(path for path in sorted(folder.rglob("vmlinuz*")) if path.is_file())


# The root of the guest.


def copy_program(program: Path, root: Path) -> None:
    """A program with the libraries that it loads."""
    shutil.copy(program, root / "bin" / program.name)
    for library in re.findall(r"(/\S+) \(0x", run("ldd", program)):
        target = root / library.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)


def base_root() -> Path:
    """What is the same for all kernels: tools, programs, cases."""
    root = BUILD / "root"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "tmp", "etc", "mnt", "modules", "boot"):
        (root / name).mkdir(parents=True)
    busybox = shutil.which("busybox")
    if busybox is None:
        raise SystemExit("lab: needs busybox (package busybox-static)")
    shutil.copy(busybox, root / "bin" / "busybox")
    for applet in set(run(busybox, "--list").split()) - {"busybox", "rpm", "sh"}:
        (root / "bin" / applet).symlink_to("busybox")
    for tool in TOOLS:  # the shell of busybox prefers its own ps to that of procps
        if found := shutil.which(tool):
            (root / "bin" / tool).unlink(missing_ok=True)
            copy_program(Path(found), root)
    (root / "bin" / "sh").symlink_to("dash")
    (root / "lib" / "terminfo" / "d").mkdir(parents=True)
    shutil.copy("/lib/terminfo/d/dumb", root / "lib" / "terminfo" / "d" / "dumb")  # top wants it
    for source in (LAB / "programs").glob("*.c"):
        run(
            "cc",
            "-O1",
            "-Wall",
            "-Wno-format-truncation",
            "-static",
            "-pthread",
            "-o",
            root / "bin" / source.stem,
            source,
        )
    shutil.copytree(LAB / "cases", root / "cases")
    shutil.copy(LAB / "guest" / "init", root / "init")
    shutil.copy("/etc/os-release", root / "etc" / "os-release")
    script = run(sys.executable, "-m", "thpdiag", "capture-script", cwd=LAB.parent)
    (root / "capture.sh").write_text(script, "utf-8")
    return root


def initramfs(name: str, root: Path) -> Path:
    """The packed root with a kernel's modules and build options."""
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
    """A sparse file as a disk."""
    with path.open("wb") as file:
        file.truncate(size_mib << 20)
    return path


def disks(folder: Path, slots: int) -> list[str]:
    """Options for: vda for the result, vdb with a file system and one large file, vdc for swap, vdd that is slow."""
    tree = folder / "tree"
    tree.mkdir()
    disk(tree / "data", FILES_MIB - 200)
    files, swap = disk(folder / "files", FILES_MIB), disk(folder / "swap", SWAP_MIB)
    run("mke2fs", "-q", "-t", "ext4", "-d", tree, files, env={**os.environ, "PATH": "/usr/sbin:/sbin:/bin:/usr/bin"})
    run("mkswap", swap, env={**os.environ, "PATH": "/usr/sbin:/sbin:/bin:/usr/bin"}, stderr=subprocess.DEVNULL)
    slow = f"file={disk(folder / 'slow', 512)},throttling.iops-total=60"
    names = [f"file={disk(folder / 'out', SLOT_MIB * slots)}", f"file={files}", f"file={swap}", slow]
    return [word for name in names for word in ("-drive", f"{name},format=raw,if=virtio,cache=unsafe")]


def accelerators() -> list[str]:
    """KVM only if it is asked for: under some hypervisors it is there and runs no stock kernel."""
    return (
        ["-accel", "kvm", "-cpu", "host"]
        if os.environ.get("LAB_KVM")
        else ["-accel", "tcg,thread=multi", "-cpu", "Nehalem"]
    )


def boot(name: str, wanted: list[str], root: Path, seconds: int, limit: int) -> None:
    """Runs one guest for some cases, at most `limit` seconds for each, and takes out what it has recorded."""
    folder = BUILD / "guest"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = "console=ttyS0 panic=-1 quiet mitigations=off nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
    (root / "lab.conf").write_text(f"seconds={seconds}\ncases='{' '.join(wanted)}'\n", "utf-8")
    command = [
        "qemu-system-x86_64", *accelerators(), "-m", str(MEMORY_MIB), "-smp", str(CPUS), "-nodefaults", "-no-reboot",
        "-display", "none", "-serial", f"file:{folder / 'console'}", "-kernel", str(image(kernel(name))),
        "-initrd", str(initramfs(name, root)), "-append", words, *disks(folder, len(wanted)),
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
    """What a guest has left of one case; nothing where it did not come to its end."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BytesIO(out.read(SLOT_MIB << 20))) as results:
            results.extractall(target, filter="data")
    except tarfile.TarError:
        print(f"{target.parent.name} {target.name}: nothing recorded", flush=True)


def complete(name: str, case: str) -> bool:
    """Whether a guest has left the bundles of a case."""
    return all((BUILD / "set" / name / case / phase / "bundle.tar.gz").exists() for phase in ("during", "after"))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The kernel lab.")
    parser.add_argument("what", choices=("run", "all"), help="all leaves out what is there")
    parser.add_argument("--kernel", action="append", choices=sorted(kernels()))
    parser.add_argument("--case", action="append", choices=cases())
    parser.add_argument("--seconds", type=int, default=24, help="of the capture under load")
    parser.add_argument("--limit", type=int, default=240, help="seconds after which a guest is ended, for each case")
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    root = base_root()
    for name in given.kernel or kernels():
        wanted = [case for case in given.case or cases() if given.what == "run" or not complete(name, case)]
        for at in range(0, len(wanted), CASES_A_GUEST):
            try:
                boot(name, wanted[at : at + CASES_A_GUEST], root, given.seconds, given.limit)
            except subprocess.CalledProcessError as error:
                print(f"{name}: {error}", flush=True)


if __name__ == "__main__":
    main()
