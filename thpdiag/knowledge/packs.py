"""Words that rule packs bring: mechanisms, symbol families, vocabulary, paths, remedies, applications, known issues.

A pack's folder `knowledge` has files that are called like ours and have the same form; `pack.yaml` in it says the
prefix under which all its names stand, so that no name of a pack ever meets one of another pack, or of ours:

    prefix: nfs        rules NFS-01; mechanisms, remedies, applications and known issues nfs-...; families and events
                       nfs_...; facts and metrics nfs..., node_nfs_...

Without packs nothing of this is read. `load_shipped` joins the words of the packs in use to ours, so that all who ask
see them alike.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import _lru_cache_wrapper
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from thpdiag.errors import RuleError
from thpdiag.knowledge import yaml_nodes
from thpdiag.knowledge.yaml_nodes import YamlError, load_with_places, point_at, suggestion

FOLDER = "knowledge"
PREFIX_FILE = "pack.yaml"
_PREFIX = re.compile(r"[a-z][a-z0-9]{1,11}", re.ASCII)
_NAME = re.compile(r"[a-z0-9][\w.:-]{0,80}", re.ASCII)


class Form(NamedTuple):
    """How entries of a section are named (`{}` is the prefix), which keys they must have and which they may have."""

    names: tuple[str, ...]
    needs: frozenset[str]
    takes: frozenset[str]


def _form(names: str, needs: str, takes: str = "") -> Form:
    return Form(tuple(names.split()), frozenset(needs.split()), frozenset(takes.split()))


_EVENT = _form("{}_", "means", "ask_for hint message trace")
_APPLICATION = _form("{}-", "comm stance advice source", "args not_args version package says units asks by")
_TERM = _form("{}. {}_ node_{}_", "kind means", "unit entity ask_for")
_REMEDY = (
    "sets now persist undo undo_persist undo_of because orders takes_away leave within refused variants verify keeps "
    "in_force environment"
)
_ISSUE = "kernels app needs workaround mended doubt"
# By file and section; the section "" is the whole file.
FORMS: Mapping[str, Mapping[str, Form]] = {
    "mechanisms.yaml": {"mechanisms": _form("{}-", "kind title sentence", "noun looks_like leads_to")},
    "symbols.yaml": {
        "families": _form("{}_", "title means symbols source", "includes ambiguous objects listed"),
        "tasks": _form("{}_", "title names"),
    },
    "vocabulary.yaml": {"facts": _TERM, "metrics": _TERM, "events": _EVENT},
    "remedies.yaml": {"remedies": _form("{}-", "order cures reason cost live restart", _REMEDY)},
    "applications.yaml": {"": _APPLICATION},
    "known_issues.yaml": {"issues": _form("{}-", "title harm defect source date", _ISSUE)},
}  # fmt: skip
PLAIN = {"paths.yaml": ("files",), "remedies.yaml": ("verify",), "known_issues.yaml": ("checked",)}  # further sections
Text = tuple[str, str, str]  # of a file: its name, its path for complaints, what it holds
_in_use: dict[str, tuple[Text, ...]] = {}  # by the folder of the pack


def use(folders: Iterable[Traversable]) -> None:
    """Join the words of these packs to ours, and no others. RuleError names everything that is wrong with them."""
    packs = {str(folder): texts for folder in folders if (texts := _texts(folder / FOLDER))}
    if packs == _in_use:
        return
    _in_use.clear()
    _replace({})
    words: dict[str, list[Mapping[str, Any]]] = {}
    complaints: list[str] = []
    prefixes: dict[str, str] = {}
    for texts in packs.values():
        for name, data in _read(texts, prefixes, complaints):
            words.setdefault(name, []).append(data)
    if complaints:
        raise RuleError("\n".join(complaints))
    _replace(words)
    _in_use.update(packs)


def pack_parts(name: str) -> Iterator[Mapping[str, Any]]:
    """What the packs in use add to a file."""
    yield from yaml_nodes.ADDED.get(name, ())


def text_of(folder: Traversable) -> str:
    """All words of a pack in use, for a digest; empty where it brings none."""
    return "".join(f"{name}\n{text}" for name, _, text in _in_use.get(str(folder), ()))


def prefix_of(folder: Traversable) -> str:
    """The prefix of a pack in use; empty where it brings no words."""
    texts = (text for name, _, text in _in_use.get(str(folder), ()) if name == PREFIX_FILE)
    return next((str(yaml_nodes.load(text)["prefix"]) for text in texts), "")


def _replace(words: Mapping[str, list[Mapping[str, Any]]]) -> None:
    """Other words for all: what was computed of the former ones is forgotten.

    Only a process that changes its packs has anything to forget, as tests do: a run takes its packs first.
    """
    if not words and not yaml_nodes.ADDED:
        return
    yaml_nodes.ADDED.clear()
    yaml_nodes.ADDED.update(words)
    for name, module in tuple(sys.modules.items()):
        if name.startswith("thpdiag."):
            for value in tuple(vars(module).values()):
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


def _texts(folder: Traversable) -> tuple[Text, ...]:
    if not folder.is_dir():
        return ()
    found = sorted((f for f in folder.iterdir() if f.name.endswith((".yaml", ".yml"))), key=lambda f: f.name)
    texts = []
    for file in found:
        try:
            texts.append((file.name, str(file), file.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError(f"{file}: cannot be read: {error}") from error
    return tuple(texts)


def _read(
    texts: tuple[Text, ...], prefixes: dict[str, str], complaints: list[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The files of one pack, with what is wrong in them added to `complaints`."""
    first = next((text for text in texts if text[0] == PREFIX_FILE), ("", texts[0][1].rpartition("/")[0], ""))
    prefix = _own_prefix(first, prefixes, complaints)
    for name, path, text in texts:
        if name == PREFIX_FILE:
            continue
        if name not in (*FORMS, *PLAIN):
            known = ", ".join((*FORMS, "paths.yaml"))
            complaints.append(f"{path}: a pack has no such file; it may have {known}{suggestion(name, FORMS)}")
            continue
        try:
            data, places = load_with_places(text)
        except YamlError as error:
            complaints.append(point_at(path, text, str(error), error.place))
            continue
        wrong = [*_mistakes(name, data, prefix), *_names_of_ours(name, data)]
        complaints += [point_at(path, text, message, places.get(where)) for where, message in wrong]
        if not wrong:
            yield name, data


def _own_prefix(file: Text, prefixes: dict[str, str], complaints: list[str]) -> str:
    _, path, text = file
    try:
        data = yaml_nodes.load(text) if text else {}
    except YamlError as error:
        complaints.append(point_at(path, text, str(error), error.place))
        return ""
    prefix = str(data.get("prefix", "")) if isinstance(data, dict) else ""
    if not _PREFIX.fullmatch(prefix) or set(data) != {"prefix"}:
        complaints.append(f"{path}: {PREFIX_FILE} says the prefix of all names: `prefix: nfs`, small letters, digits")
        return ""
    if prefix in ("thp", "alt", "ctx"):
        complaints.append(f"{path}: the prefix {prefix} is ours; a pack needs its own")
    if other := prefixes.setdefault(prefix, path) if prefixes.get(prefix, path) != path else "":
        complaints.append(f"{path}: the prefix {prefix} is that of {other}; a pack needs its own")
    prefixes[prefix] = path
    return prefix


def _mistakes(file: str, data: Any, prefix: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong in a file, and where."""
    if not isinstance(data, dict):
        yield (), f"{file} is a mapping"
        return
    forms, plain = FORMS.get(file, {}), PLAIN.get(file, ())
    for section, entries in data.items():
        if section in plain:
            yield from _plain_mistakes(section, entries, prefix)
            continue
        if "" in forms:
            yield from _entry_mistakes(file, forms[""], (section,), entries, prefix)
        elif section not in forms:
            yield (section,), f"unknown section '{section}'{suggestion(section, (*forms, *plain))}"
        elif not isinstance(entries, dict):
            yield (section,), f"{section} is a mapping of names"
        else:
            for name, row in entries.items():
                yield from _entry_mistakes(file, forms[section], (section, name), row, prefix)


def _names_of_ours(file: str, data: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """A prefix may be the beginning of a name that we have already."""
    if not isinstance(data, dict) or file not in FORMS or file == "known_issues.yaml":
        return
    ours = yaml_nodes.load_shipped(file)
    for section in FORMS[file]:
        entries = data.get(section, {}) if section else data
        for name in entries if isinstance(entries, dict) else ():
            if name in (ours[section] if section else ours):
                yield (section, name) if section else (name,), f"thpdiag has '{name}' already; call it otherwise"


def _plain_mistakes(section: str, entries: Any, prefix: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Of what to verify, which is by mechanism; of paths; of the day on which known issues were checked."""
    if section == "verify":
        for name in entries if isinstance(entries, dict) else ("?",):
            if not name.startswith(f"{prefix}-"):
                yield (section, name), f"'{name}' is no mechanism of this pack"
    elif section == "files":
        if not isinstance(entries, list) or not all(isinstance(one, str) for one in entries):
            yield (section,), "files is a list of patterns of paths on the host, matched whole"
            return
        for i, one in enumerate(entries):
            if why := _pattern_mistake(one):
                yield (section, i), why


def _pattern_mistake(pattern: str) -> str:
    """Why RE2 does not take it; patterns of strangers never backtrack."""
    import re2  # only where a pack brings patterns

    quiet = re2.Options()
    quiet.log_errors = False
    try:
        re2.compile(pattern, quiet)
    except re2.error as error:
        return f"'{pattern}' is no regular expression of RE2: {error}"
    return ""


def _entry_mistakes(
    file: str, form: Form, where: tuple[str, ...], row: Any, prefix: str
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    name = where[-1]
    begins = tuple(text.format(prefix) for text in form.names)
    if not name.startswith(begins) or not _NAME.fullmatch(name):
        yield where, f"'{name}' does not begin with the prefix of the pack ({' or '.join(begins)})"
    if not isinstance(row, dict):
        yield where, f"'{name}' is a mapping of keys"
        return
    for key, value in row.items():
        if key == "message" and (why := _pattern_mistake(str(value))):
            yield (*where, key), why
        if key not in form.needs | form.takes:
            yield (*where, key), f"unknown key '{key}'{suggestion(key, form.needs | form.takes)}"
    if missing := sorted(form.needs - set(row)):
        yield where, f"'{name}' needs {', '.join(missing)}"
