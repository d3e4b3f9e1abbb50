"""Mail about new cases by SMTP (RFC 5321) over TLS.

    smtps://USER@HOST:PORT     TLS from the beginning (port 465)
    smtp://USER@HOST:PORT      STARTTLS (port 587); no TLS to a server on this machine

Server, sender and recipients are configured. A message contains the verdict in a sentence and the address of the case,
and nothing else of the customer's data. A message that is sent again has the same Message-ID.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from thpdiag.errors import UsageError
from thpdiag.serve.access.principals import is_loopback
from thpdiag.serve.pages.render import case_sentence, case_title
from thpdiag.serve.storage.cases import Case

TIMEOUT_SECONDS: Final = 10.0
MAX_SUBJECT_CHARS: Final = 150
PORTS: Final = {"smtps": 465, "smtp": 587}


class MailError(Exception):
    """Why a message was not sent, without addresses."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """`tls_first`: TLS from the beginning instead of STARTTLS; `plain`: no TLS, for a server on this machine."""

    host: str
    port: int
    sender: str
    tls_first: bool = True
    plain: bool = False
    user: str = ""
    password: str = field(default="", repr=False)


def check_mail(server: str, sender: str, to: Sequence[str], password_file: Path | None) -> MailServer | None:
    """Return the mail server, None without recipients; UsageError if a setting is missing, invalid or unsafe."""
    if not to:
        return None
    for address in (sender, *to):
        try:
            proper = bool(Address(addr_spec=address).domain) and address.isascii() and address.isprintable()
        except (ValueError, IndexError):
            proper = False
        if not proper:
            raise UsageError("mail needs addresses like team@example.org, one to send from too (mail_from, mail_to)")
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
        proper = bool(host) and parts.scheme in PORTS and not (parts.password or parts.path.strip("/") or parts.query)
    except (ValueError, KeyError):
        proper = False
    if not proper:
        raise UsageError("a mail server is smtps://USER@HOST:PORT, or smtp://USER@HOST:PORT for STARTTLS (mail_server)")
    user = unquote(parts.username or "")
    password = _read_password(password_file) if password_file else ""
    if bool(user) != bool(password):
        raise UsageError("a mail server needs a user in its address and a file with the password, or neither")
    tls_first = parts.scheme == "smtps"
    return MailServer(host, port, sender, tls_first, not tls_first and is_loopback(host), user, password)


def _read_password(file: Path) -> str:
    try:
        if file.stat().st_mode & 0o077:
            raise UsageError(f"{file}: other users than its owner can read it")
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read as the password of the mail server") from error


def message(case: Case, address: str, sender: str, to: str, key: str, now: float) -> EmailMessage:
    """Return the message about a case; `key` is the same for all attempts to send it."""
    title, sentence = case_title(case), case_sentence(case)
    mail = EmailMessage(SMTP)
    subject = " ".join(f"thpdiag: {title}: {sentence}".split())
    mail["Subject"] = subject if len(subject) <= MAX_SUBJECT_CHARS else f"{subject[: MAX_SUBJECT_CHARS - 1]}…"
    mail["From"], mail["To"] = sender, to
    mail["Date"] = format_datetime(datetime.fromtimestamp(now, UTC))
    mail["Message-ID"] = f"<{key}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    grades = (("severity", case.severity), ("confidence", case.confidence), ("rule", case.rule))
    grade = ", ".join(f"{name} {value}" for name, value in grades if value)
    lines = (sentence, grade and f"{grade[0].upper()}{grade[1:]}", f"Host: {title}", f"Case: {address}")
    mail.set_content("\n".join(filter(None, lines)) + "\n")
    return mail


def send(server: MailServer, mail: EmailMessage) -> None:
    """Send a message; MailError if the server did not accept it."""
    context, address = ssl.create_default_context(), (server.host, server.port)
    try:
        with (
            smtplib.SMTP_SSL(*address, timeout=TIMEOUT_SECONDS, context=context)
            if server.tls_first
            else smtplib.SMTP(*address, timeout=TIMEOUT_SECONDS)
        ) as connection:
            if not server.tls_first and not server.plain:
                connection.starttls(context=context)
            if server.user:
                connection.login(server.user, server.password)
            connection.send_message(mail)
    except smtplib.SMTPResponseException as error:
        raise MailError(f"the mail server answered {error.smtp_code}") from error
    except (OSError, ValueError) as error:  # exceptions of smtplib are OSErrors
        raise MailError(getattr(error, "strerror", None) or type(error).__name__) from error
