"""Symbol families as people say them, and those that call them."""

from __future__ import annotations

from thpdiag.engine.schema import Names, listed
from thpdiag.knowledge.symbols import families


def family_words(names: Names | None) -> str:
    """Any of them; `=name` is one function."""
    return " or ".join(families()[n].title if n in families() else n.removeprefix("=") for n in listed(names))


def callers_words(names: Names) -> str:
    """All of them, in order from the called one outwards."""
    return "called from " + " within ".join(family_words(name) for name in listed(names))
