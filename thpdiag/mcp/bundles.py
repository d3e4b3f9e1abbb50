"""The bundles that an agent may ask about: those below the roots of the command line, and their results.

A bundle is named by the root's name and the path below it: `nightly/web1.tar.xz`. Absolute paths, `.` and `..`,
symbolic links and whatever is neither a file nor a folder are refused. Each bundle is analyzed in a sandboxed child
process, a file by a link in a folder of its own, so that nothing that lies beside it is read with it.
"""

from __future__ import annotations

import json
import stat
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final

from thpdiag import fleet
from thpdiag.engine.load import Rule, changed_params, rule_set
from thpdiag.errors import InputError
from thpdiag.fleet.work import describe_bug, preload, status_of_document
from thpdiag.host.options import Options
from thpdiag.isolated import LIMITS, analyze_isolated
from thpdiag.model.result import Result, as_result
from thpdiag.report import messages
from thpdiag.report.ci import UniqueNames
from thpdiag.report.escaping import prose, visible
from thpdiag.sandbox.outcome import Limits, Outcome, Status
from thpdiag.sandbox.preload import Handler, WorkerDiedError, WorkerPool

MAX_RESULTS: Final = 16  # in memory; the one that was asked for longest ago goes first
MAX_NAMES: Final = 200  # of a list of what there is
MAX_SECONDS: Final = 7_200.0  # of one bundle, beyond the limits of its child
Redact = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Roots:
    """Files and folders by name; those of one name are numbered."""

    def __init__(self, paths: Sequence[Path]) -> None:
        unused = UniqueNames(form="{}-{}")
        places = list(dict.fromkeys(path.resolve() for path in paths))
        self._places = {unused(place.name or "root"): place for place in places}

    def find(self, name: str) -> Path:
        """The file or folder of a name; InputError says why it is refused."""
        first, *below = name.removesuffix("/").split("/")
        if not first and below:
            raise InputError(f"{visible(name)}: absolute paths are refused; `load` without a path lists the bundles")
        if any(part in ("", ".", "..") or not part.isprintable() for part in (first, *below)):
            raise InputError(f"{visible(name)}: refused; a path has no empty parts, `.`, `..` or control characters")
        if (place := self._places.get(first)) is None:
            raise InputError(
                f"{visible(name)}: not below a root; the roots are {', '.join(map(visible, self._places))}"
            )
        mode = _mode(place)
        for part in below:
            mode = _mode(place := place / part) if stat.S_ISDIR(mode) else 0
            if not mode:
                raise InputError(f"{visible(name)}: no such file or folder; `load` without a path lists the bundles")
            if stat.S_ISLNK(mode):
                raise InputError(f"{visible(name)}: refused; {part} is a symbolic link")
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InputError(f"{visible(name)}: refused; it is neither a file nor a folder")
        return place

    def names(self) -> Iterator[str]:
        """The roots, and what lies directly in those that are folders; no links, nothing hidden."""
        for root, place in self._places.items():
            yield root
            if place.is_dir():
                for entry in sorted(place.iterdir()):
                    mode = _mode(entry)
                    if entry.name.isprintable() and entry.name[0] != "." and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                        yield f"{root}/{entry.name}"


def _mode(place: Path) -> int:
    """Of a link its own; 0 of what is not there."""
    try:
        return place.lstat().st_mode
    except (OSError, ValueError):
        return 0


class Bundles:
    """Results by the names of their bundles; each is analyzed when it is asked for first, and again by `load`."""

    def __init__(
        self, roots: Roots, folders: tuple[Path, ...] = (), changes: tuple[str, ...] = (),
        limits: Limits = LIMITS, redact: Redact = dict,
    ) -> None:  # fmt: skip
        self.roots = roots
        self._setting, self._redact = (folders, changes, limits), redact
        self._results: OrderedDict[str, tuple[Result, str]] = OrderedDict()
        self._lock = Lock()
        self._pool = WorkerPool(1, partial(_set_up, *self._setting), fleet.preloaded_modules, MAX_SECONDS)

    def rules(self) -> tuple[Rule, ...]:
        return rule_set(*self._setting[:2])

    def load(self, name: str) -> tuple[Result, str]:
        """The result of a bundle, analyzed now, and what hides part of it; InputError if there is none."""
        name = name.removesuffix("/")
        try:
            outcome: Outcome = self._pool.submit(self.roots.find(name)).result()
        except (WorkerDiedError, TimeoutError) as error:
            raise InputError(f"{visible(name)}: no result: the worker process was ended") from error
        if outcome.status is not Status.OK:
            why = describe_bug(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
            raise InputError(f"{visible(name)}: no result: {prose(why)}")
        document = json.loads(outcome.content)
        status, reason = status_of_document(document)
        if status == Status.REFUSED:
            raise InputError(f"{visible(name)}: no result: {prose(reason)}")
        with self._lock:
            made = self._result_of(document, "" if status == Status.OK else str(status))
            self._results[name] = made
            self._results.move_to_end(name)
            while len(self._results) > MAX_RESULTS:
                self._results.popitem(last=False)
        return made

    def _result_of(self, document: Mapping[str, Any], status: str) -> tuple[Result, str]:
        """The result, redacted if that is wanted, and what hides a part of it."""
        document = self._redact(document)
        reason = prose(status_of_document(document)[1]) if status else ""
        return as_result(document), ": ".join(filter(None, [status, reason]))

    def result(self, name: str) -> Result:
        """The result of a bundle, as loaded before or now."""
        name = name.removesuffix("/")
        with self._lock:
            if name in self._results:
                self._results.move_to_end(name)
                return self._results[name][0]
        return self.load(name)[0]

    def host(self, name: str, host: str = "") -> Result:
        """The result of one host of a bundle: the worst if none is named."""
        every = messages.hosts(self.result(name))
        if not host:
            return every[0]
        for one in every:
            if host in (messages.name(one), one.case):
                return one
        raise InputError(f"no host {visible(host)}; there is {', '.join(prose(messages.name(one)) for one in every)}")

    def close(self) -> None:
        self._pool.stop()


def _set_up(folders: tuple[Path, ...], changes: tuple[str, ...], limits: Limits) -> Handler:
    """In the worker."""
    preload(folders, changes)
    rules = rule_set(folders, changes)
    changed = changed_params(rules)
    return partial(_analyze, rules, Options(told={"set": changed} if changed else {}), limits)


def _analyze(rules: Sequence[Rule], options: Options, limits: Limits, place: Path) -> Outcome:
    with TemporaryDirectory(prefix="thpdiag-") as folder:
        alone = place
        if not place.is_dir():
            alone = Path(folder) / place.name
            alone.symlink_to(place)
        return analyze_isolated([alone], rules, options, limits=limits)
