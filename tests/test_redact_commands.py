"""Every command whose output may be mailed leaves no name of the customer in it."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import planted
from command_line import Run
from thpdiag.cli.redaction import compared
from thpdiag.compare.document import document
from thpdiag.compare.schema import schema
from thpdiag.reports.verdict import REDACTED

PACKED = re.compile(r'<script type="application/gzip\+base64" id="result">([^<]*)</script>')


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The planted bundle."""
    return planted.bundle(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same host with another program in front."""
    root = planted.bundle(tmp_path_factory.mktemp("later"))
    (root / "notes-later.txt").write_text("acmecorp: zeusprod01 again\n", encoding="utf-8")
    return root


def left(text: str) -> list[str]:
    """The secrets in a text and in what it carries."""
    whole = "\n".join((text, *(gzip.decompress(base64.b64decode(packed)).decode() for packed in PACKED.findall(text))))
    return [secret for secret in planted.SECRETS if secret.casefold() in whole.casefold()]


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_comparison(bundle: Path, later: Path, run: Run, form: str) -> None:
    """A comparison pairs the hosts by their pseudonyms, and says that they are ones."""
    out = run("compare", bundle, later, "--redact", "-f", form, "-v").out
    assert left(out) == []
    assert left(run("compare", bundle, later, "-f", form, "-v").out)
    assert "host1" in "\n".join((out, *(gzip.decompress(base64.b64decode(p)).decode() for p in PACKED.findall(out))))
    assert form == "json" or REDACTED in " ".join(html.unescape(out).split())


def facts(part: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Numbers, and what became of each finding."""
    if isinstance(part, dict):
        yield from (fact for name in sorted(part) for fact in facts(part[name], name))
    elif isinstance(part, list | tuple):
        yield from (fact for item in part for fact in facts(item, key))
    elif not isinstance(part, str) or key in ("status", "rule", "change", "same", "direction"):
        yield key, part


def test_a_comparison_says_the_same(bundle: Path, later: Path, run: Run) -> None:
    """What is the same file on both sides is known with pseudonyms too: nothing is told to be better or worse."""
    shown = run("compare", bundle, later, "-f", "json").document
    clean = run("compare", bundle, later, "--redact", "-f", "json").document
    assert [f for f in facts(clean) if f[0] != "redacted"] == list(facts(shown))
    assert "sha256" not in json.dumps(clean)
    pytest.importorskip("jsonschema").validate(clean, schema())


def test_the_mapping_of_a_comparison(bundle: Path, later: Path, run: Run, tmp_path: Path) -> None:
    """One mapping serves both sides, and the report of the bundle later."""
    who = tmp_path / "who.json"
    host = run("compare", bundle, later, "--redact-map", who, "-f", "json").document["hosts"][0]["name"]
    assert run("analyze", bundle, "--redact-map", who, "-f", "json").document["host"]["name"] == host
    assert set(json.loads(who.read_text())["hostname_map"]) >= {"zeusprod01"}


def test_a_pseudonym_of_one_side_is_given_to_no_host_of_the_other() -> None:
    """BEFORE was redacted earlier: its host1 is not the first host that AFTER names."""
    verdict = {"status": "nothing_found"}
    before, after = (
        {
            "schema": "thpdiag/result/1",
            "case": name,
            "host": {"name": name},
            "tool": {"redacted": done},
            "verdict": verdict,
        }
        for name, done in (("host1", True), ("zeusprod", None))
    )
    first, second = compared([before, after], "yes", ())
    assert (first["case"], second["case"]) == ("host1", "host2")
    assert document(first, second)["hosts"][0]["same"] == "different"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("rule", ["THP-001", "THP-003", "THP-005", "THP-013", "ALT-01", "ALT-10", "CTX-18"])
def test_an_explanation(bundle: Path, run: Run, rule: str, form: str) -> None:
    """Quoted lines, files, options and texts of an explanation are clean, and its answers are the same."""
    asked = ("explain", rule, bundle, "-f", form, "--process", "payrolld")
    shown, clean = run(*asked).out, run(*asked, "--redact").out
    assert left(clean) == []
    assert left(shown)
    if form == "json":
        keep = [f for f in facts(json.loads(clean)) if f[0] != "redacted"]
        assert keep == list(facts(json.loads(shown)))


def test_an_explanation_without_a_bundle(run: Run) -> None:
    """A rule names nobody."""
    assert run("explain", "THP-001", "--redact").out == run("explain", "THP-001").out


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_inputs(bundle: Path, run: Run, form: str) -> None:
    """The list of files names none of the customer's."""
    assert left(run("inputs", bundle, "--redact", "-v", "-f", form).out) == []
    assert left(run("inputs", bundle, "-v", "-f", form).out)


def test_the_request(bundle: Path, run: Run, tmp_path: Path) -> None:
    """What is asked for names the host by its pseudonym, of a bundle as of a saved result."""
    (tmp_path / "little").mkdir()
    little = tmp_path / "little" / "session.txt"
    little.write_text((bundle / "session-wmeyer.txt").read_text(encoding="utf-8"), encoding="utf-8")
    run("analyze", little, "-o", f"json={tmp_path / 'a.json'}")
    for path in (little, tmp_path / "a.json"):
        out = run("ask", path, "--redact").out
        assert left(out) == []
        assert "host1" in out
        assert left(run("ask", path).out)


def test_reports_say_it_at_once(bundle: Path, run: Run, tmp_path: Path) -> None:
    """The first screen of a page, the text and the Markdown say in a line that names are pseudonyms."""
    saved = tmp_path / "a.json"
    run("analyze", bundle, "-o", f"json={saved}")
    page = run("render", saved, "--redact", "-f", "html").out
    assert REDACTED.replace("'", "&#39;") in page.split("</header>")[0]
    for form in ("text", "markdown"):
        assert REDACTED in " ".join(run("render", saved, "--redact", "-f", form).out.replace("\\", "").split())
        assert REDACTED not in " ".join(run("render", saved, "-f", form).out.split())


@pytest.mark.parametrize("command", ["flame", "series"])
def test_raw_exports_say_that_they_are_raw(run: Run, command: str) -> None:
    """What is for one's own viewers is not redacted, and its help says so."""
    assert "nothing is redacted" in " ".join(run(command, "--help").out.split())
