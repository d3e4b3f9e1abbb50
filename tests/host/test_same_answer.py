"""R7, the same answer however it arrives: folder, archives of all kinds, nested, piped, shuffled, twice, under
another hash seed.

What must be equal, byte for byte, is what is said of the host: verdict, findings, what was ruled out, what is
unknown, host and timeline. Members of a nested archive lie one folder deeper, and shuffled members are listed in
another order; both are put aside before the comparison.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import BUNDLES, STRICT, document, documents, name, result_of, rules
from conftest import ROOT
from packed_bundles import PACKINGS, files, nested, shuffled, tar
from thpdiag.host.options import Options
from thpdiag.pipeline import analyze
from thpdiag.report import FORMATS

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
SMALL = [b for b in BUNDLES if b.parent.parent.name != "captures"]
LARGE = [b for b in BUNDLES if b.parent.parent.name == "captures"]
SHUFFLED = slice(None, None, 1 if PROOF else 3)
PACKED = SMALL if PROOF else SMALL[::12]
SAID = ("case", "verdict", "findings", "ruled_out", "unknown", "rules", "host", "timeline", "profiles", "ask", "notes")


def said(result: Mapping[str, Any], prefix: str = "") -> str:
    """What the result says of its hosts, `prefix` taken off the members."""
    text = json.dumps([{key: one[key] for key in SAID} for one in documents(dict(result))], sort_keys=True, indent=1)
    return re.sub(rf"(?<![\w/]){prefix}", "", text) if prefix else text


@cache
def plain(bundle: Path) -> str:
    return said(result_of(bundle))


@cache
def in_order(bundle: Path) -> dict[str, Any]:
    """The result of the members in the order of their names."""
    return document(tar(files(bundle)))


@pytest.mark.parametrize("bundle", PACKED, ids=name)
def test_every_packing_says_the_same(bundle: Path) -> None:
    """tar, gz, xz, bz2, zst, zip, two gzip streams, and an archive in an archive."""
    content, wanted = files(bundle), plain(bundle)
    for packing, pack in PACKINGS.items():
        assert said(document(pack(content))) == wanted, packing
    assert said(document(nested(content)), "host/") == wanted


def test_a_large_recording_in_two_streams_says_the_same() -> None:
    """Of more than a chunk of every decompressor: two gzip streams, and an archive in an archive."""
    content, wanted = files(LARGE[0]), plain(LARGE[0])
    assert said(document(PACKINGS["two streams"](content))) == wanted
    assert said(document(nested(content)), "host/") == wanted


@pytest.mark.parametrize("bundle", [*PACKED, LARGE[0]], ids=name)
def test_files_of_any_name_say_the_same(bundle: Path, tmp_path: Path) -> None:
    """The archive as a file, under a name that lies about its format."""
    content, wanted = files(bundle), plain(bundle)
    target = tmp_path / "upload.bin"
    target.write_bytes(PACKINGS["tar.xz"](content))
    assert said(analyze([target], rules(), STRICT)) == wanted


@pytest.mark.parametrize("seed", range(2 if PROOF else 1))
@pytest.mark.parametrize("bundle", [b for b in (*SMALL[SHUFFLED], *LARGE[::6]) if len(files(b)) > 1], ids=name)
def test_the_order_of_members_changes_no_finding(bundle: Path, seed: int) -> None:
    """Members shuffled: the same rules fire as surely, on the same lines."""
    if seed and bundle in LARGE:
        pytest.skip("one order of a large recording is enough")
    wanted, got = in_order(bundle), document(tar(shuffled(files(bundle), seed)))
    assert _findings(got) == _findings(wanted)
    assert got["verdict"] == wanted["verdict"]


def _findings(result: dict[str, Any]) -> list[str]:
    return sorted(json.dumps(f, sort_keys=True) for one in documents(result) for f in one["findings"])


@pytest.mark.parametrize("bundle", BUNDLES[::8], ids=name)
def test_twice_is_the_same_bytes(bundle: Path) -> None:
    """Every format of the same input, made twice."""
    one, two = (analyze([bundle], rules(), Options(strict=True)) for _ in range(2))
    for form, render in FORMATS.items():
        assert render(one) == render(two), form


def test_the_hash_seed_changes_nothing(tmp_path: Path) -> None:
    """Python randomises sets of strings by process; no result may depend on it."""
    bundle = next(b for b in SMALL if b.parent.name == "hadoop-centos62")
    archive = tmp_path / "all.tar"
    content = {f"{b.parent.name}/{path}": data for b in (bundle, LARGE[0]) for path, data in files(b).items()}
    archive.write_bytes(tar(content))
    results = [_run(["analyze", "--format", "json", str(archive)], seed) for seed in ("0", "4711")]
    assert results[0] == results[1]
    assert len(results[0]) > 1000


def _run(arguments: list[str], seed: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "thpdiag", *arguments], env=environment, capture_output=True, check=False
    )
    assert done.returncode in (0, 5, 6), done.stderr.decode()
    return done.stdout


def test_a_pipe_and_a_file_say_the_same(tmp_path: Path) -> None:
    """A pasted ticket through a pipe differs from the file only in its name."""
    ticket = next(b for b in SMALL if b.parent.name == "hadoop-centos62") / "ticket.txt"
    piped = analyze([Path("-")], rules(), STRICT, stdin=io.BytesIO(ticket.read_bytes()))
    assert said(piped).replace("stdin", "ticket.txt") == said(analyze([ticket], rules(), STRICT))
    assert str(tmp_path) not in said(piped)


def test_one_host_in_two_parts_is_one_case(tmp_path: Path) -> None:
    """`analyze A B` joins what belongs to one host and finds what the whole has."""
    bundle = next(b for b in LARGE if b.parent.name == "khugepaged-growth")
    content = files(bundle)
    for part in (0, 1):
        chosen = {path: data for number, (path, data) in enumerate(content.items()) if number % 2 == part}
        (tmp_path / f"part{part}.tar.xz").write_bytes(PACKINGS["tar.xz"](chosen))
    result = analyze([tmp_path / "part0.tar.xz", tmp_path / "part1.tar.xz"], rules(), STRICT)
    assert "cases" not in result
    assert {f["rule"] for f in result["findings"]} == {f["rule"] for f in document(tar(content))["findings"]}
