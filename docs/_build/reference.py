"""The reference pages of the site, made from the code at each build, so that they cannot go stale. A hook of mkdocs."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]

from dependencies import closure, licence  # noqa: E402
from thpdiag.authoring.catalogue import catalogue  # noqa: E402
from thpdiag.cli import COMMANDS, DeferredGroup, cli  # noqa: E402
from thpdiag.cli.options import SUFFIXES  # noqa: E402
from thpdiag.engine.load import builtin_rules, load_rules  # noqa: E402
from thpdiag.errors import EXIT_CODES  # noqa: E402
from thpdiag.knowledge.vocabulary import term  # noqa: E402
from thpdiag.parsers import all_parsers, bulk_parsers, parsers_of_names  # noqa: E402
from thpdiag.report import FORMATS  # noqa: E402

SCHEMAS = ("result", "explain", "comparison", "fleet", "profile")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages to those that lie in docs/."""
    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> Iterator[tuple[str, str]]:
    """Path below docs/ and Markdown of each generated page."""
    yield "reference/commands.md", commands()
    yield "reference/formats.md", formats()
    yield "reference/reports.md", reports()
    yield "reference/exit-codes.md", exit_codes()
    yield "reference/dependencies.md", dependencies()
    yield "reference/result.md", result()
    yield from rules()


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def commands() -> str:
    """Every command and subcommand with its arguments and options."""
    parts = ["# Commands", "", table(("Command", "Purpose"), [(f"`thpdiag {n}`", t) for n, t in COMMANDS.items()]), ""]
    parent = click.Context(cli, info_name="thpdiag")
    for name in COMMANDS:
        parts += command(cli.load(name), f"thpdiag {name}", parent, 2)
    return "\n".join(parts)


def command(found: click.Command, name: str, parent: click.Context, depth: int) -> list[str]:
    """A section for a command, and one for each of its subcommands."""
    context = click.Context(found, info_name=name.rpartition(" ")[2], parent=parent)
    text = (found.help or "").replace("\b", "").strip()
    usage = " ".join(found.collect_usage_pieces(context))
    parts = [f"{'#' * depth} {name}", "", escaped(text), "", f"    {name} {usage}", ""]
    rows = [
        (
            ", ".join(f"`{o}`" for o in (*p.opts, *p.secondary_opts)),
            escaped(p.help or "").replace("\n", " ").replace("|", "\\|"),
        )
        for p in found.params
        if isinstance(p, click.Option) and not p.hidden
    ]
    if rows:
        parts += [table(("Option", "Meaning"), rows), ""]
    if isinstance(found, click.Group):
        for sub in found.list_commands(context):
            inner = found.load(sub) if isinstance(found, DeferredGroup) else found.get_command(context, sub)
            if inner is not None:
                parts += command(inner, f"{name} {sub}", context, depth + 1)
    return parts


def escaped(text: str) -> str:
    """Text of a program as Markdown: angle brackets and stars stay what they are."""
    return re.sub(r"([<>*_\[\]])", r"\\\1", text)


FIXTURES = ROOT / "fixtures" / "readers"
NAMED_RULES = 5  # of a format; the others are counted
OTHER_USE = {
    "elf_symbols": "names of functions in recordings of perf", "kallsyms": "names of functions in recordings of perf",
    "memory_stat": "named, since it is of a part of the system", "thpdiag_report": "named, since no conclusion is evidence",
}  # fmt: skip
RULES_OF_RECORDS = {"Profile": ("profile",), "Event": ("kernel_log", "task_stack")}


def formats() -> str:
    """Every input format: its parser, how its fixtures were made, their records, and the rules that ask for them."""
    parsers = {parser.name: parser for parser in (*bulk_parsers(), *all_parsers())}
    names: dict[str, set[str]] = defaultdict(set)
    for name, sources in parsers_of_names().items():
        for source in sources:
            names[source].add(name)
    needs = {
        rule.id: {
            known.name if (known := term(need)) else need for check in rule.checks.values() for need in check.needs
        }
        for rule in load_rules([builtin_rules()])
    }
    rows = []
    for name, parser in sorted(parsers.items()):
        counts = record_counts(name)
        asked = {*names[name], *(word for kind in counts for word in RULES_OF_RECORDS.get(kind, ()))}
        decided = sorted(rule for rule, wanted in needs.items() if wanted & asked)
        more = f" and {len(decided) - NAMED_RULES} more" if len(decided) > NAMED_RULES else ""
        rows.append((
            f"`{name}`", parser.title, f"`{parser.read.__module__.replace('.', '/')}.py`",
            f"{how_made(name)}: `fixtures/readers/{name}`",
            ", ".join(f"{n:,} {kind}" for kind, n in sorted(counts.items())),
            ", ".join(decided[:NAMED_RULES]) + more or ", ".join(f"`{known}`" for known in sorted(names[name])[:NAMED_RULES]) or OTHER_USE[name],
        ))  # fmt: skip
    text = (
        "Folders, single files, standard input, tar (plain, gzip, bzip2, xz, zstd), zip, and archives inside archives, read in one pass "
        "without unpacking to disk. Formats are recognized by content, also in the middle of a mail or a terminal session."
    )
    head = ("Parser", "Format", "Source", "Fixtures", "Records in them", "Rules that ask for them, or facts for all")
    return f"# Input formats\n\n{text}\n\n{table(head, rows)}\n"


def record_counts(name: str) -> Counter[str]:
    """How many records of each kind the fixtures of a parser give."""
    total: Counter[str] = Counter()
    for golden in (FIXTURES / name).glob("*.golden.json"):
        total.update({kind: n for kind, n in json.loads(golden.read_bytes())["counts"].items() if kind != "Problem"})
    return total


def how_made(name: str) -> str:
    """Whether the fixtures of a parser were recorded or reconstructed, as their ORIGIN.md says."""
    origin = (FIXTURES / name / "ORIGIN.md").read_text().casefold()
    words = [word for word in ("recorded", "reconstructed") if word in origin]
    by_hand = any(word in origin for word in ("by hand", "invented", "written after", "made after"))
    if by_hand and "reconstructed" not in words:
        words.append("reconstructed")
    return " and ".join(words) or "recorded"


def reports() -> str:
    """Every report format with its suffix."""
    suffixes = {name: suffix for suffix, name in SUFFIXES.items()} | {n: n for n in ("html", "json", "csv", "sarif")}
    rows = []
    for name, render in sorted(FORMATS.items()):
        told = str(sys.modules[render.__module__].__doc__).partition("\n")[0].rstrip(".")
        rows.append(
            (f"`{name}`", f"`.{suffixes[name]}`" if name in suffixes else "", escaped(told).replace("|", "\\|"))
        )
    text = (
        "`-f FORMAT` prints a report, `-o FORMAT=PATH` writes it to a file as well, as often as you like; `-` is stdout. Without a format the "
        "suffix of PATH decides. `thpdiag render RESULT` makes reports later from a result in JSON or from a page. With several hosts each report "
        "holds all of them, the worst first."
    )
    return f"# Reports\n\n{text}\n\n{table(('Format', 'Suffix', 'Content'), rows)}\n"


def rules() -> Iterator[tuple[str, str]]:
    """A page per rule, and an index of them: what `thpdiag rules docs` writes, cut at its headings."""
    text = catalogue(load_rules([builtin_rules()]))
    text = re.sub(r"\[([A-Z]+-\d+)\]\(#[^)]*\)", r"[\1](\1.md)", text)
    index = ["# Rules", "", "`thpdiag explain ID BUNDLE` shows why a rule fires on a bundle or does not.", ""]
    for role in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, *sections = re.split(r"^### ", role, flags=re.MULTILINE)
        rows = []
        for section in sections:
            title, _, body = section.partition("\n")
            name, _, finding = title.partition(": ")
            yield f"reference/rules/{name}.md", f"# {escaped(title)}\n{body}"
            rows.append((f"[{name}]({name}.md)", escaped(finding)))
        index += [f"## {heading.strip()}", "", table(("Rule", "Finding"), rows), ""]
    yield "reference/rules/index.md", "\n".join(index)


def exit_codes() -> str:
    """Exit codes with their meaning and order."""
    rows = [(str(code), text) for code, text in EXIT_CODES.items()]
    order = "If several apply, the first of 70, 2, 4, 1, 3, 6, 5, 0 counts. With 3, 5 and 6 `analyze` still prints a result."
    return f"# Exit codes\n\n{table(('Code', 'Meaning'), rows)}\n\n{order}\n"


def dependencies() -> str:
    """Every dependency with its reason, from the comments in pyproject.toml; and all that comes with them, as installed."""
    text = (ROOT / "pyproject.toml").read_text().partition("[dependency-groups]")[0]
    tomllib.loads(text)
    rows = [
        (f"`{name}`", why.strip())
        for line, _, why in (line.partition("  #") for line in text.splitlines())
        if why
        for name in re.findall(r'"([\w-]+)(?:\[[\w,]+\])?>=', line)
    ]
    licences = [
        (f"`{name}`", distribution(name).version, escaped(licence(name)), ", ".join(sorted(needs)))
        for name, needs in closure().items()
    ]
    parts = [
        "# Dependencies", "", table(("Package", "Reason"), rows), "", "## Licenses", "",
        "All distributions that are installed with thpdiag and its extras, as they declare it. `constraints.txt` in the "
        "repository lists the versions that the tests ran with: `pipx install --pip-args='-c constraints.txt' .`", "",
        table(("Distribution", "Version", "License", "Installed with"), licences),
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def result() -> str:
    """The JSON documents, from their schemas."""
    parts = ["# The result document", "", "`thpdiag analyze -f json` prints one JSON document. Other programs may rely on it: keys change only"
             " with the version in `schema`. The same input gives the same bytes.", ""]  # fmt: skip
    for name in SCHEMAS:
        for file in sorted((ROOT / "thpdiag").rglob(f"{name}.schema.json")):
            schema: dict[str, Any] = json.loads(file.read_text())
            properties = schema.get("properties", {})
            rows = [
                (f"`{key}`", escaped(str(value.get("description", ""))).replace("|", "\\|"))
                for key, value in properties.items()
            ]
            parts += [
                f"## {schema.get('$id', name)}",
                "",
                escaped(str(schema.get("description", ""))),
                "",
                table(("Key", "Meaning"), rows),
                "",
            ]
            parts += [f"The schema is `{file.relative_to(ROOT)}`.", ""]
    return "\n".join(parts)
