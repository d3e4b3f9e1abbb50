"""Webhooks: a signed POST of JSON for each new case, retried until it is accepted. Mail is sent the same way.

    Thpdiag-Delivery: ID                  the same for all attempts
    Thpdiag-Signature: t=TIME,v1=HEX      HMAC-SHA256 of `TIME.` and the body, by the shared secret

Deliveries are stored together with the case, so that they survive a restart. Only configured addresses are notified;
redirects are not followed. A name is resolved once and the connection goes to the checked address: a private, local or
reserved one is refused unless its network is allowed. Addresses may contain secrets, so they are neither logged nor
stored in the database.
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
POLL_SECONDS: Final = 5.0  # between two queries for due deliveries
MIN_RETRY_SECONDS: Final = 30.0  # after the first failure; doubled after each further one
MAX_RETRY_SECONDS: Final = 6 * 3600.0
MAX_ATTEMPTS: Final = 15  # over two days
GONE: Final = 410  # the receiver has unsubscribed
MIN_SECRET_CHARS: Final = 24
MAIL_SCHEME: Final = "mailto:"


class DeliveryError(Exception):
    """Why a delivery failed, without the address of the receiver."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """The addresses, the signing secret, allowed private networks, and the origin of this server for links to cases.

    Addresses that begin with `mailto:` get mail by the server `mail`.
    """

    addresses: tuple[str, ...] = ()
    secret: bytes = field(default=b"", repr=False)
    networks: tuple[Network, ...] = ()
    origin: str = ""
    resolve: Resolve = resolve_host
    mail: MailServer | None = None

    @property
    def by_key(self) -> Mapping[str, str]:
        """The addresses by their keys in the database."""
        return {receiver_key(address): address for address in self.addresses}


def receiver_key(address: str) -> str:
    return sha256(address.encode()).hexdigest()[:16]


def check_receivers(addresses: Sequence[str], secret_file: Path | None) -> bytes:
    """Return the signing secret; UsageError if an address is invalid or the secret is missing or unsafe."""
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
    """Return the value of Thpdiag-Signature."""
    stamp = str(int(time))
    return f"t={stamp},v1={hmac.new(secret, stamp.encode() + b'.' + body, sha256).hexdigest()}"


def post(address: str, headers: Mapping[str, str], body: bytes, receivers: Receivers) -> int:
    """Send a POST and return the status of the answer; DeliveryError without an answer or for a forbidden address."""
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    ip = _allowed_address(host, receivers)
    if parts.scheme == "https":
        connection: HTTPConnection = HTTPSConnection(
            host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
        )
    else:
        connection = HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    # the name is not resolved again, since the answer could be another address
    connection._create_connection = lambda *_args, **_more: socket.create_connection(  # type: ignore[attr-defined]
        (ip, port), TIMEOUT_SECONDS
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
    """Return the address to connect to; DeliveryError unless all addresses of the host are allowed."""
    resolved = [host] if parse_address(host) else receivers.resolve(host)
    if not resolved:
        raise DeliveryError("its name cannot be resolved")
    for text in resolved:
        address = parse_address(text)
        if address is None or is_in_networks(text, receivers.networks):
            continue
        if not address.is_global or address.is_multicast:
            raise DeliveryError("its address is private or local, and not in an allowed network")
    return resolved[0]


class Webhooks:
    """A context manager with a thread that sends due deliveries."""

    def __init__(self, storage: Storage, receivers: Receivers, clock: Callable[[], float]) -> None:
        self._storage, self._receivers, self._clock = storage, receivers, clock
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="webhooks")

    def __enter__(self) -> Self:
        if self._receivers.addresses:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(StorageError):
                self.deliver_due()
            self._stopping.wait(POLL_SECONDS)

    def deliver_due(self) -> int:
        """Send due deliveries and return how many were accepted."""
        accepted = 0
        for delivery in self._storage.deliveries.due(MAX_RETRY_SECONDS):
            if self._stopping.is_set():
                break
            accepted += self._deliver(delivery)
        return accepted

    def _deliver(self, delivery: Delivery) -> bool:
        """Send a delivery, then remove or postpone it. Return whether it was accepted."""
        deliveries, address = self._storage.deliveries, self._receivers.by_key.get(delivery.receiver)
        case = self._storage.cases.find(delivery.case)
        if address is None or case is None:
            deliveries.remove(delivery)
            return False
        try:
            status = self._send(delivery, case, address)
            failure = "" if 200 <= status < 300 else f"it answered {status}"
        except (DeliveryError, MailError) as error:
            status, failure = 0, str(error)
        names = (delivery.receiver, case.id)
        if not failure or status == GONE or delivery.attempts + 1 >= MAX_ATTEMPTS:
            if failure:
                LOG.error("receiver %s was not notified of case %s, which is not retried: %s", *names, failure)
            deliveries.remove(delivery)
            return not failure
        wait = min(MAX_RETRY_SECONDS, MIN_RETRY_SECONDS * 2.0**delivery.attempts)
        LOG.warning("receiver %s was not notified of case %s: %s; again in %d s", *names, failure, wait)
        deliveries.postpone(delivery, self._clock() + wait)
        return False

    def _send(self, delivery: Delivery, case: Case, address: str) -> int:
        """Return the status of the answer; 200 if a mail server accepted the message."""
        url, mail = f"{self._receivers.origin}/cases/{case.id}", self._receivers.mail
        if mail is not None and address.startswith(MAIL_SCHEME):
            send(mail, message(case, url, mail.sender, address.removeprefix(MAIL_SCHEME), delivery.id, self._clock()))
            return 200
        payload: dict[str, Any] = {"event": "verdict", "delivery": delivery.id, "case": case_json(case), "url": url}
        body = json.dumps(payload).encode()
        headers = {
            "Content-Type": "application/json", "User-Agent": f"thpdiag/{__version__}", "Thpdiag-Delivery": delivery.id,
            "Thpdiag-Signature": sign(self._receivers.secret, self._clock(), body),
        }  # fmt: skip
        return post(address, headers, body, self._receivers)
