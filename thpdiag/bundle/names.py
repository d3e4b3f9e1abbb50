"""Names of members: printable, and inside the bundle whatever the archive says."""

from __future__ import annotations


def printable(name: bytes | str) -> str:
    """The name with everything visible that would not print: bad UTF-8, control characters, bidi marks.

    >>> printable(b"a\\x1b[31m\\xff")
    'a\\\\x1b[31m\\\\xff'
    """
    text = name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def inside(name: str) -> tuple[str, bool]:
    """The canonical path of a name inside the bundle, and whether the name tried to leave it by `..`.

    Absolute names are taken relative to the root of the bundle, as tar itself does.

    >>> inside("/a/./b/../c"), inside("../../etc/passwd")
    (('a/c', False), ('etc/passwd', True))
    """
    if not ("//" in name or "/." in name or name.startswith((".", "/")) or name.endswith("/")):
        return name, False
    parts: list[str] = []
    leaves = False
    for part in name.split("/"):
        if part == "..":
            leaves = leaves or not parts
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts), leaves
