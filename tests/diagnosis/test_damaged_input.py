"""Damage makes no finding: no member that is cut, doubled or gone, and no number with other digits, gives a likely or
confirmed finding that the whole input does not have, unless a problem that is new names the member.

Some of some fixtures by default; all members and many numbers of all with THPDIAG_PROOF=1. Numbers that are a setting
each are left alone, and are not cut: with other digits they are another setting, which somebody may have made.

The proof parses only the member that is damaged, and judges only what differs from all that was judged of the fixture
before and has no new problem; what would fail is analyzed whole. Its rounds share the damage of a fixture so that each
way to damage a file of a name is tried in each round, of fixtures that have such a file in turn.
"""

from __future__ import annotations

import random
import re
import shutil
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path

import pytest

from analyze_bytes import BUNDLES, STRICT, documents, found, name, result_of, rules, sure
from parsed_once import fingerprint, parsed_once
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import ParsedInput
from thpdiag.model import Case, Problem
from thpdiag.pipeline import analyze, diagnose_case

NUMBER = re.compile(rb"(?<![\w.])\d{2,}(?![\w.])")
MAX_BYTES = 300_000  # of a member of which numbers are changed
NUMBERS, ROUNDS = 64, 4  # of a fixture in the proof
SETTING = re.compile(r"/(?:sys/kernel/mm|proc/sys/vm)/")
SETTING_LINE = re.compile(rb"^(?:vm|kernel)\.[\w.]+ ?=.*", re.MULTILINE)  # test_impossible has those that cannot be
DIGITS = re.compile(rb"\d+")
Change = Callable[[bytes], bytes]
Damage = tuple[str, Path, bytes | None]  # in words, of which file, what is in it then; None: it is not there

OF_MEMBERS: dict[str, Callable[[bytes], bytes | None]] = {
    "half": lambda data: data[: len(data) // 2],
    "tail": lambda data: data[len(data) // 2 :],
    "twice": lambda data: data + data,
    "zeros": lambda data: bytes(len(data)),
    "nothing": lambda _: b"",
    "gone": lambda _: None,
}
OF_NUMBERS: dict[str, Change] = {
    "first digits": lambda digits: digits[: len(digits) // 2],
    "last digits": lambda digits: digits[len(digits) // 2 :],
    "twice": lambda digits: digits + digits,
    "below zero": lambda digits: b"-" + digits,
    "shifted": lambda digits: digits + b"0",
}


def files(bundle: Path) -> list[Path]:
    return [path for path in sorted(bundle.rglob("*")) if path.is_file() and path.stat().st_size]


def damaged_members(bundle: Path) -> Iterator[Damage]:
    for path in files(bundle):
        for words, change in OF_MEMBERS.items():
            if words == "half" and SETTING.search(str(path)):
                continue
            yield words, path, change(path.read_bytes())


def damaged_numbers(bundle: Path) -> Iterator[Damage]:
    """Numbers of any file, any kind of line in it, and any line of that kind, so that a long table is one of many."""
    chance = random.Random(name(bundle))
    few = (path for path in files(bundle) if path.stat().st_size < MAX_BYTES and not SETTING.search(str(path)))
    texts = [path for path in few if b"\0" not in path.read_bytes()]
    kinds = {path: by_kind for path in texts if (by_kind := numbers_by_kind_of_line(path.read_bytes()))}
    while kinds:
        path = chance.choice(list(kinds))
        data, number = path.read_bytes(), chance.choice(chance.choice(kinds[path]))
        words, change = chance.choice(sorted(OF_NUMBERS.items()))
        changed = data[: number.start()] + change(number[0]) + data[number.end() :]
        yield f"{number[0].decode()} at byte {number.start()} {words}", path, changed


def numbers_by_kind_of_line(data: bytes) -> list[list[re.Match[bytes]]]:
    """Numbers that are no setting, apart for each text that a line has but for its digits."""
    found: dict[bytes, list[re.Match[bytes]]] = defaultdict(list)
    for number in NUMBER.finditer(SETTING_LINE.sub(lambda line: b" " * len(line[0]), data)):
        begin, end = data.rfind(b"\n", 0, number.start()) + 1, data.find(b"\n", number.end())
        found[DIGITS.sub(b"0", data[begin : end if end >= 0 else len(data)])].append(number)
    return list(found.values())


def put(file: Path, data: bytes | None) -> None:
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)


def check(bundle: Path, folder: Path, words: str, path: Path, data: bytes | None) -> None:
    copy, before = shutil.copytree(bundle, folder / "bundle"), result_of(bundle)
    put(copy / path.relative_to(bundle), data)
    result = analyze([copy], rules(), STRICT)
    shutil.rmtree(copy)
    gained = sure(found(result)).keys() - sure(found(before)).keys()
    member = str(path.relative_to(bundle))
    known = [one for each in documents(before) for one in each["problems"]]
    is_named = any(
        one["member"] == member and one not in known for each in documents(result) for one in each["problems"]
    )
    assert not gained or is_named, f"{member}: {words}: {sorted(gained)}"


def of_round(number: int, bundle: Path) -> Iterator[Damage]:
    """One of so many parts of the damage of a fixture."""
    members, turn = groupby(damaged_members(bundle), key=lambda damage: damage[1]), BUNDLES.index(bundle)
    for path, damages in members:
        begin = zlib.crc32(path.name.encode()) + turn
        yield from (damage for way, damage in enumerate(damages, begin) if way % ROUNDS == number)
    yield from islice(damaged_numbers(bundle), number, NUMBERS, ROUNDS)


def suspicious(bundle: Path, folder: Path, damages: Iterable[Damage]) -> Iterator[Damage]:
    """Damage by which a finding is gained that no problem explains, as far as that can be told without a document."""
    copy = shutil.copytree(bundle, folder / "copy")
    with parsed_once(copy) as parsing:
        whole = parsing.read()
        hosts = host_cases(whole, STRICT)
        before, known = surely_found(hosts), problems(whole, hosts)
        seen = {(b"", tuple(whole.problems))}
        for words, path, data in damages:
            member = str(path.relative_to(bundle))
            put(copy / member, data)
            parsing.changed = member
            parsed = parsing.read()
            put(copy / member, path.read_bytes())
            key = (fingerprint(parsed.readings, whole.readings), tuple(parsed.problems))
            if key in seen:
                continue
            seen.add(key)
            hosts = host_cases(parsed, STRICT)
            if any(one.cite.member == member for one in problems(parsed, hosts) - known):
                continue
            if surely_found(hosts) - before:
                yield words, path, data


def problems(parsed: ParsedInput, hosts: Sequence[Case]) -> set[Problem]:
    return {*parsed.problems, *(problem for host in hosts for problem in host.problems)}


def surely_found(hosts: Sequence[Case]) -> set[str]:
    found = (finding for host in hosts for finding in diagnose_case(host, rules(), STRICT).findings)
    return {finding.outcome.rule for finding in found if finding.confidence != "possible"}


@pytest.mark.parametrize("number", range(4, len(BUNDLES), 13), ids=lambda number: name(BUNDLES[number]))
def test_some_damage(number: int, tmp_path: Path) -> None:
    """One member and one number of some fixtures."""
    bundle = BUNDLES[number]
    members = list(damaged_members(bundle))
    check(bundle, tmp_path, *members[number % len(members)])
    check(bundle, tmp_path, *next(damaged_numbers(bundle)))


@pytest.mark.proof
@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("bundle", BUNDLES, ids=name)
def test_proof_of_damage(bundle: Path, number: int, tmp_path: Path) -> None:
    """All members, and many numbers, of all fixtures."""
    lost: list[str] = []
    for damage in suspicious(bundle, tmp_path, of_round(number, bundle)):
        try:
            check(bundle, tmp_path, *damage)
        except AssertionError as error:
            lost.append(str(error).splitlines()[0])
    assert not lost
