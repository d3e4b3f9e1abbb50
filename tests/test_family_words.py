"""How messages name functions that a rule asks for, and who must have called them."""

from __future__ import annotations

from thpdiag.engine.cases import prepared
from thpdiag.engine.checks.event import judge
from thpdiag.engine.family_words import callers_words, family_words
from thpdiag.engine.judged import NO
from thpdiag.engine.scenes import scenes
from thpdiag.engine.schema import CaseFile, EventCheck


def test_families_have_titles_and_functions_their_names() -> None:
    """Any of several; callers from the called one outwards."""
    assert family_words(["zfs", "=shrink_slab"]) == "ZFS or shrink_slab"
    assert callers_words(["=shrink_slab", "kswapd"]) == "called from shrink_slab within kswapd"


def test_a_kernel_message_is_asked_for_with_its_callers() -> None:
    """Without them `needed` would promise a finding for each program that hangs in ZFS."""
    check = EventCheck.model_validate({"event": "hung_task", "anywhere": "zfs", "under": "=shrink_slab"})
    log = {"kind": "hung_task", "comm": "postgres", "stack": "cv_wait_common < zio_wait < zfs_read"}
    case = CaseFile.model_validate({"name": "x", "events": [log], "read": ["kernel_log"], "outcome": "silent"})
    [scene] = scenes(prepared(case))

    answer = judge(check, scene)
    assert (answer.value, answer.needed) == (NO, "1 of hung_task (with ZFS called from shrink_slab in the trace)")
