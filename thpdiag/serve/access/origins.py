"""Which site a request comes from: what keeps other sites from using a login that a browser sends by itself.

Without any login that is all there is: a page from anywhere, open in a browser on this machine, can send requests to a
loopback address, and with a name of its own that it lets point there (DNS rebinding) it could read the answers. So the
name in Host has to be one of ours, a change has to come from a page of ours, and parts of our pages are for them alone.

`Sec-Fetch-Site` is sent by browsers only to TLS and to loopback, `Origin` with every change by browsers of today, and
as `null` where the policy on referrers hides it; programs send neither.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from thpdiag.serve.access.addresses import parsed
from thpdiag.serve.access.modes import Access, Mode

SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))  # change nothing
HOST: Final = re.compile(r"(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


def ours(headers: Headers, access: Access) -> frozenset[str]:
    """The origins that a page of ours can have for this request; none if Host names something else."""
    host = headers.get("host", "").lower()
    if not HOST.fullmatch(host):
        return frozenset()
    if access.origins:
        named = {urlsplit(origin).netloc for origin in access.origins}
        return access.origins if host in named else frozenset()
    return frozenset((f"http://{host}",)) if is_local_name(host) else frozenset()


def is_local_name(host: str) -> bool:
    """Whether a Host header names a loopback address, by any port: a tunnel may end at another than ours."""
    name = urlsplit(f"//{host}").hostname or ""
    address = parsed(name)
    return name == "localhost" or (address is not None and address.is_loopback)


def is_from_elsewhere(method: str, headers: Headers, origins: Collection[str]) -> bool:
    """Whether a page that is not ours made a browser send this."""
    site = headers.get("sec-fetch-site")
    if method in SAFE:  # a link to us is welcome; a part of another page, or a frame in it, is not
        navigates = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in ("cross-site", "same-site") and not navigates
    origin = headers.get("origin")
    if site is not None and site != "same-origin":
        return True
    if origin == "null":
        return site != "same-origin"
    return origin is not None and origin not in origins


def is_forwarded(access: Access, headers: Headers) -> bool:
    """Whether a proxy stands in front of a server without login: then loopback is open to whoever reaches the proxy."""
    return access.mode is Mode.NONE and any(name in headers for name in FORWARDED)
