"""The data that is stored for a bundle: its document, rows of hosts and findings, and the analysis that made them.

A document comes from a process that read hostile input. Fields that do not match the schema are left out of the rows,
while the document is kept as it is. The process that makes a result also packs it, not the one that stores it.
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
    """What determines a result besides the bundle: with an equal analysis a bundle need not be read again."""

    tool_version: str
    rules_digest: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options_text(self) -> str:
        """The options in canonical form."""
        return compact(self.options)


@dataclass(frozen=True, slots=True)
class BundleResult:
    """The result of a bundle.

    `sha256` is the digest of its content, `path` is relative to what the user named. `status` is `ok`, `partial`,
    `limit`, `timeout`, `out of memory`, `signal N` or `refused`; `reason` explains all but the first. `document` is the
    result document, if there is one.
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
    """A result from the store, with its analysis and the start time of its run."""

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
    """Yield the row of each host (HOST_FIELDS) with those of its findings; the host of the overall verdict is first."""
    for case in _as_mappings(document.get("cases")) or [document]:
        findings = _as_mappings(case.get("findings"))
        yield _host_row(case), [tuple(_text(finding.get(key)) for key in FINDING_FIELDS) for finding in findings]


def _host_row(case: Mapping[str, Any]) -> Cells:
    host, verdict = _as_mapping(case.get("host")), _as_mapping(case.get("verdict"))
    apps, undecided = host.get("apps"), case.get("unknown")
    settings = {name: _value_and(value, "provenance") for name, value in _as_mapping(host.get("settings")).items()}
    measures = {name: _measure(value) for name, value in _as_mapping(host.get("measures")).items()}
    unusable = unusable_free_ratio(_as_mappings(host.get("free_blocks")))
    if unusable is not None:  # an additional measure for the comparison of hosts
        measures[UNUSABLE_FREE] = {"value": unusable, "unit": "ratio"}
    known_apps = [app for app in apps if isinstance(app, str)] if isinstance(apps, list) else []
    return (
        _text(host.get("name")),
        _text(case.get("case")),
        *(_text(host.get(key)) for key in ("os", "kernel", "era", "platform")),
        compact({"": known_apps})[4:-1],  # the list as JSON; `compact` takes mappings only
        compact(settings),
        compact(measures),
        *(_text(verdict.get(key)) for key in _VERDICT_KEYS),
        str(len(undecided)) if isinstance(undecided, list | tuple) else None,
        time_of_data(case),
    )


def _measure(measure: object) -> dict[str, str | float | None]:
    """Return value and unit, and the window if the document has it (`over 30 s`, `latest`)."""
    window = _text(_as_mapping(measure).get("window"))
    return _value_and(measure, "unit") | ({"window": window[:MAX_WINDOW_CHARS]} if window else {})


def _value_and(entry: object, key: str) -> dict[str, str | float | None]:
    """Return the value of a setting or measure, and one more field: its provenance or unit."""
    value = _as_mapping(entry).get("value")
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        value = None
    return {"value": value, key: _text(_as_mapping(entry).get(key))}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


_WRITTEN_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d+)? (UTC|local time)", re.ASCII)
_ZONE: Final = {"utc": "Z", "local": "", "UTC": "Z", "local time": ""}
_MIN_TIME_S, _MAX_TIME_S = 631_152_000.0, 4_102_444_800.0  # 1990 and 2100; other times are wrong clocks


def time_of_data(document: Mapping[str, Any]) -> str | None:
    """Return the latest time in the data of a host, such as `2026-11-20T11:55:51Z`.

    Without the Z it is the host's local time in an unknown zone; UTC times take precedence. None if nothing has a date:
    counters since boot, a clock without date or since boot. Sources are the timeline (the last bucket of any series),
    recordings and lists of free blocks.
    """
    times = set()
    for series in _as_mappings(_as_mapping(document.get("timeline")).get("series")):
        points = series.get("points")
        last = points[-1] if isinstance(points, list) and points else None
        times.add(_iso_time(last[0] if isinstance(last, list) and last else None, series.get("clock")))
    for profile in _as_mappings(document.get("profiles")):
        times.add(_iso_time(profile.get("last"), profile.get("clock")))
    for blocks in _as_mappings(_as_mapping(document.get("host")).get("free_blocks")):
        if match := _WRITTEN_TIME.fullmatch(str(blocks.get("when", ""))):
            times.add(f"{match[1]}T{match[2]}{_ZONE[match[3]]}")
    times.discard("")
    return max([time for time in times if time.endswith("Z")] or times, default=None)


def _iso_time(seconds: object, clock: object) -> str:
    """Return the time in ISO format, or an empty string for a value that is not a date."""
    if clock in ("utc", "local") and isinstance(seconds, int | float) and _MIN_TIME_S <= seconds <= _MAX_TIME_S:
        return f"{datetime.fromtimestamp(math.floor(seconds), UTC):%Y-%m-%dT%H:%M:%S}{_ZONE[str(clock)]}"
    return ""


UNUSABLE_FREE: Final = "node_buddyinfo_unusable_order9"
_HUGE_PAGE_ORDER: Final = 9
_MAX_ORDERS: Final = 64


def unusable_free_ratio(free_blocks: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the share of free memory that is unusable for a huge page: the kernel's unusable free space index.

    The index (extfrag/unusable_index of debugfs) is the share of free memory in blocks smaller than the requested size:
    0 means one contiguous piece, 1 no block that is large enough. The size here is order 9: a huge page of 2 MiB where
    pages have 4 KiB (x86, most of arm64). With pages of 64 KiB order 9 is 32 MiB and a huge page 512 MiB, so only hosts
    of one kind are comparable. The result covers all zones, each with its latest list; a list without a time counts
    only for a zone that has no list with a time. None without any free block.
    """
    latest: dict[tuple[str, str], tuple[str, Sequence[int]]] = {}
    for blocks in free_blocks:
        counts = blocks.get("counts")
        if not isinstance(counts, list) or not all(isinstance(count, int) and count >= 0 for count in counts):
            continue
        zone, when = (str(blocks.get("node")), str(blocks.get("zone"))), str(blocks.get("when") or "")
        if zone not in latest or when >= latest[zone][0]:
            latest[zone] = (when, counts[:_MAX_ORDERS])
    pages = [(order, count << order) for _, counts in latest.values() for order, count in enumerate(counts)]
    free = sum(count for _, count in pages)
    large = sum(count for order, count in pages if order >= _HUGE_PAGE_ORDER)
    return round(1 - large / free, 6) if free else None


UNREAD_PREFIX: Final = "unread:"
REFUSED: Final = "refused"
ZLIB_LEVEL: Final = 3  # takes a third of the time of the default 6 for a few percent more bytes


@dataclass(frozen=True, slots=True)
class PackedResult:
    """A `BundleResult` with the compressed JSON of its document, and a row per host with the rows of its findings."""

    sha256: str
    path: str
    size: int
    status: str
    reason: str = ""
    attempts: int = 1
    document: bytes | None = None
    hosts: tuple[tuple[Cells, tuple[Cells, ...]], ...] = ()


def unread_key(path: str) -> str:
    """Return the key that replaces the sha256 of a bundle with unknown content; it is derived from the path."""
    return f"{UNREAD_PREFIX}{hashlib.sha256(path.encode('utf-8', 'surrogatepass')).hexdigest()}"


def pack_result(result: BundleResult) -> PackedResult:
    """Return a result with its document compressed and its rows extracted."""
    document = result.document
    return PackedResult(
        result.sha256, result.path, result.size, result.status, result.reason, result.attempts,
        None if document is None else zlib.compress(compact(document).encode(), ZLIB_LEVEL),
        () if document is None else rows_of_document(document, result.status),
    )  # fmt: skip


def rows_of_document(document: Mapping[str, Any], status: str) -> tuple[tuple[Cells, tuple[Cells, ...]], ...]:
    """Return the rows of the hosts of a document with those of their findings.

    A `refused` bundle has no hosts: nothing in it was recognized. Otherwise it would count as an undecided host.
    """
    return () if status == REFUSED else tuple((host, tuple(findings)) for host, findings in host_rows(document))


_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OBJECT_STORES: Final = frozenset(("s3", "s3a", "gs", "gcs"))  # keys have any characters, addresses no secrets
_QUERY_START: Final = re.compile(r"[?#]")
_SERVER: Final = re.compile(r"(?:\[[\w:.%]*\]|[^:@\[\]]*)(?::\d*)?")


def public_path(path: str, roots: Iterable[str] = ()) -> str:
    """Return the path relative to the parent of the root that contains it; for a path outside of all roots its name.

    Addresses (`s3://bucket/key`) lose user, password and query, which may give access to the bundle. In a key of an
    object store `?` and `#` are ordinary characters.
    """
    if _ADDRESS.match(path):
        return _public_address(path)
    full = PurePosixPath(path)
    for root in sorted(map(PurePosixPath, roots), key=lambda root: -len(root.parts)):
        if full.is_relative_to(root):
            return str(PurePosixPath(root.name) / full.relative_to(root))
    return full.name if full.is_absolute() or ".." in full.parts else path


def _public_address(address: str) -> str:
    scheme, _, rest = address.partition("://")
    has_user = "@" in rest
    if scheme.lower() not in _OBJECT_STORES:
        rest = _QUERY_START.split(rest, maxsplit=1)[0]
    server, slash, path = rest.partition("/")
    server = server.rpartition("@")[2]
    if has_user and not _SERVER.fullmatch(server):  # not a valid server name: it may be part of a password
        server, path = "_", path.rpartition("@")[2]
    return "".join(map(_printable, f"{scheme.lower()}://{server}{slash}{path}"))


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


_DIGEST_BYTES: Final = 16  # kept of each SHA-256: 16 MB for a million bundles


@dataclass(frozen=True, slots=True)
class KnownContents:
    """A compact set of SHA-256 digests: `digests` are their first bytes, sorted and concatenated."""

    digests: bytes = b""

    @classmethod
    def from_digests(cls, contents: Iterable[str]) -> KnownContents:
        """Make the set from hexadecimal digests; keys of unread bundles (`unread_key`) are skipped."""
        read = (content for content in contents if not content.startswith(UNREAD_PREFIX))
        return cls(b"".join(sorted(bytes.fromhex(content)[:_DIGEST_BYTES] for content in read)))

    def __contains__(self, content: str) -> bool:
        wanted = bytes.fromhex(content)[:_DIGEST_BYTES]
        index = bisect_left(range(len(self.digests) // _DIGEST_BYTES), wanted, key=self._digest)
        return self._digest(index) == wanted

    def _digest(self, index: int) -> bytes:
        return self.digests[index * _DIGEST_BYTES : (index + 1) * _DIGEST_BYTES]
