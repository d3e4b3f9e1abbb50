"""Applications that react to huge pages (applications.yaml): how to recognise them and what their makers say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import re2

from thpdiag.knowledge.yaml_nodes import shipped


@dataclass(frozen=True, slots=True)
class Application:
    """`stance`: disable, madvise, keep or depends. `switch` is the application's own setting, empty if it has none."""

    name: str
    comm: str
    args: str
    stance: str
    advice: str
    switch: str


@cache
def applications() -> tuple[Application, ...]:
    return tuple(
        Application(name, row["comm"], row.get("args", ""), row["stance"], row["advice"], row.get("switch", ""))
        for name, row in shipped("applications.yaml").items()
    )


def running(comm: str, command: str) -> Iterator[Application]:
    """The applications that a process is."""
    for app in applications():
        if re2.fullmatch(app.comm, comm) and (not app.args or re2.search(app.args, command)):
            yield app
