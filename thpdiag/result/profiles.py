"""A profile for the result document: hottest stacks folded root first, family shares, the ledger of losses."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from thpdiag.engine.profiles import compiled
from thpdiag.knowledge.symbols import families
from thpdiag.model import Profile, State

if TYPE_CHECKING:
    from thpdiag.engine.compiled import Compiled

LEAST = 0.0005  # stacks of a smaller share are left out, and their sum is said
MOST = 400  # stacks


def profile_document(profile: Profile, state: State) -> dict[str, Any]:
    """`folded` is [stack root first, share of non-idle weight].

    `families` the share of stacks that hold each family.
    """
    known = compiled(profile)
    ledger = profile.ledger
    return {
        "event": profile.event, "samples": known.samples, "reader": profile.reader, "state": state.id,
        "member": profile.cite.member, **({"line": profile.cite.line} if profile.cite.line is not None else {}),
        "loss": {
            "read": ledger.read, "kept": ledger.kept, "without_stack": ledger.without_stack,
            "unknown_symbol": ledger.unknown_symbol, "odd": dict(sorted(ledger.odd.items())),
            **({"lost": ledger.lost} if ledger.lost is not None else {}),
            "truncated": ledger.truncated, "throttled": ledger.throttled,
            "unlisted": float(f"{ledger.unlisted / 100:.6g}"),
        },
        "folded": _folded(known),
        "families": _families(known),
    }  # fmt: skip


def _folded(profile: Compiled) -> list[list[Any]]:
    if profile.weight <= 0:
        return []
    source, grouping = profile.profile, profile.grouping("comm")
    weights: dict[str, float] = defaultdict(float)
    for chain, comm, weight in profile.pairs(grouping):
        names = [name.replace(";", ":") for name in reversed(source.names(chain))]
        weights[";".join([grouping.names[comm] or "?", *names])] += weight
    shares = sorted(((w / profile.weight, stack) for stack, w in weights.items()), key=lambda item: (-item[0], item[1]))
    return [[stack, float(f"{share:.6g}")] for share, stack in shares[:MOST] if share >= LEAST]


def _families(profile: Compiled) -> dict[str, float]:
    """Share of the non-idle weight whose stack holds a function of the family."""
    shares = {name: profile.share(name) for name in sorted(families())}
    return {name: float(f"{share:.6g}") for name, share in shares.items() if share > 0}
