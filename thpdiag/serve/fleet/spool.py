"""The rows of a fleet in a file, a line of JSON per case: the server writes it, a child without a database reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from thpdiag.serve.fleet.latest import Part


def write(file: Path, parts: Iterable[Part]) -> None:
    with file.open("w", encoding="ascii") as out:
        out.writelines(f"{json.dumps(asdict(part))}\n" for part in parts)


def read(file: Path) -> Iterator[Part]:
    with file.open(encoding="ascii") as lines:
        for line in lines:
            told = json.loads(line)
            hosts = tuple((tuple(cells), tuple(map(tuple, findings))) for cells, findings in told["hosts"])
            yield Part(**{**told, "hosts": hosts})
