"""What is stored of a bundle: its result document, rows of its hosts and findings, what decides about another analysis.

A document comes from a process that read what strangers sent. What does not have the form of the schema is left out of
the rows (the document is kept as it is), never a reason to lose the bundle. The process that made a result packs it,
not the one that stores.
"""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from thpdiag.model.document import compact


@dataclass(frozen=True, slots=True)
class Analysis:
    """All that changes a result but the bundle: with the same of these the same bundle need not be read again."""

    tool_version: str
    rules_digest: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options_text(self) -> str:
        """The options in one form, whatever their order."""
        return compact(self.options)


@dataclass(frozen=True, slots=True)
class BundleResult:
    """What came of a bundle.

    `sha256` is that of its content, `path` where it was, relative to what the user named. `status` is how the attempt
    ended: `ok`, `partial`, `limit`, `timeout`, `out of memory`, `signal N` or `refused`; `reason` says more of all but
    the first. `document` is the result document, if one was made.
    """

    sha256: str
    path: str
    size: int
    status: str
    reason: str = ""
    attempts: int = 1
    document: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A bundle as it is in the store, with the analysis that its result is of and the begin of its run."""

    result: BundleResult
    analysis: Analysis
    begun: str


HOST_FIELDS: Final = (
    "name", "title", "os", "kernel", "era", "platform", "apps", "settings", "measures", "verdict", "rule", "mechanism",
    "severity", "confidence", "state", "sentence", "undecided", "recorded",
)  # fmt: skip
FINDING_FIELDS: Final = (
    "rule", "mechanism", "severity", "confidence", "role", "state", "entity", "fingerprint",
)  # fmt: skip
Cells = tuple[str | None, ...]
MAX_WINDOW_CHARS: Final = 60
_VERDICT_KEYS: Final = ("status", "rule", "mechanism", "severity", "confidence", "state", "sentence")


def host_rows(document: Mapping[str, Any]) -> Iterator[tuple[Cells, list[Cells]]]:
    """Of each host its row (HOST_FIELDS) and those of its findings; the host of the verdict on top comes first."""
    for case in _as_mappings(document.get("cases")) or [document]:
        findings = [tuple(_text(one.get(key)) for key in FINDING_FIELDS) for one in _as_mappings(case.get("findings"))]
        yield _host_row(case), findings


def _host_row(case: Mapping[str, Any]) -> Cells:
    host, verdict = _as_mapping(case.get("host")), _as_mapping(case.get("verdict"))
    apps, undecided = host.get("apps"), case.get("unknown")
    settings = {name: _value_with(one, "provenance") for name, one in _as_mapping(host.get("settings")).items()}
    measures = {name: _measure(one) for name, one in _as_mapping(host.get("measures")).items()}
    unusable = unusable_free_ratio(_as_mappings(host.get("free_blocks")))
    if unusable is not None:  # a fleet compares it beside those of the document
        measures[UNUSABLE_FREE] = {"value": unusable, "unit": "ratio"}
    known_apps = [app for app in apps if isinstance(app, str)] if isinstance(apps, list) else []
    return (
        _text(host.get("name")),
        _text(case.get("case")),
        *(_text(host.get(key)) for key in ("os", "kernel", "era", "platform")),
        compact({"": known_apps})[4:-1],  # a list as a JSON text, whatever is in it
        compact(settings),
        compact(measures),
        *(_text(verdict.get(key)) for key in _VERDICT_KEYS),
        str(len(undecided)) if isinstance(undecided, list | tuple) else None,
        time_of_data(case),
    )


def _measure(one: object) -> dict[str, str | float | None]:
    """With the time that it is of, if the document tells it: `over 30 s`, `latest`."""
    window = _text(_as_mapping(one).get("window"))
    return _value_with(one, "unit") | ({"window": window[:MAX_WINDOW_CHARS]} if window else {})


def _value_with(one: object, beside: str) -> dict[str, str | float | None]:
    """A value with its unit, or with how it is known: an assumed setting is no measured one."""
    value = _as_mapping(one).get("value")
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        value = None
    return {"value": value, beside: _text(_as_mapping(one).get(beside))}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


_TIME_IN_WORDS: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? (UTC|local time)", re.ASCII)
_ZONE: Final = {"utc": "Z", "local": "", "UTC": "Z", "local time": ""}
_EARLIEST, _LATEST = 631_152_000.0, 4_102_444_800.0  # 1990 and 2100: a clock beyond tells nothing


def time_of_data(document: Mapping[str, Any]) -> str | None:
    """When the data of a host was recorded, the last time that anything in it has: `2026-11-20T11:55:51Z`.

    Without the Z it is the host's local time, of which nobody knows the zone; of times of both kinds UTC counts. None
    if nothing has a date: counters since boot, a clock of the day or of the boot. It comes from the time line (the last
    bucket of any series), from recordings and from lists of free blocks.
    """
    found = set()
    for series in _as_mappings(_as_mapping(document.get("timeline")).get("series")):
        points = series.get("points")
        last = points[-1] if isinstance(points, list) and points else None
        found.add(_iso_time(last[0] if isinstance(last, list) and last else None, series.get("clock")))
    for profile in _as_mappings(document.get("profiles")):
        found.add(_iso_time(profile.get("last"), profile.get("clock")))
    for blocks in _as_mappings(_as_mapping(document.get("host")).get("free_blocks")):
        if words := _TIME_IN_WORDS.fullmatch(str(blocks.get("when", ""))):
            found.add(f"{words[1]}T{words[2]}{_ZONE[words[3]]}")
    times = [time for time in found if time]
    return max([time for time in times if time.endswith("Z")] or times, default=None)


def _iso_time(seconds: object, clock: object) -> str:
    """Empty for what is no date."""
    if clock in ("utc", "local") and isinstance(seconds, int | float) and _EARLIEST <= seconds <= _LATEST:
        return f"{datetime.fromtimestamp(math.floor(seconds), UTC):%Y-%m-%dT%H:%M:%S}{_ZONE[str(clock)]}"
    return ""


UNUSABLE_FREE: Final = "node_buddyinfo_unusable_order9"
_HUGE_PAGE_ORDER: Final = 9
_MAX_ORDERS: Final = 64


def unusable_free_ratio(free_blocks: Sequence[Mapping[str, Any]]) -> float | None:
    """How much of the free memory is of no use for a huge page: the kernel's unusable free space index.

    That (extfrag/unusable_index of debugfs) is the share of free memory in blocks that are smaller than what is asked
    for: 0 is one piece, 1 is nothing large enough. Here the size is that of order 9, which is a huge page of 2 MiB
    where pages have 4 KiB (x86, most of arm64); with pages of 64 KiB order 9 is 32 MiB and a huge page 512 MiB, so
    hosts are only compared with their like. Of the last list of each zone that the document has, all zones together;
    a list without a time counts for a zone that has none with a time. None without any free block.
    """
    latest: dict[tuple[str, str], tuple[str, Sequence[int]]] = {}
    for one in free_blocks:
        counts = one.get("counts")
        if not isinstance(counts, list) or not all(isinstance(count, int) and count >= 0 for count in counts):
            continue
        zone, when = (str(one.get("node")), str(one.get("zone"))), str(one.get("when") or "")
        if zone not in latest or when >= latest[zone][0]:
            latest[zone] = (when, counts[:_MAX_ORDERS])
    pages = [(order, count << order) for _, counts in latest.values() for order, count in enumerate(counts)]
    free = sum(count for _, count in pages)
    large = sum(count for order, count in pages if order >= _HUGE_PAGE_ORDER)
    return round(1 - large / free, 6) if free else None


UNREAD_PREFIX: Final = "unread:"
REFUSED: Final = "refused"
ZLIB_LEVEL: Final = 3  # of zlib: a third of the time of the usual 6 for a few percent more bytes


@dataclass(frozen=True, slots=True)
class PackedResult:
    """As `BundleResult`; `document` is its JSON, packed, and `hosts` has a row per host with rows of its findings."""

    sha256: str
    path: str
    size: int
    status: str
    reason: str = ""
    attempts: int = 1
    document: bytes | None = None
    hosts: tuple[tuple[Cells, tuple[Cells, ...]], ...] = ()


def unread_key(path: str) -> str:
    """What stands for the sha256 of a bundle whose content is not known, so that its path is all it is known by."""
    return f"{UNREAD_PREFIX}{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()}"


def pack_result(result: BundleResult) -> PackedResult:
    """The rows and bytes of a result."""
    document = result.document
    return PackedResult(
        result.sha256, result.path, result.size, result.status, result.reason, result.attempts,
        None if document is None else zlib.compress(compact(document).encode(), ZLIB_LEVEL),
        () if document is None else rows_of_document(document, result.status),
    )  # fmt: skip


def rows_of_document(document: Mapping[str, Any], status: str) -> tuple[tuple[Cells, tuple[Cells, ...]], ...]:
    """The hosts of a document with their findings.

    None of a `refused` bundle: nothing in it was recognized, so that its document is of no host; as one, it would be
    counted among those that nobody can tell anything of.
    """
    return () if status == REFUSED else tuple((host, tuple(findings)) for host, findings in host_rows(document))


_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_STORES: Final = frozenset(("s3", "s3a", "gs", "gcs"))  # have keys of any characters, and no secrets in addresses
_ASKED: Final = re.compile(r"[?#]")
_HOST: Final = re.compile(r"(?:\[[\w:.%]*\]|[^:@\[\]]*)(?::\d*)?")


def public_path(path: str, roots: Iterable[str] = ()) -> str:
    """The path below the root that it was found in, with the root's own name; of a path outside of all, its name.

    Addresses (`s3://bucket/key`) stay, but for user, password and query, which can be keys to the bundle. In a key of
    an object store `?` and `#` are letters like others.
    """
    if _ADDRESS.match(path):
        return _public_address(path)
    whole = PurePosixPath(path)
    for root in sorted(map(PurePosixPath, roots), key=lambda root: -len(root.parts)):
        if whole.is_relative_to(root):
            return str(PurePosixPath(root.name) / whole.relative_to(root))
    return whole.name if whole.is_absolute() or ".." in whole.parts else path


def _public_address(path: str) -> str:
    scheme, _, rest = path.partition("://")
    secret = "@" in rest
    if scheme.lower() not in _STORES:
        rest = _ASKED.split(rest, maxsplit=1)[0]
    host, slash, below = rest.partition("/")
    host = host.rpartition("@")[2]
    if secret and not _HOST.fullmatch(host):  # no server can be called so: it may be a part of a password
        host, below = "_", below.rpartition("@")[2]
    return "".join(map(_printable, f"{scheme.lower()}://{host}{slash}{below}"))


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


_DIGEST_BYTES: Final = 16  # bytes of each SHA-256: 16 MB for a million bundles


@dataclass(frozen=True, slots=True)
class KnownContents:
    """`digests` are the first bytes of the SHA-256 of each content, sorted, one after the other."""

    digests: bytes = b""

    @classmethod
    def from_digests(cls, contents: Iterable[str]) -> KnownContents:
        """From SHA-256 in hexadecimal digits; what was not read (`unread_key`) is never known."""
        read = (content for content in contents if not content.startswith(UNREAD_PREFIX))
        return cls(b"".join(sorted(bytes.fromhex(content)[:_DIGEST_BYTES] for content in read)))

    def __contains__(self, content: str) -> bool:
        wanted = bytes.fromhex(content)[:_DIGEST_BYTES]
        at = bisect_left(range(len(self.digests) // _DIGEST_BYTES), wanted, key=self._at)
        return self._at(at) == wanted

    def _at(self, number: int) -> bytes:
        return self.digests[number * _DIGEST_BYTES : (number + 1) * _DIGEST_BYTES]
