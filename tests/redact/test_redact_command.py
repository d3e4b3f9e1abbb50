"""`thpdiag redact`, `--redact` and `--redact-map`: the same names everywhere, and a way back for those who may."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from command_line import STORY, Run
from thpdiag.redact.document import redact_result
from thpdiag.redact.names import Names, mapping_text, read
from thpdiag.redact.words import Words

SOS = {
    "hostname_map": {"shop1": "host0", "shop1.example.com": "host0.obfuscateddomain0.com"},
    "ip_map": {"10.1.2.3": "100.0.0.1"},
    "mac_map": {},
    "keyword_map": {"storm": "obfuscatedword0"},
    "username_map": {"anna": "obfuscateduser0"},
}


@pytest.fixture
def result(tmp_path: Path, run: Run) -> Path:
    """A saved result."""
    run("analyze", STORY, "-o", f"json={tmp_path / 'a.json'}", "-o", f"html={tmp_path / 'a.html'}")
    return tmp_path / "a.json"


def test_all_ways_lead_to_the_same(result: Path, run: Run) -> None:
    """Redacting while analysing, while rendering, and of a saved result or its page gives the same result."""
    by_analysis = run("analyze", STORY, "--redact", "-f", "json").document
    assert by_analysis["host"]["name"] == "host1"
    assert run("render", result, "--redact", "-f", "json").document == by_analysis
    assert run("redact", result).document == by_analysis
    assert run("redact", result.with_suffix(".html")).document == by_analysis


def test_a_page_is_made_of_the_redacted_result(result: Path, run: Run, tmp_path: Path) -> None:
    """`-o` takes every format, by its suffix too."""
    page = tmp_path / "clean.html"
    assert run("redact", result, "-o", page).out == ""
    assert "node1" not in page.read_text()
    assert run("render", page, "-f", "json").document["tool"]["redacted"] is True


def test_a_mapping_is_kept_and_used_again(result: Path, run: Run, tmp_path: Path) -> None:
    """A second report has the same names, numbers go on, and the file is for its owner only."""
    who = tmp_path / "who.json"
    first = run("redact", result, "--redact-map", who).document
    assert stat.S_IMODE(who.stat().st_mode) == 0o600
    kept = json.loads(who.read_text())
    name = json.loads(result.read_text())["host"]["name"]
    assert kept["hostname_map"] == {name: "host1"}
    assert str(who) not in json.dumps(first)
    again = run("redact", result, "--redact-map", who).document
    assert again == first
    assert json.loads(who.read_text()) == kept

    other = json.loads(result.read_text())
    other["case"] = other["host"]["name"] = "another"
    result.write_text(json.dumps(other))
    assert run("redact", result, "--redact-map", who).document["case"] == "host2"
    assert json.loads(who.read_text())["hostname_map"] == {name: "host1", "another": "host2"}


def test_a_mapping_that_all_could_read(result: Path, run: Run, tmp_path: Path) -> None:
    """A file that was there already is closed to others; whom its owner's group is, the owner decides."""
    who = tmp_path / "who.json"
    who.touch()
    who.chmod(0o664)
    run("redact", result, "--redact-map", who)
    assert stat.S_IMODE(who.stat().st_mode) == 0o660


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """The name of a file may hold bytes of no encoding; the mapping keeps it."""
    names = Names()
    names.pseudonym("file", "ledger\udcff")
    (tmp_path / "who").write_text(mapping_text(names), encoding="utf-8")
    assert read((tmp_path / "who").read_text(encoding="utf-8"), "who")[0]["file"] == {"ledger\udcff": "file1"}


def test_the_mapping_of_sos_is_honoured(result: Path, run: Run, tmp_path: Path) -> None:
    """Names that sos clean has replaced elsewhere get the pseudonyms that it gave them; its file stays as it is."""
    theirs = tmp_path / "default_mapping"
    name = json.loads(result.read_text())["host"]["name"]
    theirs.write_text(json.dumps(SOS | {"hostname_map": {name: "host0"}}))
    before = theirs.read_bytes()
    assert run("redact", result, "--redact-map", theirs).document["case"] == "host0"
    assert theirs.read_bytes() == before
    ours = tmp_path / "ours.json"
    run("redact", result, "--redact-map", theirs, "--redact-map", ours)
    assert json.loads(ours.read_text())["hostname_map"] == {name: "host0"}


def test_names_of_sos_stay() -> None:
    """What sos clean has obfuscated is no name any more; what it maps is replaced even where it is a word of ours."""
    known, own = read(json.dumps(SOS), "map")
    assert not own
    words = Words(Names(known))
    line = "host0 host0.obfuscateddomain0.com obfuscateduser0 obfuscatedword12 100.0.0.1"
    assert words.line(line) == line
    assert words.line("shop1.example.com SHOP1 anna@shop1 10.1.2.3 storm") == (
        "host0.obfuscateddomain0.com host0 obfuscateduser0@host0 100.0.0.1 obfuscatedword0"
    )


def test_addresses_of_sos() -> None:
    """sos keeps addresses with the masks that it met them with, and those of version 6 by network."""
    networks = {"fd12:3456::/64": {"obfuscated": "fd53:1::/64", "hosts": {"fd12:3456::42": "fd53:1::7"}}}
    given = {"ip_map": {"10.1.2.3/24": "100.0.0.1/24"}, "ipv6_map": {"version": 1, "networks": networks}}
    words = Words(Names(read(json.dumps(given), "map")[0]))
    assert words.line("10.1.2.3 10.1.2.3/24 fd12:3456:0::42") == "100.0.0.1 100.0.0.1/24 fd53:1::7"
    assert words.line("100.0.0.1 fd53:1::7") == "100.0.0.1 fd53:1::7"


def test_a_cleaned_bundle_keeps_its_names() -> None:
    """Without the mapping too, what sos clean wrote stays, and its host's number is given to no other."""
    line = "Linux host0.obfuscateddomain0.com obfuscateduser0@host0 obfuscatedword3"
    assert Words(Names()).line(line) == line
    given = {"schema": "thpdiag/result/1", "case": "host1", "host": {"name": "host1"}, "verdict": {"status": "found"},
             "notes": [{"text": "said on web@shop"}]}  # fmt: skip
    done = redact_result(given, Names())
    assert (done["case"], done["notes"][1]["text"]) == ("host1", "said on user1@host2")


def test_numbers_are_given_once() -> None:
    """A pseudonym that stands in the text already is given to nothing else."""
    names = Names()
    names.keep(frozenset({"host1", "word1"}))
    assert (names.pseudonym("host", "a"), names.pseudonym("word", "b"), names.pseudonym("host", "A")) == (
        "host2",
        "word2",
        "host2",
    )
    assert (names.pseudonym("fn", "Run"), names.pseudonym("fn", "run")) == ("fn1", "fn2")
    assert read(mapping_text(names), "map")[0]["host"] == {"a": "host2"}


@pytest.mark.parametrize(("text", "told"), [
    ("{", "is not a name mapping"), ("[]", "is not a name mapping"), ('{"a": 1}', "is not a name mapping"),
    ('{"hostname_map": {"a": 1}}', "hostname_map holds something else"),
    ('{"ip_map": [1]}', "ip_map holds something else"),
])  # fmt: skip
def test_no_mapping(result: Path, run: Run, tmp_path: Path, text: str, told: str) -> None:
    """A file that is no mapping is a mistake of the user, and is not written over."""
    file = tmp_path / "map"
    file.write_text(text)
    outcome = run("redact", result, "--redact-map", file)
    assert (outcome.code, outcome.out) == (3, "")
    assert told in outcome.err
    assert file.read_text() == text


def test_a_bundle_is_no_result(run: Run, tmp_path: Path) -> None:
    """Of a bundle it says what is meant."""
    outcome = run("redact", STORY)
    assert outcome.code == 3
    assert "thpdiag analyze --redact" in outcome.err
    assert "no such file" in run("redact", tmp_path / "none").err


def test_an_odd_result(run: Run, tmp_path: Path) -> None:
    """What only says that it is a result is told as such."""
    odd = tmp_path / "odd.json"
    odd.write_text('{"schema": "thpdiag/result/1", "profiles": [3], "verdict": {"status": "found"}}')
    assert "no valid thpdiag result" in run("redact", odd).err
