"""How messages name functions that a rule asks for, and who must have called them."""

from __future__ import annotations

from dataclasses import replace

from thpdiag.authoring.cases import build_host
from thpdiag.engine.check_result import NO
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import CaseFile, EventCheck
from thpdiag.engine.state_view import state_views
from thpdiag.engine.wording import callers_words, family_words


def test_families_have_titles_and_functions_their_names() -> None:
    """Any of several; callers from the called one outwards."""
    assert family_words(["zfs", "=shrink_slab"]) == "ZFS or shrink_slab"
    assert callers_words(["=shrink_slab", "kswapd"]) == "called from shrink_slab within kswapd"


def test_a_kernel_message_is_asked_for_with_its_callers() -> None:
    """Without them `needed` would promise a finding for each program that hangs in ZFS."""
    check = EventCheck.model_validate({"event": "hung_task", "anywhere": "zfs", "under": "=shrink_slab"})
    log = {"kind": "hung_task", "comm": "postgres", "stack": "cv_wait_common < zio_wait < zfs_read"}
    case = CaseFile.model_validate({"name": "x", "events": [log], "read": ["kernel_log"], "outcome": "silent"})
    [scene] = state_views(build_host(case))

    answer = judge(check, scene)
    asked = "with ZFS called from shrink_slab in the trace"
    assert (answer.value, answer.requirement) == (NO, f"1 of hung_task ({asked})")
    read = next(scene.facts("log.read")).cite.member
    assert answer.text == f"a task did not run for a long time ({asked}): 0 times in {read}"


def test_of_several_logs_one_is_named() -> None:
    """What was not found in any of them names the first and tells how many more there are."""
    case = CaseFile.model_validate({"name": "x", "read": ["kernel_log"], "outcome": "silent"})
    [scene] = state_views(build_host(case))
    [log] = scene.facts("log.read")
    more = [replace(log, cite=log.cite._replace(member=f"messages.{n}")) for n in (1, 2, 1)]
    [scene] = state_views(replace(scene.case, facts=(*scene.case.facts, *more)))
    answer = judge(EventCheck.model_validate({"event": "soft_lockup"}), scene)
    assert answer.text == f"a CPU was stuck in the kernel: 0 times in {log.cite.member} and 2 more"
