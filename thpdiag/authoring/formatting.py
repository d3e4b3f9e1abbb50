"""`rules fmt`: the canonical form of rule and case files: block style, 100 columns, comments kept.

    busy: {series: cpu_ratio.sys_total, above: 30 %}  # half of ..      busy:  # half of ..
                                                                          series: cpu_ratio.sys_total
                                                                          above: 30 %

Mappings are written as blocks, lists of words as `[a, b]` if they fit, long texts folded (`>-`). The order of keys and
the quotes of scalars are kept. A comment stays with the key or item of its line; one that does not fit goes above it.
The result is parsed again: if data or comments differ, FormatError is raised and nothing is written.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from thpdiag.errors import RuleError
from thpdiag.knowledge.yaml_nodes import YamlError, load_own, load_with_places, point_at

WIDTH = 100
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # used after the strict loader has accepted the text
_RULE_FILE = re.compile(r"^id:.*^checks:", re.MULTILINE | re.DOTALL)
_WORD = re.compile(r"[^\s,\[\]{}#]+")
_FOLDABLE = re.compile(r"\S+(?: \S+)*")  # texts that folding preserves


class FormatError(ValueError):
    """A file that cannot be converted to the canonical form."""


@dataclass(slots=True)
class _Comments:
    """Comments of one key or item: `above` it and `trailing` it on its line; `spaced` after an empty line."""

    above: list[str] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)
    spaced: bool = False


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment of the source at offset `at`; `alone` if nothing else is on its line."""

    at: int
    line: int
    text: str
    alone: bool


def rule_and_case_files(place: Path) -> list[Path]:
    """Return the file itself, or the rule and case files of a folder; other YAML files are ignored."""
    if place.is_file():
        return [place]
    return [
        file
        for file in sorted(place.glob("*.yaml"))
        if file.name.endswith(".cases.yaml") or _RULE_FILE.search(file.read_text(encoding="utf-8", errors="replace"))
    ]


def formatted_file(path: Path) -> tuple[str, str]:
    """Return the text of a file and its canonical form. Raise RuleError if it cannot be read or formatted."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, format_rules(text)
    except YamlError as error:
        raise RuleError(point_at(str(path), text, str(error), error.place)) from error
    except (OSError, UnicodeDecodeError, FormatError) as error:
        raise RuleError(f"{path}: {error}") from error


def format_rules(text: str) -> str:
    """Return a rule or case file in canonical form. Raise YamlError if it is no YAML, FormatError if data would be
    lost."""
    before, _ = load_with_places(text)
    node = yaml.compose(text, Loader=_LOADER)
    if node is None:
        return text
    if isinstance(node, yaml.ScalarNode):
        raise FormatError("not a rule and not a list of cases")
    formatted = _Writer(text, node).document()
    try:
        same = load_own(formatted)[0] == before
    except YamlError as error:
        raise FormatError(f"the formatted text is not valid YAML: {error}") from error
    if not same or _comment_words(formatted) != _comment_words(text):
        raise FormatError("formatting would change the content of the file")
    return formatted


def _comment_words(text: str) -> list[str]:
    return sorted(word for comment in _comments(text) for word in comment.text.split() if word != "#")


def _comments(text: str) -> list[_Comment]:
    """All comments: a `#` outside scalars at the beginning of a line or after a blank."""
    scalars = [t for t in yaml.scan(text, Loader=_LOADER) if isinstance(t, yaml.ScalarToken)]
    spans = [(t.start_mark.index, t.end_mark.index) for t in scalars if t.style not in ("|", ">")]
    spans += [(text.find("\n", t.start_mark.index), t.end_mark.index) for t in scalars if t.style in ("|", ">")]
    covered = sorted(spans)
    comments, i, begin = [], 0, 0
    for line, row in enumerate(text.splitlines(keepends=True)):
        while i < len(covered) and covered[i][1] <= begin:
            i += 1
        for sign in re.finditer(r"(?:^|(?<=\s))#", row):
            offset = begin + sign.start()
            if not any(start <= offset < end for start, end in covered[i : i + 40]):
                comments.append(_Comment(offset, line, row[sign.start() :].rstrip(), not row[: sign.start()].strip()))
                break
        begin += len(row)
    return comments


class _Writer:
    """Writes one document. Comments are attached to the offsets at which keys and items begin."""

    def __init__(self, text: str, root: yaml.Node) -> None:
        self._text, self._root = text, root
        self._anchors = list(dict.fromkeys(mark.index for mark in _start_marks(root)))
        self._comments: dict[int, _Comments] = {at: _Comments() for at in self._anchors}
        self._footer: list[str] = []
        self._attach()

    def document(self) -> str:
        lines = [*self._block(self._root, 0, top=True), *self._footer]
        return "\n".join(line.rstrip() for line in lines).lstrip("\n") + "\n"

    def _attach(self) -> None:
        line_of = {at: self._text.count("\n", 0, at) for at in self._anchors}
        first: dict[int, int] = {}
        for at in self._anchors:
            first.setdefault(line_of[at], at)
        empty = {number for number, row in enumerate(self._text.splitlines()) if not row.strip()}
        top = {at: line for line, at in first.items()}  # line of the first comment above a key, or of the key
        for comment in _comments(self._text):
            if not comment.alone:
                before = [at for at in self._anchors if at < comment.at]
                self._comments[first.get(comment.line, before[-1])].trailing.append(comment.text)
                continue
            target = next((at for at in self._anchors if at > comment.at), None)
            lines = self._footer if target is None else self._comments[target].above
            if target in top and not lines:
                top[target] = comment.line
            lines += [comment.text, ""] if comment.line + 1 in empty else [comment.text]
        for at, line in top.items():
            self._comments[at].spaced = line - 1 in empty

    def _block(self, node: yaml.Node, indent: int, *, top: bool = False) -> Iterator[str]:
        """The lines of a non-empty mapping or list."""
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                yield from self._entry(key.start_mark.index, f"{self._raw(key)}:", value, indent)
            return
        assert isinstance(node, yaml.SequenceNode)
        for item in node.value:
            yield from self._item(item, indent, top=top)

    def _item(self, item: yaml.Node, indent: int, *, top: bool) -> Iterator[str]:
        if not isinstance(item, yaml.MappingNode) or not item.value or (not top and self._flow(item, indent + 2)):
            yield from self._entry(item.start_mark.index, "-", item, indent, flow=not top)
            return
        key, value = item.value[0]
        at, comments = item.start_mark.index, self._comments[item.start_mark.index]
        if at != key.start_mark.index:  # flow mapping: comments of its first key belong to the item
            inner = self._comments[key.start_mark.index]
            comments.above += inner.above
            comments.trailing += inner.trailing
        yield from self._entry(at, f"- {self._raw(key)}:", value, indent, deeper=2)
        for key, value in item.value[1:]:
            yield from self._entry(key.start_mark.index, f"{self._raw(key)}:", value, indent + 2)

    def _entry(
        self, at: int, lead: str, value: yaml.Node, indent: int, *, deeper: int = 0, flow: bool = False
    ) -> Iterator[str]:
        """A key or a dash with its comments, and its value on the same line or below."""
        comments, margin = self._comments[at], " " * indent
        first, *rest = self._value(lead, value, indent, indent + deeper, flow=flow)
        trailing = "  ".join(comments.trailing)
        if comments.spaced:
            yield ""
        above = [*comments.above]
        if trailing and len(margin + first) + 2 + len(trailing) > WIDTH:
            above, trailing = [*above, trailing], ""
        for comment in above:
            yield from _wrapped_comment(comment, margin) if comment else [""]
        yield f"{margin}{first}{f'  {trailing}' if trailing else ''}"
        yield from rest

    def _value(self, lead: str, value: yaml.Node, indent: int, below: int, *, flow: bool) -> list[str]:
        """`lead` with the value, on one line if it fits."""
        if isinstance(value, yaml.ScalarNode):
            return self._scalar(lead, value, indent, below)
        compact = isinstance(value, yaml.SequenceNode) or flow or not value.value
        line = self._flow(value, indent + len(lead) + 1) if compact else ""
        if line:
            return [f"{lead} {line}"]
        if lead == "-":
            raise FormatError("a list in a list must fit on a line")
        return [lead, *self._block(value, below + 2)]

    def _scalar(self, lead: str, node: yaml.ScalarNode, indent: int, below: int) -> list[str]:
        text, margin = node.value, " " * (below + 2)
        raw = self._raw(node)
        if node.style == "|" or "\n" in text.rstrip("\n"):
            chomp = "" if text.endswith("\n") else "-"
            return [f"{lead} |{chomp}", *(f"{margin}{row}".rstrip() for row in text.rstrip("\n").split("\n"))]
        body = text.rstrip("\n")
        foldable = bool(_FOLDABLE.fullmatch(body)) and not body.startswith("#")
        if node.style == ">" or (foldable and indent + len(lead) + 1 + len(raw) > WIDTH and " " in body):
            if not foldable:
                raise FormatError(f"a folded text has runs of blanks: {body[:40]}")
            rows = textwrap.wrap(
                body, WIDTH, initial_indent=margin, subsequent_indent=margin,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
            return [f"{lead} >{'' if text.endswith(chr(10)) else '-'}", *rows]
        return [f"{lead} {raw}".rstrip()]

    def _flow(self, node: yaml.Node, column: int) -> str:
        """A list of words or a small mapping on one line; "" if it does not fit or has comments."""
        if isinstance(node, yaml.SequenceNode):
            inner, parts = node.value, [self._raw(item) for item in node.value if isinstance(item, yaml.ScalarNode)]
            line = f"[{', '.join(parts)}]"
            fits = len(parts) == len(inner) and all(_WORD.fullmatch(part) for part in parts)
        else:
            assert isinstance(node, yaml.MappingNode)
            inner = [part for pair in node.value for part in pair]
            plain = all(isinstance(part, yaml.ScalarNode) for part in inner)
            line = f"{{{', '.join(f'{self._raw(k)}: {self._raw(v)}' for k, v in node.value)}}}" if plain else ""
            safe = (v.style in ('"', "'") or not re.search(r"[,\[\]{}]", v.value) for _, v in node.value)
            fits = plain and all(safe)
        commented = any(self._has_comments(part, None if i else node) for i, part in enumerate(inner))
        return line if fits and not commented and column + len(line) <= WIDTH else ""

    def _has_comments(self, part: yaml.Node, parent: yaml.Node | None = None) -> bool:
        """Whether a part of a list or mapping has comments of its own."""
        at = part.start_mark.index
        comments = self._comments.get(at)
        same = parent is not None and parent.start_mark.index == at
        return comments is not None and not same and bool(comments.above or comments.trailing)

    def _raw(self, node: yaml.Node) -> str:
        """A scalar as written if it is on one line, else joined to one line."""
        if not isinstance(node, yaml.ScalarNode):
            raise FormatError("a key is one word")
        raw = self._text[node.start_mark.index : node.end_mark.index].strip()
        if "\n" not in raw and node.style not in ("|", ">"):
            return raw
        if node.style == '"' and "\\" not in raw:
            return f'"{node.value}"'
        return "'" + node.value.replace("'", "''") + "'" if node.style == "'" else str(node.value)


def _start_marks(node: yaml.Node) -> Iterator[yaml.Mark]:
    """The positions of keys and items in reading order."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key.start_mark
            yield from _start_marks(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield item.start_mark
            yield from _start_marks(item)


def _wrapped_comment(comment: str, margin: str) -> list[str]:
    if len(margin) + len(comment) <= WIDTH:
        return [margin + comment]
    return textwrap.wrap(
        comment, WIDTH, initial_indent=margin, subsequent_indent=f"{margin}# ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
