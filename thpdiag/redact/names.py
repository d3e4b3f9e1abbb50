"""Pseudonyms: `host1`, `user1`, `word7`, numbered in the order in which names are met.

A hash of a name could be guessed back; a number cannot.

The mapping file holds names and their pseudonyms, so that a second report of a customer uses the same ones. It is JSON
with the sections of `sos clean` (`hostname_map`, `ip_map`, ...; sos/cleaner of sos 4.0 to 4.10, which keeps them in
/etc/sos/cleaner/default_mapping and in `...-private_map` next to an archive) and some more. It turns pseudonyms back
into names and must stay with its owner; no report contains any of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from thpdiag.errors import InputError

# The section of the mapping file by kind of name; that of `sos clean` where it has one
SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "host": "hostname_map", "domain": "domain_map", "ip": "ip_map", "ipv6_": "ipv6_map", "mac": "mac_map",
        "user": "username_map", "mail": "mail_map", "proc": "process_map", "fn": "function_map", "dir": "folder_map",
        "file": "file_map", "word": "keyword_map", "arg": "argument_map",
    }
)  # fmt: skip
PSEUDONYM = re.compile(rf"(?:{'|'.join(SECTIONS)})[1-9]\d*")
# Pseudonyms of `sos clean`: words, users, and hosts with their domains. A host that is really named host12 matches too;
# its name discloses nothing.
SOS_HOST = re.compile(r"host\d+(?:\.obfuscateddomain\d+(?:\.\w{2,8}){0,2})?|obfuscateddomain\d+(?:\.\w{2,8}){1,2}")
SOS_PSEUDONYM = re.compile(r"obfuscated(?:word|user|domain)\d+", re.IGNORECASE)
_SECRET_KINDS = frozenset({"host", "domain", "user", "mail", "ip", "ipv6_", "mac"})
_CASE_SENSITIVE_KINDS = frozenset({"fn", "dir", "file"})  # `Run` and `run` are two functions, `A` and `a` two files
_LOCAL_KIND = "arg"  # numbers and common words that are secret only in their place: `--pin 4711`, `password: dirty`


class Names:
    """Names with their pseudonyms, from a mapping or assigned since."""

    def __init__(self, known: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """`known` are names of a mapping, by kind."""
        self._by_kind: dict[str, dict[str, str]] = {kind: {} for kind in SECTIONS}
        self._folded: dict[str, str] = {}
        self._exact: dict[str, str] = {}
        self._secret: set[str] = set()
        self._persons: dict[str, str] = {}  # and hosts and addresses: case-insensitive
        self._taken: set[str] = set()
        self._next: dict[str, int] = dict.fromkeys(SECTIONS, 1)
        for kind, pairs in (known or {}).items():
            for name, pseudonym in pairs.items():
                self._store(kind, name, pseudonym)
                if kind != _LOCAL_KIND:
                    self._secret.add(name.casefold())

    def pseudonym(self, kind: str, name: str) -> str:
        """Return the pseudonym of a name; a name with a pseudonym of another kind keeps that one."""
        if (known := self.find(name, kind)) is not None:
            return known
        number = self._next[kind]
        while f"{kind}{number}" in self._taken:
            number += 1
        self._next[kind] = number + 1
        self._store(kind, name, f"{kind}{number}")
        return f"{kind}{number}"

    def find(self, name: str, kind: str = "") -> str | None:
        """Return the existing pseudonym of a name."""
        if kind == _LOCAL_KIND:
            return self._by_kind[kind].get(name)
        if kind in _CASE_SENSITIVE_KINDS:
            return self._exact.get(name) or (self._persons.get(name.casefold()) if kind != "fn" else None)
        return self._exact.get(name) or self._folded.get(name.casefold())

    def secret(self, name: str) -> str | None:
        """Return the pseudonym of a name that is secret everywhere: a host, person, address, or name of the mapping."""
        return self._folded.get(name.casefold()) if name.casefold() in self._secret else None

    def is_pseudonym(self, word: str) -> bool:
        """Return whether a word is a pseudonym in use."""
        return word in self._taken

    def keep(self, words: frozenset[str]) -> None:
        """Reserve words of a text, so that they become no pseudonym."""
        self._taken |= words

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """Yield kind, name and pseudonym of all names by kind, in the order of assignment."""
        yield from ((kind, name, alias) for kind, aliases in self._by_kind.items() for name, alias in aliases.items())

    def _store(self, kind: str, name: str, pseudonym: str) -> None:
        self._by_kind.setdefault(kind, {})[name] = pseudonym
        self._taken.add(pseudonym)
        if kind == _LOCAL_KIND:
            return
        self._exact[name] = pseudonym
        self._folded.setdefault(name.casefold(), pseudonym)
        if kind in _SECRET_KINDS:
            self._secret.add(name.casefold())
            self._persons.setdefault(name.casefold(), pseudonym)


FORMAT_KEY = "thpdiag"
FORMAT_TEXT = "names and pseudonyms of redacted reports: keep it secret"
_IPV6_SECTION = SECTIONS["ipv6_"]
_KINDS: Mapping[str, str] = MappingProxyType({section: kind for kind, section in SECTIONS.items()})


def read(text: str, name: object) -> tuple[dict[str, dict[str, str]], bool]:
    """Return the names of a mapping by kind, and whether thpdiag wrote it; a mapping of sos is read only."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not a name mapping: {error}") from error
    if not isinstance(content, dict) or not (set(content) & (set(_KINDS) | {FORMAT_KEY})):
        raise InputError(f"{name} is not a name mapping; expected one of --redact-map or of sos clean")
    known: dict[str, dict[str, str]] = {}
    for section, kind in _KINDS.items():
        pairs = content.get(section) or {}
        if section == _IPV6_SECTION and isinstance(pairs, dict) and "networks" in pairs:
            pairs = _ipv6_aliases(pairs["networks"])
        if not isinstance(pairs, dict) or not all(isinstance(alias, str) and alias for alias in pairs.values()):
            raise InputError(f"{name} is not a name mapping: {section} holds something else")
        known[kind] = {
            name: given
            for real, alias in pairs.items()
            if real
            for name, given in _with_bare_address(kind, real, alias)
        }
    return known, FORMAT_KEY in content


def _ipv6_aliases(networks: object) -> dict[object, object]:
    """Return IPv6 addresses, which newer sos stores by network: `{network: {obfuscated, hosts: {name: alias}}}`."""
    aliases: dict[object, object] = {}
    rows = networks.values() if isinstance(networks, dict) else ()
    for hosts in (row.get("hosts") for row in rows if isinstance(row, dict)):
        aliases |= hosts if isinstance(hosts, dict) else {}
    return aliases


def _with_bare_address(kind: str, real: str, alias: str) -> Iterator[tuple[str, str]]:
    """Yield an address as sos recorded it, and without its mask if it has one."""
    yield real, alias
    if kind in ("ip", "ipv6_") and "/" in real:
        yield real.partition("/")[0], alias.partition("/")[0]


def mapping_text(names: Names) -> str:
    """Return the text of a mapping file with all names."""
    sections: dict[str, dict[str, str]] = {section: {} for section in SECTIONS.values()}
    for kind, name, alias in names.pairs():
        sections[SECTIONS[kind]][name] = alias
    return json.dumps({FORMAT_KEY: FORMAT_TEXT, **sections}, indent=1) + "\n"
