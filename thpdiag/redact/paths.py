"""Paths: what every host and every collector has stays, the customer's own folders and files get pseudonyms.

The extension stays, so that it can be seen what a file was; `/home/anna` becomes `/home/user1`.
"""

from __future__ import annotations

import re

from thpdiag.redact.allowed import DEVICE, NUMBER, OF_KERNEL, extensions, is_program, of_paths, quoted, told_parts
from thpdiag.redact.names import Names
from thpdiag.redact.releases import is_of_distribution

_HOMES = frozenset({"home", "users", "user_homes"})
_ENDS = re.compile(r"((?:\.[A-Za-z]\w{0,8}|\.\d{1,4})+)$")
_ADDRESS = re.compile(r"\d{1,3}(?:[._-]\d{1,3}){3}")
_WRITTEN = re.compile(r"(?:\d\d-)?thp-|.+\.before$")
_DAY_FILE = re.compile(r"sar?\d\d")
_LONG = re.compile(r"(?!20\d{6}$)\d{5,}")
_PARTS = re.compile(r"[\W_]+")


def path(text: str, names: Names, ours: frozenset[str] = frozenset()) -> str:
    """The path with its own segments replaced; `ours` are segments that stay for where the path stands."""
    segments = text.split("/")
    done: list[str] = []
    for number, one in enumerate(segments):
        before = segments[number - 1].casefold() if number else ""
        if before in _HOMES and one:
            done.append(names_of(one, "user", names))
        elif (one in ours or (ours and of_ours(one))) and names.secret(one) is None:
            done.append(one)
        elif _LONG.fullmatch(one) and done != segments[:number]:  # of an order, in a folder of the customer's
            done.append(names_of(one, "dir" if number < len(segments) - 1 else "file", names))
        else:
            done.append(segment(one, names, "dir" if number < len(segments) - 1 else "file"))
    return "/".join(done)


def of_ours(one: str) -> bool:
    """A file that our commands write: `99-thp-min-free.conf`, `thp-sizes.before`."""
    return bool(_WRITTEN.match(one)) and told_parts() >= set(filter(str.isalpha, _PARTS.split(one.casefold())))


def names_of(one: str, kind: str, names: Names) -> str:
    """A pseudonym, unless it is one."""
    return one if names.given(one) else names.of(kind, one)


def segment(one: str, names: Names, kind: str) -> str:
    """One segment of a path."""
    if (secret := names.secret(one)) is not None:
        return secret
    if _ADDRESS.fullmatch(one):
        return names_of(one, "ip", names)
    if not one or stays(one, names):
        return one
    stem, extension = _split(one)
    if extension and stem and (names.secret(stem) or not stays(stem, names)):
        return f"{names_of(stem, kind, names)}{extension}"
    return names_of(one, kind, names)


def stays(one: str, names: Names) -> bool:
    """Whether a segment is none of the customer's."""
    bare = one.strip(".~-+")
    if not bare or names.given(bare) or NUMBER.fullmatch(bare) or DEVICE.fullmatch(bare) or _listed(bare):
        return True
    stem, extension = _split(bare)
    if (extension and names.given(stem)) or is_of_distribution(bare):
        return True
    return is_program(bare) or OF_KERNEL.fullmatch(bare) is not None or all(map(_known, _PARTS.split(bare.casefold())))


def _listed(bare: str) -> bool:
    return bare.casefold() in quoted() or bare.casefold() in of_paths()


def _known(part: str) -> bool:
    return part in of_paths() or part.isdigit() or not part or _DAY_FILE.fullmatch(part) is not None


def _split(one: str) -> tuple[str, str]:
    """Stem and known extensions: `acme.tar.gz` is `acme` and `.tar.gz`."""
    found = _ENDS.search(one)
    if not found:
        return one, ""
    ends = found.group().lstrip(".").split(".")
    kept: list[str] = []
    while ends and (ends[-1].casefold() in extensions() or ends[-1].isdigit()):
        kept.insert(0, ends.pop())
    extension = "".join(f".{end}" for end in kept)
    return one.removesuffix(extension) if extension else one, extension
