"""All derivations in their order. The single door of this stage."""

from __future__ import annotations

from thpdiag.model import Case


def derived(case: Case) -> Case:
    """The case with derived facts and series added."""
    return case
