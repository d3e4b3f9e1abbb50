"""The result as one HTML page: no requests, complete without scripts, the same bytes for the same document.

Every string of the document passes `visible` and Jinja's escaping; attributes contain only constant words and numbers.
The page carries the document itself, and `from_page` extracts it: compressed JSON in a script element that no browser
runs, a quarter of its size, and nothing in it can end the element. (Pages of the first version carry plain JSON; they
are read too.) The script of a page adds convenience: values under the pointer, zoom, search. Without it everything is
visible, and the content security policy allows nothing else to run.

`head.html`, `macros.html` and `style.css` are the base of all pages: those of comparisons, fleets and the server
include them.
"""

from __future__ import annotations

import binascii
import json
import re
import sys
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal

from jinja2 import BaseLoader, BytecodeCache, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from thpdiag.errors import InputError
from thpdiag.model.document import Document, compact, plain_document
from thpdiag.model.result import ConditionTree, InputFile, Profile, Result, RuleResult, UnknownRule
from thpdiag.report import AnyResult, known_issues, messages
from thpdiag.report.charts.free_blocks import histogram, large_share
from thpdiag.report.charts.heat_map import heat_maps, is_sparse
from thpdiag.report.charts.icicle import MAX_FRAMES, icicle
from thpdiag.report.charts.panels import episodes, panels, placed_actions
from thpdiag.report.charts.proof import proof_figure
from thpdiag.report.charts.sandwich import functions, neighbours
from thpdiag.report.escaping import lines, prose
from thpdiag.report.first_block import first_block, summarize
from thpdiag.report.presentation import PLAIN, Presentation
from thpdiag.report.quantity import duration, moment, percent, quantity, span

_BEGIN = '<script type="application/gzip+base64" id="result">'
_PLAIN = '<script type="application/json" id="result">'
_END = "</script>"
_HEADER = bytes.fromhex("1f8b08000000000002ff")  # RFC 1952: deflate, no name, no time, unknown system
MAX_JSON_BYTES = 256 << 20
SCRIPTS = ("page.js", "result.js", "words.js", "rules.js", "panels.js", "icicle.js")  # each uses those before it
_START = """const waits = document.documentElement.classList.contains("opening");
if (waits) addEventListener("opened", start, { once: true });
else start();
"""
MAX_FOLDERS = 20  # levels of a path that are shown as folders
_MAX_FIRST_FRAMES = 500  # of the first recording: smaller ones are hardly wider than a pixel
_MIN_FRAMES = 100  # of each other recording; those beyond MAX_FRAMES have only tables


def render(document: AnyResult, _presentation: Presentation = PLAIN) -> str:
    page = _environment().get_template("page.html")
    return page.render(
        hosts=messages.hosts(document), style=Markup(style()), opening=Markup(opening()), script=Markup(script()),
        policy=policy(), data=embedded_document(document),
    )  # fmt: skip


def embedded_document(document: Document | Mapping[str, Any]) -> Markup:
    """Return the element with the document; the same bytes for the same document."""
    plain = plain_document(document) if isinstance(document, Document) else document
    compressor = zlib.compressobj(7, wbits=16 + zlib.MAX_WBITS, memLevel=7)  # short blocks suit tables of numbers
    packed = compressor.compress(compact(plain).encode("ascii")) + compressor.flush()
    return Markup(_BEGIN + b64encode(_HEADER + packed[len(_HEADER) :]).decode("ascii") + _END)


def from_page(page: str) -> dict[str, Any]:
    """Return the document that a page carries. InputError if there is none or it is damaged."""
    match = re.search(f"({re.escape(_BEGIN)}|{re.escape(_PLAIN)})", page)
    data, end, _ = page[match.end() :].partition(_END) if match else ("", "", "")
    if not match or not end:
        raise InputError("this page contains no thpdiag result")
    try:
        document = json.loads(data if match[1] == _PLAIN else _decompress(data))
    except (ValueError, binascii.Error, zlib.error) as error:
        raise InputError(f"the thpdiag result in this page is damaged: {error}") from None
    if not isinstance(document, dict):
        raise InputError("the thpdiag result in this page is damaged: it is not an object")
    return document


def _decompress(data: str) -> bytes:
    """Decompress at most `MAX_JSON_BYTES`: the page is untrusted."""
    decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
    text = decompressor.decompress(b64decode(data, validate=True), MAX_JSON_BYTES)
    if not decompressor.eof:
        raise ValueError("it is cut short" if len(text) < MAX_JSON_BYTES else "it is too large")
    return text


@cache
def style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


@cache
def opening() -> str:
    """Return the script of the head, which decides what is painted first."""
    return join_scripts([files(__package__).joinpath("script", "opening.js").read_text(encoding="utf-8")])


@cache
def script() -> str:
    """Return the script of the page, which runs once the page is painted and complete (opening.js)."""
    parts = [files(__package__).joinpath("script", part).read_text(encoding="utf-8") for part in SCRIPTS]
    return join_scripts(["function start() {\n", *parts, "}\n", _START])


def join_scripts(parts: Iterable[str]) -> str:
    """Join parts of a script in one function, so that they share a scope and define no globals.

    Whole-line comments and indentation are left out: an eighth of a script when packed.
    """
    program = re.sub(r"^\s*//.*\n|^\s+", "", "".join(parts), flags=re.MULTILINE)
    return '(function () {\n"use strict";\n' + program + "})();\n"


@cache
def policy() -> str:
    """Return the content security policy of a report page."""
    return policy_for(style(), opening(), script())


def policy_for(stylesheet: str, *programs: str) -> str:
    """Return a content security policy that allows only this style and these scripts, if there are any."""
    digests = " ".join(f"'{digest(program)}'" for program in programs)
    scripts = f"script-src {digests}; " if digests else ""
    return f"default-src 'none'; {scripts}style-src '{digest(stylesheet)}'; base-uri 'none'; form-action 'none'"


def digest(text: str) -> str:
    """Return the hash of a text as a policy contains it."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


class CompiledTemplates(BytecodeCache):
    """Compiled templates, cached like Python modules: in `__pycache__`, unless bytecode is not to be written.

    Compiling takes longer than importing numpy. The code depends on the template, on Jinja, and on the options in this
    file, and is compiled anew if one changes; in each run if it cannot be written.
    """

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return cache_from_source(filename, optimization="template") if filename else ""

    def get_source_checksum(self, source: str) -> str:
        return sha256(_compiler() + source.encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError, EOFError, UnpicklingError), Path(bucket.key).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.key and not sys.dont_write_bytecode:
            SourceFileLoader("", bucket.key).set_data(bucket.key, bucket.bytecode_to_string())  # ignores OSError


@cache
def _compiler() -> bytes:
    """Return what the compiled code depends on besides the template."""
    return version("jinja2").encode() + files(__package__).joinpath("__init__.py").read_bytes()


@cache
def _environment() -> Environment:
    return environment(PackageLoader(__name__, "."))


def environment(loader: BaseLoader) -> Environment:
    """Return the environment of all pages: strings are made visible and escaped, templates get their functions."""
    env = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_finalize, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True, bytecode_cache=CompiledTemplates(),
    )  # fmt: skip
    env.filters |= {"command": _command, "duration": duration, "percent": percent, "quantity": quantity}
    env.globals |= {
        "messages": messages, "episodes": episodes, "functions": functions, "histogram": histogram,
        "input_tree": input_tree, "known_issues": known_issues, "large_share": large_share, "moment": moment,
        "neighbours": neighbours, "panels": panels, "placed_actions": placed_actions, "proof_figure": proof_figure,
        "recordings": recordings, "rule_rows": rule_rows, "span": span, "summarize": summarize,
        "ticket_text": ticket_text, "tree": tree,
    }  # fmt: skip
    return env


def _finalize(value: object) -> object:
    """Return the value that an expression of a template prints: strings made visible, nothing for None."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return prose(value)
    return "" if value is None else value


def _command(command: str) -> Markup:
    """Return a command with its line ends."""
    return escape("\n".join(lines(command)))


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule with its outcome in words, the checks that decide it, and the data that it lacks."""

    rule: RuleResult
    outcome: str
    deciding: Sequence[ConditionTree]
    needs: UnknownRule | None


OUTCOMES = {"fires": "matched", "unknown": "data missing", "silent": "not matched", "excluded": "explained by another"}
MAX_DECIDING = 3  # checks named for a rule that did not match


def rule_rows(result: Result) -> list[RuleRow]:
    """Return all rules, those that matched first, including rules named only by a finding, an unknown or a denial."""
    rules, known = list(result.rules), {rule.id for rule in result.rules}
    lacking = {entry.rule: entry for entry in result.unknown}
    named: tuple[tuple[Literal["fires", "unknown", "silent"], list[str]], ...] = (
        ("fires", [finding.rule for finding in result.findings]),
        ("unknown", [entry.rule for entry in result.unknown]),
        ("silent", [other.rule for other in result.ruled_out]),
    )
    for outcome, names in named:
        for name in names:
            if name not in known:
                known.add(name)
                title = messages.rule_title(result, name)
                rules.append(RuleResult.model_construct(id=name, outcome=outcome, title=title))
    order = list(OUTCOMES)
    return [
        RuleRow(rule, OUTCOMES[rule.outcome], _deciding(rule.tree)[:MAX_DECIDING], lacking.get(rule.id))
        for rule in sorted(rules, key=lambda rule: order.index(rule.outcome))
    ]


def _deciding(node: ConditionTree | None) -> list[ConditionTree]:
    """Return the checks that decide a condition: below each part those with the same value, below a `not` all."""
    if node is None or not node.children:
        return [node] if node else []
    same = [part for part in node.children if part.value == node.value]
    return [leaf for part in same or node.children for leaf in _deciding(part)]


@dataclass(slots=True)
class Folder:
    """A folder of the bundle: its files, each with the rows of what was read from it, and its subfolders."""

    path: str
    folders: dict[str, Folder] = field(default_factory=dict)
    files: dict[str, list[InputFile]] = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[InputFile]:
        for rows in self.files.values():
            yield from rows
        for folder in self.folders.values():
            yield from folder.rows

    @property
    def counts(self) -> str:
        """`12 files, 3 not recognized, 1 with problems`."""
        files: dict[str, list[InputFile]] = {}
        for row in self.rows:
            files.setdefault(row.member, []).append(row)
        count = sum(max(row.files or 1 for row in rows) for rows in files.values())
        unread = sum(not any(row.reader for row in rows) for rows in files.values())
        odd = sum(any(row.problems for row in rows) for rows in files.values())
        counts = [messages.plural(count, "file"), f"{unread} not recognized" if unread else "",
                f"{odd} with problems" if odd else ""]  # fmt: skip
        return ", ".join(filter(None, counts))


def input_tree(result: Result) -> Folder:
    """Return the members as a tree; a folder that contains only another folder is part of its path."""
    root = Folder("")
    for row in result.inputs:
        folder = root
        *folders, _ = row.member.split("/", MAX_FOLDERS)
        for name in folders:
            folder = folder.folders.setdefault(name, Folder(f"{folder.path}{name}/"))
        folder.files.setdefault(row.member, []).append(row)
    return _join_folders(root)


def _join_folders(folder: Folder) -> Folder:
    folder.folders = {name: _join_folders(inner) for name, inner in folder.folders.items()}
    return next(iter(folder.folders.values())) if len(folder.folders) == 1 and not folder.files else folder


def ticket_text(result: Result) -> str:
    """Return the first block of the text report."""
    return "\n".join(line.rstrip() for line in first_block(result).lines)


def tree(node: ConditionTree) -> Markup:
    """Return a condition as a list with its value and the value needed, and its parts below it.

    All of them are a third of a page, so they are written tersely and without a template.
    """
    return Markup(_tree(node))


def _tree(node: ConditionTree) -> str:
    value = node.value or "unknown"
    text = f" {escape(prose(node.text))}" if node.text else ""
    needed = "" if node.needed in (None, "") else f" <em>(needed: {escape(prose(quantity(node.needed)))})</em>"
    children = f"<ul>{''.join(map(_tree, node.children))}</ul>" if node.children else ""
    check = escape(prose(node.expr or ""))
    return f'<li><i class="{value}">{value}</i> <code>{check}</code>{text}{needed}{children}</li>\n'


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording with its pictures; each is empty if there is nothing to draw.

    `sparse`: the picture over time shows mostly single samples. `callers`: some function is shown below its caller.
    """

    number: int
    profile: Profile
    calls: Markup
    heat: Markup
    sparse: bool
    callers: bool


def recordings(result: Result, prefix: str) -> list[Recording]:
    """Return the recordings in order, with the largest picture for the first; `prefix` begins ids."""
    profiles = messages.ordered_profiles(result)
    others = len(profiles) - 1
    other_frames = max(_MIN_FRAMES, (MAX_FRAMES - _MAX_FIRST_FRAMES) // others) if others else 0
    found = []
    for number, profile in enumerate(profiles, 1):
        max_frames = _MAX_FIRST_FRAMES if number == 1 else other_frames
        is_drawn = _MAX_FIRST_FRAMES + (number - 1) * other_frames <= MAX_FRAMES
        calls = icicle(profile, f"{prefix}-calls{number}", max_frames) if is_drawn else Markup()
        heat = heat_maps(profile, f"{prefix}-heat{number}") if is_drawn else Markup()
        callers = any(stack.count(";") > 1 for stack, _ in profile.folded)
        found.append(Recording(number, profile, calls, heat, is_sparse(profile), callers))
    return found
