"""Self-confinement of a process: rlimits, an empty network namespace, Landlock, seccomp, death with its parent.

Confinement is irreversible. Layers that this kernel lacks are left out, and `confine` returns those in force. Landlock
(Linux 5.13 and later) needs no privileges: this process and its children may open only the named paths. Its ABI version
determines what can be restricted: 1 files; 2 renames between folders; 3 truncation; 4 TCP; 5 ioctl of devices; 6
signals and abstract sockets.

The seccomp filter of a few hundred bytes covers what Landlock does not: sockets of all families (Unix sockets too),
memory and queues that outlive their process (System V, POSIX), memory of other processes, modes, owners, times and
attributes of files, namespaces, mounts, clocks, keys, and new or large kernel subsystems (bpf, io_uring, userfaultfd,
perf). Everything else is allowed, so that the interpreter and the programs of parsers work; refused calls return EPERM.
A call of another architecture (i386, x32), whose numbers mean other calls, kills the process. Newer kernels evaluate
the filter once per call number and cache the result, so it has no cost after that. Numbers from 424 on are the same on
all architectures. `clone3` returns ENOSYS, since seccomp cannot inspect its flags; libraries then use `clone`.

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

# System call numbers of x86_64 and aarch64; None where there is no such call.
_REFUSED_CALLS: dict[str, tuple[int | None, int | None]] = {
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
_NAMESPACE_FLAGS = 0x7E020000  # of clone: new mount, cgroup, uts, ipc, user, pid and network namespaces
_TERMINAL_IOCTLS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: inject input into the terminal on standard input
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column in the table above, AUDIT_ARCH value
_X32_BIT = 0x40000000
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENT_0, _ARGUMENT_1 = 0, 4, 16, 24  # offsets in seccomp_data; low halves of arguments
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def seccomp_filter() -> bytes:
    """Return the BPF program for this machine; empty for an unknown architecture."""
    machine = _MACHINES.get(platform.machine())
    if machine is None or struct.calcsize("P") != 8:
        return b""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in _instructions(*machine))


def _instructions(column: int, architecture: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield BPF instructions: code, jump if true, jump if false, operand. A test that fails skips its return."""
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    yield _LOAD, 0, 0, _ARCHITECTURE
    yield _IF_EQUAL, 1, 0, architecture
    yield _RETURN, 0, 0, _KILL
    yield _LOAD, 0, 0, _NUMBER
    yield _IF_AT_LEAST, 0, 1, _X32_BIT
    yield _RETURN, 0, 0, _KILL
    for number in sorted(row[column] or 0 for row in _REFUSED_CALLS.values() if row[column] is not None):
        yield _IF_EQUAL, 0, 1, number
        yield refuse
    yield _IF_EQUAL, 0, 1, _CLONE3
    yield _RETURN, 0, 0, _ERRNO | errno.ENOSYS
    yield _IF_EQUAL, 0, 4, _CLONE[column]
    yield _LOAD, 0, 0, _ARGUMENT_0
    yield _IF_ANY_BIT, 0, 1, _NAMESPACE_FLAGS
    yield refuse
    yield _RETURN, 0, 0, _ALLOW
    yield _IF_EQUAL, 0, 4, _IOCTL[column]
    yield _LOAD, 0, 0, _ARGUMENT_1
    yield _IF_EQUAL, 1, 0, _TERMINAL_IOCTLS[0]
    yield _IF_EQUAL, 0, 1, _TERMINAL_IOCTLS[1]
    yield refuse
    yield _RETURN, 0, 0, _ALLOW


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install_filter(libc: ctypes.CDLL, content: bytes) -> None:
    """Install the filter irreversibly. The process must have set no_new_privs. Raises OSError."""
    program = _Program(len(content) // 8, content)
    zero = ctypes.c_ulong(0)
    if libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_MODE_FILTER), ctypes.byref(program), zero, zero) < 0:
        raise OSError(ctypes.get_errno(), "no filter of system calls")


_NEW_NET, _NEW_USER = 0x40000000, 0x10000000
_DEATH_SIGNAL, _DUMPABLE, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 36, 38
_LIBC = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *arguments: object) -> int:
    """Make a system call by number; raises OSError."""
    return _check(_LIBC.syscall(ctypes.c_long(number), *arguments))


def die_with_parent(signal: int) -> None:
    """Have the kernel send this signal when the thread that forked this process ends."""
    _prctl(_DEATH_SIGNAL, signal)


def adopt_orphans() -> None:
    """Become the subreaper: orphaned descendants become children of this process, which can kill them."""
    _prctl(_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_LIBC.prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls landlock_*
_GET_VERSION_FLAG = 1
_PATH_BENEATH = 1  # type of a rule for a path and everything below it
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILE_RIGHTS = _EXECUTE | _WRITE | _READ | _TRUNCATE  # the other rights apply to folders only
_RIGHT_BITS = {1: 13, 2: 14, 3: 15, 4: 15}  # number of file system rights by version
_NEWEST_RIGHT_BITS = 16
_TCP_RIGHTS, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_TCP_SINCE, _SCOPES_SINCE = 4, 6


def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 if it has none or it is disabled."""
    try:
        return syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_GET_VERSION_FLAG))
    except OSError:
        return 0


class LandlockRight(Enum):
    """Rights to a path and everything below it. READ includes execution, for the programs of parsers."""

    LIST = _LIST
    READ = _EXECUTE | _READ | _LIST
    WRITE = ~_EXECUTE


def landlock_restrict(rights: Sequence[tuple[Path, LandlockRight]]) -> int:
    """Allow opening only these paths, and no TCP. Return the Landlock version, 0 if there is none.

    Open files stay open. Missing paths are left out. The process must have set no_new_privs (prctl).
    """
    version = landlock_version()
    if not version:
        return 0
    file_rights = (1 << _RIGHT_BITS.get(version, _NEWEST_RIGHT_BITS)) - 1
    tcp = [_TCP_RIGHTS] if version >= _TCP_SINCE else []
    handled = [file_rights, *tcp, *([_SCOPES] if version >= _SCOPES_SINCE else ())]
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    ruleset = syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(ctypes.sizeof(attributes)), ctypes.c_uint32(0))
    try:
        for path, right in rights:
            with suppress(OSError):  # the path does not exist, or is a pipe, which cannot be opened by name
                _allow(ruleset, path, right.value & file_rights)
        syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return version


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _allow(ruleset: int, path: Path, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        rule = ctypes.byref(_PathBeneath(rights, descriptor))
        syscall(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)


SPARE_MEMORY, SPARE_SECONDS = 64 * MIB, 5  # between soft and hard limit, to report that the limit was reached
_SYSTEM_PATHS = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero")
# Files that pmrep and sadf, which parsers start, look up; none of them has data of a customer.
_PROGRAM_PATHS = ("/etc/pcp.conf", "/etc/pcp.env", "/etc/pcp", "/var/lib/pcp", "/etc/sysconfig/sysstat", "/etc/sysstat")
# Variables for the interpreter, its libraries and the programs of parsers; all others of the user are removed.
_VARIABLES = re.compile(r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|OPENBLAS_NUM_THREADS|PYDANTIC_DISABLE_PLUGINS")
_MAX_PROCESSES = 64  # including threads
_NAMESPACE_COUNT_SINCE = (5, 14)  # from this kernel on RLIMIT_NPROC counts each user namespace separately


def confine(limits: Limits, allowed: Allowed, parent: int) -> tuple[Layer, ...]:
    """Confine this process, and return the layers in force. `parent` is the process that forked this one."""
    _set_limits(limits)
    layers = [Layer.LIMITS]
    with suppress(OSError):
        _prctl(_NO_NEW_PRIVS, 1)  # no program gains rights by set-uid or file capabilities
        layers.append(Layer.PRIVILEGES)
    with suppress(OSError):
        # Not even loopback is up. Root gets no user namespace, where it could not read files of other users.
        user_namespace = 0 if os.geteuid() == 0 else _NEW_USER
        _check(_LIBC.unshare(_NEW_NET | user_namespace))
        layers.append(Layer.NETWORK)
        if user_namespace and _kernel() >= _NAMESPACE_COUNT_SINCE:
            # Otherwise the limit would count all processes of the user, and it does not apply to root.
            resource.setrlimit(resource.RLIMIT_NPROC, (_MAX_PROCESSES, _MAX_PROCESSES))
    with suppress(OSError):
        if landlock_restrict(_rights(allowed)):
            layers.append(Layer.FILES)
    with suppress(OSError):  # after all changes of credentials, which would reset these two
        _prctl(_DUMPABLE, 0)  # no core dump, not even to a pipe, for which RLIMIT_CORE is ignored
        die_with_parent(signal.SIGKILL)
        layers.append(Layer.PARENT)
    if os.getppid() != parent:  # the parent ended before `die_with_parent`
        os._exit(1)
    with suppress(OSError):  # last, since it refuses some of the calls above
        if content := seccomp_filter():
            install_filter(_LIBC, content)
            layers.append(Layer.SYSTEM_CALLS)
    return tuple(layers)


def forget_environment() -> None:
    """Remove all unneeded variables, such as credentials of a store, and overwrite their memory."""
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


def _rights(allowed: Allowed) -> list[tuple[Path, LandlockRight]]:
    write = [Path(os.devnull), *([allowed.scratch] if allowed.scratch else ())]
    stdin = [] if allowed.stdin is None else [Path("/dev/stdin")]  # a program may open its input by this name
    return [
        *((path, LandlockRight.READ) for path in (*_interpreter_paths(), *allowed.read, *stdin)),
        *((path, LandlockRight.LIST) for path in allowed.names),
        *((path, LandlockRight.WRITE) for path in write),
    ]


def raise_memory_limit() -> None:
    """Raise the memory limit by `SPARE_MEMORY`, to be able to report that it was reached."""
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
        max_hard = resource.getrlimit(which)[1]
        if max_hard != resource.RLIM_INFINITY:
            soft, hard = min(soft, max_hard), min(hard, max_hard)
        resource.setrlimit(which, (soft, hard))


def _address_space() -> int:
    """Return the address space of this process: the first field of /proc/self/statm, in pages."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * resource.getpagesize()


def _interpreter_paths() -> list[Path]:
    """Return the paths of Python, its packages, thpdiag, and system files for libraries and programs of parsers."""
    prefixes = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[1])]
    packages = [entry for entry in sys.path if entry.startswith("/") and entry not in ("/", _working_folder())]
    return [Path(path) for path in (*prefixes, *packages, *_SYSTEM_PATHS, *_PROGRAM_PATHS)]


def _working_folder() -> str:
    """Return the current folder, which `python -m` adds to `sys.path`."""
    try:
        return str(Path.cwd())
    except OSError:
        return "/"
