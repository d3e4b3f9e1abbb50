"""Names of which none comes twice, for programs that drop what has the name of something else."""

from __future__ import annotations

from collections.abc import Iterable


class Distinct:
    """The first of a name keeps it, later ones get a number: `web`, then `web (2)`.

    `form` is how a number is put to a name. What it remembers is a number per name.
    """

    def __init__(self, taken: Iterable[str] = (), form: str = "{} ({})") -> None:
        self._form = form
        self._numbers = dict.fromkeys(taken, 1)

    def __call__(self, name: str) -> str:
        number = self._numbers.get(name, 0)
        given = name
        while given in self._numbers:
            number += 1
            given = self._form.format(name, number)
        self._numbers[name] = number or 1
        self._numbers.setdefault(given, 1)
        return given
