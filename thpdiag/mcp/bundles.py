"""The bundles that an agent has access to: those below the roots of the command line, and their results.

A bundle is named by the root's name and the path below it: `nightly/web1.tar.xz`. Absolute paths, `.` and `..`,
symbolic links and special files are refused. Each bundle is analyzed in a sandboxed child process, a file through a
link in an empty folder, so that no other files of its folder are read.
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

MAX_RESULTS: Final = 16  # in memory; the least recently used one is dropped
MAX_NAMES: Final = 200  # in a list of bundles
MAX_SECONDS: Final = 7_200.0  # for one bundle, in addition to the limits of its child
Redact = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Roots:
    """Files and folders by name; repeated names are numbered."""

    def __init__(self, paths: Sequence[Path]) -> None:
        unique_name = UniqueNames(form="{}-{}")
        places = dict.fromkeys(path.resolve() for path in paths)
        self._places = {unique_name(place.name or "root"): place for place in places}

    def find(self, name: str) -> Path:
        """Return the file or folder of a name; InputError if it is refused."""
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
        """Yield the roots and the entries of those that are folders, without links and hidden files."""
        for root, place in self._places.items():
            yield root
            if place.is_dir():
                for entry in sorted(place.iterdir()):
                    mode = _mode(entry)
                    if entry.name.isprintable() and entry.name[0] != "." and (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                        yield f"{root}/{entry.name}"


def _mode(place: Path) -> int:
    """Return the file mode without following links; 0 for a missing file."""
    try:
        return place.lstat().st_mode
    except (OSError, ValueError):
        return 0


class Bundles:
    """Results by the names of their bundles. A bundle is analyzed on first use, and again by `load`."""

    def __init__(
        self, roots: Roots, folders: tuple[Path, ...] = (), changes: tuple[str, ...] = (),
        limits: Limits = LIMITS, redact: Redact = dict,
    ) -> None:  # fmt: skip
        self.roots = roots
        self._redact = redact
        self._results: OrderedDict[str, Result] = OrderedDict()
        self._lock = Lock()
        self._pool = WorkerPool(1, partial(_set_up, folders, changes, limits), fleet.preloaded_modules, MAX_SECONDS)
        self.rules: Callable[[], tuple[Rule, ...]] = partial(rule_set, folders, changes)

    def load(self, name: str) -> tuple[Result, str]:
        """Analyze a bundle; return its result and the reason if it is incomplete. InputError without a result."""
        name = name.removesuffix("/")
        try:
            outcome: Outcome = self._pool.submit(self.roots.find(name)).result()
        except (WorkerDiedError, TimeoutError) as error:
            raise InputError(f"{visible(name)}: no result: the worker process was ended") from error
        if outcome.status is not Status.OK:
            reason = describe_bug(outcome.detail) if outcome.status is Status.BUG else outcome.sentence
            raise InputError(f"{visible(name)}: no result: {prose(reason)}")
        document: Mapping[str, Any] = json.loads(outcome.content)
        status, reason = status_of_document(document)
        if status == Status.REFUSED:
            raise InputError(f"{visible(name)}: no result: {prose(reason)}")
        with self._lock:
            document = self._redact(document)
            reason = prose(status_of_document(document)[1])
            incomplete = "" if status == Status.OK else ": ".join(filter(None, [str(status), reason]))
            result = self._results[name] = as_result(document)
            self._results.move_to_end(name)
            while len(self._results) > MAX_RESULTS:
                self._results.popitem(last=False)
        return result, incomplete

    def result(self, name: str) -> Result:
        """Return the result of a bundle, loaded before or now."""
        name = name.removesuffix("/")
        with self._lock:
            if name in self._results:
                self._results.move_to_end(name)
                return self._results[name]
        return self.load(name)[0]

    def host(self, name: str, host: str = "") -> Result:
        """Return the result of one host of a bundle; the worst one without a name."""
        results = messages.hosts(self.result(name))
        if not host:
            return results[0]
        for result in results:
            if host in (messages.name(result), result.case):
                return result
        names = ", ".join(prose(messages.name(result)) for result in results)
        raise InputError(f"no host {visible(host)}; there is {names}")

    def close(self) -> None:
        self._pool.stop()


def _set_up(folders: tuple[Path, ...], changes: tuple[str, ...], limits: Limits) -> Handler:
    """Prepare a worker process; return its handler."""
    preload(folders, changes)
    rules = rule_set(folders, changes)
    changed = changed_params(rules)
    return partial(_analyze, rules, Options(typed_options={"set": changed} if changed else {}), limits)


def _analyze(rules: Sequence[Rule], options: Options, limits: Limits, place: Path) -> Outcome:
    with TemporaryDirectory(prefix="thpdiag-") as folder:
        if not place.is_dir():
            link = Path(folder) / place.name
            link.symlink_to(place)
            place = link
        return analyze_isolated([place], rules, options, limits=limits)
