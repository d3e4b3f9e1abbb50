"""Which step stands first where the usual order, from mild to wide, would not fit the host."""

from __future__ import annotations

import pytest

from advice_items import advice
from thpdiag.diagnosis.remedies import HostView

GO = ["application-switch", "defrag-defer", "process-opt-out"]


@pytest.mark.parametrize(
    ("version", "first", "said"),
    [
        ("1.21.0", "application-switch", "is built with Go 1.21.0"),
        ("1.21.1", "defrag-defer", "allocator of the busiest program"),
        ("", "defrag-defer", "First see which version"),
    ],
)
def test_go_1_21_0_is_mended_first(version: str, first: str, said: str) -> None:
    """Where its version is known the mistake is, too. Docker and Kubernetes are Go as well, of any version."""
    host = HostView("debian12", "E7", settings={"thp.defrag": "madvise"}, apps=("go",), versions={"go": version})
    items = advice(GO, "madvise-region-stalls", host)
    assert items[0]["id"] == first
    assert said in next(item["reason"] for item in items if item["id"] == "application-switch")


def test_another_application_has_no_version_of_go() -> None:
    """A version is asked of the application that the step is about."""
    host = HostView("debian12", "E7", apps=("redis", "go"), versions={"redis": "1.21.0", "go": "1.22.4"})
    items = advice(GO, "madvise-region-stalls", host)
    assert not any("Go 1.21.0" in item["reason"] for item in items)


def test_a_control_group_begins_with_its_limit() -> None:
    """Whether huge pages are to blame is open there, and khugepaged has perhaps no part in it."""
    ids = ["cgroup-limit-review", "application-switch", "process-opt-out", "thp-madvise", "restart-application"]
    items = advice(ids, "cgroup-bloat", HostView("debian12", "E7", settings={"thp.enabled": "always"}))
    assert items[0]["id"] == "cgroup-limit-review"


def test_no_step_sends_to_another_release() -> None:
    """What an update of this release does not bring is no step: the setting does the same at once."""
    host = HostView("el7", "E4", settings={"thp.enabled": "always", "thp.defrag": "always"})
    items = advice(["defrag-madvise", "kernel-update"], "compaction-tlb-shootdown", host)
    assert [item["id"] for item in items] == ["defrag-madvise"]
