"""A profile for the result document: the tree of calls, family shares, the ledger of losses, and what happened when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from thpdiag.derive.boot_clock import Join, joins
from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.profiles import compiled
from thpdiag.engine.schema import Profile as ProfileSpec
from thpdiag.knowledge.symbols import families
from thpdiag.model import Ledger, Profile, State
from thpdiag.result.highlights import kernel_entries, matched, modules
from thpdiag.result.recorded import recorded
from thpdiag.result.signatures import (
    MOST_PICTURES,
    Signature,
    picture_document,
    signature_document,
    stack_evidence,
)

if TYPE_CHECKING:
    from thpdiag.engine.compiled import Compiled

TEXT = 120_000  # characters of all paths of a document, so that a page stays small
LEAST_TEXT = 20_000  # for one recording of many


def profile_documents(diagnosis: Diagnosis, found: Sequence[Signature]) -> list[dict[str, Any]]:
    """One for each event of each recording; `found` are the signatures of the findings."""
    known = joins(diagnosis.case.facts)
    every = [(profile, state) for state in diagnosis.case.states for profile in state.profiles]
    drawn = [profile for profile, _ in every if profile.has_time and profile.start]
    drawn.sort(key=lambda profile: not any(s.picture and s.profile is profile for s in found))
    room = max(LEAST_TEXT, TEXT // max(1, len(every)))
    asked = [(profile, check) for _, _, check, profile in stack_evidence(diagnosis)]
    return [
        _document(profile, state, room, [check for seen, check in asked if seen is profile])
        | recorded(profile, known)
        | (_picture(profile) if any(profile is one for one in drawn[:MOST_PICTURES]) else {})
        | _signatures([s for s in found if s.profile is profile], known)
        for profile, state in every
    ]


def _document(profile: Profile, state: State, room: int, asked: Sequence[ProfileSpec]) -> dict[str, Any]:
    """`folded` has [stack root first, share of the non-idle weight], `families` the share of what holds each family;
    `asked` is what findings saw in it."""
    known = compiled(profile)
    symbols = profile.facts.get("symbols")
    return {
        "event": profile.event, "samples": known.samples, "reader": profile.reader, "state": state.id,
        "member": profile.cite.member, **({"line": profile.cite.line} if profile.cite.line is not None else {}),
        **({"symbols": symbols} if symbols else {}),
        "loss": _loss(profile.ledger),
        **_tree(known, room, asked),
        "families": _families(known),
    }  # fmt: skip


def _loss(ledger: Ledger) -> dict[str, Any]:
    lost = ledger.lost_share
    return {
        "read": ledger.read, "kept": ledger.kept, "without_stack": ledger.without_stack,
        "unknown_symbol": ledger.unknown_symbol, "odd": dict(sorted(ledger.odd.items())),
        **({"lost": ledger.lost, "lost_share": float(f"{lost:.6g}")} if lost is not None else {}),
        "truncated": ledger.truncated, "throttled": ledger.throttled,
        "unlisted": float(f"{ledger.unlisted / 100:.6g}"),
    }  # fmt: skip


def _tree(profile: Compiled, room: int, asked: Sequence[ProfileSpec]) -> dict[str, Any]:
    from thpdiag.engine.call_tree import call_tree, shown  # numpy: only where there is a profile

    tree = call_tree(profile, room)
    folded = [[path, float(f"{share:.4g}")] for path, share in tree.stacks]
    frames = [(shown(frame), frame) for frame in profile.profile.frames]
    entries, within = kernel_entries(folded, frames), modules(folded, frames)
    return {
        "folded": folded,
        "folded_least": float(f"{tree.least:.4g}"),
        "folded_into_callers": float(f"{tree.folded:.4g}"),
        **matched(folded, asked),
        **({"kernel_entries": entries} if entries else {}),
        **({"modules": within} if within else {}),
    }


def _picture(profile: Profile) -> dict[str, Any]:
    from thpdiag.engine.profile_time import timed  # numpy: only where there is a profile

    time = timed(compiled(profile))
    return picture_document(time) if time is not None else {}


def _signatures(found: Sequence[Signature], known: Sequence[Join]) -> dict[str, Any]:
    return {"signatures": [signature_document(s, known) for s in found]} if found else {}


def _families(profile: Compiled) -> dict[str, float]:
    """Share of the non-idle weight whose stack holds a function of the family."""
    shares = {name: profile.share(name) for name in sorted(families())}
    return {name: float(f"{share:.6g}") for name, share in shares.items() if share > 0}
