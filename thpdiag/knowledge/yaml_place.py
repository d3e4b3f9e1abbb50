"""A place in a YAML file, and the error that has one."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """Line and column from 1."""

    line: int
    column: int


class YamlError(ValueError):
    """YAML that cannot be taken, with the place."""

    def __init__(self, message: str, place: Place | None) -> None:
        super().__init__(message)
        self.place = place
