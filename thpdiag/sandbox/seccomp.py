"""System calls that a confined process and what it starts are refused, by a seccomp filter of a few hundred bytes.

Landlock is about opening and changing the content of files; this is about what it leaves: sockets of all families
(those with a path too), memory and queues that outlive their process (System V, POSIX), other processes' memory, modes,
owners, times and attributes of files, namespaces, mounts, clocks, keys, and parts of the kernel that are new or large
(bpf, io_uring, userfaultfd, perf). All else is allowed, so that an interpreter and the programs of readers work: what
is refused gives EPERM. A call of another architecture (i386, x32), whose numbers mean other calls, ends the process.

Newer kernels look through the filter once for each number, so that it costs nothing after that. Numbers from 424 on are
those of all architectures. `clone3` is said not to be there, as its flags cannot be looked at; libraries then take
`clone`.

Source: linux/seccomp.h, linux/filter.h, linux/audit.h; arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h, which is that of aarch64.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Iterator

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
