"""Applications that react to huge pages (applications.yaml): how to recognise them and what their makers say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import re2

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Application:
    """`comm` and `args` are regular expressions (RE2). `stance`: disable, madvise, keep or depends."""

    name: str
    comm: str
    args: str
    stance: str
    advice: str


@cache
def applications() -> tuple[Application, ...]:
    return tuple(
        Application(name, row["comm"], row.get("args", ""), row["stance"], row["advice"])
        for name, row in shipped("applications.yaml").items()
    )


def running(comm: str, command: str) -> Iterator[Application]:
    """The applications that a process is."""
    for app in applications():
        if re2.fullmatch(app.comm, comm) and (not app.args or re2.search(app.args, command)):
            yield app
