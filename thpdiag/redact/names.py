"""Pseudonyms: `host1`, `user1`, `word7`; the same for the same name, numbered as names are met, never made from them.

A hash of a name could be guessed back; a number cannot.

The file of a mapping: names and their pseudonyms, so that a second report of a customer uses the same ones.

JSON with the sections of `sos clean` (`hostname_map`, `ip_map`, ...; sos/cleaner of sos 4.0 to 4.10, which keeps them
in /etc/sos/cleaner/default_mapping and in `...-private_map` beside an archive) and some more. Whoever has it can turn
pseudonyms back into names: it stays in the house, and no report holds any of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from thpdiag.errors import InputError

# By kind of name, the section of the mapping file that holds it; those of `sos clean` where it has one.
SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "host": "hostname_map", "domain": "domain_map", "ip": "ip_map", "ipv6_": "ipv6_map", "mac": "mac_map",
        "user": "username_map", "mail": "mail_map", "proc": "process_map", "fn": "function_map", "dir": "folder_map",
        "file": "file_map", "word": "keyword_map",
        "arg": "argument_map",
    }
)  # fmt: skip
OWN = re.compile(rf"(?:{'|'.join(SECTIONS)})[1-9]\d*")
# What `sos clean` writes: words, users, and hosts with their domains. A host that is really called host12 is taken for
# one of these: the name tells nobody anything.
HOST_OF_SOS = re.compile(r"host\d+(?:\.obfuscateddomain\d+(?:\.\w{2,8}){0,2})?|obfuscateddomain\d+(?:\.\w{2,8}){1,2}")
OF_SOS = re.compile(r"obfuscated(?:word|user|domain)\d+", re.IGNORECASE)
_ALWAYS = frozenset({"host", "domain", "user", "mail", "ip", "ipv6_", "mac"})
_CASE_COUNTS = frozenset({"fn", "dir", "file"})  # `Run` and `run` are two functions, `A` and `a` two files
_THERE = "arg"  # numbers and common words that are names only where they stand: `--pin 4711`, `password: dirty`


class Names:
    """Names with their pseudonyms: those of a mapping, and those met since."""

    def __init__(self, known: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """`known` are names of a mapping, by kind."""
        self._met: dict[str, dict[str, str]] = {kind: {} for kind in SECTIONS}
        self._of: dict[str, str] = {}
        self._exact: dict[str, str] = {}
        self._secret: set[str] = set()
        self._persons: dict[str, str] = {}  # and hosts and addresses, in which capitals do not count
        self._taken: set[str] = set()
        self._next: dict[str, int] = dict.fromkeys(SECTIONS, 1)
        for kind, pairs in (known or {}).items():
            for name, pseudonym in pairs.items():
                self._store(kind, name, pseudonym)
                if kind != _THERE:
                    self._secret.add(name.casefold())

    def pseudonym(self, kind: str, name: str) -> str:
        """The pseudonym of a name; a name met as something else before keeps the one it has."""
        if (found := self.find(name, kind)) is not None:
            return found
        number = self._next[kind]
        while f"{kind}{number}" in self._taken:
            number += 1
        self._next[kind] = number + 1
        self._store(kind, name, f"{kind}{number}")
        return f"{kind}{number}"

    def find(self, name: str, kind: str = "") -> str | None:
        """The pseudonym that a name has already."""
        if kind == _THERE:
            return self._met[kind].get(name)
        if kind in _CASE_COUNTS:
            return self._exact.get(name) or (self._persons.get(name.casefold()) if kind != "fn" else None)
        return self._exact.get(name) or self._of.get(name.casefold())

    def secret(self, name: str) -> str | None:
        """The pseudonym of what is a name wherever it stands: a host, a person, an address, or of the mapping."""
        return self._of.get(name.casefold()) if name.casefold() in self._secret else None

    def is_pseudonym(self, word: str) -> bool:
        """Whether a word is a pseudonym of the mapping."""
        return word in self._taken

    def keep(self, words: frozenset[str]) -> None:
        """Words of a text that are given to nothing else."""
        self._taken |= words

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """Kind, name and pseudonym of all, in the order in which they were met."""
        yield from ((kind, name, alias) for kind, met in self._met.items() for name, alias in met.items())

    def _store(self, kind: str, name: str, pseudonym: str) -> None:
        self._met.setdefault(kind, {})[name] = pseudonym
        self._taken.add(pseudonym)
        if kind == _THERE:
            return
        self._exact[name] = pseudonym
        self._of.setdefault(name.casefold(), pseudonym)
        if kind in _ALWAYS:
            self._secret.add(name.casefold())
            self._persons.setdefault(name.casefold(), pseudonym)


MARK = "thpdiag"
FORM = "names and pseudonyms of redacted reports: keep it secret"
_SIX = SECTIONS["ipv6_"]
_KINDS: Mapping[str, str] = MappingProxyType({section: kind for kind, section in SECTIONS.items()})


def read(text: str, name: object) -> tuple[dict[str, dict[str, str]], bool]:
    """By kind the names of a mapping, and whether it is one of ours; one of sos is read only."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not a name mapping: {error}") from error
    if not isinstance(content, dict) or not (set(content) & (set(_KINDS) | {MARK})):
        raise InputError(f"{name} is not a name mapping; expected one of --redact-map or of sos clean")
    known: dict[str, dict[str, str]] = {}
    for section, kind in _KINDS.items():
        pairs = content.get(section) or {}
        if section == _SIX and isinstance(pairs, dict) and "networks" in pairs:
            pairs = _of_networks(pairs["networks"])
        if not isinstance(pairs, dict) or not all(isinstance(alias, str) and alias for alias in pairs.values()):
            raise InputError(f"{name} is not a name mapping: {section} holds something else")
        known[kind] = {
            name: given
            for real, alias in pairs.items()
            if real
            for name, given in _with_bare_address(kind, real, alias)
        }
    return known, MARK in content


def _of_networks(networks: object) -> dict[object, object]:
    """Addresses of version 6, which newer sos keeps by network: `{network: {obfuscated, hosts: {name: alias}}}`."""
    found: dict[object, object] = {}
    rows = networks.values() if isinstance(networks, dict) else ()
    for hosts in (row.get("hosts") for row in rows if isinstance(row, dict)):
        found |= hosts if isinstance(hosts, dict) else {}
    return found


def _with_bare_address(kind: str, real: str, alias: str) -> Iterator[tuple[str, str]]:
    """An address that sos met with its mask is meant without it, too."""
    yield real, alias
    if kind in ("ip", "ipv6_") and "/" in real:
        yield real.partition("/")[0], alias.partition("/")[0]


def mapping_text(names: Names) -> str:
    """All names met, as the text of a file."""
    sections: dict[str, dict[str, str]] = {section: {} for section in SECTIONS.values()}
    for kind, name, alias in names.pairs():
        sections[SECTIONS[kind]][name] = alias
    return json.dumps({MARK: FORM, **sections}, indent=1) + "\n"
