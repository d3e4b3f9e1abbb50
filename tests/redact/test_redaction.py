"""Nothing that was planted is left in any output of a redacted result, and the diagnosis is the same."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import planted_names as planted
from conftest import ROOT
from thpdiag.engine.load import rule_set
from thpdiag.host.options import Options
from thpdiag.model.document import Document, Privacy
from thpdiag.model.finding import fingerprint
from thpdiag.model.result import Result
from thpdiag.model.text import token_pattern
from thpdiag.pipeline import analyze
from thpdiag.redact.document import NOTE, choices_of, fields_of, privacy_of, redact_result
from thpdiag.redact.names import Names
from thpdiag.redact.words import Words
from thpdiag.report import FORMATS
from thpdiag.report.presentation import Presentation, Suppressed

EMBEDDED = re.compile(r'<script type="application/gzip\+base64" id="result">([^<]*)</script>')
TEXTS = (
    planted.KERNEL_LOG, planted.JOURNAL, planted.SESSION, planted.START_UP, planted.SYSCTL, planted.NMON,
    planted.COLLECTED,
)  # fmt: skip
SAME = ("rule", "mechanism", "title", "severity", "confidence", "role", "status", "outcome", "value", "unit", "points")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of the planted bundle."""
    root = planted.bundle(tmp_path_factory.mktemp("planted"))
    return analyze([root], rule_set(()), Options(typed_options={"process": "payrolld", "set": "acmecorp"}))


@pytest.fixture(scope="module")
def clean(original: dict[str, Any]) -> dict[str, Any]:
    """The same, redacted."""
    return redact_result(original, Names())


def left(text: str) -> list[str]:
    """The secrets in a text."""
    return [secret for secret in planted.SECRETS if secret.casefold() in text.casefold()]


def strings(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        yield from part
        yield from (text for item in part.values() for text in strings(item))
    elif isinstance(part, list | tuple):
        yield from (text for item in part for text in strings(item))


def facts(part: object, key: str = "") -> Iterator[object]:
    """What a diagnosis says but for names."""
    if isinstance(part, dict):
        yield from (fact for name in sorted(part.keys() - {"fields"}) for fact in facts(part[name], name))
    elif isinstance(part, list | tuple):
        yield from (fact for item in part for fact in facts(item, key))
    elif not isinstance(part, str) or key in SAME:
        yield key, part


def test_the_bundle_is_a_trap(original: dict[str, Any]) -> None:
    """Most of what is planted reaches the result, or the test below would prove nothing."""
    seen = left("\n".join(strings(original)))
    assert {"zeusprod", "acmecorp", "wmeyer", "payroll", "acmedata", "libledger", "zurichdc", "99887766"} <= set(seen)


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("verbosity", [0, 2])
def test_no_output_holds_a_secret(clean: dict[str, Any], form: str, verbosity: int) -> None:
    """Every format, also the result that a page carries, is free of them."""
    text = FORMATS[form](clean, Presentation(verbosity, "low", Suppressed.SHOWN))
    assert left(text) == []
    for packed in EMBEDDED.findall(text):
        assert left(gzip.decompress(base64.b64decode(packed)).decode()) == []


def test_every_name_in_a_sentence_is_known_to_be_one(original: dict[str, Any], clean: dict[str, Any]) -> None:
    """What redaction replaces anywhere stands in no sentence as a plain word: who writes a sentence types its names."""
    names = Names()
    redact_result(original, names)
    known = {name for kind, name, _ in names.pairs() if kind in ("host", "proc", "fn", "user", "ip") and len(name) > 2}
    pattern = token_pattern(known - {"host", "data"})
    assert [text for text in sentences(clean, Result) if pattern.search(text)] == []


def sentences(value: Any, hint: Any) -> Iterator[str]:
    """The sentences of a document, by the types of its model."""
    choices = list(choices_of(hint))
    if isinstance(value, str):
        if {Privacy.SENTENCE, Privacy.COMMAND} & set(map(privacy_of, choices)) and value != NOTE:
            yield value
        return
    model = next((part for part in choices if isinstance(part, type) and issubclass(part, Document)), None)
    arguments = next((get_args(part) for part in choices if get_args(part)), ()) or (str, str)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from () if model else sentences(key, arguments[0])
            yield from sentences(item, fields_of(model).get(key, str) if model else arguments[-1])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from sentences(item, arguments[0])


def test_a_result_of_an_older_version_is_foreign_text(original: dict[str, Any]) -> None:
    """Where no names stand beside the sentences, these are redacted as lines of the customer's are."""
    older = json.loads(json.dumps(original))
    for one in (older, *older.get("cases", ())):
        del one["tool"]["names_listed"]
    text = json.dumps(redact_result(without_fields(older), Names()))
    assert left(text) == []


def without_fields(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: without_fields(item) for key, item in part.items() if key != "fields"}
    return [without_fields(item) for item in part] if isinstance(part, list) else part


def test_the_page_carries_a_result(clean: dict[str, Any]) -> None:
    """The page has the packed result that the test above looks into."""
    assert len(EMBEDDED.findall(FORMATS["html"](clean))) == 1


@pytest.mark.parametrize("line", [line for text in TEXTS for line in text.splitlines()])
def test_no_line_leaks(line: str) -> None:
    """Each planted line is clean when it is quoted, in capitals or not, even if nothing else names the secret."""
    for spelled in (line, line.upper(), line.lower()):
        assert left(Words(Names()).line(spelled)) == []


@pytest.mark.parametrize("line", [
    "payrolld;main;LedgerPost::entry;read;entry_SYSCALL_64",
    "\t    7f3a5b LedgerPost::entry(int, char const*)+0x1f (/opt/acmecorp/lib/libledger.so.3)",
    "\tffffffffc0a81000 ledgerpost_hook+0x10 ([acmecorp_filter])",
    "\tffffffffc0a81000 bpf_prog_6deef7357e7b4530_payroll ([kernel.kallsyms])",
    "mem.payrolld.rss=99887766 backup-zeusprod01-old xzeusprod01x ZEUSPROD01",
    "mount /dev/mapper/vg_acmedata-lv on /mnt/acmedata type nfs (addr=10.77.33.11)",
    "cgroup /sys/fs/cgroup/acmebilling.slice/payroll.service/memory.stat",
    "/home/WMEYER/.ssh/id_rsa ~wmeyer/x \\\\acmecorp\\walter C:\\Users\\wmeyer",
    "curl -u wmeyer:Hunter2Swordfish ftp://10.77.33.11:21/kundendaten?x=99887766&y=%77meyer",
    "zeus\u200bprod01 mu\u0308llerbank M\u00dcLLERBANK",
])  # fmt: skip
def test_no_form_of_a_name_leaks(line: str) -> None:
    """In stacks, paths, addresses, encoded or with marks in between, a name is a name."""
    done = Words(Names()).line(line)
    assert [*left(done), *(part for part in ("77meyer", "mu\u0308ller", "zeus") if part in done.casefold())] == []


def test_the_diagnosis_is_the_same(original: dict[str, Any], clean: dict[str, Any]) -> None:
    """Findings, outcomes, numbers and courses are those of the result as it was."""
    one, other = ({k: d[k] for k in d if k not in ("notes", "tool")} for d in (original, clean))
    assert [f for f in facts(other) if f != ("sha256", None)] == [f for f in facts(one) if f != ("sha256", None)]


def test_it_says_so(clean: dict[str, Any]) -> None:
    """A report says that it was redacted and what that does not promise, first among its notes."""
    assert clean["notes"][0] == {"text": NOTE}
    assert clean["tool"]["redacted"] is True
    assert "pseudonyms" in FORMATS["html"](clean)
    assert "pseudonyms" in FORMATS["text"](clean, Presentation(2))


def test_what_can_be_guessed_back_is_gone(clean: dict[str, Any]) -> None:
    """No checksum of a file is left, and no name of a finding that was made from the host's name."""
    assert {item["sha256"] for item in clean["inputs"]} == {None}
    for finding in clean["findings"]:
        assert finding["fingerprint"] == fingerprint(finding["rule"], clean["case"], finding.get("entity", ""))


def test_advice_and_kernel_stay(clean: dict[str, Any]) -> None:
    """What support needs is left: our words, kernel functions, counters, known programs and paths of the kernel."""
    text = json.dumps(clean)
    for word in ("compact_stall", "__alloc_pages_direct_compact", "/sys/kernel/mm/transparent_hugepage/defrag"):
        assert word in text


@pytest.mark.parametrize(
    "folder", sorted(p.parent for p in (ROOT / "fixtures" / "stories").glob("*/bundle")), ids=lambda folder: folder.name
)
def test_redacted_once_is_redacted(folder: Path) -> None:
    """Our own sentences stay as they are, and redacting a redacted result changes nothing."""
    result = analyze([folder / "bundle"], rule_set(()), Options())
    once = redact_result(result, Names())
    assert redact_result(json.loads(json.dumps(once)), Names()) == once
    own = [(a, b) for a, b in zip(result["findings"], once["findings"], strict=True)]
    assert all(a["remedies"] == b["remedies"] and a["means"] == b["means"] for a, b in own)
    expressions = [[r["tree"]["expr"] for r in one["rules"] if r["tree"]] for one in (once, result)]
    assert expressions[0] == expressions[1]
