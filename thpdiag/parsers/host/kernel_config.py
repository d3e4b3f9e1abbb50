"""How the kernel was built: /boot/config-RELEASE, /proc/config.gz, or the lines that a grep took out of them.

    CONFIG_TRANSPARENT_HUGEPAGE=y
    # CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS is not set
    CONFIG_TRANSPARENT_HUGEPAGE_MADVISE=y

Of an option that no line names nothing is said, but for one thing: where `grep HUGE` printed lines and none of them
names TRANSPARENT_HUGEPAGE, the kernel does not know it. Its value is y; m and strings belong to others.
Source: kernel tree, scripts/kconfig/confdata.c; mm/Kconfig.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors

NAME = "kernel_config"
_PREFIX = r"(?:\S{0,200}config\S{0,120}?:)?"
SET = re.compile(
    rf"{_PREFIX}(?P<option>CONFIG_[A-Za-z0-9_]{{1,100}})="
    r"(?P<value>[ymn]|-?\d.{0,20}|0x[0-9a-fA-F]{1,16}|\".{0,400}\")$"
)
UNSET = re.compile(rf"{_PREFIX}# (?P<option>CONFIG_[A-Za-z0-9_]{{1,100}}) is not set$")
_THP = "CONFIG_TRANSPARENT_HUGEPAGE"
_DEFAULTS = {f"{_THP}_{name.upper()}": name for name in ("always", "madvise", "never")}
_RELEASE = re.compile(r"config-(?P<release>[\w.+~-]{3,100})")  # what kernel the file is of: several may be installed
_FIRST = re.compile(r"# Automatically generated (?:file|make config)")
_GREP_HUGE = re.compile(r"\bz?[ef]?grep\b(?!.* -[a-zA-Z]*v).{0,80}?\bHUGE(?:PAGE)?\b.{0,80}config")


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Whether the kernel has transparent huge pages, and the value of `enabled` that it starts with."""
    huge = 0
    first: tuple[int, str] | None = None
    named = False
    of = _RELEASE.search(source.path) or _RELEASE.search(source.command)
    labels = (("release", of["release"]),) if of else ()
    for number, text in lines:
        line = text.strip()
        found = SET.match(line) or UNSET.match(line)
        if found is None:
            if line and not line.startswith("#"):
                errors.note(number, text, "not a line of a kernel's configuration")
            continue
        option, is_set = found["option"], found.re is SET
        first, huge = first or (number, text), huge + ("HUGE" in option)
        cite = source.cite(number, text)
        if option == _THP:
            named = True
            yield Fact("kernel.thp_built_in", "yes" if is_set and found["value"] == "y" else "no", cite, labels)
        elif option in _DEFAULTS and is_set and found["value"] == "y":
            yield Fact("kernel.thp_default", _DEFAULTS[option], cite, labels)
        named = named or option.startswith(_THP)
    if first and huge and not named and _GREP_HUGE.search(source.command):
        yield Fact("kernel.thp_built_in", "no", source.cite(*first), labels)


def belongs(text: str) -> bool:
    """Lines of a configuration, its headings, and the empty lines between."""
    line = text.strip()
    return not line or line.startswith("#") or bool(SET.match(line))


PARSER = Parser(
    NAME, "configuration of the kernel's build", read, continues=belongs,
    opens=re.compile(rf"{_FIRST.pattern}|{_PREFIX}(?:# )?CONFIG_[A-Za-z0-9_]{{1,100}}(?:=| is not set$)"),
    confirm=lambda ahead: all(map(belongs, ahead[:3])),
    paths=(re.compile(r"(?:^|/)(?:boot/config-[^/]+|proc/config(?:\.gz)?)$"),),
)  # fmt: skip
