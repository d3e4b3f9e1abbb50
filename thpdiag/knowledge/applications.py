"""Applications that react to huge pages (applications.yaml): how to recognise them and what their makers say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import re2

from thpdiag.knowledge.yaml_nodes import load_shipped

Row = Mapping[str, Any]
_BOUNDS = {"from": ("version", True), "below": ("version", False), "os_from": ("os", True), "os_below": ("os", False)}
_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){0,5}")  # `7.0.12-1.el8` is (7, 0, 12)


class Application(NamedTuple):
    """`comm`, `args`, `package` and so on are regular expressions (RE2). `stance`: disable, madvise, keep or depends.

    `asks`: it asks for huge pages itself. `by`: what its makers say of some versions and platforms only.
    """

    name: str
    comm: str
    stance: str
    advice: str
    source: str
    args: str = ""
    not_args: str = ""
    version: str = ""
    package: str = ""
    says: str = ""
    units: tuple[str, ...] = ()
    asks: bool = False
    by: tuple[Row, ...] = ()


class Stance(NamedTuple):
    """What the makers of an application say for one host."""

    word: str
    advice: str


@cache
def applications() -> tuple[Application, ...]:
    rows = load_shipped("applications.yaml")
    lists = ("units", "by")
    return tuple(
        Application(name, **{**row, **{key: tuple(row[key]) for key in lists if key in row}})
        for name, row in rows.items()
    )


@cache
def application(name: str) -> Application | None:
    return next((app for app in applications() if app.name == name), None)


@lru_cache(4096)  # a host runs thousands of processes of few programs, and every rule asks again
def running_applications(comm: str, command: str) -> tuple[Application, ...]:
    """The applications that a process is. Most processes are none, and one look at all names at once tells that."""
    known_comm, known_args = _any_of("comm", any_comm=False), _any_of("args", any_comm=True)
    if not (known_comm.fullmatch(comm) or known_args.search(command)):
        return ()
    return tuple(
        app
        for app in applications()
        if _compile(app.comm).fullmatch(comm)
        and _compile(app.args).search(command)
        and not (app.not_args and _compile(app.not_args).search(command))
    )


def application_of_package(package: str) -> Application | None:
    """The application whose package this is."""
    return next((app for app in applications() if app.package and _compile(app.package).fullmatch(package)), None)


def version_in_command(command: str) -> Iterator[tuple[Application, str]]:
    """Versions that the path of a program tells."""
    return _versions("version", command)


def version_in_text(text: str) -> Iterator[tuple[Application, str]]:
    """Versions that an application prints or logs of itself."""
    return _versions("says", text)


def _versions(key: str, text: str) -> Iterator[tuple[Application, str]]:
    if _any_of(key).search(text):
        for app in applications():
            pattern: str = getattr(app, key)
            if pattern and (found := _compile(pattern).search(text)):
                yield app, found[1]


def stance(app: Application, told: Mapping[str, str]) -> Stance:
    """`told`: version (of the application), platform, os (its release), arch and kernel, as far as they are known."""
    for row in app.by:
        if all(_holds(key, str(value), told) for key, value in row.items() if key not in ("stance", "advice")):
            return Stance(row["stance"], row["advice"])
    return Stance(app.stance, app.advice)


def _holds(key: str, wanted: str, told: Mapping[str, str]) -> bool:
    """Whether a condition of a row holds: a bound of a version, or a pattern of a kernel or another word."""
    if key in _BOUNDS:
        of, is_lower = _BOUNDS[key]
        known, bound = (_VERSION.match(text) for text in (told.get(of, ""), wanted))
        if not known or not bound:
            return False
        numbers, least = (tuple(map(int, found[0].split("."))) for found in (known, bound))
        return (numbers >= least) is is_lower
    return bool(told.get(key)) and bool(_compile(wanted if key == "kernel" else f"^(?:{wanted})$").search(told[key]))


@cache
def _any_of(key: str, *, any_comm: bool | None = None) -> Any:
    """One expression for all applications, or for those that are (not) known whatever the name of their process."""
    chosen = (app for app in applications() if any_comm is None or (app.comm == ".*") is any_comm)
    return _compile("|".join(filter(None, (getattr(app, key) for app in chosen))))


@cache
def _compile(pattern: str) -> Any:
    return re2.compile(pattern)
