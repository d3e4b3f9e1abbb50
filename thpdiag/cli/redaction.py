"""`--redact` and `--redact-map`: a result without the customer's names, and the file that keeps who is who."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from thpdiag.cli.options import notice
from thpdiag.errors import InputError, UsageError

if TYPE_CHECKING:
    from thpdiag.redact.names import Names

REDACT = click.option(
    "--redact", flag_value="yes", default="",
    help="Replace hosts, addresses, users, paths and programs of the customer's own by pseudonyms.",
)  # fmt: skip
MAPS = click.option(
    "--redact-map", "maps", multiple=True, type=click.Path(dir_okay=False, path_type=Path),
    help="Keep who is who in this file, and use those in it; one of `sos clean` is read only. Implies --redact.",
)  # fmt: skip
_OTHERS = 0o007
MOST = 64 << 20  # bytes of a mapping
_Command = TypeVar("_Command", bound=Callable[..., Any])


def redacting(command: _Command) -> _Command:
    """The options of a command whose output can be redacted."""
    return REDACT(MAPS(command))


def clean(document: dict[str, Any], redact: str, maps: Sequence[Path]) -> dict[str, Any]:
    """The document as it may be given away, if that was asked for."""
    return clean_all([document], redact, maps)[0]


def clean_all(documents: Sequence[dict[str, Any]], redact: str, maps: Sequence[Path]) -> list[dict[str, Any]]:
    """Several documents with one mapping: a host that is in two of them has one pseudonym."""
    if not redact and not maps:
        return list(documents)
    from thpdiag.redact.document import together

    with naming(maps) as names:
        return together(documents, names)


def compared(documents: Sequence[dict[str, Any]], redact: str, maps: Sequence[Path]) -> list[dict[str, Any]]:
    """Documents to be compared: as above, with the checksums, since by them it is known what is the same file."""
    if not redact and not maps:
        return list(documents)
    from thpdiag.redact.document import checked

    done = clean_all(documents, redact, maps)
    return [checked(one, original) for one, original in zip(done, documents, strict=True)]


@contextmanager
def naming(maps: Sequence[Path]) -> Iterator[Names]:
    """The names of the mappings; what was met is kept in the first of ours."""
    from thpdiag.redact.mapping import read, written
    from thpdiag.redact.names import Names

    known: dict[str, dict[str, str]] = {}
    target: Path | None = None
    for path in maps:
        text = _text(path)
        pairs, own = read(text, path) if text is not None else ({}, True)
        target = path if own and target is None else target
        for kind, found in pairs.items():
            known.setdefault(kind, {}).update(found)
    names = Names(known)
    yield names
    if target is not None:
        _keep(target, written(names))


def _text(path: Path) -> str | None:
    """What is in a mapping; None if there is none yet."""
    try:
        if not path.exists():
            return None
        if path.stat().st_size > MOST:
            raise InputError(f"{path} is no mapping of names: it has more than {MOST >> 20} MiB")
        return path.read_text(encoding="utf-8") or None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no mapping of names: it is not text") from error


def _keep(path: Path, text: str) -> None:
    """Write a mapping that only its owner can read; those to whom its owner gave it may go on."""
    try:
        path.touch(mode=0o600)
        if (mode := path.stat().st_mode) & _OTHERS and path.is_file():
            path.chmod(S_IMODE(mode) & ~_OTHERS)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    notice(f"{path} written")
