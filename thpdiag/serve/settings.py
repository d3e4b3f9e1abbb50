"""All settings of the server: each has a default, a key in the configuration file and an option of the command.

    data = "/var/lib/thpdiag"
    port = 8765
    access = "proxy"                          # none, tokens, proxy, oidc
    origins = ["https://thpdiag.example.org"]
    proxies = ["127.0.0.1"]
    upload_limit = "8 GiB"
    keep_bundles = "14 d"

An option takes precedence over the file, the file over the default. An unknown key is an error. No setting is read from
the environment, which child processes inherit.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from thpdiag.errors import UsageError
from thpdiag.serve.access.oidc import OidcSettings, check_oidc, parse_roles
from thpdiag.serve.access.principals import Access, Mode, parse_networks, parse_scopes
from thpdiag.serve.mail import check_mail
from thpdiag.serve.storage.bundles import SPARE_BYTES, StorageLimits
from thpdiag.serve.storage.database import DAY, steady_seconds
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.webhooks import MAIL_SCHEME, Receivers, check_receivers, receiver_key

BYTE_UNITS: Final[Mapping[str, int]] = MappingProxyType(
    {unit: 1000**power for power, unit in enumerate(("B", "kB", "MB", "GB", "TB"))}
    | {unit: 1024**power for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), 1)}
)
TIME_UNITS: Final[Mapping[str, int]] = MappingProxyType({"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400})
QUANTITY_SHAPE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]+)", re.ASCII)
MAX_QUANTITY: Final = 1 << 62  # bytes or seconds that file systems and databases can store
SIGN_IN_PATH: Final = "/sign-in"


def parse_size(text: str) -> int:
    """Parse a size with its unit into bytes."""
    return int(_parse_quantity(text, BYTE_UNITS, "size", "2 GiB"))


def parse_duration(text: str) -> float:
    """Parse a duration with its unit into seconds."""
    return _parse_quantity(text, TIME_UNITS, "time", "14 d")


def _parse_quantity(text: str, units: Mapping[str, int], kind: str, example: str) -> float:
    match = QUANTITY_SHAPE.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise UsageError(f"no {kind}: {text.strip()!r}; written like {example!r}, in {', '.join(units)}")
    quantity = float(match[1]) * units[match[2]]
    if not 0 < quantity <= MAX_QUANTITY:
        raise UsageError(f"a {kind} of {text.strip()} is invalid here")
    return quantity


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError("must be a string")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise UsageError("must be a list of strings")
    return tuple(map(_text, value))


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError("must be true or false")
    return value


def _number(minimum: int, maximum: int) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if type(value) is not int or not minimum <= value <= maximum:
            raise UsageError(f"must be a number from {minimum} to {maximum}")
        return value

    return parse


def _mode(value: object) -> Mode:
    if value not in set(Mode):
        raise UsageError(f"must be one of {', '.join(Mode)}")
    return Mode(_text(value))


def _parse(parse: Callable[[Any], Any]) -> Mapping[str, Callable[[Any], Any]]:
    """Return the metadata of a setting: the function that parses its TOML value or raises UsageError."""
    return {"parse": parse}


TEXT: Final = _parse(_text)
TEXTS: Final = _parse(_texts)
BOOLEAN: Final = _parse(_boolean)
PATH: Final = _parse(lambda value: Path(_text(value)))
SIZE: Final = _parse(lambda value: parse_size(_text(value)))
DURATION: Final = _parse(lambda value: parse_duration(_text(value)))


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in bytes, times in seconds. `quota` None: as much as the disk has; `workers` 0: half of the CPUs.

    `owner_` settings limit one token or user. With a login, an owner may use half of the space (`owner_quota` None) and
    all workers but one (`owner_jobs` 0); without a login there is only one owner.
    """

    data: Path = field(metadata=PATH)
    database: str | None = field(default=None, metadata=TEXT)
    host: str = field(default="127.0.0.1", metadata=TEXT)
    port: int = field(default=8765, metadata=_parse(_number(0, 65_535)))
    workers: int = field(default=0, metadata=_parse(_number(0, 256)))
    upload_limit: int = field(default=8 << 30, metadata=SIZE)
    quota: int | None = field(default=None, metadata=SIZE)
    spare: int = field(default=SPARE_BYTES, metadata=SIZE)
    owner_quota: int | None = field(default=None, metadata=SIZE)
    owner_cases: int = field(default=100_000, metadata=_parse(_number(1, 1 << 31)))
    owner_uploads: int = field(default=500, metadata=_parse(_number(1, 1 << 31)))
    owner_jobs: int = field(default=0, metadata=_parse(_number(0, 256)))
    keep_uploads: float = field(default=DAY, metadata=DURATION)
    keep_bundles: float = field(default=14 * DAY, metadata=DURATION)
    keep_cases: float = field(default=180 * DAY, metadata=DURATION)
    keep_audit: float = field(default=400 * DAY, metadata=DURATION)
    access: Mode = field(default=Mode.NONE, metadata=_parse(_mode))
    origins: tuple[str, ...] = field(default=(), metadata=TEXTS)
    proxies: tuple[str, ...] = field(default=(), metadata=TEXTS)
    user_header: str = field(default="x-forwarded-user", metadata=TEXT)
    user_scopes: tuple[str, ...] = field(default=("upload", "read"), metadata=TEXTS)
    admins: tuple[str, ...] = field(default=(), metadata=TEXTS)
    require_sandbox: bool = field(default=False, metadata=BOOLEAN)
    oidc_issuer: str = field(default="", metadata=TEXT)
    oidc_client: str = field(default="", metadata=TEXT)
    oidc_secret: Path | None = field(default=None, metadata=PATH)
    oidc_claim: str = field(default="groups", metadata=TEXT)
    oidc_roles: tuple[str, ...] = field(default=(), metadata=TEXTS)
    rules: tuple[Path, ...] = field(default=(), metadata=_parse(lambda value: tuple(map(Path, _texts(value)))))
    webhooks: tuple[str, ...] = field(default=(), metadata=TEXTS)
    webhook_secret: Path | None = field(default=None, metadata=PATH)
    webhook_networks: tuple[str, ...] = field(default=(), metadata=TEXTS)
    mail_to: tuple[str, ...] = field(default=(), metadata=TEXTS)
    mail_from: str = field(default="", metadata=TEXT)
    mail_server: str = field(default="", metadata=TEXT)
    mail_password: Path | None = field(default=None, metadata=PATH)

    @property
    def terms(self) -> Terms:
        return Terms(self.keep_bundles, self.keep_cases, self.keep_audit)

    @property
    def receivers(self) -> tuple[str, ...]:
        """Addresses of webhooks and of people that are notified of each new case."""
        return (*self.webhooks, *(f"{MAIL_SCHEME}{address}" for address in self.mail_to))

    @property
    def worker_count(self) -> int:
        """The number of concurrent analyses; by default half of the CPUs, the others answer requests."""
        return self.workers or max(1, len(os.sched_getaffinity(0)) // 2)

    def to_access(self) -> Access:
        """Return the access configuration; `check_access` validates it."""
        proxies, scopes = parse_networks(self.proxies), parse_scopes(self.user_scopes)
        origins, header, admins = frozenset(self.origins), self.user_header.lower(), frozenset(self.admins)
        return Access(self.access, self.host, origins, proxies, header, scopes, admins, SIGN_IN_PATH)


def open_oidc(settings: Settings) -> OidcSettings | None:
    """Return the settings of the OpenID Connect provider, or None in other modes."""
    if settings.access is not Mode.OIDC:
        return None
    secret = check_oidc(settings.oidc_issuer, settings.oidc_client, settings.oidc_secret)
    roles, scopes = parse_roles(settings.oidc_roles), parse_scopes(settings.user_scopes)
    names = (settings.oidc_issuer, settings.oidc_client, secret, settings.oidc_claim)
    return OidcSettings(*names, roles, scopes, frozenset(settings.admins))


def open_receivers(settings: Settings) -> Receivers:
    """Return the validated receivers of notifications: webhooks with their secret, and mail addresses."""
    secret = check_receivers(settings.webhooks, settings.webhook_secret)
    mail = check_mail(settings.mail_server, settings.mail_from, settings.mail_to, settings.mail_password)
    origin = settings.origins[0] if settings.origins else ""
    if mail and not origin:
        raise UsageError("mail leads to cases: name the address of this server in browsers (origins)")
    return Receivers(settings.receivers, secret, parse_networks(settings.webhook_networks), origin, mail=mail)


def load_settings(file: Path | None, options: Mapping[str, Any]) -> Settings:
    """Read the settings of a file and override them by options that are neither None nor empty."""
    settings = {} if file is None else _read_toml(file)
    settings |= {name: value for name, value in options.items() if value is not None and value != ()}
    return Settings(**{"data": data_folder(), **settings})


def open_storage(settings: Settings, *, recreate: bool = False) -> Storage:
    """Open the store of the settings; a server may be running on it."""
    has_login = settings.access is not Mode.NONE
    limits = StorageLimits(
        settings.quota, settings.spare, settings.owner_quota, 0.5 if has_login else 1.0,
        settings.owner_cases, settings.owner_uploads,
        settings.owner_jobs or (max(1, settings.worker_count - 1) if has_login else None),
    )  # fmt: skip
    receivers = tuple(map(receiver_key, settings.receivers))
    return Storage.open(
        settings.data, settings.database, limits,
        steady=steady_seconds, patience=settings.keep_uploads, recreate=recreate, receivers=receivers,
    )  # fmt: skip


def data_folder() -> Path:
    """Return the default data folder by the XDG base directory specification."""
    home = os.environ.get("XDG_DATA_HOME", "")
    try:
        base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise UsageError("there is no home folder for bundles: set --data") from error
    return base / "thpdiag" / "serve"


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not valid TOML: {error}") from error
    parsers = {setting.name: setting.metadata["parse"] for setting in fields(Settings)}
    settings = {}
    for key, value in table.items():
        if key not in parsers:
            raise UsageError(f"{file}: no such setting: {key}; there are {', '.join(parsers)}")
        try:
            settings[key] = parsers[key](value)
        except UsageError as error:
            raise UsageError(f"{file}: {key}: {error}") from error
    return settings
