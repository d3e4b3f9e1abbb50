"""Which functions of the tree of calls the document marks: those that findings rest on, where they rest on them."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from analyze_bytes import document, result_of
from conftest import ROOT
from test_recording_in_reports import SLOW, samples
from thpdiag.diagnosis.profiles import kernel_entries, matched_functions
from thpdiag.engine.schema import Profile
from thpdiag.model import Frame
from thpdiag.model.result import complete_document, schema

LOCK = {"self": "spin_lock", "under": "compaction", "at_least": 0.1}
COMPACTING = "java;main;page_fault;do_huge_pmd_anonymous_page;compact_zone"


def paths(folded: list[list[Any]]) -> list[tuple[str, list[str]]]:
    """Task and functions of each stack."""
    return [(task, functions) for task, *functions in (stack.split(";") for stack, _ in folded)]


def check(**told: Any) -> Profile:
    return Profile.model_validate(told)


def test_a_function_counts_where_its_callers_fit() -> None:
    """A lock below compaction is meant, the same lock elsewhere is not, nor compaction without the lock on top."""
    folded = [
        [f"{COMPACTING};_raw_spin_lock_irqsave", 0.5],
        ["java;main;schedule;_raw_spin_lock_irqsave", 0.3],
        [COMPACTING, 0.2],
    ]
    assert matched_functions(paths(folded), [check(**LOCK)]) == {
        "matched": ["_raw_spin_lock_irqsave", "compact_zone"],
        "matched_stacks": [0],
    }


@pytest.mark.parametrize(
    ("told", "stacks"),
    [
        ({"anywhere": "compaction"}, [0, 1, 2]),
        ({"anywhere": "compaction", "under": "thp_fault"}, [0, 1]),
        ({"anywhere": "compaction", "under": ["thp_fault", "khugepaged"]}, []),
        ({"anywhere": "compaction", "not_under": "thp_fault"}, [2]),
        ({"anywhere": "compaction", "comm": "ja.a"}, [0, 2]),
        ({"self": "compaction"}, [0, 1]),
        ({"anywhere": "=never_seen"}, []),
    ],
)
def test_a_check_is_asked_of_the_paths_shown(told: dict[str, Any], stacks: list[int]) -> None:
    """Callers in order, what must not call, tasks and the running function decide as they do for the samples."""
    folded = [
        [COMPACTING, 0.4],
        [COMPACTING.replace("java", "cc"), 0.3],
        ["java;compact_zone;other", 0.2],
        ["java", 0.1],
    ]
    assert matched_functions(paths(folded), [check(**told, at_least=0.1)]).get("matched_stacks", []) == stacks


def test_the_leading_check_comes_first() -> None:
    """Names stand in the order of the checks, each once."""
    folded = [["a;clear_page_erms", 0.9], [f"{COMPACTING};_raw_spin_lock", 0.1]]
    checks = [check(**LOCK), check(anywhere="zeroing", at_least=0.1), check(**LOCK)]
    assert matched_functions(paths(folded), checks)["matched"] == ["_raw_spin_lock", "compact_zone", "clear_page_erms"]


def test_where_a_stack_enters_the_kernel() -> None:
    """Only the outermost function of the kernel, also of a source that does not say; a name that programs have, too, is
    none."""
    frames = [
        Frame("do_syscall_64", "[kernel.kallsyms]", True), Frame("vfs_read", "[kernel.kallsyms]", True),
        Frame("memcpy", "[kernel.kallsyms]", True), Frame("memcpy", "/lib/libc.so.6", False),
        Frame("compact_zone"), Frame("main"),
    ]  # fmt: skip
    folded = [["a;main;do_syscall_64;vfs_read", 0.5], ["a;main;compact_zone", 0.3], ["a;memcpy", 0.1], ["a", 0.1]]
    assert kernel_entries(paths(folded), ((f.name, f) for f in frames)) == ["compact_zone", "do_syscall_64"]


def test_a_recording_marks_what_its_findings_cite() -> None:
    """perf script from end to end: marked are functions of the slow stacks and no other; it follows the schema."""
    result = document("".join(samples()).encode())
    (profile,) = result["profiles"]
    assert set(profile["matched"]) <= set(SLOW)
    assert "compact_zone" in profile["matched"]
    told = [profile["folded"][number][0] for number in profile["matched_stacks"]]
    assert told
    assert all("compact_zone" in stack for stack in told)
    assert set(profile["kernel_entries"]) == {"do_syscall_64", "page_fault"}
    assert [e.message for e in Draft202012Validator(schema()).iter_errors(result)] == []


def test_a_list_without_times_and_callers_is_marked() -> None:
    """perf top of a story: no times, no stacks, and the functions that decide it are named."""
    result = result_of(ROOT / "fixtures/stories/hadoop-centos62-flat-only/bundle")
    (profile,) = result["profiles"]
    assert "signatures" not in profile
    assert {"_spin_lock_irq", "compact_zone"} <= set(profile["matched"])


def test_a_document_without_the_keys_is_completed() -> None:
    """Documents of before have nothing marked."""
    old = {
        "schema": "thpdiag/result/1",
        "verdict": {"status": "cannot_tell"},
        "profiles": [{"folded": [["a;b", 1.0]]}],
    }
    (profile,) = complete_document(old)["profiles"]
    assert [profile[key] for key in ("matched", "matched_stacks", "kernel_entries")] == [[], [], []]
