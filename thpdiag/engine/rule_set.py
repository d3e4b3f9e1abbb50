"""All rules that a run goes by: those that are shipped, those of installed packages, those of the user's folders."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path

from thpdiag.engine.chosen_params import with_chosen
from thpdiag.engine.load import Rule, builtin_rules, load_rules
from thpdiag.engine.packs import Pack, installed_packs


def rule_set(folders: Sequence[Path] = (), changes: Sequence[str] = ()) -> tuple[Rule, ...]:
    """The rules with the values of `--set`."""
    return with_chosen(load_rules(places(folders)), changes)


def places(folders: Sequence[Path]) -> list[Traversable | Pack]:
    """Where rules are looked for."""
    return [builtin_rules(), *installed_packs(), *folders]
