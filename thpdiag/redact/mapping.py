"""The file of a mapping: names and their pseudonyms, so that a second report of a customer uses the same ones.

JSON with the sections of `sos clean` (`hostname_map`, `ip_map`, ...; sos/cleaner of sos 4.0 to 4.10, which keeps them
in /etc/sos/cleaner/default_mapping and in `...-private_map` beside an archive) and some more. Whoever has it can turn
pseudonyms back into names: it stays in the house, and no report holds any of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from thpdiag.errors import InputError
from thpdiag.redact.names import SECTIONS, Names

MARK = "thpdiag"
FORM = "names and pseudonyms of redacted reports: keep it secret"
_SIX = SECTIONS["ipv6_"]
_KINDS: Mapping[str, str] = MappingProxyType({section: kind for kind, section in SECTIONS.items()})


def read(text: str, name: object) -> tuple[dict[str, dict[str, str]], bool]:
    """By kind the names of a mapping, and whether it is one of ours; one of sos is read only."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is no mapping of names: {error}") from error
    if not isinstance(content, dict) or not (set(content) & (set(_KINDS) | {MARK})):
        raise InputError(f"{name} is no mapping of names; expected one of --redact-map or of sos clean")
    known: dict[str, dict[str, str]] = {}
    for section, kind in _KINDS.items():
        pairs = content.get(section) or {}
        if section == _SIX and isinstance(pairs, dict) and "networks" in pairs:
            pairs = _of_networks(pairs["networks"])
        if not isinstance(pairs, dict) or not all(isinstance(alias, str) and alias for alias in pairs.values()):
            raise InputError(f"{name} is no mapping of names: {section} holds something else")
        known[kind] = {name: given for real, alias in pairs.items() if real for name, given in _each(kind, real, alias)}
    return known, MARK in content


def _of_networks(networks: object) -> dict[object, object]:
    """Addresses of version 6, which newer sos keeps by network: `{network: {obfuscated, hosts: {name: alias}}}`."""
    found: dict[object, object] = {}
    rows = networks.values() if isinstance(networks, dict) else ()
    for hosts in (row.get("hosts") for row in rows if isinstance(row, dict)):
        found |= hosts if isinstance(hosts, dict) else {}
    return found


def _each(kind: str, real: str, alias: str) -> Iterator[tuple[str, str]]:
    """An address that sos met with its mask is meant without it, too."""
    yield real, alias
    if kind in ("ip", "ipv6_") and "/" in real:
        yield real.partition("/")[0], alias.partition("/")[0]


def written(names: Names) -> str:
    """All names met, as the text of a file."""
    sections: dict[str, dict[str, str]] = {section: {} for section in SECTIONS.values()}
    for kind, name, alias in names.pairs():
        sections[SECTIONS[kind]][name] = alias
    return json.dumps({MARK: FORM, **sections}, indent=1) + "\n"
