"""What went wrong on the way to a server, in words of ours: those of libraries hold whole addresses with their keys."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from thpdiag.triage.worklist.unread import UnreadError

# What libraries raise that is no OSError or ValueError, as far as they are loaded.
_RAISED: Final = {
    "aiohttp": ("ClientError",),
    "botocore.exceptions": ("BotoCoreError", "ClientError", "HTTPClientError"),
    "gcsfs.retry": ("HttpError",),
    "google.auth.exceptions": ("GoogleAuthError",),
    "azure.core.exceptions": ("AzureError",),
}
_NO_CREDENTIALS: Final = frozenset(
    ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "DefaultCredentialsError")
)
_WORDS: Final = {
    errno.ENOSPC: "there is no room for scratch files",
    errno.EDQUOT: "there is no room for scratch files",
    errno.ECONNREFUSED: "the connection was refused",
    errno.ECONNRESET: "the connection was cut",
    errno.EPIPE: "the connection was cut",
    errno.EIO: "the server failed",
    errno.EREMOTEIO: "the server failed",
    errno.EBUSY: "the server is busy",
}


@contextmanager
def told() -> Iterator[None]:
    """An error of the way to the server as one sentence."""
    try:
        yield
    except UnreadError:
        raise
    except _errors() as error:
        raise UnreadError(f"cannot be fetched: {_words(error)}") from error


def _errors() -> tuple[type[Exception], ...]:
    """What the system and the libraries that are loaded raise."""
    loaded = [(sys.modules[module], names) for module, names in _RAISED.items() if module in sys.modules]
    of_libraries = (getattr(module, name, OSError) for module, names in loaded for name in names)
    return (OSError, EOFError, ValueError, NotImplementedError, *of_libraries)


def _words(error: Exception) -> str:
    """What happened, without a word of the message, which may hold the address."""
    name = type(error).__name__
    code = _code(error)
    if "Expired" in code or "Expired" in name:
        return "the credentials have expired"
    if name in _NO_CREDENTIALS:
        return "there are no credentials for it"
    if isinstance(error, TimeoutError):
        return "the server does not answer in time"
    if isinstance(error, FileNotFoundError) or code == "404":
        return "it is not there"
    if isinstance(error, PermissionError) or code in {"401", "403"}:
        return f"access is denied{_behind(code)}"
    if isinstance(error, OSError) and (found := _number(error)) in _WORDS:
        return _WORDS[found]
    if code.isdigit():
        return f"the server answers {code}"
    return {
        "ClientConnectorDNSError": "the name of the server is not known",
        "ClientPayloadError": "the connection was cut",
        "ServerDisconnectedError": "the connection was cut",
        "ParamValidationError": "no bucket or object can be called so",
        "EndpointConnectionError": "the server cannot be reached",
        "ClientConnectorCertificateError": "the server's certificate is not trusted",
    }.get(name, f"{name}{_behind(code)}")


def _code(error: Exception) -> str:
    """The number or word that the server gave, if there is one: of HTTP, or of S3."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return str(status)
    response = getattr(error.__cause__, "response", None) or getattr(error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    return code if isinstance(code, str) and code.isalnum() and code.isascii() and len(code) <= 60 else ""


def _number(error: OSError) -> int:
    """The number of an error of the system; aiohttp keeps that of a refused connection one deeper."""
    inner = getattr(error, "os_error", None)
    return (inner.errno if isinstance(inner, OSError) else error.errno) or 0


def _behind(code: str) -> str:
    return f" ({code})" if code else ""
