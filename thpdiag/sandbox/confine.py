"""Confinement of a process by itself: rlimits, an empty network, Landlock, seccomp, death with its parent.

There is no way back. What this kernel lacks is left out, layer by layer, and `confine` says which are in force.
Landlock needs no rights, since Linux 5.13: this process, and what it starts, may open only what is named. Its version
(ABI) says what can be restricted: 1 files; 2 renames between folders; 3 truncation; 4 TCP; 5 ioctl of devices; 6
signals and abstract sockets.

The seccomp filter of a few hundred bytes is about what Landlock leaves: sockets of all families (those with a path
too), memory and queues that outlive their process (System V, POSIX), other processes' memory, modes, owners, times and
attributes of files, namespaces, mounts, clocks, keys, and parts of the kernel that are new or large (bpf, io_uring,
userfaultfd, perf). All else is allowed, so that an interpreter and the programs of readers work: what is refused gives
EPERM. A call of another architecture (i386, x32), whose numbers mean other calls, ends the process. Newer kernels look
through the filter once for each number, so that it costs nothing after that. Numbers from 424 on are those of all
architectures. `clone3` is said not to be there, as its flags cannot be looked at; libraries then take `clone`.

Source: Documentation/userspace-api/landlock.rst, linux/landlock.h, linux/prctl.h, linux/sched.h, linux/seccomp.h,
linux/filter.h, linux/audit.h; arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h, which is
that of aarch64. The numbers of the headers are the same on all machines, those of Landlock's calls on all but Alpha.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
from itertools import count
from pathlib import Path

from thpdiag.sandbox.outcome import MIB, Allowed, Layer, Limits

# Of x86_64 and of aarch64; None where there is no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198), "socketpair": (53, 199),
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "shmdt": (67, 197),
    "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188), "msgctl": (71, 187),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
    "file_setattr": (469, 469), "mknod": (133, None), "mknodat": (259, 33), "open_by_handle_at": (304, 265),
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41),
    "mount": (165, 40), "umount2": (166, 39), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "vhangup": (153, 58), "syslog": (103, 116),
    "reboot": (169, 142), "sethostname": (170, 161), "setdomainname": (171, 162), "personality": (135, 92),
    "iopl": (172, None), "ioperm": (173, None), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
}  # fmt: skip
_CLONE, _CLONE3, _IOCTL = (56, 220), 435, (16, 29)
_NAMESPACES = 0x7E020000  # flags of clone: new mount, cgroup, uts, ipc, user, pid and network namespaces
_TERMINAL_INPUT = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: type into the terminal that standard input may be
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # the column above, and the architecture to audit
_X32_BIT = 0x40000000
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in seccomp_data; of arguments the low half
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def seccomp_filter() -> bytes:
    """The filter of this machine as the kernel takes it; empty where its system calls are not known."""
    known = _MACHINES.get(platform.machine())
    if known is None or struct.calcsize("P") != 8:
        return b""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _instructions(*known))


def _instructions(column: int, architecture: int) -> Iterator[tuple[int, int, int, int]]:
    """Code, how many to skip if so and if not, operand. Each test skips the return behind it unless it holds."""
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _IF_EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    yield _IF_AT_LEAST, 0, 1, _X32_BIT
    yield _RETURN, 0, 0, _KILL
    for number in sorted(row[column] or 0 for row in _REFUSED.values() if row[column] is not None):
        yield _IF_EQUAL, 0, 1, number
        yield refuse
    yield _IF_EQUAL, 0, 1, _CLONE3
    yield _RETURN, 0, 0, _ERRNO | errno.ENOSYS
    yield _IF_EQUAL, 0, 4, _CLONE[column]
    yield _LOAD, 0, 0, _FIRST
    yield _IF_ANY_BIT, 0, 1, _NAMESPACES
    yield refuse
    yield _RETURN, 0, 0, _ALLOW
    yield _IF_EQUAL, 0, 4, _IOCTL[column]
    yield _LOAD, 0, 0, _SECOND
    yield _IF_EQUAL, 1, 0, _TERMINAL_INPUT[0]
    yield _IF_EQUAL, 0, 1, _TERMINAL_INPUT[1]
    yield refuse
    yield _RETURN, 0, 0, _ALLOW


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install_filter(libc: ctypes.CDLL, content: bytes) -> None:
    """Put the filter over this process, for good; it must have given up new privileges. OSError as the kernel says."""
    program = _Program(len(content) // 8, content)
    zero = ctypes.c_ulong(0)
    if libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_MODE_FILTER), ctypes.byref(program), zero, zero) < 0:
        raise OSError(ctypes.get_errno(), "no filter of system calls")


_NEW_NET, _NEW_USER = 0x40000000, 0x10000000
_DEATH_SIGNAL, _DUMPABLE, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 36, 38
_LIBC = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: object) -> int:
    """A system call by its number; OSError as the kernel says."""
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments))


def die_with_parent(signal: int) -> None:
    """This signal comes when the thread that forked this process ends."""
    _prctl(_DEATH_SIGNAL, signal)


def adopt_orphans() -> None:
    """What a child leaves behind becomes a child of this process, to be found and ended."""
    _prctl(_SUBREAPER, 1)


def _prctl(what: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_LIBC.prctl(ctypes.c_int(what), ctypes.c_ulong(value), zero, zero, zero))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BENEATH = 1  # a rule for a path and what lies below it
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE  # the others make sense for folders only
_FILES = {1: 13, 2: 14, 3: 15, 4: 15}  # by version: that many bits, from the lowest
_NEWEST_FILES = 16
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_TCP_SINCE, _SCOPES_SINCE = 4, 6


def landlock_version() -> int:
    """The version of the kernel's Landlock; 0 if it has none or it is switched off."""
    try:
        return syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    except OSError:
        return 0


class LandlockRight(Enum):
    """What may be done with a path and what lies below it. What is read may be executed too: programs of readers."""

    LIST = _LIST
    READ = _EXECUTE | _READ | _LIST
    WRITE = ~_EXECUTE


def landlock_restrict(rights: Sequence[tuple[Path, LandlockRight]]) -> int:
    """From here on nothing else can be opened, and no TCP; gives the version, 0 for none.

    Files that are open stay so. A path that is not there is left out. It needs no new privileges (prctl).
    """
    known = landlock_version()
    if not known:
        return 0
    files = (1 << _FILES.get(known, _NEWEST_FILES)) - 1
    handled = [files, *([_TCP] if known >= _TCP_SINCE else ()), *([_SCOPES] if known >= _SCOPES_SINCE else ())]
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    rules = syscall(_CREATE, attributes, ctypes.c_size_t(ctypes.sizeof(attributes)), ctypes.c_uint32(0))
    try:
        for path, right in rights:
            with suppress(OSError):  # not there, or a pipe, which nobody opens by a name
                _allow(rules, path, right.value & files)
        syscall(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)
    return known


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _allow(rules: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _OF_FILES
        rule = _Beneath(rights, place)
        syscall(_ADD, ctypes.c_int(rules), ctypes.c_int(_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(place)


SPARE_MEMORY, SPARE_SECONDS = 64 * MIB, 5  # above the limit: to say that it was reached
_SYSTEM_PATHS = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero")
# What pmrep and sadf, the programs that readers start, look up; a customer's bytes are in none of them.
_PROGRAM_PATHS = ("/etc/pcp.conf", "/etc/pcp.env", "/etc/pcp", "/var/lib/pcp", "/etc/sysconfig/sysstat", "/etc/sysstat")


# What the interpreter, its libraries and the programs of readers look up; no variable of the analyst's but these.
_VARIABLES = re.compile(r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|OPENBLAS_NUM_THREADS|PYDANTIC_DISABLE_PLUGINS")
_MAX_PROCESSES = 64  # with threads
_COUNTED_SINCE = (5, 14)  # Linux counts the processes of each user namespace for themselves


def confine(limits: Limits, cell: Allowed, parent: int) -> tuple[Layer, ...]:
    """The layers that are in force now. `parent` is the process that forked this one."""
    _set_limits(limits)
    found = [Layer.LIMITS]
    with suppress(OSError):
        _prctl(_NO_NEW_PRIVS, 1)  # no program gains rights by set-uid or by capabilities of its file
        found.append(Layer.PRIVILEGES)
    with suppress(OSError):
        # Not even loopback is up. In a user namespace root would lose its right to read files of others.
        own_user_namespace = 0 if os.geteuid() == 0 else _NEW_USER
        _check(_LIBC.unshare(_NEW_NET | own_user_namespace))
        found.append(Layer.NETWORK)
        if own_user_namespace and _kernel() >= _COUNTED_SINCE:
            # Elsewhere the limit counts whatever the user runs on the machine, or root, whom it does not bind.
            resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_PROCESSES, _MAX_PROCESSES))
    with suppress(OSError):
        if landlock_restrict(_rights(cell)):
            found.append(Layer.FILES)
    with suppress(OSError):  # after all that changes rights, which would undo it
        _prctl(_DUMPABLE, 0)  # no dump of memory, not even through a pipe to a collector, which asks no limit
        die_with_parent(signal.SIGKILL)
        found.append(Layer.PARENT)
    if os.getppid() != parent:  # it ended before it was watched
        os._exit(1)
    with suppress(OSError):  # the last: it refuses some of the above
        if content := seccomp_filter():
            install_filter(_LIBC, content)
            found.append(Layer.SYSTEM_CALLS)
    return tuple(found)


def forget_environment() -> None:
    """Leave in this process no variable that is not needed, such as keys of a store: its memory is overwritten."""
    pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(_LIBC, "environ")
    blocks: list[tuple[int, int]] = []
    for number in count():
        if not (address := pointers[number]):
            break
        name, _, value = ctypes.string_at(address).partition(b"=")
        if not _VARIABLES.fullmatch(os.fsdecode(name)):
            blocks.append((address, len(name) + 1 + len(value)))
    for variable in [name for name in os.environ if not _VARIABLES.fullmatch(name)]:
        del os.environ[variable]
    for block in blocks:
        ctypes.memset(block[0], 0, block[1])


def _kernel() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])


def _rights(cell: Allowed) -> list[tuple[Path, LandlockRight]]:
    """What may be opened, and what for."""
    write = [Path(os.devnull), *([cell.scratch] if cell.scratch else ())]
    stdin = [] if cell.stdin is None else [Path("/dev/stdin")]  # a program may open its input by this name
    return [
        *((path, LandlockRight.READ) for path in (*_interpreter(), *cell.read, *stdin)),
        *((path, LandlockRight.LIST) for path in cell.names),
        *((path, LandlockRight.WRITE) for path in write),
    ]


def raise_memory_limit() -> None:
    """A little more memory, to say that there was not enough."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _set_limits(limits: Limits) -> None:
    memory = _address_space() + limits.memory
    bounds = {
        resource.RLIMIT_CPU: (limits.cpu_seconds, limits.cpu_seconds + SPARE_SECONDS),
        resource.RLIMIT_AS: (memory, memory + SPARE_MEMORY),
        resource.RLIMIT_FSIZE: (limits.file_size, limits.file_size),
        resource.RLIMIT_NOFILE: (limits.files, limits.files),
        resource.RLIMIT_CORE: (0, 0),
    }
    for which, (soft, hard) in bounds.items():
        most = resource.getrlimit(which)[1]
        if most != resource.RLIM_INFINITY:
            soft, hard = min(soft, most), min(hard, most)
        resource.setrlimit(which, (soft, hard))


def _address_space() -> int:
    """The address space of this process; /proc/self/statm is pages, the first of them all."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()


def _interpreter() -> list[Path]:
    """Python, its packages, ours, and what its libraries and the programs of readers need of the system."""
    own = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[1])]
    packages = [entry for entry in sys.path if entry.startswith("/") and entry not in ("/", _working_folder())]
    return [Path(path) for path in (*own, *packages, *_SYSTEM_PATHS, *_PROGRAM_PATHS)]


def _working_folder() -> str:
    """The folder we stand in, which `python -m` puts among the packages."""
    try:
        return str(Path.cwd())
    except OSError:
        return "/"
