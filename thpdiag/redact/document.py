"""Redaction of documents: a walk over the types of their models.

The type of each text in a model states what it may disclose (`thpdiag.model.document.Privacy`); the names in a sentence
are listed next to it with their kinds (`thpdiag.model.text`). A key that is in no model is treated as a quoted line, so
that it leaks nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from thpdiag.model.document import Document, NameInText, Privacy, Quoted
from thpdiag.model.explanation import ExplainedHost
from thpdiag.model.finding import fingerprint
from thpdiag.model.result import Result
from thpdiag.redact.allowed import modules
from thpdiag.redact.names import PSEUDONYM, SOS_PSEUDONYM, Names
from thpdiag.redact.words import Words

NOTE = (
    "This result is redacted: pseudonyms replace the customer's hosts, addresses, users, mail, paths, programs, and "
    "functions, and checksums of files are removed. This does not guarantee anonymity: times, numbers, versions, "
    "settings, kernel functions, and names of well-known programs are unchanged. Review it before you share it."
)
_SYSCTL = re.compile(r"^sysctl\.((?:vm|kernel)\.\w+)$")  # names of kernel settings, as sysctl prints them
_METRIC = re.compile(r"[a-z_]+(\.\w+)*(:rate)?(\{size=\w+\})?|node_\w+(:rate)?")


def redact_result(document: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return the document with pseudonyms, which are added to `names`. A redacted document stays as it is."""
    return redact_together([document], names)[0]


def redact_together(documents: Sequence[Mapping[str, Any]], names: Names) -> list[dict[str, Any]]:
    """Return several documents with common pseudonyms: a name in one document is known in the others."""
    return [
        _redact_cases(document, words) for document, words in zip(documents, learn_names(documents, names), strict=True)
    ]


def with_checksums(redacted: Mapping[str, Any], original: Mapping[str, Any]) -> dict[str, Any]:
    """Return a redacted document with the checksums of files, to find equal files. It must not be shown."""
    pairs = zip(_cases(redacted), _cases(original), strict=True)
    cases = []
    for case, old_case in pairs:
        rows = zip(case.get("inputs") or (), old_case.get("inputs") or (), strict=True)
        inputs = [{**row, "sha256": old.get("sha256")} for row, old in rows]
        cases.append({**case, "inputs": inputs} if inputs else dict(case))
    return {**redacted, "cases": cases} if redacted.get("cases") else cases[0]


def learn_names(documents: Sequence[Mapping[str, Any]], names: Names) -> list[Words]:
    """Return the redactor of each document, after the names of all were recorded."""
    cases = [case for document in documents for case in _cases(document)]
    for document in documents:
        names.keep(frozenset(_TOKEN.findall(json.dumps(document, ensure_ascii=False))))
    settings = (name for case in cases for name in (case.get("host") or {}).get("settings") or ())
    sysctls = (name for setting in settings for name in _SYSCTL.findall(setting))
    known = {*_kernel_functions(cases), *sysctls}
    redactors = [Words(names, known, redacted=_is_redacted(case), named=_has_names(case)) for case in documents]
    for document, words in zip(documents, redactors, strict=True):
        for case in _cases(document):
            _learn_names(case, words)
    return redactors


def _cases(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(document.get("cases") or [document])


def _is_redacted(document: Mapping[str, Any]) -> bool:
    """Return whether a document was redacted before."""
    return any((part.get("tool") or {}).get("redacted") for part in (document, *_cases(document)))


def _has_names(document: Mapping[str, Any]) -> bool:
    """Return whether the names in its sentences are listed; older versions of thpdiag did not list them."""
    return all((part.get("tool") or {}).get("names_listed") for part in (document, *_cases(document)))


def _redact_cases(document: Mapping[str, Any], words: Words) -> dict[str, Any]:
    is_redacted = _is_redacted(document)
    cases = [_redact_case(case, words, is_redacted=is_redacted) for case in _cases(document)]
    if not document.get("cases"):
        return cases[0]
    common = {key: value for key, value in document.items() if key != "cases"}
    return {**_redact_case(common, words, is_redacted=is_redacted), "cases": cases}


_TOKEN = re.compile(rf"(?<![A-Za-z0-9])(?:{PSEUDONYM.pattern}|{SOS_PSEUDONYM.pattern}|host\d+)(?![A-Za-z0-9])")


def _redact_case(document: Mapping[str, Any], words: Words, *, is_redacted: bool) -> dict[str, Any]:
    copy = redact_value(document, Result, words)
    for finding in copy.get("findings") or ():
        if finding.get("fingerprint"):  # made from the host's name, which could be guessed from it
            finding["fingerprint"] = fingerprint(finding["rule"], copy.get("case") or "", finding.get("entity") or "")
    if not is_redacted:
        copy["notes"] = [{"text": NOTE}, *(copy.get("notes") or ())]
    copy["tool"] = {**(copy.get("tool") or {}), "redacted": True}
    return {key: copy[key] for key in [*document, *(k for k in copy if k not in document)]}


def _learn_names(document: Mapping[str, Any], words: Words) -> None:
    """Record names from fields first, so that their kind is known when they appear in text."""
    for name in (document.get("case"), (document.get("host") or {}).get("name")):
        if name:
            words.host(name)
    stacks = (stack[0] for profile in document.get("profiles") or () for stack in profile.get("folded") or ())
    for task in sorted({stack.partition(";")[0] for stack in stacks}):
        words.program(task)
    for entity in sorted(set(_entities(document))):
        words.entity(entity)


def _entities(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [*(document.get("findings") or ()), *((document.get("timeline") or {}).get("series") or ())]
    yield from (row["entity"] for row in rows if row.get("entity"))


def _kernel_functions(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the entry points of the kernel in stacks and all that they call, without the customer's kernel modules."""
    profiles = [profile for document in documents for profile in document.get("profiles") or ()]
    named = [item for profile in profiles for item in (profile.get("modules") or {}).items()]
    private = {name for module, functions in named if module.casefold() not in modules() for name in functions}
    yield from (name for profile in profiles for name in _below_entries(profile) if name not in private)


def _below_entries(profile: Mapping[str, Any]) -> Iterator[str]:
    entries = frozenset(profile.get("kernel_entries") or ())
    for stack, *_ in profile.get("folded") or ():
        functions = stack.split(";")[1:]
        begin = next((n for n, name in enumerate(functions) if name in entries), len(functions))
        yield from functions[begin:]


Replaced = Mapping[str, str]  # names in the sentences of an object, with their pseudonyms


def redact_value(value: Any, hint: Any, words: Words, inside: Replaced = MappingProxyType({})) -> Any:
    """Redact a value of a document by its type in the model; mappings in the order of their keys.

    `inside` are the names in the sentences of the object that it belongs to.
    """
    choices = list(choices_of(hint))
    if isinstance(value, str):
        return _redact_text(value, choices, words, inside)
    if isinstance(value, Mapping):
        return _redact_mapping(value, choices, words, inside)
    if isinstance(value, list | tuple):
        items = next((get_args(part) for part in choices if get_origin(part) in (list, tuple)), ()) or (Quoted,)
        return [redact_value(item, items[min(n, len(items) - 1)], words, inside) for n, item in enumerate(value)]
    return value


def choices_of(hint: Any) -> Iterator[Any]:
    """Yield the alternatives of a type without annotations, except the privacy of a text."""
    if get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from choices_of(part)
    elif get_origin(hint) is Annotated and privacy_of(hint) is None:
        yield from choices_of(get_args(hint)[0])
    else:
        yield hint


def privacy_of(hint: Any) -> Privacy | None:
    """Return what a text of this type may disclose; None for other types."""
    return next((kind for kind in getattr(hint, "__metadata__", ()) if isinstance(kind, Privacy)), None)


@cache
def fields_of(model: type[Document]) -> Mapping[str, Any]:
    """Return the types of a model by their keys in JSON."""
    hints = get_type_hints(model, include_extras=True)
    return MappingProxyType({field.alias or name: hints[name] for name, field in model.model_fields.items()})


def _redact_text(value: str, choices: Sequence[Any], words: Words, inside: Replaced) -> str | None:
    if value == NOTE or any(get_origin(part) is Literal and value in get_args(part) for part in choices):
        return value
    kind = next(filter(None, map(privacy_of, choices)), Privacy.QUOTED)
    if kind in (Privacy.SENTENCE, Privacy.COMMAND):
        return words.sentence(value, inside)
    return _TEXT_REDACTORS[kind](words, value)


def _redact_mapping(value: Mapping[str, Any], choices: Sequence[Any], words: Words, inside: Replaced) -> dict[str, Any]:
    model = next((part for part in choices if isinstance(part, type) and issubclass(part, Document)), None)
    if model is NameInText:
        return {**value, "value": inside[value["value"]]}
    if model is not None:
        fields = fields_of(model)
        named = {
            name["value"]: _NAME_REDACTORS.get(name["kind"], Words.line)(words, name["value"])
            for name in value.get("fields") or ()
        }
        return {key: redact_value(item, fields.get(key, Quoted), words, named) for key, item in sorted(value.items())}
    keys, items = next((get_args(part) for part in choices if get_origin(part) is dict), (Quoted, Quoted))
    return {
        redact_value(key, keys, words, inside): redact_value(item, items, words, inside)
        for key, item in sorted(value.items())
    }


_TEXT_REDACTORS: Mapping[Privacy, Callable[[Words, str], str | None]] = MappingProxyType(
    {
        Privacy.PUBLIC: lambda _, text: text,
        Privacy.PLACE: Words.place,
        Privacy.QUOTED: Words.line,
        Privacy.ENTITY: Words.entity,
        Privacy.HOST: Words.host,
        Privacy.RELEASE: Words.release,
        Privacy.FUNCTION: Words.function,
        Privacy.STACK: Words.stack,
        Privacy.MODULE: Words.module,
        Privacy.METRIC: lambda words, text: text if _METRIC.fullmatch(text) else words.line(text),
        Privacy.CHECKSUM: lambda *_: None,  # the content of a small file could be guessed from it
    }
)
_NAME_REDACTORS: Mapping[str, Callable[[Words, str], str]] = MappingProxyType(
    {
        "host": Words.host,
        "process": Words.program,
        "entity": Words.entity,
        "function": Words.function,
        "path": Words.place,
        "module": Words.module,
        "quoted": Words.line,
    }
)


def redacted_explanation(document: Mapping[str, Any], result: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Return the explanation with pseudonyms; `result` of the same input tells hosts and programs."""
    words = learn_names([result], names)[0]
    tool = dict(document["tool"])
    options = {name: words.line(value) for name, value in tool["options"].items()}
    hosts = [redact_value(host, ExplainedHost, words) for host in document["hosts"]]
    return {**document, "hosts": hosts, "tool": {**tool, "options": options, "redacted": True}}
