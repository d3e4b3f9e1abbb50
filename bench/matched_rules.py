"""From a recording to matched rules, with the time of each step: the program that bench/perf_data.py measures.

    python bench/matched_rules.py perf.data kallsyms [--signatures 100]

reads both files, gives the kernel's functions their names, judges all rules that are shipped, and prints CPU seconds
by step as JSON. It is `thpdiag analyze` without the parts unrelated to recordings: the parsers of texts, the
checksum of the member, the report. With `--signatures` it also judges so many made-up checks of two parts (a family as
the running function or anywhere, called from another family).
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from thpdiag.detect import Detector, TaggedRecord
from thpdiag.engine.checks import judge
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.engine.schema import ProfileCheck
from thpdiag.engine.state_view import StateView, state_views
from thpdiag.host.cases import host_cases
from thpdiag.host.kernel_symbols import symbolize_profiles
from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput
from thpdiag.knowledge.symbols import families
from thpdiag.model.parser import Content, Foreign, Source
from thpdiag.parsers import kernel_symbols
from thpdiag.parsers.perf import data as perf_data

CHUNK = 1 << 20


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", type=Path, nargs="+")
    options.add_argument("--signatures", type=int, default=0)
    chosen = options.parse_args()
    spent = {"start": time.process_time()}
    rules = load_rules([builtin_rules()])
    spent["rules loaded"] = time.process_time()
    readings = {str(path): list(read(path)) for path in chosen.files}
    spent["read"] = time.process_time()
    named, _ = symbolize_profiles(readings, Detector(()), lambda _: {})
    spent["named"] = time.process_time()
    every = [
        scene for case in host_cases(ParsedInput(named, (), ()), Options(strict=True)) for scene in state_views(case)
    ]
    spent["made a case"] = time.process_time()
    for number, check in enumerate(signatures(chosen.signatures)):
        for scene in every:
            judge(check, scene)
        spent[f"signatures {number + 1}"] = time.process_time()
    spent = thinned(spent)
    fired = [
        outcome.rule for scene in every for outcome in evaluate(rules, scene).values() if outcome.value.name == "YES"
    ]
    spent["judged"] = time.process_time()
    steps = {name: spent[name] - before for before, name in zip([0.0, *spent.values()], spent, strict=False)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": steps, "peak": peak, "fired": fired, **described(every)}))


def read(path: Path) -> Iterator[TaggedRecord]:
    """Return the records of a recording, or the table of symbols."""
    with path.open("rb") as file:
        chunks = iter(lambda: file.read(CHUNK), b"")
        reader = perf_data.BULK_PARSER if path.suffix == ".data" else kernel_symbols.KALLSYMS
        for record in reader.read(Source(path.name), Content(chunks, path.stat().st_size, path)):
            if not isinstance(record, Foreign):
                yield TaggedRecord(record, reader.name, ("", ""))


def thinned(spent: dict[str, float]) -> dict[str, float]:
    """Keep only the last moment of the signatures."""
    last = [name for name in spent if name.startswith("signatures")][-1:]
    return {name: moment for name, moment in spent.items() if name in last or not name.startswith("signatures")}


def signatures(count: int) -> Iterator[ProfileCheck]:
    """Return this many checks of two parts, all of different families."""
    pairs = itertools.permutations(sorted(name for name in families() if name != "idle"), 2)
    for number, (where, under) in enumerate(itertools.islice(pairs, 0, count * 7, 7)):
        place = "self" if number % 2 else "anywhere"
        yield ProfileCheck.model_validate({"profile": {place: where, "under": under, "at_least": "1 %"}})


def described(every: list[StateView]) -> dict[str, object]:
    """Return a summary of the input, so that a fast answer is not an empty one."""
    profiles = [profile for scene in every for profile in scene.state.profiles]
    return {
        "events": [profile.event for profile in profiles],
        "read": sum(profile.ledger.read for profile in profiles),
        "kept": sum(profile.ledger.kept for profile in profiles),
        "chains": sum(len(profile.chains) for profile in profiles),
        "frames": sum(len(profile.frames) for profile in profiles),
        "unnamed": sum(profile.ledger.unknown_symbol for profile in profiles),
    }


if __name__ == "__main__":
    main()
