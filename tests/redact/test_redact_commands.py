"""Every command whose output may be mailed leaves no name of the customer in it."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import planted_names as planted
from analyze_bytes import rules
from command_line import ROOT, Run
from thpdiag.cli.options import Redaction
from thpdiag.compare.document import document
from thpdiag.compare.model import schema
from thpdiag.model.document import read_document
from thpdiag.model.explanation import Explanation
from thpdiag.pipeline import analyze
from thpdiag.report import explained
from thpdiag.report.messages import REDACTED

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


@pytest.fixture(scope="module")
def results(bundle: Path, later: Path) -> tuple[Path, Path]:
    """The saved results of both, beside them."""
    saved = tuple(folder.with_suffix(".json") for folder in (bundle, later))
    for folder, file in zip((bundle, later), saved, strict=True):
        file.write_text(json.dumps(analyze([folder], rules())), encoding="utf-8")
    return saved[0], saved[1]


@pytest.mark.parametrize(
    ("unit", "left_over"),
    [("acmebilling-prod.service", False), ("acmebilling@7.service", False), ("redis.service", True)],
)
@pytest.mark.parametrize("form", ["text", "json", "html", "markdown"])
def test_the_customers_unit_leaves_no_command(unit: str, left_over: bool, form: str, tmp_path: Path, run: Run) -> None:
    """Advice for the service of a process names its unit, which may be called after the customer's product."""
    host = shutil.copytree(ROOT / "fixtures/reproduce/khugepaged-bloat/cause", tmp_path / "host")
    (pid,) = set(re.findall(r"^(\d+) \(thp-demo\)", (host / "loops/processes.txt").read_text(), re.MULTILINE))
    (host / "process-groups.txt").write_text(f"/proc/{pid}/cgroup:0::/system.slice/{unit}\n")
    plain, redacted = (run("analyze", host, "-f", form, *more).out for more in (("-v",), ("-v", "--redact")))
    packed = "".join(gzip.decompress(base64.b64decode(text)).decode() for text in PACKED.findall(redacted))
    assert form == "html" or unit in plain
    assert (unit in redacted + packed) is left_over


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_a_comparison(results: tuple[Path, Path], run: Run, form: str) -> None:
    """A comparison pairs the hosts by their pseudonyms, and says that they are ones."""
    out = run("compare", *results, "--redact", "-f", form, "-v").out
    assert left(out) == []
    assert left(run("compare", *results, "-f", form, "-v").out)
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


def test_a_comparison_says_the_same(results: tuple[Path, Path], run: Run) -> None:
    """What is the same file on both sides is known with pseudonyms too: nothing is told to be better or worse."""
    shown = run("compare", *results, "-f", "json").document
    clean = run("compare", *results, "--redact", "-f", "json").document
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
    first, second = Redaction(redact=True, maps=()).apply_to_compared([before, after])
    assert (first["case"], second["case"]) == ("host1", "host2")
    assert document(first, second).hosts[0].same == "different"


@pytest.mark.parametrize("rule", ["THP-001", "THP-003", "THP-005", "THP-013", "ALT-01", "ALT-10", "CTX-18"])
def test_an_explanation(bundle: Path, run: Run, rule: str) -> None:
    """Quoted lines, files, options and texts of an explanation are clean, and its answers are the same."""
    asked = ("explain", rule, bundle, "-f", "json", "--process", "payrolld")
    shown, clean = run(*asked).document, run(*asked, "--redact").document
    for printed in (json.dumps, in_text):
        assert left(printed(clean)) == []
        assert left(printed(shown))
    assert [f for f in facts(clean) if f[0] != "redacted"] == list(facts(shown))


def in_text(explanation: dict[str, Any]) -> str:
    """The explanation for people."""
    return explained.render(read_document(Explanation, explanation))


def test_the_text_of_an_explanation(bundle: Path, run: Run) -> None:
    """It is made of the document that is printed as JSON, in which keys are sorted."""
    asked = ("explain", "THP-001", bundle, "--process", "payrolld", "--redact")
    assert sorted(run(*asked).out.split()) == sorted(in_text(run(*asked, "-f", "json").document).split())


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


def test_reports_say_it_at_once(results: tuple[Path, Path], run: Run) -> None:
    """The first screen of a page, the text and the Markdown say in a line that names are pseudonyms."""
    saved, _ = results
    page = run("render", saved, "--redact", "-f", "html").out
    assert REDACTED.replace("'", "&#39;") in page.split("</header>")[0]
    for form in ("text", "markdown"):
        assert REDACTED in " ".join(run("render", saved, "--redact", "-f", form).out.replace("\\", "").split())
        assert REDACTED not in " ".join(run("render", saved, "-f", form).out.split())


@pytest.mark.parametrize("command", ["flame", "series"])
def test_raw_exports_say_that_they_are_raw(run: Run, command: str) -> None:
    """What is for one's own viewers is not redacted, and its help says so."""
    assert "not redacted" in " ".join(run(command, "--help").out.split())
