"""The profiles of a state, made ready for questions: each once, and only when a rule asks (it needs numpy)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thpdiag.model import Profile

if TYPE_CHECKING:
    from thpdiag.engine.compiled import Compiled

_COMPILED: dict[int, Compiled] = {}  # by identity: profiles are large, hashing one costs more than compiling it
MOST_KEPT = 64


def compiled(profile: Profile) -> Compiled:
    """The profile made ready for questions, kept for those seen last."""
    from thpdiag.engine.compiled import Compiled  # numpy: only where there is a profile

    kept = _COMPILED.get(id(profile))
    if kept is None or kept.profile is not profile:
        if len(_COMPILED) >= MOST_KEPT:
            _COMPILED.clear()
        kept = _COMPILED[id(profile)] = Compiled(profile)
    return kept
