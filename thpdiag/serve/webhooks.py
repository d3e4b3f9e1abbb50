"""Tells other programs what came of a bundle: a POST of JSON for each new case, signed, sent again until it is heard.
Mail goes the same way.

    Thpdiag-Delivery: ID                  the same each time that it is sent again
    Thpdiag-Signature: t=TIME,v1=HEX      HMAC-SHA256 of `TIME.` and the body, by the shared secret

What is to be told is written down with the case, so that it outlives the server. Only the addresses that whoever runs
the server has named are told anything, and no redirection is followed. A name is resolved once and the connection goes
to the address that was looked at: one that is private, local or reserved is refused unless its network is allowed.
Addresses may carry secrets, so that they are in no log and not in the database.
"""

from __future__ import annotations

import hmac
import json
import logging
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from thpdiag import __version__
from thpdiag.errors import StorageError, UsageError
from thpdiag.serve.access.principals import Network, Resolve, is_in_networks, parse_address, resolve_host
from thpdiag.serve.api.responses import case_json
from thpdiag.serve.mail import MailError, MailServer, message, send
from thpdiag.serve.storage.cases import Case, Delivery
from thpdiag.serve.storage.storage import Storage

LOG: Final = logging.getLogger("thpdiag.serve.webhooks")
TIMEOUT_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 5.0  # between two looks whether something is due
FIRST_WAIT_SECONDS: Final = 30.0  # after the first failure; twice as long after each further one
LONGEST_WAIT_SECONDS: Final = 6 * 3600.0
MAX_ATTEMPTS: Final = 15  # over two days
GONE: Final = 410  # the receiver wants no more
MIN_SECRET_CHARS: Final = 24
MAIL_SCHEME: Final = "mailto:"


class DeliveryError(Exception):
    """Why a receiver was not told, in words without its address."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """The addresses, what messages are signed with, private networks that may be reached, how browsers name us.

    An address that begins with `mailto:` gets mail by the server `mail`.
    """

    addresses: tuple[str, ...] = ()
    secret: bytes = field(default=b"", repr=False)
    networks: tuple[Network, ...] = ()
    origin: str = ""
    resolve: Resolve = resolve_host
    mail: MailServer | None = None

    @property
    def by_key(self) -> Mapping[str, str]:
        """The addresses by what stands for them in the database."""
        return {receiver_key(address): address for address in self.addresses}


def receiver_key(address: str) -> str:
    return sha256(address.encode()).hexdigest()[:16]


def check_receivers(addresses: Sequence[str], secret_file: Path | None) -> bytes:
    """The secret; UsageError if an address is invalid, or if nobody could tell our messages from others."""
    for address in addresses:
        try:
            parts = urlsplit(address)
            proper = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            proper = False
        if not proper or parts.username or not address.isascii() or not address.isprintable() or " " in address:
            raise UsageError("a webhook is an address that begins with https:// or http://, without a user name")
    if not addresses:
        return b""
    if secret_file is None:
        raise UsageError("webhooks need a secret that their messages are signed with: name its file (webhook_secret)")
    try:
        secret = secret_file.read_bytes().strip()
        if len(secret) < MIN_SECRET_CHARS or secret_file.stat().st_mode & 0o077:
            raise UsageError(f"{secret_file}: needs {MIN_SECRET_CHARS} characters, and that only its owner can read it")
    except OSError as error:
        raise UsageError(f"{secret_file}: cannot be read ({error.strerror})") from error
    return secret


def sign(secret: bytes, time: float, body: bytes) -> str:
    """The value of Thpdiag-Signature."""
    stamp = str(int(time))
    return f"t={stamp},v1={hmac.new(secret, stamp.encode() + b'.' + body, sha256).hexdigest()}"


def post(address: str, headers: Mapping[str, str], body: bytes, receivers: Receivers) -> int:
    """The status of the answer; DeliveryError if there is none, or if nothing may be sent there."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    place = _allowed_address(host, receivers)
    if parts.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
        )
    else:
        connection = HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    # the name is not resolved again: another answer could lead elsewhere
    connection._create_connection = lambda *_args, **_more: socket.create_connection(  # type: ignore[attr-defined]
        (place, port), TIMEOUT_SECONDS
    )
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", target, body, dict(headers))
        return connection.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        raise DeliveryError(getattr(error, "strerror", None) or type(error).__name__) from error
    finally:
        connection.close()


def _allowed_address(host: str, receivers: Receivers) -> str:
    """The address to connect to; all that a name stands for have to be allowed."""
    found = [host] if parse_address(host) else list(dict.fromkeys(receivers.resolve(host)))
    if not found:
        raise DeliveryError("its name cannot be resolved")
    for text in found:
        address = parse_address(text)
        if address is None or is_in_networks(text, receivers.networks):
            continue
        if not address.is_global or address.is_multicast:
            raise DeliveryError("its address is private or local, and not in an allowed network")
    return found[0]


class Webhooks:
    """A thread that tells receivers what is due; to be used as a context. `wake` has it look at once."""

    def __init__(self, storage: Storage, receivers: Receivers, clock: Callable[[], float]) -> None:
        self._storage, self._receivers, self._clock = storage, receivers, clock
        self._bell, self._over = Event(), Event()
        self._thread = Thread(target=self._run, name="webhooks")

    def __enter__(self) -> Self:
        if self._receivers.addresses:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._bell.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self._bell.clear()
            with suppress(StorageError):
                self.deliver_due(self._over)
            self._bell.wait(LOOK_SECONDS)

    def deliver_due(self, over: Event | None = None) -> int:
        """Send what is due; how many were heard."""
        heard = 0
        for one in self._storage.deliveries.due(LONGEST_WAIT_SECONDS):
            if over is not None and over.is_set():
                break
            heard += self._deliver(one)
        return heard

    def _deliver(self, one: Delivery) -> bool:
        deliveries, address = self._storage.deliveries, self._receivers.by_key.get(one.receiver)
        case = self._storage.cases.find(one.case)
        if address is None or case is None:
            deliveries.remove(one)
            return False
        try:
            status = self._tell(one, case, address)
            why = "" if 200 <= status < 300 else f"it answered {status}"
        except (DeliveryError, MailError) as error:
            status, why = 0, str(error)
        if not why or status == GONE or one.attempts + 1 >= MAX_ATTEMPTS:
            if why:
                LOG.error(
                    "receiver %s was not notified of case %s, which is not retried: %s", one.receiver, case.id, why
                )
            deliveries.remove(one)
            return not why
        wait = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**one.attempts)
        LOG.warning("receiver %s was not notified of case %s: %s; again in %d s", one.receiver, case.id, why, wait)
        deliveries.postpone(one, self._clock() + wait)
        return False

    def _tell(self, one: Delivery, case: Case, address: str) -> int:
        """The status of the answer; 200 of a mail server that took the message."""
        url, mail = f"{self._receivers.origin}/cases/{case.id}", self._receivers.mail
        if mail is not None and address.startswith(MAIL_SCHEME):
            send(mail, message(case, url, mail.sender, address.removeprefix(MAIL_SCHEME), one.id, self._clock()))
            return 200
        news: dict[str, Any] = {"event": "verdict", "delivery": one.id, "case": case_json(case), "url": url}
        body = json.dumps(news).encode()
        headers = {
            "Content-Type": "application/json", "User-Agent": f"thpdiag/{__version__}", "Thpdiag-Delivery": one.id,
            "Thpdiag-Signature": sign(self._receivers.secret, self._clock(), body),
        }  # fmt: skip
        return post(address, headers, body, self._receivers)
