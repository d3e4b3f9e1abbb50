"""R4, never silently wrong: a damaged bundle gives the findings of the whole one, or says what is lost and which
rules that leaves open.

Every story, capture and healthy host, packed and damaged where damage can be told from data: cut short, a header
spoiled, bits flipped under a checksum. A digit changed in bare text cannot be told from a true one and is no subject
here.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import BUNDLES, STRICT, document, documents, found, name, rules, sure
from packed_bundles import PACKINGS, files, gz, tar
from text_damage import mutant
from thpdiag.cli.options import exit_code
from thpdiag.pipeline import analyze
from thpdiag.report import FORMATS

TELLING = {"damaged", "limit", "unreadable", "refused"}
PACKED = ("tar", "tar.gz", "tar.xz")
FEW, MANY = 3, 60  # mutants per bundle and packing
CAPTURES = [bundle for bundle in BUNDLES if bundle.parent.parent.name == "captures"]  # recordings, which are large
SMALL = [bundle for bundle in BUNDLES if bundle not in CAPTURES]
PROOF = os.environ.get("THPDIAG_PROOF") == "1"
FOLDERS = BUNDLES if PROOF else [*SMALL[::4], *CAPTURES[::24]]
TEXTS = SMALL if PROOF else SMALL[1::3]
# By default each small bundle in one packing, the next bundle in the next one, and some of the recordings.
DAMAGED = (
    [(bundle, packing) for bundle in BUNDLES for packing in PACKED]
    if PROOF
    else [
        *((bundle, PACKED[number % len(PACKED)]) for number, bundle in enumerate(SMALL)),
        *((bundle, "tar.gz") for bundle in CAPTURES[::16]),
    ]
)
BLOCK = 512


def wrongs(clean: dict[str, Any], mutant: dict[str, Any]) -> Iterator[str]:
    """What a mutant's result says that it may not."""
    before, after = found(clean), found(mutant)
    if before == after:
        return
    code = exit_code(mutant, "never")
    problems = [p for one in documents(mutant) for p in one["problems"]]
    if code != 3 and not any(p["kind"] in TELLING and p.get("member") for p in problems):
        yield "no problem names the damaged source"
    if code not in (3, 5, 6):
        yield f"exit code {code}"
    for rule, level in sure(after).items():
        if level > sure(before).get(rule, 0):
            yield f"{rule} is surer than in the whole bundle"
    outcomes = {(r["id"], r["outcome"]) for one in documents(mutant) for r in one["rules"]}
    for rule in sure(before).keys() - after.keys():
        if (rule, "unknown") not in outcomes:
            yield f"{rule} is not found and not unknown either"


def mutants(whole: bytes, packing: str, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Damaged archives, with words for the damage: cuts, then flips that a checksum covers."""
    choice = random.Random(seed)
    for number in range(count):
        at = choice.randrange(1, len(whole))
        if number % 2 == 0:
            yield f"cut at {at}", whole[:at]
        elif packing == "tar":
            header = choice.choice(_headers(whole)) + choice.randrange(148)
            yield f"header spoiled at {header}", _flipped(whole, header, choice)
        else:
            at = max(at, 12)
            yield f"bit flipped at {at}", _flipped(whole, at, choice)


def _flipped(data: bytes, at: int, choice: random.Random) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << choice.randrange(7)]) + data[at + 1 :]


def _headers(whole: bytes) -> list[int]:
    """Where the headers of a tar stand."""
    return [at for at in range(0, len(whole), BLOCK) if whole[at + 257 : at + 262] == b"ustar"]


def check(bundle: Path, packing: str, count: int) -> None:
    whole = PACKINGS[packing](files(bundle))
    clean = document(whole)
    for words, data in mutants(whole, packing, count, len(whole)):
        assert [f"{words}: {wrong}" for wrong in wrongs(clean, document(data))] == []


@pytest.mark.parametrize(("bundle", "packing"), DAMAGED, ids=lambda value: value if value in PACKED else name(value))
def test_a_damaged_archive_is_never_silently_wrong(bundle: Path, packing: str) -> None:
    """Cuts and flips: the same findings, or a problem with rules left open; nothing new is likely."""
    check(bundle, packing, FEW if packing != "tar.gz" else FEW // 2)


@pytest.mark.proof
@pytest.mark.parametrize("packing", [*PACKED, "tar.bz2", "tar.zst", "zip"])
@pytest.mark.parametrize("bundle", BUNDLES, ids=name)
def test_proof_of_many_mutants(bundle: Path, packing: str) -> None:
    """The same with many more."""
    check(bundle, packing, MANY)


@pytest.mark.parametrize("bundle", FOLDERS, ids=name)
def test_a_folder_with_a_damaged_compressed_file(bundle: Path, tmp_path: Path) -> None:
    """The largest file of a folder lies there as gzip, cut or with one byte of another value."""
    content = files(bundle)
    largest = max(content, key=lambda path: len(content[path]))
    packed = gz(content.pop(largest))
    for path, data in content.items():
        _write(tmp_path / path, data)
    target = tmp_path / f"{largest}.gz"
    results = []
    for data in (packed, packed[: len(packed) // 2], packed[:-6] + bytes([packed[-6] ^ 255]) + packed[-5:]):
        _write(target, data)
        results.append(analyze([tmp_path], rules(), STRICT))
    for damaged in results[1:]:
        assert list(wrongs(results[0], damaged)) == []


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize("bundle", TEXTS, ids=name)
def test_damaged_texts_go_through_the_whole_line(bundle: Path) -> None:
    """Every file mutated as text: whatever is found then, a result comes out, in every format, with finite numbers."""
    content = files(bundle)
    for seed in range(3 if PROOF else 1):
        result = document(tar({path: mutant(data, seed) for path, data in content.items()}))
        assert json.loads(json.dumps(result, allow_nan=False))["verdict"]["status"]
        assert all(render(result) for render in FORMATS.values())


def test_a_wrong_checksum_leaves_only_hypotheses() -> None:
    """Where the checksum of an archive does not fit, nobody knows which number is wrong: nothing is likely."""
    bundle = next(b for b in BUNDLES if b.parent.name == "hadoop-centos62")
    whole = PACKINGS["tar.gz"](files(bundle))
    result = document(whole[:-8] + bytes(4) + whole[-4:])
    assert sure(found(document(whole)))
    assert found(result)
    assert not sure(found(result))
    assert exit_code(result, "never") == 5


def test_the_exit_code_of_a_cut_archive_is_five() -> None:
    """A third of the archive is missing: the rules are open, and the exit code says it."""
    bundle = next(b for b in BUNDLES if b.parent.name == "khugepaged-growth")
    whole = PACKINGS["tar.xz"](files(bundle))
    result = document(whole[: len(whole) * 2 // 3])
    assert exit_code(result, "never") == 5
    assert result["unknown"]
