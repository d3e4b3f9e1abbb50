"""A case as scenes: one per state, each knowing the others (only `toggle` looks at them)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thpdiag.derive.catalogue import Catalogue
from thpdiag.engine.judged import Scene
from thpdiag.model import Case


def scenes(case: Case) -> Sequence[Scene]:
    """One scene per state of the case."""
    alone = [Scene(case, state, Catalogue(state.samples)) for state in case.states]
    return [replace(scene, others=alone) for scene in alone]
