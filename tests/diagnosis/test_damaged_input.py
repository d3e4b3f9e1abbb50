"""Damage makes no finding: no member that is cut, doubled or gone, and no number with other digits, gives a likely or
confirmed finding that the whole input does not have, unless a problem names the member.

Some of some fixtures by default; all members and many numbers of all with THPDIAG_PROOF=1. Numbers that are a setting
each are left alone, and are not cut: with other digits they are another setting, which somebody may have made.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path

import pytest

from analyze_bytes import BUNDLES, STRICT, documents, found, name, result_of, rules, sure
from thpdiag.pipeline import analyze

NUMBER = re.compile(rb"(?<![\w.])\d{2,}(?![\w.])")
MAX_BYTES = 300_000  # of a member of which numbers are changed
NUMBERS = 60  # of a fixture in the proof
SETTING = re.compile(r"/(?:sys/kernel/mm|proc/sys/vm)/")
SETTING_LINE = re.compile(rb"^(?:vm|kernel)\.[\w.]+ ?=.*", re.MULTILINE)  # test_impossible has those that cannot be
Change = Callable[[bytes], bytes]

OF_MEMBERS: dict[str, Change] = {
    "half": lambda data: data[: len(data) // 2],
    "tail": lambda data: data[len(data) // 2 :],
    "twice": lambda data: data + data,
    "zeros": lambda data: bytes(len(data)),
    "nothing": lambda _: b"",
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


def damaged_members(bundle: Path) -> Iterator[tuple[str, Path, bytes]]:
    for path in files(bundle):
        for words, change in OF_MEMBERS.items():
            if words == "half" and SETTING.search(str(path)):
                continue
            yield words, path, change(path.read_bytes())


def damaged_numbers(bundle: Path) -> Iterator[tuple[str, Path, bytes]]:
    chance = random.Random(name(bundle))
    few = (path for path in files(bundle) if path.stat().st_size < MAX_BYTES and not SETTING.search(str(path)))
    texts = [path for path in few if b"\0" not in path.read_bytes()]
    while texts:
        path = chance.choice(texts)
        data = path.read_bytes()
        if numbers := list(NUMBER.finditer(SETTING_LINE.sub(lambda line: b" " * len(line[0]), data))):
            number = chance.choice(numbers)
            words, change = chance.choice(sorted(OF_NUMBERS.items()))
            changed = data[: number.start()] + change(number[0]) + data[number.end() :]
            yield f"{number[0].decode()} {words}", path, changed
        else:
            texts.remove(path)


def check(bundle: Path, folder: Path, words: str, path: Path, data: bytes) -> None:
    copy = shutil.copytree(bundle, folder / "bundle")
    (copy / path.relative_to(bundle)).write_bytes(data)
    result = analyze([copy], rules(), STRICT)
    shutil.rmtree(copy)
    gained = sure(found(result)).keys() - sure(found(result_of(bundle))).keys()
    member = str(path.relative_to(bundle))
    is_named = any(one["member"] == member for each in documents(result) for one in each["problems"])
    assert not gained or is_named, f"{member}: {words}"


@pytest.mark.parametrize("number", range(4, len(BUNDLES), 13), ids=lambda number: name(BUNDLES[number]))
def test_some_damage(number: int, tmp_path: Path) -> None:
    """One member and one number of some fixtures."""
    bundle = BUNDLES[number]
    members = list(damaged_members(bundle))
    check(bundle, tmp_path, *members[number % len(members)])
    check(bundle, tmp_path, *next(damaged_numbers(bundle)))


@pytest.mark.proof
@pytest.mark.parametrize("bundle", BUNDLES, ids=name)
def test_proof_of_damage(bundle: Path, tmp_path: Path) -> None:
    """All members, and many numbers, of all fixtures."""
    lost: list[str] = []
    for damage in chain(damaged_members(bundle), islice(damaged_numbers(bundle), NUMBERS)):
        try:
            check(bundle, tmp_path, *damage)
        except AssertionError as error:
            lost.append(str(error).splitlines()[0])
    assert not lost
