"""Mail about new cases: over TLS with a certificate that counts, again after a failure, never in the clear."""

from __future__ import annotations

import base64
import logging
import socket
import socketserver
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from remote_servers import run_server
from serve_storage_fixtures import Hands, Opened, cased
from thpdiag.errors import UsageError
from thpdiag.serve.mail import MailError, MailServer, check_mail, send
from thpdiag.serve.pages.render import case_sentence
from thpdiag.serve.settings import load_settings, open_receivers
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.webhooks import MIN_RETRY_SECONDS, Receivers, Webhooks, receiver_key

ANNA = "mailto:anna@example.org"
ORIGIN = "https://thpdiag.example.org"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of localhost, signed by itself, with its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path_factory.mktemp("certificate") / "server.pem"
    file.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return file


@dataclass
class Post:
    """A mail server: what it was told, and each message with whether it came over TLS."""

    certificate: Path
    tls_first: bool = False
    starttls: bool = True
    statuses: list[int] = field(default_factory=list)  # of the next messages, then 250
    words: list[str] = field(default_factory=list)
    came: list[tuple[bool, bytes]] = field(default_factory=list)
    port: int = 0

    def server(self, **other: object) -> MailServer:
        return replace(MailServer("localhost", self.port, "thpdiag@example.org", self.tls_first), **other)  # type: ignore[arg-type]

    def context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.certificate)
        return made

    def receive(self, plain: socket.socket) -> None:
        """One connection, until the other side ends it."""
        with ExitStack() as undo:
            secured = (
                undo.enter_context(self.context().wrap_socket(plain, server_side=True)) if self.tls_first else None
            )
            lines = undo.enter_context((secured or plain).makefile("rb"))
            answer = (secured or plain).sendall
            answer(b"220 tests\r\n")
            while line := lines.readline():
                word = line.decode().rstrip()
                self.words.append(word)
                match word.split()[0].upper():
                    case "EHLO":
                        more = b"250-AUTH PLAIN\r\n" if secured else b"250-STARTTLS\r\n" if self.starttls else b""
                        answer(b"250-tests\r\n" + more + b"250 8BITMIME\r\n")
                    case "STARTTLS" if self.starttls:
                        answer(b"220 go\r\n")
                        secured = undo.enter_context(self.context().wrap_socket(plain, server_side=True))
                        lines, answer = undo.enter_context(secured.makefile("rb")), secured.sendall
                    case "AUTH":
                        known = base64.b64decode(word.split()[2]) == b"\0us\0s3cret"
                        answer(b"235 in\r\n" if known else b"535 no\r\n")
                    case "MAIL" | "RCPT" | "RSET":
                        answer(b"250 yes\r\n")
                    case "DATA":
                        answer(b"354 go\r\n")
                        self.came.append((secured is not None, b"".join(iter(lines.readline, b".\r\n"))))
                        answer(b"%d so\r\n" % (self.statuses.pop(0) if self.statuses else 250))
                    case "QUIT":
                        answer(b"221 bye\r\n")
                        return
                    case _:
                        answer(b"502 no\r\n")


@contextmanager
def serving(post: Post) -> Iterator[Post]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # a client that trusts no such certificate goes away
                post.receive(self.request)

    server = socketserver.TCPServer(("127.0.0.1", 0), Handler)
    post.port = int(server.server_address[1])
    with run_server(server):
        yield post


def webhooks(storage: Storage, hands: Hands, server: MailServer) -> Webhooks:
    return Webhooks(storage, Receivers((ANNA,), origin=ORIGIN, mail=server), hands)


@pytest.mark.parametrize("tls_first", [True, False], ids=["TLS", "STARTTLS"])
def test_a_new_case_is_mailed(
    opened: Opened, hands: Hands, certificate: Path, monkeypatch: pytest.MonkeyPatch, tls_first: bool
) -> None:
    """Once, over TLS, by a user of the server; with the verdict and the address of the case."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(Post(certificate, tls_first)) as post:
        storage = opened(receivers=(receiver_key(ANNA),))
        key = cased(storage, 1)
        server = post.server(user="us", password="s3cret")
        assert webhooks(storage, hands, server).deliver_due() == 1
        assert webhooks(storage, hands, server).deliver_due() == 0
    case = storage.cases.find(key)
    assert case is not None
    ((secured, body),) = post.came
    mail = message_from_bytes(body, policy=default)

    assert secured
    assert (mail["From"], mail["To"]) == ("thpdiag@example.org", "anna@example.org")
    assert case.host
    assert str(mail["Subject"]).startswith(f"thpdiag: {case.host}: ")
    assert isinstance(mail, EmailMessage)
    text = mail.get_content()
    assert text.startswith(f"{case_sentence(case)}\r\nSeverity high, rule THP-001\r\nHost: {case.host}\r\n")
    assert f"Case: {ORIGIN}/cases/{key}" in text
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "rcpt TO:<anna@example.org>" in post.words


def test_it_is_mailed_again_after_a_failure(
    opened: Opened, hands: Hands, certificate: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As the same message; the log has neither address nor password."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serving(Post(certificate, tls_first=True, statuses=[451])) as post, caplog.at_level(logging.WARNING):
        storage = opened(receivers=(receiver_key(ANNA),))
        cased(storage, 1)
        assert webhooks(storage, hands, post.server()).deliver_due() == 0
        assert webhooks(storage, hands, post.server(user="us", password="wr0ng")).deliver_due() == 0
        hands.now += MIN_RETRY_SECONDS
        assert webhooks(storage, hands, post.server(user="us", password="wr0ng")).deliver_due() == 0
        hands.now += 2 * MIN_RETRY_SECONDS
        assert webhooks(storage, hands, post.server()).deliver_due() == 1
    first, second = (message_from_bytes(body)["Message-ID"] for _, body in post.came)
    assert first == second
    assert "the mail server answered 451; again in 30 s" in caplog.text
    assert "the mail server answered 535; again in 60 s" in caplog.text
    assert "anna" not in caplog.text
    assert "wr0ng" not in caplog.text


def test_nothing_goes_in_the_clear(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No STARTTLS, or a certificate that nobody vouches for: no message, no password. This machine needs no TLS."""
    mail = EmailMessage()
    mail["From"], mail["To"] = "thpdiag@example.org", "anna@example.org"
    with serving(Post(certificate, starttls=False)) as post:
        with pytest.raises(MailError):
            send(post.server(user="us", password="s3cret"), mail)
        assert post.came == []
        send(post.server(plain=True), mail)
        assert [secured for secured, _ in post.came] == [False]
    for tls_first in (True, False):
        with serving(Post(certificate, tls_first)) as post:
            with pytest.raises(MailError, match=r"CERTIFICATE_VERIFY_FAILED|SSLCert"):
                send(post.server(user="us", password="s3cret"), mail)
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            with pytest.raises(MailError):
                send(post.server(host="127.0.0.1"), mail)  # a certificate of another name
            monkeypatch.delenv("SSL_CERT_FILE")
            assert post.came == []
            assert not any(word.startswith("AUTH") for word in post.words)


@pytest.mark.parametrize(
    ("server", "sender", "to"),
    [
        ("", "a@x.org", "b@x.org"),
        ("mail.x.org", "a@x.org", "b@x.org"),
        ("smtps://us:word@mail.x.org", "a@x.org", "b@x.org"),
        ("smtps://us@mail.x.org", "a@x.org", "b@x.org"),
        ("ftp://mail.x.org:25", "a@x.org", "b@x.org"),
        ("smtps://mail.x.org:99999", "a@x.org", "b@x.org"),
        ("smtps://[x/", "a@x.org", "b@x.org"),
        ("smtps://mail.x.org", "", "b@x.org"),
        ("smtps://mail.x.org", "a@x.org", "b@x.org\nBcc: c@x.org"),
        ("smtps://mail.x.org", "a@x.org", "b"),
        ("smtps://mail.x.org", "a@x.org", "Anna <b@x.org>"),
    ],
)
def test_what_is_no_mail(server: str, sender: str, to: str) -> None:
    """The server does not start."""
    with pytest.raises(UsageError):
        check_mail(server, sender, [to], None)


def test_settings_of_mail(tmp_path: Path) -> None:
    """A server on this machine needs no TLS, any other does; only its owner may read the password."""
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    secret.chmod(0o600)
    assert check_mail("", "", [], None) is None
    assert check_mail("smtps://us%40x@mail.x.org", "a@x.org", ["b@x.org"], secret) == MailServer(
        "mail.x.org", 465, "a@x.org", tls_first=True, user="us@x", password="s3cret"
    )
    local = check_mail("smtp://127.0.0.1:25", "a@x.org", ["b@x.org"], None)
    assert local == MailServer("127.0.0.1", 25, "a@x.org", tls_first=False, plain=True)
    secret.chmod(0o644)
    with pytest.raises(UsageError, match="other users"):
        check_mail("smtps://us@mail.x.org", "a@x.org", ["b@x.org"], secret)

    options = {"mail_to": ("b@x.org",), "mail_from": "a@x.org", "mail_server": "smtp://127.0.0.1"}
    with pytest.raises(UsageError, match="origins"):
        open_receivers(load_settings(None, options))
    receivers = open_receivers(load_settings(None, {**options, "origins": (ORIGIN,)}))
    assert receivers.by_key == {receiver_key("mailto:b@x.org"): "mailto:b@x.org"}
