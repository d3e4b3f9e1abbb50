"""Applications that huge pages affect (applications.yaml): how to recognise them, and advice of their vendors."""

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
    """An application. `comm`, `args`, `package` and so on are regular expressions (RE2).

    `stance`: disable, madvise, keep or depends. `asks`: the application itself requests huge pages. `by`: advice of its
    vendor for some versions and platforms only.
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
    """The advice of an application's vendor for one host."""

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


@lru_cache(4096)  # a host has thousands of processes of few programs, and each rule asks for them
def running_applications(comm: str, command: str) -> tuple[Application, ...]:
    """Return the applications of a process. Most processes have none, which one combined pattern determines."""
    known_comm, known_args = _combined_pattern("comm", any_comm=False), _combined_pattern("args", any_comm=True)
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
    """Return the application of a package."""
    return next((app for app in applications() if app.package and _compile(app.package).fullmatch(package)), None)


def version_in_command(command: str) -> Iterator[tuple[Application, str]]:
    """Yield applications with versions in the path of a program."""
    return _versions("version", command)


def version_in_text(text: str) -> Iterator[tuple[Application, str]]:
    """Yield applications with the versions that they print or log of themselves."""
    return _versions("says", text)


def _versions(key: str, text: str) -> Iterator[tuple[Application, str]]:
    if _combined_pattern(key).search(text):
        for app in applications():
            pattern: str = getattr(app, key)
            if pattern and (match := _compile(pattern).search(text)):
                yield app, match[1]


def stance(app: Application, facts: Mapping[str, str]) -> Stance:
    """Return the advice by the known facts: version (of the application), platform, os (release), arch and kernel."""
    for row in app.by:
        if all(_holds(key, str(value), facts) for key, value in row.items() if key not in ("stance", "advice")):
            return Stance(row["stance"], row["advice"])
    return Stance(app.stance, app.advice)


def _holds(key: str, expected: str, facts: Mapping[str, str]) -> bool:
    """Whether a condition of a row holds: a bound of a version, or a pattern of a kernel or another word."""
    if key in _BOUNDS:
        name, is_lower = _BOUNDS[key]
        versions = [_VERSION.match(text) for text in (facts.get(name, ""), expected)]
        if not all(versions):
            return False
        version, bound = (tuple(map(int, match[0].split("."))) for match in versions if match)
        return (version >= bound) is is_lower
    pattern = expected if key == "kernel" else f"^(?:{expected})$"
    return bool(facts.get(key)) and bool(_compile(pattern).search(facts[key]))


@cache
def _combined_pattern(key: str, *, any_comm: bool | None = None) -> Any:
    """Return one pattern for all applications, or only for those with (without) a fixed process name."""
    chosen = (app for app in applications() if any_comm is None or (app.comm == ".*") is any_comm)
    return _compile("|".join(filter(None, (getattr(app, key) for app in chosen))))


@cache
def _compile(pattern: str) -> Any:
    return re2.compile(pattern)
