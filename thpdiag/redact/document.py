"""Documents without what belongs to the customer: a walk over the types of their models.

Each text of a model says by its type what it may tell (`thpdiag.model.document.Privacy`); the names in a sentence stand
beside it with their kinds (`thpdiag.model.text`). A key that no model knows is held for a quoted line, so that it leaks
nothing.
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
from thpdiag.redact.names import OF_SOS, OWN, Names
from thpdiag.redact.words import Words

NOTE = (
    "This result is redacted: pseudonyms replace the customer's hosts, addresses, users, mail, paths, programs, and "
    "functions, and checksums of files are removed. This does not guarantee anonymity: times, numbers, versions, "
    "settings, kernel functions, and names of well-known programs are unchanged. Review it before you share it."
)
_SYSCTL = re.compile(r"^sysctl\.((?:vm|kernel)\.\w+)$")  # names of kernel settings, as sysctl prints them
_METRIC = re.compile(r"[a-z_]+(\.\w+)*(:rate)?(\{size=\w+\})?|node_\w+(:rate)?")


def redact_result(document: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The document with pseudonyms; `names` learns what it meets. A redacted one stays as it is."""
    return redact_together([document], names)[0]


def redact_together(documents: Sequence[Mapping[str, Any]], names: Names) -> list[dict[str, Any]]:
    """Several documents, each with the pseudonyms of all: what has a name in one has the same in the others."""
    return [
        _redact_cases(document, words) for document, words in zip(documents, learn_names(documents, names), strict=True)
    ]


def with_checksums(done: Mapping[str, Any], original: Mapping[str, Any]) -> dict[str, Any]:
    """A redacted document with the checksums of files, for what is never shown: whether two of them are of one file."""
    pairs = zip(_cases(done), _cases(original), strict=True)
    cases = [
        {
            **one,
            "inputs": [{**i, "sha256": was.get("sha256")} for i, was in zip(one["inputs"], old["inputs"], strict=True)],
        }
        if one.get("inputs")
        else dict(one)
        for one, old in pairs
    ]
    return {**done, "cases": cases} if done.get("cases") else cases[0]


def learn_names(documents: Sequence[Mapping[str, Any]], names: Names) -> list[Words]:
    """For each document what replaces the names in its text, after the names of all were met."""
    every = [one for document in documents for one in _cases(document)]
    for document in documents:
        names.keep(frozenset(_TOKEN.findall(json.dumps(document, ensure_ascii=False))))
    settings = (name for one in every for name in (one.get("host") or {}).get("settings") or ())
    sysctls = (name for setting in settings for name in _SYSCTL.findall(setting))
    known = {*_kernel_functions(every), *sysctls}
    found = [Words(names, known, redacted=_is_redacted(one), named=_has_names(one)) for one in documents]
    for document, words in zip(documents, found, strict=True):
        for one in _cases(document):
            _learn_names(one, words)
    return found


def _cases(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(document.get("cases") or [document])


def _is_redacted(document: Mapping[str, Any]) -> bool:
    """Whether it was redacted before."""
    return any((one.get("tool") or {}).get("redacted") for one in (document, *_cases(document)))


def _has_names(document: Mapping[str, Any]) -> bool:
    """Whether the names in its sentences stand beside them; not in documents of older versions."""
    return all((one.get("tool") or {}).get("names_listed") for one in (document, *_cases(document)))


def _redact_cases(document: Mapping[str, Any], words: Words) -> dict[str, Any]:
    again = _is_redacted(document)
    cases = [_redact_case(one, words, again=again) for one in _cases(document)]
    if not document.get("cases"):
        return cases[0]
    own = {key: value for key, value in document.items() if key != "cases"}
    return {**_redact_case(own, words, again=again), "cases": cases}


_TOKEN = re.compile(rf"(?<![A-Za-z0-9])(?:{OWN.pattern}|{OF_SOS.pattern}|host\d+)(?![A-Za-z0-9])")


def _redact_case(document: Mapping[str, Any], words: Words, *, again: bool) -> dict[str, Any]:
    done = redact_value(document, Result, words)
    for finding in done.get("findings") or ():
        if finding.get("fingerprint"):  # it was made from the host's name, which could be guessed from it
            finding["fingerprint"] = fingerprint(finding["rule"], done.get("case") or "", finding.get("entity") or "")
    if not again:
        done["notes"] = [{"text": NOTE}, *(done.get("notes") or ())]
    done["tool"] = {**(done.get("tool") or {}), "redacted": True}
    return {key: done[key] for key in [*document, *(k for k in done if k not in document)]}


def _learn_names(document: Mapping[str, Any], words: Words) -> None:
    """Names that the document has a place for come first, so that text knows what they are."""
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
    """Functions of the recordings that are the kernel's: those at which stacks enter it, and all that they call, but
    for those of modules that are the customer's own."""
    profiles = [profile for document in documents for profile in document.get("profiles") or ()]
    named = [item for profile in profiles for item in (profile.get("modules") or {}).items()]
    own = {name for module, functions in named if module.casefold() not in modules() for name in functions}
    yield from (name for profile in profiles for name in _below_entries(profile) if name not in own)


def _below_entries(profile: Mapping[str, Any]) -> Iterator[str]:
    entries = frozenset(profile.get("kernel_entries") or ())
    for stack, *_ in profile.get("folded") or ():
        functions = stack.split(";")[1:]
        begin = next((n for n, name in enumerate(functions) if name in entries), len(functions))
        yield from functions[begin:]


Replaced = Mapping[str, str]  # names in the sentences of an object, with what stands for them


def redact_value(value: Any, hint: Any, words: Words, inside: Replaced = MappingProxyType({})) -> Any:
    """A value of a document, by its type in the model; mappings by the order of their keys.

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
    """The alternatives of a type, without what its annotations add but for the kind of a text."""
    if get_origin(hint) in (Union, UnionType):
        for part in get_args(hint):
            yield from choices_of(part)
    elif get_origin(hint) is Annotated and privacy_of(hint) is None:
        yield from choices_of(get_args(hint)[0])
    else:
        yield hint


def privacy_of(hint: Any) -> Privacy | None:
    """What a text of this type may tell; None of other types."""
    return next((kind for kind in getattr(hint, "__metadata__", ()) if isinstance(kind, Privacy)), None)


@cache
def fields_of(model: type[Document]) -> Mapping[str, Any]:
    """The types of a model by their keys in JSON."""
    hints = get_type_hints(model, include_extras=True)
    return MappingProxyType({field.alias or name: hints[name] for name, field in model.model_fields.items()})


def _redact_text(value: str, choices: Sequence[Any], words: Words, inside: Replaced) -> str | None:
    if value == NOTE or any(get_origin(part) is Literal and value in get_args(part) for part in choices):
        return value
    kind = next(filter(None, map(privacy_of, choices)), Privacy.QUOTED)
    if kind in (Privacy.SENTENCE, Privacy.COMMAND):
        return words.sentence(value, inside)
    return _TEXTS[kind](words, value)


def _redact_mapping(value: Mapping[str, Any], choices: Sequence[Any], words: Words, inside: Replaced) -> dict[str, Any]:
    model = next((part for part in choices if isinstance(part, type) and issubclass(part, Document)), None)
    if model is NameInText:
        return {**value, "value": inside[value["value"]]}
    if model is not None:
        fields = fields_of(model)
        named = {
            name["value"]: _NAMES.get(name["kind"], Words.line)(words, name["value"])
            for name in value.get("fields") or ()
        }
        return {key: redact_value(item, fields.get(key, Quoted), words, named) for key, item in sorted(value.items())}
    keys, items = next((get_args(part) for part in choices if get_origin(part) is dict), (Quoted, Quoted))
    return {
        redact_value(key, keys, words, inside): redact_value(item, items, words, inside)
        for key, item in sorted(value.items())
    }


_TEXTS: Mapping[Privacy, Callable[[Words, str], str | None]] = MappingProxyType(
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
        Privacy.CHECKSUM: lambda *_: None,  # the content of a file with little in it can be guessed from it
    }
)
_NAMES: Mapping[str, Callable[[Words, str], str]] = MappingProxyType(
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
    """The explanation with pseudonyms; `result` is that of the same input, which knows what is a host or a program."""
    words = learn_names([result], names)[0]
    tool = dict(document["tool"])
    options = {name: words.line(value) for name, value in tool["options"].items()}
    hosts = [redact_value(host, ExplainedHost, words) for host in document["hosts"]]
    return {**document, "hosts": hosts, "tool": {**tool, "options": options, "redacted": True}}
