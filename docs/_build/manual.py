"""The manual page, docs/man/thpdiag.1, made from the commands. BLESS=1 and tests/repository/test_docs.py write it.

One page, as of a program whose commands share most options: those are described once, each command has its own below.
click-man makes a page per command from the commands of an entry point; ours are imported only when they run, and
twenty pages repeat the shared options twenty times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from thpdiag import __version__
from thpdiag.cli import COMMANDS, DeferredGroup, cli
from thpdiag.cli.config import TEAM_OPTIONS, options_of
from thpdiag.errors import EXIT_CODES

PAGE = Path(__file__).resolve().parents[1] / "man" / "thpdiag.1"

PURPOSE = "diagnose transparent huge page problems of Linux hosts from recorded data"


def page() -> str:
    """The page in the macros of man(7), without a date, so that it changes only with the commands."""
    parts = [f'.TH THPDIAG 1 "" "thpdiag {__version__}" "User Commands"']
    parts += [".SH NAME", f"thpdiag \\- {PURPOSE}", ".SH DESCRIPTION", *paragraphs(cli.help or "")]
    parts += [".SH SYNOPSIS", ".B thpdiag", "[\\fB\\-\\-config\\fR \\fIFILE\\fR] \\fICOMMAND\\fR [\\fIOPTIONS\\fR] ..."]
    parts += [".SH COMMANDS", *described((f"\\fB{name}\\fR", text) for name, text in COMMANDS.items())]
    parts += [".SH SHARED OPTIONS", "What means the same in each command that has it.", *shared_options()]
    for name in COMMANDS:
        parts += command(cli.load(name), name)
    parts += [".SH EXIT STATUS", *described((str(code), text) for code, text in EXIT_CODES.items())]
    parts += [".SH ENVIRONMENT", *described((f"\\fB{name}\\fR", text) for name, text in VARIABLES.items())]
    return "\n".join([*parts, ".SH FILES", *described([("\\fIthpdiag.toml\\fR", CONFIG)]), ""])


VARIABLES = {
    "THPDIAG_OPTION": "A default for a shared option in all commands, such as THPDIAG_FAIL_ON=high.",
    "THPDIAG_COMMAND_OPTION": "A default for one command, such as THPDIAG_ANALYZE_FORMAT=markdown. The command line "
    "has precedence. Separate several values with spaces, and paths with colons; paths must be absolute.",
    "THPDIAG_CONFIG": "The absolute path of a file for --config.",
    "NO_COLOR, FORCE_COLOR": "Never, or always, print colors.",
}
CONFIG = (
    "Defaults of options in TOML, used only if --config or THPDIAG_CONFIG names it. The table [all] is for the shared "
    "options, [analyze] or [triage.report] for one command. Paths are relative to the file."
)


def shared_options() -> Iterator[str]:
    """Each once, in the order of their names, as the first command has them."""
    found: dict[str, click.Option] = {}
    for name in COMMANDS:
        for _, one in leaves(cli.load(name), name):
            found = {key: option for key, option in options_of(one).items() if key in TEAM_OPTIONS} | found
    yield from described((head(found[key]), found[key].help or "") for key in sorted(found))


def leaves(found: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command, or all parts of a group, by their names."""
    if not isinstance(found, click.Group):
        yield name, found
        return
    for part in found.list_commands(click.Context(found)):
        inner = found.load(part) if isinstance(found, DeferredGroup) else found.commands[part]
        yield from leaves(inner, f"{name} {part}")


def command(found: click.Command, name: str) -> Iterator[str]:
    """A section: usage, text and own options of the command, or of each part of it."""
    yield f".SH THPDIAG {name.upper()}"
    if isinstance(found, click.Group):
        yield from paragraphs(found.help or "")
    for path, one in leaves(found, name):
        # A command keeps the options for help that its first context names; those of the tool are set at its root.
        usage = " ".join(one.collect_usage_pieces(click.Context(one, click.Context(cli, **cli.context_settings))))
        yield from (".PP", f"\\fBthpdiag {quoted(path)}\\fR {quoted(usage)}", ".RS", *paragraphs(one.help or ""))
        own = [p for p in one.params if isinstance(p, click.Option) and not p.hidden and p.name != "config"]
        common = [key for key, option in options_of(one).items() if key in TEAM_OPTIONS and option in own]
        yield from described((head(p), p.help or "") for p in own if p not in [options_of(one)[key] for key in common])
        if common:
            yield from (".PP", quoted(f"Shared options: {', '.join(f'--{key}' for key in sorted(common))}."))
        yield ".RE"


def head(option: click.Option) -> str:
    """`-o, --output [FORMAT=]PATH`"""
    names = ", ".join(f"\\fB{quoted(name)}\\fR" for name in sorted(option.opts, key=len))
    value = "" if option.is_flag or option.count else option.make_metavar(click.Context(cli))
    return f"{names} {quoted(value.replace('INTEGER RANGE', 'N').replace('TEXT', 'WORD'))}".rstrip()


def described(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Terms, each with its text indented below."""
    for term, text in rows:
        yield from (".TP", term, quoted(" ".join(text.split())))


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text."""
    for part in text.replace("\b", "").strip().split("\n\n"):
        yield from (".PP", quoted(" ".join(part.split())))


def quoted(text: str) -> str:
    """Text as roff has it: no command at the begin of a line, hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return re.sub(r"^(['.])", r"\\&\1", text)
