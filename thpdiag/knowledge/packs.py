"""Knowledge in rule packs: mechanisms, symbol families, vocabulary, paths, remedies, applications, known issues.

The folder `knowledge` of a pack has files with the same names and format as the shipped ones. Its `pack.yaml` states
the prefix of all its names, so that they never collide with shipped names or those of another pack:

    prefix: nfs        rules NFS-01; mechanisms, remedies, applications and known issues nfs-...; families and events
                       nfs_...; facts and metrics nfs..., node_nfs_...

`load_shipped` merges the entries of the active packs into the shipped ones for all callers.
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
    """The form of a section's entries: names (`{}` is the prefix), required keys and optional keys."""

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
# By file and section; the section "" is the top level of the file.
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
Text = tuple[str, str, str]  # name, path for error messages, and content of a file
_active: dict[str, tuple[Text, ...]] = {}  # by the folder of the pack


def use(folders: Iterable[Traversable]) -> None:
    """Activate the knowledge of these packs only. Raise RuleError with all errors in them."""
    packs = {str(folder): texts for folder in folders if (texts := _texts(folder / FOLDER))}
    if packs == _active:
        return
    _active.clear()
    _replace({})
    added: dict[str, list[Mapping[str, Any]]] = {}
    errors: list[str] = []
    prefixes: dict[str, str] = {}
    for texts in packs.values():
        for name, data in _read(texts, prefixes, errors):
            added.setdefault(name, []).append(data)
    if errors:
        raise RuleError("\n".join(errors))
    _replace(added)
    _active.update(packs)


def pack_parts(name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the data that the active packs add to a file."""
    yield from yaml_nodes.ADDED.get(name, ())


def text_of(folder: Traversable) -> str:
    """Return all text of an active pack's knowledge, for a digest; empty if it has none."""
    return "".join(f"{name}\n{text}" for name, _, text in _active.get(str(folder), ()))


def prefix_of(folder: Traversable) -> str:
    """Return the prefix of an active pack; empty if it has no knowledge."""
    texts = (text for name, _, text in _active.get(str(folder), ()) if name == PREFIX_FILE)
    return next((str(yaml_nodes.load(text)["prefix"]) for text in texts), "")


def _replace(added: Mapping[str, list[Mapping[str, Any]]]) -> None:
    """Replace the data of packs and clear all caches in thpdiag.

    This is needed only in processes that change their packs, such as tests: a run activates its packs first.
    """
    if not added and not yaml_nodes.ADDED:
        return
    yaml_nodes.ADDED.clear()
    yaml_nodes.ADDED.update(added)
    for name, module in tuple(sys.modules.items()):
        if name.startswith("thpdiag."):
            for value in tuple(vars(module).values()):
                if isinstance(value, _lru_cache_wrapper):
                    value.cache_clear()


def _texts(folder: Traversable) -> tuple[Text, ...]:
    if not folder.is_dir():
        return ()
    texts = []
    for file in sorted((f for f in folder.iterdir() if f.name.endswith((".yaml", ".yml"))), key=lambda f: f.name):
        try:
            texts.append((file.name, str(file), file.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise RuleError(f"{file}: cannot be read: {error}") from error
    return tuple(texts)


def _read(
    texts: tuple[Text, ...], prefixes: dict[str, str], errors: list[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and data of the valid files of one pack, and add the errors in the others to `errors`."""
    first = next((text for text in texts if text[0] == PREFIX_FILE), ("", texts[0][1].rpartition("/")[0], ""))
    prefix = _read_prefix(first, prefixes, errors)
    for name, path, text in texts:
        if name == PREFIX_FILE:
            continue
        if name not in (*FORMS, *PLAIN):
            known = ", ".join((*FORMS, "paths.yaml"))
            errors.append(f"{path}: a pack has no such file; it may have {known}{suggestion(name, FORMS)}")
            continue
        try:
            data, places = load_with_places(text)
        except YamlError as error:
            errors.append(point_at(path, text, str(error), error.place))
            continue
        mistakes = [*_mistakes(name, data, prefix), *_shipped_names(name, data)]
        errors += [point_at(path, text, message, places.get(key_path)) for key_path, message in mistakes]
        if not mistakes:
            yield name, data


def _read_prefix(file: Text, prefixes: dict[str, str], errors: list[str]) -> str:
    """Return the prefix of a pack, empty if it is missing or invalid."""
    _, path, text = file
    try:
        data = yaml_nodes.load(text) if text else {}
    except YamlError as error:
        errors.append(point_at(path, text, str(error), error.place))
        return ""
    prefix = str(data.get("prefix", "")) if isinstance(data, dict) else ""
    if not _PREFIX.fullmatch(prefix) or set(data) != {"prefix"}:
        errors.append(f"{path}: {PREFIX_FILE} says the prefix of all names: `prefix: nfs`, small letters, digits")
        return ""
    if prefix in ("thp", "alt", "ctx"):
        errors.append(f"{path}: the prefix {prefix} is ours; a pack needs its own")
    if other := prefixes.setdefault(prefix, path) if prefixes.get(prefix, path) != path else "":
        errors.append(f"{path}: the prefix {prefix} is that of {other}; a pack needs its own")
    prefixes[prefix] = path
    return prefix


def _mistakes(file: str, data: Any, prefix: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield key path and message of each mistake in a file."""
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


def _shipped_names(file: str, data: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield a mistake for each name that exists in the shipped file, which may have names with the same prefix."""
    if not isinstance(data, dict) or file not in FORMS or file == "known_issues.yaml":
        return
    shipped = yaml_nodes.load_shipped(file)
    for section in FORMS[file]:
        entries = data.get(section, {}) if section else data
        for name in entries if isinstance(entries, dict) else ():
            if name in (shipped[section] if section else shipped):
                yield (section, name) if section else (name,), f"thpdiag has '{name}' already; call it otherwise"


def _plain_mistakes(section: str, entries: Any, prefix: str) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the mistakes in sections without a form: `verify` (by mechanism), `files` (paths), `checked` (a date)."""
    if section == "verify":
        for name in entries if isinstance(entries, dict) else ("?",):
            if not name.startswith(f"{prefix}-"):
                yield (section, name), f"'{name}' is no mechanism of this pack"
    elif section == "files":
        if not isinstance(entries, list) or not all(isinstance(pattern, str) for pattern in entries):
            yield (section,), "files is a list of patterns of paths on the host, matched whole"
            return
        for i, pattern in enumerate(entries):
            if why := _pattern_mistake(pattern):
                yield (section, i), why


def _pattern_mistake(pattern: str) -> str:
    """Return why RE2 rejects a pattern, or empty. Patterns of packs are compiled by RE2, which does not backtrack."""
    import re2  # only needed for packs with patterns

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
    """Yield the mistakes in one entry."""
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
