"""Every text that a person sees: help of commands, rules, knowledge, pages, sentences in code, documents.

Names, patterns and commands are excluded: a text has at least three words. A value in a sentence is shown as `{}`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
MIN_WORDS = 3
NO_TEXT = (  # keys
    *("ask_for", "now", "persist", "undo", "commands", "pattern", "starts", "script", "run", "path", "regex"),
    *("checks", "when", "confidence"),
)
NO_SENTENCES = ("store/", "serve/storage/", "knowledge/", "authoring/skeleton.py")  # statements of SQL, patterns


class Text(NamedTuple):
    """A text and its place: file, and line or key."""

    place: str
    text: str


def all_texts() -> Iterator[Text]:
    """Yield texts of all kinds."""
    yield from of_commands()
    yield from of_rules()
    yield from of_knowledge()
    yield from of_pages()
    yield from of_code()
    yield from of_documents()


def of_commands() -> Iterator[Text]:
    """Yield the help of each command and of its options, and the lists of commands."""
    from thpdiag.cli import COMMANDS, cli

    def walk(command: Any, name: str) -> Iterator[Text]:
        yield Text(name, command.help or "")
        for one in command.params:
            yield Text(f"{name} {(*one.opts, '')[0]}", getattr(one, "help", None) or "")
        if isinstance(command, click.Group):
            for part, line in getattr(command, "known", {}).items():
                yield Text(f"{name}: {part}", line)
            for part in command.list_commands(click.Context(command)):
                load = command.load if hasattr(command, "load") else command.commands.__getitem__
                yield from walk(load(part), f"{name} {part}")

    yield Text("thpdiag", cli.help or "")
    for name, line in COMMANDS.items():
        yield Text(f"thpdiag: {name}", line)
        yield from walk(cli.load(name), f"thpdiag {name}")


def of_rules() -> Iterator[Text]:
    """Yield titles, meanings, ways to verify, false positives, reasons of parameters."""
    for file in sorted((ROOT / "rules").glob("*.yaml")):
        if not file.name.endswith(".cases.yaml"):
            yield from _of_yaml(file)


def of_knowledge() -> Iterator[Text]:
    """Yield the texts of vocabulary, remedies, mechanisms and known issues."""
    files = [*(ROOT / "thpdiag/knowledge").rglob("*.yaml"), ROOT / "thpdiag/diagnosis/capture/sections.yaml"]
    for file in sorted(files):
        yield from _of_yaml(file)


def _of_yaml(file: Path) -> Iterator[Text]:
    def walk(value: Any, key: str) -> Iterator[Text]:
        if isinstance(value, Mapping):
            for name, part in value.items():
                if name not in NO_TEXT:
                    yield from walk(part, f"{key}.{name}".lstrip("."))
        elif isinstance(value, list):
            for number, part in enumerate(value):
                yield from walk(part, f"{key}[{number}]")
        elif isinstance(value, str) and len(WORD.findall(value)) >= MIN_WORDS and not value.startswith(("^", "http")):
            yield Text(f"{file.relative_to(ROOT)} {key}", value)

    yield from walk(yaml.safe_load(file.read_text()), "")


def of_pages() -> Iterator[Text]:
    """Yield the words of templates without markup and statements, and the sentences in scripts."""
    for file in sorted((ROOT / "thpdiag").rglob("*.js")):
        code = re.sub(r"^\s*//.*$", "", file.read_text(), flags=re.MULTILINE)
        for part in re.findall(r'"([^"\n]*)"|`([^`]*)`', code):
            words = re.sub(r"\$\{[^}]*(?:\}|$)", "{}", "".join(part))
            if len(WORD.findall(words)) >= MIN_WORDS and not re.search(r"[<>=;]|^[.#\[]", words):
                yield Text(str(file.relative_to(ROOT)), words)
    for file in sorted((ROOT / "thpdiag").rglob("*.html")):
        text = re.sub(r"<(script|style)\b.*?</\1>|\{#.*?#\}", " ", file.read_text(), flags=re.DOTALL)
        text = re.sub(r"\{%.*?%\}", " ", re.sub(r"\{\{.*?\}\}", "{}", text), flags=re.DOTALL)
        named = re.findall(r'(?:title|aria-label|placeholder|alt)="([^"]*)"', text)
        plain = re.split(r"</?(?:p|li|h\d|td|th|tr|dt|dd|div|section|summary|button|a|label|option)\b[^>]*>", text)
        for part in (*named, *plain):
            words = " ".join(re.sub(r"<[^>]*>", " ", part).split())
            if len(WORD.findall(words)) >= MIN_WORDS:
                yield Text(str(file.relative_to(ROOT)), words)


def of_code() -> Iterator[Text]:
    """Yield the sentences in code, without docstrings; concatenated ones by part."""
    for file in sorted((ROOT / "thpdiag").rglob("*.py")):
        name = str(file.relative_to(ROOT / "thpdiag"))
        if name.startswith(NO_SENTENCES):
            continue
        tree = ast.parse(file.read_text())
        whole = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        whole |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            text = ""
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
                text = "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in whole:
                text = node.value
            if len(WORD.findall(text)) >= MIN_WORDS and not re.search(r"\(\?|\\[dwsb]|</|\[\^|SELECT |\n.*\n", text):
                yield Text(f"thpdiag/{name}:{node.lineno}", text)


def of_documents() -> Iterator[Text]:
    """Yield paragraphs of README, changelog and docs, without code."""
    files = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for file in files:
        text = re.sub(r"(?s:^```.*?^```)|^ {4}.*$|(?s:<!--.*?-->)", "", file.read_text(), flags=re.MULTILINE)
        for part in re.split(r"\n\s*\n|\n(?=[-*|#\d])", text):
            words = " ".join(re.sub(r"\]\([^)]*\)|[|#*\[]", " ", part).split())
            if len(WORD.findall(words)) >= MIN_WORDS:
                yield Text(str(file.relative_to(ROOT)), words)


def reading_ease(texts: Iterator[str]) -> tuple[float, float, float]:
    """Return the Flesch reading ease (206.8 - 1.015 words a sentence - 84.6 syllables a word), and both parts of it."""
    words = sentences = syllables = 0
    for text in texts:
        plain = re.sub(r"`[^`]*`|\{\}|https?:\S+|\S*[_/=<>|]\S*", " x ", text)
        for sentence in re.split(r"[.:;!?](?:\s|$)", plain):
            found = [word for word in WORD.findall(sentence) if word != "x"]
            if len(found) >= MIN_WORDS:
                sentences, words = sentences + 1, words + len(found)
                syllables += sum(map(count_syllables, found))
    per_sentence, per_word = words / sentences, syllables / words
    return 206.835 - 1.015 * per_sentence - 84.6 * per_word, per_sentence, per_word


def count_syllables(word: str) -> int:
    """Return the number of groups of vowels; a silent e at the end does not count."""
    groups = len(re.findall(r"[aeiouy]+", re.sub(r"(?<=[^aeiouyl])e(?:s|d)?$", "", word.lower())))
    return max(1, groups)
