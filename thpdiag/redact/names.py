"""Pseudonyms: `host1`, `user1`, `word7`; the same for the same name, numbered as names are met, never made from them.

A hash of a name could be guessed back; a number cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

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

    def of(self, kind: str, name: str) -> str:
        """The pseudonym of a name; a name met as something else before keeps the one it has."""
        if (found := self.known(name, kind)) is not None:
            return found
        number = self._next[kind]
        while f"{kind}{number}" in self._taken:
            number += 1
        self._next[kind] = number + 1
        self._store(kind, name, f"{kind}{number}")
        return f"{kind}{number}"

    def known(self, name: str, kind: str = "") -> str | None:
        """The pseudonym that a name has already."""
        if kind == _THERE:
            return self._met[kind].get(name)
        if kind in _CASE_COUNTS:
            return self._exact.get(name) or (self._persons.get(name.casefold()) if kind != "fn" else None)
        return self._exact.get(name) or self._of.get(name.casefold())

    def secret(self, name: str) -> str | None:
        """The pseudonym of what is a name wherever it stands: a host, a person, an address, or of the mapping."""
        return self._of.get(name.casefold()) if name.casefold() in self._secret else None

    def given(self, word: str) -> bool:
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
