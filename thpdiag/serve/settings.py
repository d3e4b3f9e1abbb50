"""All settings of the server: each has a default, a key in the configuration file and an option of the command.

    data = "/var/lib/thpdiag"
    host = "127.0.0.1"
    port = 8765
    access = "proxy"                          # none, tokens, proxy
    origins = ["https://thpdiag.example.org"]
    proxies = ["127.0.0.1"]
    upload_limit = "8 GiB"
    keep_bundles = "14 d"

An option wins over the file, the file over the default. A key that is not known is a mistake of whoever wrote it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from thpdiag.errors import UsageError
from thpdiag.serve.access.addresses import networks
from thpdiag.serve.access.modes import Access, Mode
from thpdiag.serve.access.scopes import scopes
from thpdiag.serve.quantities import duration, size
from thpdiag.serve.storage.clock import DAY
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.room import SPARE, Bounds
from thpdiag.serve.storage.storage import Storage

SIGN_IN: Final = "/sign-in"


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in bytes, times in seconds. `quota` None: as much as the disk has; `workers` 0: half of the CPUs."""

    data: Path
    database: str | None = None
    host: str = "127.0.0.1"
    port: int = 8765
    workers: int = 0
    upload_limit: int = 8 << 30
    quota: int | None = None
    spare: int = SPARE
    keep_uploads: float = DAY
    keep_bundles: float = 14 * DAY
    keep_cases: float = 180 * DAY
    keep_audit: float = 400 * DAY
    access: Mode = Mode.NONE
    origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    user_header: str = "x-forwarded-user"
    user_scopes: tuple[str, ...] = ("upload", "read")
    admins: tuple[str, ...] = ()

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.quota, self.spare)

    @property
    def terms(self) -> Terms:
        return Terms(self.keep_bundles, self.keep_cases, self.keep_audit)

    @property
    def count(self) -> int:
        """How many analyses at a time; half of the CPUs are left to answer requests."""
        return self.workers or max(1, len(os.sched_getaffinity(0)) // 2)

    @property
    def who(self) -> Access:
        """Who may come in; whether that may be served, `modes.check` says."""
        return Access(
            self.access, self.host, frozenset(self.origins), networks(self.proxies), self.user_header.lower(),
            scopes(self.user_scopes), frozenset(self.admins), SIGN_IN,
        )  # fmt: skip


def settings(file: Path | None, options: Mapping[str, Any]) -> Settings:
    """What the file says, and what the options say in its place; None among the options is not said."""
    given = {} if file is None else _read(file)
    given |= {name: value for name, value in options.items() if value is not None and value != ()}
    return Settings(**{"data": data_folder(), **given})


def opened(settings: Settings) -> Storage:
    """What the settings say is kept, opened beside a server that may run on it."""
    return Storage.open(settings.data, settings.database, settings.bounds, patience=settings.keep_uploads)


def data_folder() -> Path:
    """Where a server keeps its things that was not told where: among the user's data, by the XDG rules."""
    home = os.environ.get("XDG_DATA_HOME", "")
    try:
        base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise UsageError("there is no home folder to keep bundles in: name one with --data") from error
    return base / "thpdiag" / "serve"


def _read(file: Path) -> dict[str, Any]:
    try:
        whole = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: no TOML: {error}") from error
    return {key: _value(file, key, value) for key, value in whole.items()}


def _value(file: Path, key: str, value: object) -> Any:
    if key not in FORMS:
        raise UsageError(f"{file}: no such setting: {key}; there are {', '.join(FORMS)}")
    try:
        return FORMS[key](value)
    except UsageError as error:
        raise UsageError(f"{file}: {key}: {error}") from error


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError("has to be a text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise UsageError("has to be a list of texts")
    return tuple(map(_text, value))


def _number(least: int, most: int) -> Callable[[object], int]:
    def number(value: object) -> int:
        if type(value) is not int or not least <= value <= most:
            raise UsageError(f"has to be a number from {least} to {most}")
        return value

    return number


def _mode(value: object) -> Mode:
    if value not in set(Mode):
        raise UsageError(f"has to be one of {', '.join(Mode)}")
    return Mode(_text(value))


FORMS: Final[Mapping[str, Callable[[object], Any]]] = MappingProxyType(
    {
        "data": lambda value: Path(_text(value)),
        "database": _text,
        "host": _text,
        "port": _number(0, 65_535),
        "workers": _number(0, 256),
        "upload_limit": lambda value: size(_text(value)),
        "quota": lambda value: size(_text(value)),
        "spare": lambda value: size(_text(value)),
        "keep_uploads": lambda value: duration(_text(value)),
        "keep_bundles": lambda value: duration(_text(value)),
        "keep_cases": lambda value: duration(_text(value)),
        "keep_audit": lambda value: duration(_text(value)),
        "access": _mode,
        "origins": _texts,
        "proxies": _texts,
        "user_header": _text,
        "user_scopes": _texts,
        "admins": _texts,
    }
)
