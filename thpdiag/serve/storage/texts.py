"""Texts of strangers in columns, the same in both databases.

PostgreSQL takes neither NUL nor lone surrogates (of a file name that is no UTF-8) in a text and refuses an index entry
of more than some 2,700 bytes; it orders texts by the language of the server. So both are written as `\\x00` and
`\\udc80`, texts that can be searched for are cut, and the order is that of the bytes everywhere, as in SQLite. Columns
are for lists and searches: the result document has every text whole and as it was.
"""

from __future__ import annotations

import re
from typing import Any, Final

from sqlalchemy import Dialect, Text
from sqlalchemy.types import TypeDecorator, TypeEngine

LONGEST: Final = 255  # characters of a text that is indexed, of four bytes at most
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with what PostgreSQL refuses written as an escape."""
    return _UNSTORABLE.sub(_escaped, str(text))  # of an enum its value, which psycopg would not take


def short(text: str) -> str:
    """The same, cut; three dots say so."""
    whole = storable(text)
    return whole if len(whole) <= LONGEST else f"{whole[: LONGEST - 1]}…"


def _escaped(found: re.Match[str]) -> str:
    return "\\x00" if found[0] == "\x00" else f"\\u{ord(found[0]):04x}"


class Told(TypeDecorator[str]):
    """A text of any length, for reading."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text(collation="C") if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Short(Told):
    """A text that can be searched for."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else short(value)
