"""Applications that react to huge pages (applications.yaml): how to recognise them and what their makers say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import re2

from thpdiag.knowledge.yaml_nodes import shipped

Row = Mapping[str, Any]
_BOUNDS = {"from": 1, "below": -1, "os_from": 1, "os_below": -1}
_TELLS = {"from": "version", "below": "version", "os_from": "os", "os_below": "os"}


@dataclass(frozen=True, slots=True)
class Application:
    """`comm`, `args`, `package` and so on are regular expressions (RE2). `stance`: disable, madvise, keep or depends.

    `asks`: it asks for huge pages itself. `by`: what its makers say of some versions and platforms only.
    """

    name: str
    comm: str
    args: str
    stance: str
    advice: str
    source: str
    not_args: str = ""
    version: str = ""
    package: str = ""
    says: str = ""
    units: tuple[str, ...] = ()
    asks: bool = False
    by: tuple[Row, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Stance:
    """What the makers of an application say for one host."""

    word: str
    advice: str


@cache
def applications() -> tuple[Application, ...]:
    return tuple(
        Application(
            name, row["comm"], row.get("args", ""), row["stance"], row["advice"], row["source"],
            row.get("not_args", ""), row.get("version", ""), row.get("package", ""), row.get("says", ""),
            tuple(row.get("units", ())), row.get("asks", False) is True, tuple(row.get("by", ())),
        )
        for name, row in shipped("applications.yaml").items()
    )  # fmt: skip


@cache
def application(name: str) -> Application | None:
    return next((app for app in applications() if app.name == name), None)


def running(comm: str, command: str) -> Iterator[Application]:
    """The applications that a process is. Most processes are none, and one look at all names at once tells that."""
    if not (_whole(_names(), comm) or _has(_libraries(), command)):
        return
    for app in applications():
        if _whole(app.comm, comm) and _has(app.args, command) and not (app.not_args and _has(app.not_args, command)):
            yield app


def packaged(package: str) -> Application | None:
    """The application whose package this is."""
    return next((app for app in applications() if app.package and _whole(app.package, package)), None)


def version_in_command(command: str) -> Iterator[tuple[Application, str]]:
    """Versions that the path of a program tells."""
    if not _has(_paths(), command):
        return
    for app in applications():
        if app.version and (found := _compiled(app.version).search(command)):
            yield app, found[1]


def version_said(text: str) -> Iterator[tuple[Application, str]]:
    """Versions that an application prints or logs of itself."""
    if not _has(_words(), text):
        return
    for app in applications():
        if app.says and (found := _compiled(app.says).search(text)):
            yield app, found[1]


def stance(app: Application, told: Mapping[str, str]) -> Stance:
    """`told`: version (of the application), platform, os (its release), arch and kernel, as far as they are known."""
    for row in app.by:
        if all(_holds(key, str(value), told) for key, value in row.items() if key not in ("stance", "advice")):
            return Stance(row["stance"], row["advice"])
    return Stance(app.stance, app.advice)


def _holds(key: str, wanted: str, told: Mapping[str, str]) -> bool:
    if key not in _BOUNDS:
        return bool(told.get(key)) and _has(wanted if key == "kernel" else f"^(?:{wanted})$", told[key])
    known = _numbers(told.get(_TELLS[key], ""))
    return bool(known) and (known >= _numbers(wanted)) is (_BOUNDS[key] > 0)


def _numbers(version: str) -> tuple[int, ...]:
    """`7.0.12-1.el8` is (7, 0, 12)."""
    found = re.match(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}", version)
    return tuple(map(int, found[0].split("."))) if found else ()


@cache
def _names() -> str:
    """All names of processes in one expression, but `.*`."""
    return "|".join(app.comm for app in applications() if app.comm != ".*")


@cache
def _libraries() -> str:
    """What is known by its command line whatever its name."""
    return "|".join(app.args for app in applications() if app.comm == ".*")


@cache
def _paths() -> str:
    return "|".join(app.version for app in applications() if app.version)


@cache
def _words() -> str:
    return "|".join(app.says for app in applications() if app.says)


def _whole(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


def _has(pattern: str, text: str) -> bool:
    return not pattern or _compiled(pattern).search(text) is not None


@cache
def _compiled(pattern: str) -> Any:
    return re2.compile(pattern)
