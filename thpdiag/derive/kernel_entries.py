"""Whether a table of kernel symbols fits the call chains: those begin where the kernel is entered.

Where nothing tells of which kernel a table is, its names may all be wrong and still look right: on x86 every kernel
lies at some multiple of 2 MiB. But whatever a chain does, its outermost function of the kernel is the entry of a system
call, of a page fault or of an interrupt, or the beginning of a thread, and the next one is its first function in C. A
table of another kernel has others there. One of a build that is nearly the same may have the entries at the same place
(x86 begins them at a multiple of 2 MiB, arch/x86/kernel/vmlinux.lds.S), but not what they call.
Names: arch/x86/entry/, arch/x86/kernel/entry_64.S (until 4.1), arch/x86/kernel/head_64.S, arch/arm64/kernel/entry.S,
arch/powerpc/kernel/exceptions-64s.S, arch/s390/kernel/entry.S.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from thpdiag.derive.symbol_places import NOWHERE, places
from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Chains, Profile, SymbolTable

LEAST_CHAINS = 5
_ENTRY = re.compile(
    r"entry_.*|do_int80.*|do_fast_syscall_32|system_call.*|sysenter.*|sysret.*|ia32_.*|tracesys.*|int_.*|stub_.*"
    r"|ret_from_.*|retint_.*|child_rip|kernel_thread_helper|kthread|secondary_startup.*|start_secondary.*"
    r"|x86_64_start_.*|start_kernel|rest_init|cpu_idle|cpu_bringup.*|asm_.*|.*page_fault.*|.*_interrupt|.*_interrupt_common.*"
    r"|common_interrupt.*|irq_entries_start|.*nmi|error_entry|xen_.*callback.*|hypervisor_callback|general_protection"
    r"|el[01].*|vectors|__primary_switched|data_access_.*|instruction_access_.*|pgm_check.*|__do_syscall|ext_int.*|io_int.*"
    r"|__ret_from_fork"
)
_FIRST = re.compile(
    r"do_.*|__do_.*|(?i:sys)_.*|__\w+_sys_.*|x64_sys_call|exc_.*|sysvec_.*|smp_.*|irqentry_.*|syscall_.*|exit_to_user_.*|.*kthread.*"
    r"|worker_thread|start_.*|cpu_.*|rest_init|x86_64_.*|schedule_tail|el[01].*|invoke_syscall|handle_.*|xen_.*|kernel_init|prepare_exit.*"
    r"|__.*_interrupt|timer_interrupt|system_call_.*|trace_.*page_fault|ret_from_fork.*"
)
Numbers = NDArray[np.int64]


def entered(profile: Profile, table: SymbolTable, slide: int) -> float | None:
    """Of the chains that show three functions of the kernel or more, the share that begins as a chain can begin.

    None if there are too few to tell.
    """
    known = [frame.address if frame.kernel and frame.address is not None else 0 for frame in profile.frames]
    address = np.array(known, np.uint64)
    outermost, next_one = _beginnings(profile.chains, address != 0)
    if len(outermost) < LEAST_CHAINS:
        return None
    place = places(table, address - np.uint64(slide % 2**64))
    begins = _named(table, place, outermost, _ENTRY) & _named(table, place, next_one, _FIRST)
    return float(begins.mean())


def _named(table: SymbolTable, place: Numbers, frames: Numbers, names: re.Pattern[str]) -> NDArray[np.bool_]:
    """Which of the frames have such a name, by the place of each frame in the table."""
    distinct, number = np.unique(place[frames], return_inverse=True)
    fits = (p != NOWHERE and names.fullmatch(normalise(table.name(p))) is not None for p in distinct.tolist())
    return np.fromiter(fits, np.bool_)[number.ravel()]


def _beginnings(chains: Chains, kernel: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """The two outermost frames of the kernel in each whole chain that has three or more."""
    at = np.flatnonzero(kernel[chains.frames])
    within = np.concatenate([[0], np.cumsum(kernel[chains.frames])])
    ends = within[chains.starts[1:]]
    whole = ends - within[chains.starts[:-1]] > 2
    if chains.cut is not None:
        whole &= ~chains.cut
    last = ends[whole]
    return chains.frames[at[last - 1]].astype(np.int64), chains.frames[at[last - 2]].astype(np.int64)
