"""The test that is advised before huge pages are taken from programs that only seem to suffer from them."""

from __future__ import annotations

from typing import Any

import pytest

from advice_items import advice
from analyze_bytes import document
from thpdiag.diagnosis.remedies import HostView
from thpdiag.engine.load import builtin_rules, load_rules

FILE = "/sys/kernel/mm/transparent_hugepage/enabled"
WORDS = {"always": "[always] madvise never", "never": "always madvise [never]"}
COUNTERS = {"nr_free_pages": 1_000_000, "nr_anon_transparent_hugepages": 500, "thp_fault_fallback": 0,
            "compact_stall": 0, "compact_fail": 0, "compact_success": 0}  # fmt: skip


def recorded(shares: dict[str, int]) -> bytes:
    """What the loop of the remedy writes: always, never, always; so many tenths of the time go to the kernel."""
    lines, huge, kernel, programs = [], 0, 10_000, 10_000
    for at in range(24):
        word = "never" if 8 <= at < 16 else "always"
        huge += 4000 if word == "always" else 0
        kernel += 100 * shares[word]
        programs += 100 * (9 - shares[word])
        counters = {**COUNTERS, "thp_fault_alloc": huge}
        lines += [f"Fri Nov 20 12:{at // 6:02}:{10 * (at % 6):02} UTC 2026", f"{FILE}:{WORDS[word]}"]
        lines += [f"{name} {value}" for name, value in counters.items()]
        cpu = f"{programs} 0 {kernel} {at * 100} 0 0 0 0 0 0"
        lines += [f"cpu  {cpu}", f"cpu0 {cpu}", "intr 100 0", f"ctxt {at}", "btime 1795000000", "processes 1000",
                  "procs_running 2", "procs_blocked 0"]  # fmt: skip
    return "\n".join([*lines, ""]).encode()


def found(result: dict[str, Any]) -> tuple[Any, ...]:
    verdict = result["verdict"]
    return verdict.get("rule"), verdict.get("confidence"), result["findings"][0]["remedies"][0]["id"]


@pytest.mark.parametrize(
    ("share_with_never", "confidence", "first"),
    [(6, "possible", "toggle-test"), (2, "confirmed", "application-switch")],
)
def test_what_the_test_recorded_is_read(share_with_never: int, confidence: str, first: str) -> None:
    """No difference leaves it a hypothesis; what was shown needs no second test."""
    assert found(document(recorded({"always": 6, "never": share_with_never}))) == ("THP-041", confidence, first)


def test_nothing_is_taken_away_before_the_test() -> None:
    """The test first, then what the program itself can do, then the settings of the host, the widest last."""
    for rule in load_rules([builtin_rules()]):
        if rule.file.mechanism == "huge-page-zeroing" and rule.file.role == "root_cause":
            host = HostView("debian12", settings={"thp.enabled": "always"})
            ids = [item["id"] for item in advice(rule.file.remedies, rule.file.mechanism, host)]
            taken = [name for name in ids if name in ("thp-madvise", "thp-never", "process-opt-out")]
            assert "toggle-test" in ids[:2], rule.id
            assert ids.index("toggle-test") < min(ids.index(name) for name in taken)
            assert "application-switch" not in ids or ids.index("application-switch") < ids.index(taken[0])


def test_the_old_value_comes_back() -> None:
    """The command writes it at its end, and the undo command does."""
    (item,) = advice(["toggle-test"], "huge-page-zeroing", HostView("debian12", settings={"thp.enabled": "always"}))
    assert "for word in $old never $old;" in item["now"][-1]
    assert item["undo"] == [f"echo always > {FILE}"]
    assert item["persist"] == []
