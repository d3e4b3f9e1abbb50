"""Webhooks: signed, sent again after a dead receiver, and to no address that is not allowed."""

from __future__ import annotations

import hmac
import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from remote_servers import run_server
from serve_storage_fixtures import Hands, Opened, cased
from thpdiag.errors import UsageError
from thpdiag.serve.access.principals import parse_networks
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.webhooks import (
    MAX_ATTEMPTS,
    MAX_RETRY_SECONDS,
    MIN_RETRY_SECONDS,
    DeliveryError,
    Receivers,
    Webhooks,
    check_receivers,
    post,
    receiver_key,
)

SECRET = b"0123456789abcdef01234567"
LOOPBACK = parse_networks(["127.0.0.0/8"])


@dataclass
class Receiver:
    """A program that is told; answers with these statuses in turn, then 200."""

    statuses: list[int] = field(default_factory=list)
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=s3cret"


@contextmanager
def receiving(*statuses: int) -> Iterator[Receiver]:
    told = Receiver(list(statuses))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.heard.append(({name.lower(): value for name, value in self.headers.items()}, body))
            told.paths.append(self.path)
            status = told.statuses.pop(0) if told.statuses else 200
            self.send_response(status)
            if status in (301, 302, 307):
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    told.port = server.server_address[1]
    with run_server(server):
        yield told


def hooks(storage: Storage, hands: Hands, *addresses: str) -> Webhooks:
    return Webhooks(storage, Receivers(addresses, SECRET, LOOPBACK, "https://thpdiag.example.org"), hands)


def test_a_new_case_is_told_signed(opened: Opened, hands: Hands) -> None:
    """Once, to each receiver; the signature is that of time and body, and the message leads to the case."""
    with receiving() as first, receiving() as second:
        storage = opened(receivers=(receiver_key(first.url), receiver_key(second.url)))
        key = cased(storage, 1)
        told = hooks(storage, hands, first.url, second.url)
        assert told.deliver_due() == 2
        assert told.deliver_due() == 0
    headers, body = first.heard[0]
    stamp, _, digest = headers["thpdiag-signature"].partition(",v1=")

    assert first.paths == ["/hook?key=s3cret"]
    assert stamp == f"t={int(hands.now)}"
    assert digest == hmac.new(SECRET, stamp[2:].encode() + b"." + body, "sha256").hexdigest()
    message = json.loads(body)
    assert message["url"] == f"https://thpdiag.example.org/cases/{key}"
    assert (message["event"], message["case"]["id"]) == ("verdict", key)
    assert message["delivery"] == headers["thpdiag-delivery"]
    assert len(second.heard) == 1


def test_it_is_sent_again_after_a_dead_receiver(opened: Opened, hands: Hands, caplog: pytest.LogCaptureFixture) -> None:
    """Later each time, also after a restart, by the same name; neither the log nor the database has the address."""
    with receiving(500, 302) as receiver:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        address = f"http://127.0.0.1:{port}/hook?key=s3cret"
        storage = opened(receivers=(receiver_key(receiver.url), receiver_key(address)))
        cased(storage, 1)
        with caplog.at_level(logging.WARNING):
            assert hooks(storage, hands, receiver.url, address).deliver_due() == 0
        assert hooks(storage, hands, receiver.url).deliver_due() == 0
        again = opened()
        hands.now += MIN_RETRY_SECONDS
        assert hooks(again, hands, receiver.url, address).deliver_due() == 0
        hands.now += MIN_RETRY_SECONDS
        assert hooks(again, hands, receiver.url, address).deliver_due() == 0
        hands.now += MIN_RETRY_SECONDS
        assert hooks(again, hands, receiver.url, address).deliver_due() == 1
    assert [headers["thpdiag-delivery"] for headers, _ in receiver.heard] == [
        receiver.heard[0][0]["thpdiag-delivery"]
    ] * 3
    assert receiver.paths == ["/hook?key=s3cret"] * 3
    assert "it answered 500; again in 30 s" in caplog.text
    assert "s3cret" not in caplog.text
    kept = b"".join(file.read_bytes() for file in storage.folder.rglob("*") if file.is_file())
    assert b"s3cret" not in kept


@pytest.mark.parametrize("status", [410, 503])
def test_it_is_given_up(opened: Opened, hands: Hands, status: int) -> None:
    """At once if the receiver wants no more, else after many attempts over two days."""
    attempts = 1 if status == 410 else MAX_ATTEMPTS
    with receiving(*[status] * MAX_ATTEMPTS) as receiver:
        storage = opened(receivers=(receiver_key(receiver.url),))
        cased(storage, 1)
        began = hands.now
        for _ in range(attempts):
            hooks(storage, hands, receiver.url).deliver_due()
            hands.now += 6 * 3600
        assert storage.deliveries.due(MAX_RETRY_SECONDS) == []
    assert len(receiver.heard) == attempts
    assert hands.now - began < 5 * 86_400


def test_a_clock_that_is_set_back_keeps_nobody_waiting(opened: Opened, hands: Hands) -> None:
    """What is to be sent again at a time that is weeks away now is sent at once."""
    with receiving(503, 200) as receiver:
        storage = opened(receivers=(receiver_key(receiver.url),))
        cased(storage, 1)
        assert hooks(storage, hands, receiver.url).deliver_due() == 0
        assert hooks(storage, hands, receiver.url).deliver_due() == 0
        hands.now -= 30 * 86_400
        assert hooks(storage, hands, receiver.url).deliver_due() == 1
    assert len(receiver.heard) == 2


def test_a_case_that_is_deleted_is_not_told(opened: Opened, hands: Hands) -> None:
    """Nor anybody who is no receiver any more."""
    with receiving() as receiver:
        storage = opened(receivers=(receiver_key(receiver.url),))
        storage.removal.delete_case(cased(storage, 1))
        cased(storage, 2)
        assert hooks(storage, hands, "http://127.0.0.1:1/").deliver_due() == 0
        assert storage.deliveries.due(MAX_RETRY_SECONDS) == []
    assert receiver.heard == []


@pytest.mark.parametrize(
    "place",
    ["127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::1", "fe80::1%eth0",
     "::ffff:127.0.0.1", "fd00::1", "224.0.0.1", "255.255.255.255", "[no address"],
)  # fmt: skip
def test_private_addresses_are_refused(place: str) -> None:
    """As written, and as what a name stands for, also if only one of several is private; unless they are allowed."""
    for found in ([place], ["93.184.216.34", place]):
        receivers = Receivers(("http://hook.example/",), SECRET, (), "", lambda _, found=found: found)
        if place == "[no address":
            continue
        with pytest.raises(DeliveryError, match="private or local"):
            post("http://hook.example/", {}, b"", receivers)
    if ":" not in place and "[" not in place:
        with pytest.raises(DeliveryError, match="private or local"):
            post(f"http://{place}:1/", {}, b"", Receivers((), SECRET))


def test_a_name_is_resolved_once() -> None:
    """The connection goes to the address that was looked at: a second answer of the DNS changes nothing."""
    answers = [["127.0.0.1"], ["203.0.113.1"]]
    with receiving() as receiver:
        address = f"http://hook.example:{receiver.port}/x"
        receivers = Receivers((address,), SECRET, LOOPBACK, "", lambda _: answers.pop(0))
        assert post(address, {}, b"{}", receivers) == 200
    assert len(answers) == 1
    assert receiver.heard[0][0]["host"] == f"hook.example:{receiver.port}"
    with pytest.raises(DeliveryError, match="cannot be resolved"):
        post(address, {}, b"", Receivers((), SECRET, resolve=lambda _: []))


def test_settings_of_webhooks(tmp_path: Path) -> None:
    """A secret that others can read, a short one, none, or what is no address: the server does not start."""
    secret = tmp_path / "secret"
    secret.write_bytes(SECRET + b"\n")
    secret.chmod(0o600)
    assert check_receivers(["https://x.example/"], secret) == SECRET
    assert check_receivers([], None) == b""
    for address in ("ftp://x", "https://", "https://a:b@x/", "https://x y/", "//x", "https://[x/"):
        with pytest.raises(UsageError):
            check_receivers([address], secret)
    with pytest.raises(UsageError, match="webhook_secret"):
        check_receivers(["https://x.example/"], None)
    with pytest.raises(UsageError, match="cannot be read"):
        check_receivers(["https://x.example/"], tmp_path / "none")
    secret.chmod(0o644)
    with pytest.raises(UsageError, match="only its owner"):
        check_receivers(["https://x.example/"], secret)


def test_the_thread_tells_what_is_due(opened: Opened, hands: Hands) -> None:
    """At the start of the server, without anybody waking it, and ends with it."""
    with receiving() as receiver:
        storage = opened(receivers=(receiver_key(receiver.url),))
        cased(storage, 1)
        with hooks(storage, hands, receiver.url):
            while not receiver.heard:
                threading.Event().wait(0.01)
    assert len(receiver.heard) == 1
