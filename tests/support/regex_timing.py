"""Runs every regular expression of thpdiag on text made to slow it down.

    python tests/support/regex_timing.py 60000 --seconds 2

For each repeat in a pattern the text has what must precede it, the repeated text up to the given length, and an end
that never matches; then words generated from the complete pattern, and plain ones. Patterns that span lines also get
each of these on separate lines. Each pattern is used as in the code (`match`, `search`, ...), as far as the source
shows it. Prints the slowest, and exits with 1 if one took longer.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import random
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from time import process_time
from typing import Any, NamedTuple

PLAIN = (" ", "a", "1", "-", ".", "/", "a ", "1 ", "a:", "(", "=", ";", "0x1 ", "%", "|", '"', ">", "> ", ": ", ",",
         "[a] ", "a/")  # fmt: skip
ENDS = ("\x01", "")
WORDS = 6  # grown from each pattern
UNITS = 3  # drawn for each repeat
LISTED = 40
# Characters of the longest text that patterns meet where it is not a line of a file, or cut before.
PATHS, NAMES, WRITTEN = (
    4096,
    300,
    2000,
)  # of members (`Limits.name`); in a result; by an author of rules, a user, an admin
LENGTHS = {
    "detect.labels": 80, "detect.timestamps": 120, "parsers.kernel_symbols": PATHS,
    "parsers.host.boot": PATHS, "bundle": PATHS, "compare": NAMES, "diagnosis": NAMES, "redact": NAMES, "report": NAMES,
    "engine": WRITTEN, "authoring": WRITTEN, "cli": WRITTEN, "serve": WRITTEN,
}  # fmt: skip
MANY = 30  # a repeat of fewer cannot be grown
METHODS = ("match", "search", "fullmatch", "finditer", "findall", "sub", "split")
AnyPattern = re.Pattern[str] | re.Pattern[bytes]


class Place(NamedTuple):
    """Where a pattern is compiled, and how it is used."""

    module: str
    line: int
    methods: frozenset[str]


class Slow(NamedTuple):
    seconds: float
    place: Place
    pattern: AnyPattern
    method: str
    text: str


def patterns() -> Mapping[AnyPattern, Place]:
    """Return all patterns compiled on import of the modules and formats, each at its first place."""
    found: dict[AnyPattern, Place] = {}
    compile_pattern = re.compile

    def listen(pattern: Any, flags: int = 0) -> AnyPattern:
        compiled: AnyPattern = compile_pattern(pattern, flags)
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").startswith("thpdiag."):
            found.setdefault(compiled, Place(caller.f_globals["__name__"], caller.f_lineno, frozenset()))
        return compiled

    re.compile = listen  # type: ignore[assignment]
    try:
        package = importlib.import_module("thpdiag")
        names = [module.name for module in pkgutil.walk_packages(package.__path__, "thpdiag.")]
        modules = [importlib.import_module(name) for name in names if not name.endswith("__main__")]
        parsers = importlib.import_module("thpdiag.parsers")
        for format_ in (*parsers.line_formats(), *parsers.bulk_formats()):
            _ = format_.opens, getattr(format_, "paths", ())
        importlib.import_module("thpdiag.knowledge.workloads").switches()
        for part in importlib.import_module("thpdiag.detect.testimony").language():
            _ = [*part.values()]
    finally:
        re.compile = compile_pattern
    named: dict[AnyPattern, set[str]] = defaultdict(set)
    for module in modules:
        uses = _uses(Path(str(module.__file__)).read_text())
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                named[value] |= uses.get(name, set())
            if type(value).__name__ in ("Parser", "BulkParser") and value.opens:
                named[value.opens].add("match")
    for format_ in (*parsers.line_formats(), *parsers.bulk_formats()):
        named[format_.opens].add("match")
        for path in getattr(format_, "paths", ()):
            named[path].add("search")
    unknown = {"match"}
    return {p: place._replace(methods=frozenset(named.get(p) or unknown)) for p, place in found.items()}


def _uses(source: str) -> Mapping[str, set[str]]:
    """Return the methods called on patterns by the name of the constant."""
    found: dict[str, set[str]] = defaultdict(set)
    for use in re.finditer(rf"\b(\w+)\.({'|'.join(METHODS)})\b", source):
        found[use[1]].add(use[2])
    return found


def grown(tree: Any, choice: random.Random) -> str:
    """Return a text that the pattern may begin to match."""
    return "".join(_part(str(op), argument, choice) for op, argument in tree)


def _part(op: str, argument: Any, choice: random.Random) -> str:
    match op:
        case "LITERAL":
            return chr(argument)
        case "ANY" | "NOT_LITERAL":
            return choice.choice("a 1:.")
        case "IN":
            return _one_of(argument, choice)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, inner = argument
            times = low if low == high else min(int(high), low + choice.randrange(3))
            return "".join(grown(inner, choice) for _ in range(min(times, 20)))
        case "SUBPATTERN":
            return grown(argument[3], choice)
        case "ATOMIC_GROUP":
            return grown(argument, choice)
        case "BRANCH":
            return grown(choice.choice(argument[1]), choice)
    return ""


def _one_of(items: Any, choice: random.Random) -> str:
    if str(items[0][0]) == "NEGATE":
        taken = "".join(_one_of([item], choice) for item in items[1:])
        return choice.choice([char for char in "a 1:.,x-" if char not in taken] or ["\x02"])
    op, argument = choice.choice(items)
    match str(op):
        case "LITERAL":
            return chr(argument)
        case "RANGE":
            return chr(argument[0])
        case "CATEGORY":
            return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}.get(str(argument), "-")
    return choice.choice("a 1")


def repeats(tree: Any, before: str, choice: random.Random) -> Iterator[tuple[str, str]]:
    """Yield what precedes each repeat that can grow, and what it repeats."""
    for op, argument in tree:
        match str(op):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                if int(argument[1]) >= MANY:
                    yield from ((before, grown(argument[2], choice) or "a") for _ in range(UNITS))
                yield from repeats(argument[2], before, choice)
            case "SUBPATTERN":
                yield from repeats(argument[3], before, choice)
            case "ATOMIC_GROUP":
                yield from repeats(argument, before, choice)
            case "ASSERT" | "ASSERT_NOT":
                yield from repeats(argument[1], before, choice)
            case "BRANCH":
                for branch in argument[1]:
                    yield from repeats(branch, before, choice)
        before += _part(str(op), argument, choice)


def astray(pattern: AnyPattern, length: int, *, plain: bool = True) -> list[str]:
    """Yield texts of that length for a pattern: of its repeats, of words generated from it, and plain ones."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    flags = pattern.flags & ~re.UNICODE if isinstance(pattern.pattern, bytes) else pattern.flags
    choice, tree = random.Random(len(source)), _parser.parse(source, flags)
    line_ends = ("", "\n") if pattern.flags & re.MULTILINE else ("",)
    found = dict.fromkeys(
        before + f"{unit}{line_end}" * (length // len(f"{unit}{line_end}")) + end
        for before, unit in sorted(set(repeats(tree, "", choice)))
        for line_end in line_ends
        for end in ENDS
    )
    for _ in range(WORDS):
        word = grown(tree, choice) or "a"
        start = choice.randrange(len(word))
        part = word[start : choice.randrange(start, len(word)) + 1]
        found[word[:start] + part * (length // len(part)) + "\x01"] = None
        for line_end in line_ends:
            found[f"{word}{line_end}" * (length // len(f"{word}{line_end}")) + "\x01"] = None
    return [*found, *(word * (length // len(word)) + "\x01" for word in PLAIN if plain)]


def seconds(pattern: AnyPattern, method: str, text: str, limit: float) -> float:
    """Return the CPU time of one use, cut at the limit."""
    subject: Any = text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
    call: Callable[..., Any] = getattr(pattern, method)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    begun = process_time()
    try:
        if method == "sub":
            call(subject[:0], subject)
        elif method == "finditer":
            for _ in call(subject):
                pass
        else:
            call(subject)
    except TimeoutError:
        return limit
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return process_time() - begun


def slowest_use(pattern: AnyPattern, place: Place, length: int, limit: float) -> Slow:
    """Return the slowest of all uses, or the first above the limit."""
    worst = Slow(0.0, place, pattern, "", "")
    rooms = (most for room, most in LENGTHS.items() if f"{place.module}.".startswith(f"thpdiag.{room}."))
    for text in astray(pattern, min(length, *rooms, length)):
        for method in sorted(place.methods):
            if (took := seconds(pattern, method, text, limit)) > worst.seconds:
                worst = Slow(took, place, pattern, method, text)
            if took >= limit:
                return worst
    return worst


def _stop(_number: int, _frame: object) -> None:
    raise TimeoutError


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("length", type=int)
    options.add_argument("--seconds", type=float, default=2.0)
    given = options.parse_args()
    signal.signal(signal.SIGVTALRM, _stop)
    known = patterns()
    slowest = [slowest_use(pattern, place, given.length, given.seconds) for pattern, place in known.items()]
    slowest.sort(key=lambda one: -one.seconds)
    for one in slowest[:LISTED]:
        begin = f"{one.text[:60]!r}...{one.text[-10:]!r}"
        print(f"{one.seconds:7.3f} s  {one.place.module}:{one.place.line} {one.method} {begin}")
    over = sum(one.seconds >= given.seconds for one in slowest)
    print(f"{len(known)} patterns, {over} over {given.seconds:g} s")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
