"""Damaged input of every kind through thpdiag, in children with limits; failing inputs are written to a folder.

    make fuzz                                                        20,000 inputs
    python tests/support/fuzz.py 100000 --seed 7 --folder failures   more, others
    python tests/support/fuzz.py 100000 --format perf_data           of one binary format, or of one kind of archive
    python tests/support/fuzz.py --again failures/*                  written inputs, one by one

Input number N of a seed is always the same: a fixture of any parser, some files of a bundle, an archive packed on the
fly, a saved result or baseline, or a rule, damaged one to three times. A child reads a batch of them and diagnoses one
of twenty (of a binary format one of a thousand: the others run their parser or walker only). A fault is

- `hang`: more than 10 s of CPU in an analysis or a command; `memory`: more than 300 MB at any time; `death`: the child
  ended otherwise;
- `traceback`: an exception, or a command that exits with 70; `bug`: a Problem that reports a mistake of thpdiag;
- `silent`: of the records of the undamaged fixture, by the share of its lines that is left, more than half are missing
  without a report: no Problem, no unrecognized file, and no share of unlisted samples in the ledger of a profile. Lines
  are compared without quoting marks and line ends, and archives count as complete. Checked if no other file was
  inserted and there are enough lines.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import math
import os
import random
import re
import resource
import sys
import tempfile
import traceback
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from analyze_bytes import STRICT, rules
from command_line import ROOT, STORY
from packed_bundles import PACKINGS, files
from text_damage import MUTATIONS, SLOW, doubled, mutant
from thpdiag.bundle import Member, members
from thpdiag.cli import main as command
from thpdiag.detect import TaggedRecord
from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.isolated import preload_analysis
from thpdiag.model import ProblemKind, Profile, Series
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import bulk_formats
from thpdiag.pipeline import analyze
from thpdiag.report import FORMATS
from thpdiag.sandbox.outcome import MIB, Allowed, Answer, Limits, Outcome, Status
from thpdiag.sandbox.preload import freeze_memory
from thpdiag.sandbox.supervise import run_in_child

HANG_SECONDS = 10
MAX_COMMANDS = 20  # of one input
MAX_WALL_SECONDS = 300.0  # of an input, on a busy machine; the limit that matters is CPU time
PEAK_BYTES = 300_000_000
ADDRESS_BYTES = 768 * MIB  # in addition to those of the forking process
LOST, FEW = 0.5, 20  # accepted share of missing records; minimum of lines and records for the check
UNLISTED = 10.0  # percent of samples that the ledger of a profile reports as lost
BATCH = 40
WHOLLY = 20  # one of 20 is diagnosed too
KINDS = {"text": 76, "bundle": 6, "archive": 12, "document": 5, "rule": 1}  # how often, in percent
BINARY_BATCH, BINARY_WHOLLY = 1000, 1000  # inputs of a binary format are small and quick
MAX_BUNDLE_FILES = 4
MAX_MEMBER_BYTES = 20_000  # of an archive whose walker is tried
MAX_LISTED = 60
SUFFIXES = {"two streams": "tar.gz"}
NOT_INPUT = re.compile(r".*\.golden\.json|ORIGIN\.md|expected.*\.yaml|.*\.c")
BINARY = (
    "atop_raw",
    "elf_symbols",
    "host_zone",
    "mongodb_ftdc",
    "pcp_archive",
    "perf_data",
    "pprof",
    "sadc",
    *PACKINGS,
)
TREES = ("readers", "recordings", "collectors")  # of fixtures that are read file by file
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 1e308, 10**400, 0.5, "", "x" * 5000, "nan", "</script>", "\x1b[31m", "\ud800", [], {},
    [[[[[]]]]], [None], {"a": None},
)  # fmt: skip
SUPPRESSIONS = b"- rule: THP-0*\n  host: db1\n  entity: java\n  reason: known since June\n  expires: 2027-01-31\n"
Files = Mapping[str, bytes]


class Input(NamedTuple):
    """Files as given to thpdiag, the originals, and the damaged part, which may be an archive itself."""

    kind: str
    origin: str
    files: Files
    before: Files
    after: Files


@dataclass
class Finding:
    """The outcome of an input. `peak` in bytes is that of all inputs of its child so far."""

    kind: str = ""
    fault: str = ""
    detail: str = ""
    seconds: float = 0.0
    peak: int = 0


# Making inputs


class Fixture(NamedTuple):
    origin: str
    path: str
    data: bytes


@cache
def fixtures() -> Mapping[str, Sequence[Fixture]]:
    """Return files that are read alone, by the name of their parser or collection."""
    found: dict[str, list[Fixture]] = defaultdict(list)
    for file in sorted(f for tree in TREES for f in (ROOT / "fixtures" / tree).rglob("*") if f.is_file()):
        tree, name, *path = file.relative_to(ROOT / "fixtures").parts
        if NOT_INPUT.fullmatch(file.name):
            continue
        path = path[1:] or path  # without the name of the case
        found[name].append(Fixture(f"{tree}/{name}", "/".join(path), file.read_bytes()))
        if file.suffix == ".gz":
            plain = gzip.decompress(file.read_bytes())
            found[name].append(Fixture(f"{tree}/{name}", "/".join(path).removesuffix(".gz"), plain))
    return found


@cache
def bundles() -> Sequence[tuple[str, Files]]:
    """Return complete bundles."""
    folders = sorted(f for f in (ROOT / "fixtures").glob("*/*/bundle") if f.is_dir())
    return [("/".join(folder.parts[-3:-1]), files(folder)) for folder in folders]


@cache
def documents() -> Sequence[Fixture]:
    """Return results and comparisons, as JSON and as pages, and files with acceptances."""
    saved = [f for f in sorted((ROOT / "tests/results").iterdir()) if f.suffix in (".json", ".html")]
    with tempfile.TemporaryDirectory() as folder:
        result, other, comparison, baseline = (Path(folder) / f"{n}.json" for n in ("new", "other", "both", "baseline"))
        _run(["analyze", STORY, "-o", f"json={result}"])
        _run(["analyze", STORY.parents[1] / "khugepaged-growth/bundle", "-o", f"json={other}"])
        _run(["compare", result, result, "-o", f"json={comparison}"])
        _run(["baseline", "create", result, "--reason", "known", "-o", baseline])
        made = [Fixture(f.name, f.name, f.read_bytes()) for f in (*saved, result, other, comparison, baseline)]
    return [*made, Fixture("suppress.yaml", "suppress.yaml", SUPPRESSIONS)]


@cache
def rule_texts() -> Sequence[Fixture]:
    """Return rules with new ids, and their cases."""
    texts = ((f.name, f.read_bytes()) for f in sorted((ROOT / "rules").glob("*.yaml")))
    return [Fixture(name, name, re.sub(rb"\b(THP|ALT|CTX)-", rb"FUZ-", text)) for name, text in texts]


def input_of(seed: int, number: int) -> Input:
    """Return the input with this number."""
    choice = random.Random(f"{seed} {number}")
    kind = choice.choices([*KINDS], [*KINDS.values()])[0]
    if kind in ("document", "rule"):
        one = choice.choice(documents() if kind == "document" else rule_texts())
        origin, before, target, beside = one.origin, {one.path: one.data}, one.path, one.data
    elif kind == "text" or (kind == "archive" and choice.random() < 0.5):
        one = choice.choice(fixtures()[choice.choice(sorted(fixtures()))])
        other = choice.choice(fixtures()[choice.choice(sorted(fixtures()))] if choice.random() < 0.3 else [one])
        origin, before, target, beside = one.origin, {one.path: one.data}, one.path, other.data
    else:
        origin, whole = choice.choice(bundles())
        names = choice.sample(sorted(whole), min(len(whole), choice.randint(1, MAX_BUNDLE_FILES)))
        before, target = {name: whole[name] for name in names}, choice.choice(names)
        beside = whole[choice.choice(names)]
    ways = DAMAGES if choice.random() < 0.5 else PLAIN_DAMAGES
    known = before if ways is PLAIN_DAMAGES and kind not in ("document", "rule") else {}
    packed = kind == "archive" and choice.random() < 0.7  # the archive itself is damaged
    after = before if packed else {**before, target: damaged(before[target], choice, beside, ways)}
    if kind != "archive":
        return Input(kind, origin, after, known, after)
    packing = choice.choice(sorted(PACKINGS))
    archive = PACKINGS[packing](after)
    if packed:
        archive = damaged(archive, choice, PACKINGS[packing]({target: beside}), ways)
    return Input(kind, origin, {f"bundle.{SUFFIXES.get(packing, packing)}": archive}, known, after)


def binary_input(name: str, seed: int, number: int) -> Input:
    """Return the input of a binary format with this number; its content is damaged more often than its packing."""
    choice = random.Random(f"{name} {seed} {number}")
    if name in PACKINGS:
        _, whole = choice.choice(bundles()[:3])
        names = sorted(path for path in whole if len(whole[path]) < MAX_MEMBER_BYTES)[:MAX_BUNDLE_FILES]
        origin, path = f"packed/{name}", f"bundle.{SUFFIXES.get(name, name)}"
        good = packed(name, tuple((path, whole[path]) for path in names))
    else:
        one = choice.choice([f for f in fixtures()[name] if not f.path.endswith(".gz")])
        origin, path, good = one.origin, one.path, one.data
    data = good
    for _ in range(choice.randint(1, 3)):
        data = choice.choice(BINARY_DAMAGES)(data, choice, good)
    if name in PACKINGS and choice.random() < 0.7:
        data = with_checksums(data)
    return Input("binary", origin, {path: data}, {}, {path: data})


@cache
def packed(name: str, content: tuple[tuple[str, bytes], ...]) -> bytes:
    """Return an archive, made once."""
    return PACKINGS[name](dict(content))


Damage = Callable[[bytes, random.Random, bytes], bytes]


def damaged(data: bytes, choice: random.Random, other: bytes, ways: Sequence[Damage]) -> bytes:
    """Return content damaged one to three times."""
    for _ in range(choice.randint(1, 3)):
        data = choice.choice(ways)(data, choice, other)
    return data


def _as_text(data: bytes, choice: random.Random, _: bytes) -> bytes:
    return mutant(data, choice.getrandbits(32), (*MUTATIONS, *(SLOW if choice.random() < 0.05 else (doubled,))))


def _as_numbers(data: bytes, choice: random.Random, _: bytes) -> bytes:
    """Replace lengths, offsets and counts of binary formats by extreme values."""
    size = choice.choice((1, 2, 4, 8))
    value = choice.choice((0, 1, 1 << 8 * size - 1, (1 << 8 * size - 1) - 1, (1 << 8 * size) - 1))
    at = choice.randrange(choice.choice((64, 1024, len(data) + 1)))
    return data[:at] + value.to_bytes(size, choice.choice(("little", "big"))) + data[at + size :]


def _joined(data: bytes, choice: random.Random, other: bytes) -> bytes:
    """Return the content with itself or another file after it, within it, or between its lines."""
    part = choice.choice((data, other))
    way = choice.randrange(4)
    if way == 0:
        return data + part
    if way == 1:
        at = choice.randrange(len(data) + 1)
        return data[:at] + part + data[at:]
    if way == 2:
        lines, others = data.split(b"\n"), part.split(b"\n")
        return b"\n".join(line for pair in zip(lines, others, strict=False) for line in pair)
    begin, end = sorted(choice.randrange(len(part) + 1) for _ in range(2))
    at = choice.randrange(len(data) + 1)
    return data[:at] + part[begin:end] + data[at + end - begin :]


def _as_json(data: bytes, choice: random.Random, other: bytes) -> bytes:
    """Replace, remove or exchange a value of a document."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _as_text(data, choice, other)
    places = list(_places(document))
    for _ in range(choice.randint(1, 3)):
        if not places:
            break
        holder, key = choice.choice(places)
        with suppress(LookupError):  # removed by another change
            if (way := choice.randrange(4)) == 0:
                del holder[key]
            else:
                source, name = choice.choice(places)
                holder[key] = source[name] if way == 1 and source is not holder else choice.choice(ODD_VALUES)
    try:
        return json.dumps(document, indent=1).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):  # a value holds itself
        return data


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield node, key
            yield from _places(node[key])


def _as_bytes(data: bytes, choice: random.Random, _: bytes) -> bytes:
    """Replace, triple or remove some bytes, with or without what follows."""
    at, length = choice.randrange(len(data) + 1), choice.randrange(1, 40)
    ends = (
        data[at : at + length] * 3 + data[at + length :], data[at + length :], b"",
        choice.randbytes(length) + data[at + length :],
        bytes([choice.randrange(256)]) + data[at + 1 :], data[at : at + 1].swapcase() + data[at + 1 :],
    )  # fmt: skip
    return data[:at] + choice.choice(ends)


def with_checksums(data: bytes) -> bytes:
    """Set the right checksum in every block of a tar with the magic of a header."""
    changed = bytearray(data)
    for at in range(0, len(data) - 511, 512):
        if data[at + 257 : at + 262] == b"ustar":
            total = sum(data[at : at + 148]) + sum(data[at + 156 : at + 512]) + 256
            changed[at + 148 : at + 156] = b"%06o\0 " % total
    return bytes(changed)


BINARY_DAMAGES: Sequence[Damage] = (_as_bytes, _as_bytes, _as_numbers, _as_numbers, _joined)
PLAIN_DAMAGES: Sequence[Damage] = (_as_text, _as_text, _as_text, _as_numbers)
DAMAGES: Sequence[Damage] = (_as_text, _as_text, _as_numbers, _joined, _as_json, _as_json)


# Trying one input


def begin_time() -> None:
    """Start a new CPU time limit in a child."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(process_time()) + HANG_SECONDS, hard))


def examine(one: Input, *, wholly: bool = True) -> Finding:
    """Return the outcome in this process: the input is read, or diagnosed if `wholly`; one or all commands are run."""
    begin_time()
    begun, found = process_time(), Finding()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        for name, data in one.files.items():
            _write(room / "input" / name, data)
        try:
            if one.kind in ("document", "rule"):
                run_commands(one, room, wholly=wholly)
            elif one.kind == "binary" and not wholly:
                read_binary(room / "input" / next(iter(one.files)))
            else:
                found = _try_reading(one, room, wholly=wholly)
        except MemoryError:
            raise
        except Exception:
            found = Finding(fault="traceback", detail=traceback.format_exc())
    found.kind, found.seconds = one.kind, process_time() - begun
    found.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return found


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _run(arguments: Sequence[str | Path]) -> None:
    """Run a command as a user does, in this process; RuntimeError for a mistake of thpdiag."""
    said = io.StringIO()
    with redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")), redirect_stderr(said):
        try:
            command([str(argument) for argument in arguments])
        except SystemExit as end:
            if end.code == 70 or "Traceback" in said.getvalue():
                raise RuntimeError(f"{arguments}: {said.getvalue()}") from None


def run_commands(one: Input, room: Path, *, wholly: bool) -> None:
    """Run the commands that accept such a file: all, or one selected by its content."""
    folder, out, good = room / "input", room / "out", ROOT / "tests/results/found.json"
    name, data = next(iter(one.files.items()))
    file = folder / name
    if one.kind == "rule":
        commands: list[list[str | Path]] = [
            ["rules", "fmt", "--check", folder],
            ["rules", "lint", folder],
            ["rules", "test", "--no-mutate", "--rules", folder, "FUZ-001"],
            ["analyze", STORY, "--rules", folder, "-o", f"json={out}"],
        ]
    elif name.startswith(("baseline", "suppress")):
        accepting = "--baseline" if file.suffix == ".json" else "--suppress"
        commands = [["baseline", "show", file], ["render", good, accepting, file, "-o", f"text={out}"]]
    else:
        commands = [
            *(["render", file, "-vv", "-o", f"{form}={out}"] for form in FORMATS),
            ["redact", file, "-o", f"json={out}"],
            ["compare", good, file, "-o", f"html={out}"],
            ["compare", file, good, "-o", f"text={out}"],
            ["baseline", "create", file, "--reason", "known", "-o", out],
            ["ask", file, "-o", out],
        ]
    at = zlib.crc32(data) % len(commands)
    for arguments in commands if wholly else [commands[at]]:
        begin_time()
        _run(arguments)


def _try_reading(one: Input, room: Path, *, wholly: bool) -> Finding:
    folder = room / "input"
    paths = [folder / next(iter(one.files))] if one.kind == "archive" else [folder]
    parsed = read_input(paths, Options())
    problems = parsed.problems
    if wholly:
        result = analyze(paths, rules())
        json.dumps(result, allow_nan=False)
        FORMATS[sorted(FORMATS)[len(problems) % len(FORMATS)]](result)
        cases = result.get("cases", [result])
        bugs = [p["text"] for case in cases for p in case["problems"] if p["kind"] == ProblemKind.BUG]
    else:
        bugs = [p.text for p in problems if p.kind is ProblemKind.BUG]
    if bugs:
        return Finding(fault="bug", detail=f"{bugs}\n{_strict_traceback(paths)}")
    return Finding(fault="silent", detail=lost) if (lost := _silent_loss(one, parsed, room)) else Finding()


def read_binary(path: Path) -> None:
    """Return the records of the parser of the bytes, or the members of an archive."""
    for member in members([path], lambda _: True):
        if isinstance(member, Member):
            head = member.head()
            parser = next((one for one in bulk_formats() if one.claims(member.path, head, member.size)), None)
            chunks = member.chunks()
            if parser:
                deque(
                    parser.load().read(
                        Source(member.path, path=member.path), Content(chunks, member.size, member.file)
                    ),
                    0,
                )
            deque(chunks, 0)


def _strict_traceback(paths: Sequence[Path]) -> str:
    try:
        analyze(paths, rules(), STRICT)
    except Exception:
        return traceback.format_exc()
    return "none with strict options"


def _silent_loss(one: Input, parsed: ParsedInput, room: Path) -> str:
    """Return how many records are missing without a report; 0 if it is reported or they are few."""
    if not one.before or parsed.problems or any(not row.reader for row in parsed.inputs):
        return ""
    for name, data in one.before.items():
        _write(room / "before" / name, data)
    before = {name.removeprefix("before/"): found for name, found in _readings(room / "before").items()}
    lines = sum(data.count(b"\n") for data in one.before.values())
    plain = ((name, found) for name, found in before.items() if name in one.before)  # not of an archive's members
    wanted = sum(records_left(found, one.before[name], one.after[name]) for name, found in plain)
    now = sum(map(_size, parsed.readings.values()))
    if min(wanted, lines) < FEW or now >= (1 - LOST) * wanted:
        return ""
    if _unlisted(parsed.readings) - _unlisted(before) >= UNLISTED:
        return ""
    return f"{now} of {sum(map(_size, before.values()))} records, {wanted:.0f} of which have their lines left"


def _readings(folder: Path) -> Mapping[str, Sequence[TaggedRecord]]:
    return read_input([folder], Options()).readings


def _unlisted(readings: Mapping[str, Sequence[TaggedRecord]]) -> float:
    """Return the largest share of unlisted samples of a profile, in percent."""
    records = (reading.record for found in readings.values() for reading in found)
    return max((r.ledger.unlisted for r in records if isinstance(r, Profile)), default=0.0)


def _size(found: Sequence[TaggedRecord]) -> int:
    """Return the number of rows in records."""
    records = (reading.record for reading in found)
    return sum(len(r) if isinstance(r, Series) else len(r.rows) if isinstance(r, Profile) else 1 for r in records)


def records_left(found: Sequence[TaggedRecord], before: bytes, after: bytes) -> float:
    """Return how many rows of the records still have their lines; without citations the share of all lines.

    Rows of a profile are its stacks: the share of lines with figures, each counted once, since a part that is there
    twice adds to existing stacks.
    """
    texts = [_bare(line) for line in re.split(rb"\r\n|\n|\r", _plain(before))]
    had, has = Counter(texts), Counter(_lines(after))
    share = (had & has).total() / max(had.total(), 1)
    figures = {text for text in texts if re.search(rb"\d", text)}
    figures_share = len(figures & has.keys()) / max(len(figures), 1)
    wanted = 0.0
    for record in (reading.record for reading in found):
        numbers = record.lines.tolist() if isinstance(record, Series) else [record.cite.line]
        if isinstance(record, Profile):
            wanted += figures_share * len(record.rows)
            continue
        for number in numbers:
            text = texts[number - 1] if number and number <= len(texts) else None
            wanted += share if text is None else min(1.0, has[text] / had[text])
    return wanted


def _lines(data: bytes) -> list[bytes]:
    return [_bare(line) for line in re.split(rb"[\r\n]+", _plain(data))]


def _bare(line: bytes) -> bytes:
    return line.lstrip(b"> |\t")


def _plain(data: bytes) -> bytes:
    return data.decode("utf-16", "replace").encode() if data[:2] in (b"\xff\xfe", b"\xfe\xff") else data


# Many inputs


@dataclass
class Tally:
    """Sums of a kind of input."""

    inputs: int = 0
    seconds: float = 0.0
    peak: int = 0
    faults: Counter[str] = field(default_factory=Counter)


def fuzz(
    numbers: Iterable[int], seed: int, folder: Path | None, binary: str = ""
) -> tuple[dict[str, Tally], dict[str, Finding]]:
    """Return sums by kind, and faults by folder name of their input; of all kinds, or of a binary format."""
    for load in (fixtures, bundles, *(() if binary else (documents, rule_texts))):
        load()
    make = partial(binary_input, binary) if binary else input_of
    batch, whole = (BINARY_BATCH, BINARY_WHOLLY) if binary else (BATCH, WHOLLY)
    preload_analysis(rules())
    freeze_memory()
    tallies: dict[str, Tally] = defaultdict(Tally)
    faults: dict[str, Finding] = {}

    def take(number: int, found: Finding) -> None:
        tally = tallies[found.kind]
        tally.inputs += 1
        tally.seconds += found.seconds
        tally.peak = max(tally.peak, found.peak)
        if not found.fault:
            return
        tally.faults[found.fault] += 1
        name = f"{found.fault}-{found.kind}-{seed}-{number}"
        faults[name] = found
        if folder:
            one = make(seed, number)
            parts = {
                "input": one.files,
                **({"before": one.before, "after": one.after} if found.fault == "silent" else {}),
            }
            for part, path, data in ((part, *file) for part, these in parts.items() for file in these.items()):
                _write(folder / name / part / path, data)
            _write(folder / name / "fault.txt", f"{one.origin}\n{found.detail}\n".encode("utf-8", "replace"))

    waiting = list(numbers)
    while waiting:
        done = try_batch([(partial(make, seed, number), number % whole == 0) for number in waiting[:batch]])
        for number, found in zip(waiting, done, strict=False):
            take(number, found)
        del waiting[: len(done)]
    return tallies, faults


def try_batch(batch: Sequence[tuple[Callable[[], Input], bool]]) -> list[Finding]:
    """Yield the outcome of the inputs, up to the first that ended the child. Each comes with its `wholly`."""
    said = bytearray()

    def call() -> Answer:
        sys.stdout = sys.stderr = io.StringIO()
        for make, wholly in batch:
            found = examine(make(), wholly=wholly)
            if found.peak > PEAK_BYTES and not found.fault:
                found.fault, found.detail = "memory", f"{found.peak / 1e6:.0f} MB"
            os.write(2, json.dumps(vars(found)).encode() + b"\n")
            if found.fault == "memory":
                break  # the peak would count for the next inputs too
        return Answer(b"")

    with tempfile.TemporaryDirectory(prefix="fuzz-") as room:
        limits = Limits(
            len(batch) * MAX_COMMANDS * HANG_SECONDS,
            len(batch) * MAX_WALL_SECONDS,
            memory=ADDRESS_BYTES,
            output=64 * MIB,
        )
        outcome = run_in_child(call, limits, Allowed((ROOT,), (), Path(room)), said.extend)
    done = [Finding(**json.loads(line)) for line in said.splitlines() if line.startswith(b'{"kind"')]
    if len(done) < len(batch) and not (done and done[-1].fault == "memory"):
        kind = batch[len(done)][0]().kind
        done.append(
            Finding(kind, _name_of_end(outcome), f"{outcome.name}: {outcome.sentence}\n{outcome.output[-2000:]}")
        )
    return done


def _name_of_end(outcome: Outcome) -> str:
    if outcome.status is Status.TIMEOUT or outcome.detail == "CPU time":
        return "hang"
    return "memory" if outcome.status is Status.OUT_OF_MEMORY else "death"


def saved(folder: Path) -> Input:
    """Return a written input, or one kept as a fixture: KIND is in its name, its files are in `input`."""
    kind = next(word for word in folder.name.split("-") if word in (*KINDS, "binary"))
    before, after = (files(folder / name) if (folder / name).is_dir() else {} for name in ("before", "after"))
    return Input(kind, folder.name, files(folder / "input"), before, after)


def table(tallies: Mapping[str, Tally]) -> str:
    names = ("hang", "memory", "death", "traceback", "bug", "silent")
    rows = [("kind", "inputs", "CPU s", "peak MB", *names)]
    rows += [
        (kind, f"{t.inputs}", f"{t.seconds:.0f}", f"{t.peak / 1e6:.0f}", *(f"{t.faults[name]}" for name in names))
        for kind, t in sorted(tallies.items())
    ]
    return "\n".join("".join(f"{cell:>10}" for cell in row) for row in rows)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("count", type=int, nargs="?", default=20_000)
    options.add_argument("--first", type=int, default=0, help="the number of the first one")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--folder", type=Path, help="where failing inputs are written")
    options.add_argument("--format", choices=BINARY, default="", help="of this binary format only")
    options.add_argument("--again", type=Path, nargs="+", metavar="FOLDER", help="inputs that were written")
    given = options.parse_args()
    if given.again:
        preload_analysis(rules())
        failed = False
        for folder in given.again:
            one = saved(folder)  # here: the child may not
            (found,) = try_batch([(partial(Input, *one), True)])
            said = f"{found.fault or 'well'}, {found.seconds:.1f} s, {found.peak / 1e6:.0f} MB\n{found.detail}"
            print(f"{folder}: {said.rstrip()}")
            failed = failed or bool(found.fault)
        return int(failed)
    tallies, faults = fuzz(range(given.first, given.first + given.count), given.seed, given.folder, given.format)
    print(table(tallies))
    for name, found in list(faults.items())[:MAX_LISTED]:
        print(f"{name}: {(found.detail.strip().splitlines() or [''])[-1]:.200}")
    return int(any(found.fault != "silent" for found in faults.values()))


if __name__ == "__main__":
    sys.exit(main())
