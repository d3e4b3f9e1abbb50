"""A table that does not say of which kernel it is must fit the call chains, and what it proves is else weak."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analyze_bytes import STRICT, found, rules
from kernel_symbol_files import BASE, RELEASE, recording, samples, table
from profile_stacks import RECORDING
from thpdiag.host.kernel_symbols import symbolize
from thpdiag.model import Frame, KernelImage
from thpdiag.pipeline import analyze

HERE = KernelImage(RELEASE, "", "_text", BASE)
FUNCTIONS = {"_text": 0, "handle_mm_fault": 0x1000, "do_syscall_64": 0x2000, "exc_page_fault": 0x3000,
             "asm_exc_page_fault": 0x200000, "entry_SYSCALL_64": 0x201000}  # fmt: skip
ENTRIES = ("asm_exc_page_fault", "entry_SYSCALL_64")
WRONG = {"_text": 0, "vfs_read": 0x1000, "tcp_ack": 0x2000, "kfree": 0x3000, "pci_scan": 0x200000, "do_exit": 0x201000}


def chains(count: int) -> list[list[int | Frame]]:
    """Different chains, by page fault and by system call in turn."""
    outer = [[0x3010, 0x200010], [0x2010, 0x201010]]
    return [[BASE + at for at in (0x1010 + n, *outer[n % 2])] for n in range(count)]


MANY = chains(5)


def test_call_chains_that_begin_at_entries_leave_no_doubt() -> None:
    """Of a table without release and build id."""
    named, problems = symbolize(recording(MANY, HERE), [table(FUNCTIONS)])
    assert problems == []
    assert named.facts["symbols"] == "kallsyms; which fits the recorded call chains"
    assert "symbols_doubt" not in named.facts
    assert "handle_mm_fault < exc_page_fault < asm_exc_page_fault" in samples(named)


@pytest.mark.parametrize(
    "wrong",
    [WRONG, {name: at for name, at in WRONG.items() if at < 0x200000} | {n: FUNCTIONS[n] for n in ENTRIES}],
    ids=["all-wrong", "entries-alone-right"],
)
def test_a_table_of_another_kernel_is_refused(wrong: dict[str, int]) -> None:
    """Although it lies where a kernel may lie; builds that are nearly the same have their entries at the same place."""
    named, (problem,) = symbolize(recording(MANY, HERE), [table(wrong)])
    assert "call chains would not start at a kernel entry" in problem.text
    assert samples(named) == {"[unknown]": 5}


def test_a_known_table_needs_no_chains() -> None:
    """What tells its release is believed, whatever the names."""
    named, problems = symbolize(recording(MANY, HERE), [table(WRONG, release=RELEASE)])
    assert (problems, named.facts["symbols"]) == ([], "kallsyms")


@pytest.mark.parametrize("few", [MANY[:4], [chain[:2] for chain in chains(9)]], ids=["four", "too-short"])
def test_too_few_chains_leave_the_doubt(few: list[list[int | Frame]]) -> None:
    """Four chains, or none of three functions."""
    named, problems = symbolize(recording(few, HERE), [table(FUNCTIONS)])
    assert problems == []
    assert "accepted because" in named.facts["symbols_doubt"]


def test_where_a_doubt_stays_nothing_is_sure_and_nothing_ruled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding is possible, and says what would make it surer."""
    monkeypatch.setattr("thpdiag.host.kernel_symbols.MIN_CHAINS", 1000)
    for name in ("perf.data", "kallsyms"):
        shutil.copy(RECORDING / name, tmp_path)
    document = analyze([tmp_path], rules(), STRICT)
    assert found(document)["THP-010"] == "possible"
    assert document["ruled_out"] == []
    (finding,) = (f for f in document["findings"] if f["rule"] == "THP-010")
    assert "/proc/kallsyms and `uname -r`" in str(finding["raise_confidence"])
    assert "may be wrong" in finding["evidence"][0]["text"]
