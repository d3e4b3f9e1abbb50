"""Which rules judged: a digest of all, and one of each pack that is not thpdiag's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from thpdiag.engine.load import Rule
from thpdiag.engine.packs import Pack


def digest(rules: Iterable[Rule]) -> str:
    """A hash of the rule set: two results of one digest were judged alike."""
    whole = hashlib.sha256()
    for rule in sorted(rules, key=lambda r: r.id):
        whole.update(rule.source.text.encode())
        if rule.changed:
            whole.update(repr(sorted(rule.changed.items())).encode())
    return whole.hexdigest()[:16]


def by_pack(rules: Iterable[Rule]) -> dict[Pack, list[Rule]]:
    """The rules of each pack, in the order in which the packs came."""
    found: dict[Pack, list[Rule]] = {}
    for rule in rules:
        if rule.source.pack is not None:
            found.setdefault(rule.source.pack, []).append(rule)
    return dict(sorted(found.items(), key=lambda entry: (not entry[0].own, entry[0].told)))


def pack_documents(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    """Packages by name and version, folders by their own name; what a result was judged by besides our rules."""
    return [
        {
            "name": pack.name if pack.version else PurePath(pack.name).name,
            "version": pack.version or None,
            "rules": len(own),
            "digest": digest(own),
        }
        for pack, own in by_pack(rules).items()
        if not pack.own
    ]
