"""The result document without what belongs to the customer. What is in none of the tables below is held for a quoted
line, so that a key that is added one day leaks nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from thpdiag.redact.allowed import modules
from thpdiag.redact.names import OF_SOS, OWN, Names
from thpdiag.redact.words import Words
from thpdiag.result.fingerprint import fingerprint

NOTE = (
    "This result was redacted: hosts, addresses, users, mail, paths, programs and functions of the customer's own are "
    "pseudonyms, the same for the same name, and checksums of files are left out. It is no promise that nobody can be "
    "recognised: times, numbers, versions, settings, kernel functions and names of well-known programs are as they "
    "were. Read it before it leaves the house."
)
FIXED = frozenset(
    {
        "schema", "rule", "id", "mechanism", "severity", "confidence", "role", "kind", "clock", "unit",
        "status", "outcome", "reader", "check", "panel", "provenance", "title", "means", "cost", "metric",
        "consequences", "attached", "demoted_by", "rules", "classes", "classes_spoken", "classes_missing",
        "heat", "missing", "platform", "era", "rules_digest", "version", "digest", "to", "restart", "expect",
        "redacted", "by", "expires", "apps", "fingerprint",
    }
)  # fmt: skip
TOLD = frozenset(
    {
        "text", "sentence", "because", "what", "when", "expr", "needed", "place", "why", "from", "first",
        "last", "reason", "raise_confidence", "symbols", "window", "state",
    }
)  # fmt: skip
COMMANDS = frozenset({"ask_for", "commands", "now", "persist", "undo", "undo_now", "how"})
PLACES = frozenset({"member", "source"})
MAPS = frozenset({"settings", "measures", "families"})  # of names of the vocabulary
_NOBODY = frozenset({"-", "localhost", "host"})  # what a case is called whose host is not known
_SAID = re.compile(r"^(.+?)( \(\d+\))?$", re.DOTALL)


def redacted(document: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """The document with pseudonyms; `names` learns what it meets. A redacted one stays as it is."""
    return together([document], names)[0]


def together(documents: Sequence[Mapping[str, Any]], names: Names) -> list[dict[str, Any]]:
    """Several documents, each with the pseudonyms of all: what has a name in one has the same in the others."""
    return [_done(document, words) for document, words in zip(documents, learnt(documents, names), strict=True)]


def checked(done: Mapping[str, Any], original: Mapping[str, Any]) -> dict[str, Any]:
    """A redacted document with the checksums of files, for what is never shown: whether two of them are of one file."""
    pairs = zip(_every(done), _every(original), strict=True)
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


def learnt(documents: Sequence[Mapping[str, Any]], names: Names) -> list[Words]:
    """For each document what replaces the names in its text, after the names of all were met."""
    every = [one for document in documents for one in _every(document)]
    for document in documents:
        names.keep(frozenset(_TOKEN.findall(json.dumps(document, ensure_ascii=False))))
    known = {*_kernel_functions(every), *_sysctls(every)}
    found = [Words(names, known, _again(document)) for document in documents]
    for document, words in zip(documents, found, strict=True):
        for one in _every(document):
            _meet(one, words)
    return found


def _every(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(document.get("cases") or [document])


def _again(document: Mapping[str, Any]) -> str:
    """Whether it was redacted before."""
    return "again" if any((one.get("tool") or {}).get("redacted") for one in (document, *_every(document))) else ""


def _done(document: Mapping[str, Any], words: Words) -> dict[str, Any]:
    again = _again(document)
    cases = [_one(one, words, again) for one in _every(document)]
    if not document.get("cases"):
        return cases[0]
    own = {key: value for key, value in document.items() if key != "cases"}
    return {**_one(own, words, again), "cases": cases}


_TOKEN = re.compile(rf"(?<![A-Za-z0-9])(?:{OWN.pattern}|{OF_SOS.pattern}|host\d+)(?![A-Za-z0-9])")


def _one(document: Mapping[str, Any], words: Words, again: str) -> dict[str, Any]:
    done = {key: _value(value, key, words) for key, value in sorted(document.items())}
    for finding in done.get("findings") or ():
        if finding.get("fingerprint"):  # it was made from the host's name, which could be guessed from it
            finding["fingerprint"] = fingerprint(finding["rule"], done.get("case") or "", finding.get("entity") or "")
    if not again:
        done["notes"] = [{"text": NOTE}, *(done.get("notes") or ())]
    done["tool"] = {**(done.get("tool") or {}), "redacted": True}
    return {key: done[key] for key in [*document, *(k for k in done if k not in document)]}


def _meet(document: Mapping[str, Any], words: Words) -> None:
    """Names that the document has a place for come first, so that text knows what they are."""
    for name in (document.get("case"), (document.get("host") or {}).get("name")):
        if name:
            _host(name, words)
    for task in sorted({task for path in _stacks(document) for task in path[:1]}):
        words.program(task)
    for entity in sorted(set(_entities(document))):
        _entity(entity, words)


def _host(name: str, words: Words) -> str:
    """`db1.example.com` is a host in a domain."""
    if name in _NOBODY:
        return name
    own = words.own(name)
    if own or words.names.secret(name):
        return name if own else str(words.names.secret(name))
    first, _, domain = name.partition(".")
    if not domain or not re.fullmatch(r"[\w-]+(\.[\w-]+)+", name):
        return words.names.of("host", name)
    return f"{words.names.of('host', first)}.{words.names.of('domain', domain)}"


def _entities(document: Mapping[str, Any]) -> Iterator[str]:
    rows = [*(document.get("findings") or ()), *((document.get("timeline") or {}).get("series") or ())]
    yield from (row["entity"] for row in rows if row.get("entity"))


def _entity(text: str, words: Words) -> str:
    """A process with its pid, a zone, a cpu, a control group."""
    found = _SAID.match(text)
    return f"{words.program(found[1])}{found[2]}" if found and found[2] else words.line(text)


def _stacks(document: Mapping[str, Any]) -> Iterator[list[str]]:
    for profile in document.get("profiles") or ():
        yield from (stack[0].split(";") for stack in profile.get("folded") or ())


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


def _sysctls(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Names of kernel settings, as sysctl prints them."""
    for document in documents:
        for name in (document.get("host") or {}).get("settings") or ():
            yield from re.findall(r"^sysctl\.((?:vm|kernel)\.\w+)$", name)


def _value(value: Any, key: str, words: Words) -> Any:
    if isinstance(value, str):
        return string(value, key, words)
    if isinstance(value, Mapping):
        return _mapping(value, key, words)
    if key == "folded":
        return [[words.stack(stack), *rest] for stack, *rest in value]
    if isinstance(value, list | tuple):
        return [_value(item, key, words) for item in value]
    return value


def _mapping(value: Mapping[str, Any], key: str, words: Words) -> dict[str, Any]:
    if key == "packs":  # of packages, and of folders of whoever ran it
        value = {**value, "name": words.place(str(value.get("name", "")))}
        return {name: value[name] for name in sorted(value)}
    if key == "modules":
        return {words.module(name): [words.function(one) for one in value[name]] for name in sorted(value)}
    if key == "suppressed" and value.get("reason"):  # written by whoever accepted it
        value = {**value, "reason": words.line(value["reason"])}
    return {_key(name, key, words): _value(item, name, words) for name, item in _ordered(value)}


def _ordered(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(value.items())


def _key(name: str, of: str, words: Words) -> str:
    if of in MAPS and re.fullmatch(r"[a-z_]+(\.\w+)*(:rate)?(\{size=\w+\})?|node_\w+(:rate)?", name):
        return name
    return words.sentence(name) if of == "odd" else words.line(name) if of in MAPS else name


def string(value: str, key: str, words: Words) -> str | None:
    """What stands under a key of the result."""
    if key == "sha256":
        return None  # of a file with little in it, such as the host's name, the content can be guessed from it
    if key in FIXED or value == NOTE:
        return value
    if key in TOLD:
        return words.sentence(value)
    if key in COMMANDS:
        return words.command(value)
    if key in PLACES:
        return words.place(value)
    special = _SPECIAL.get(key)
    return special(value, words) if special else words.line(value)


def _release(text: str, words: Words) -> str:
    return words.release(text)


def _function(text: str, words: Words) -> str:
    return words.function(text)


_SPECIAL: Mapping[str, Callable[[str, Words], str]] = {
    "entity": _entity, "case": _host, "name": _host, "kernel": _release, "matched": _function,
    "kernel_entries": _function,
}  # fmt: skip
