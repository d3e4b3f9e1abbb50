"""A profile for the result document: hottest stacks folded root first, family shares, the ledger of losses."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from thpdiag.engine.stacks import Compiled, compiled
from thpdiag.knowledge.symbols import families
from thpdiag.model import Profile, State

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
            "unlisted": float(f"{ledger.unlisted / 100:.6g}"),
        },
        "folded": _folded(known),
        "families": _families(known),
    }  # fmt: skip


def _folded(profile: Compiled) -> list[list[Any]]:
    if profile.weight <= 0:
        return []
    weights: dict[str, float] = defaultdict(float)
    for row in profile.rows:
        names = [profile.profile.frames[i].name.replace(";", ":") for i in reversed(row.stack)]
        weights[";".join([row.comm or "?", *names])] += row.weight
    shares = sorted(((w / profile.weight, stack) for stack, w in weights.items()), key=lambda item: (-item[0], item[1]))
    return [[stack, float(f"{share:.6g}")] for share, stack in shares[:MOST] if share >= LEAST]


def _families(profile: Compiled) -> dict[str, float]:
    """Share of the non-idle weight whose stack holds a function of the family."""
    if profile.weight <= 0:
        return {}
    weights: dict[str, float] = defaultdict(float)
    for row in profile.rows:
        held: set[str] = set()
        for frame in row.stack:
            held |= profile.families[frame]
        for family in held & families().keys():
            weights[family] += row.weight
    return {name: float(f"{w / profile.weight:.6g}") for name, w in sorted(weights.items())}
