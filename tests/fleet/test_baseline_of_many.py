"""A baseline of a whole batch: the results of `thpdiag triage`, one after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ci_schemas import with_findings
from small_results import ANALYSIS, content
from thpdiag.cli import cli
from thpdiag.cli.baseline import documents
from thpdiag.cli.options import RuleChoice
from thpdiag.errors import InputError
from thpdiag.report import baseline
from thpdiag.report.baseline import read_baseline
from thpdiag.store.results import Analysis, BundleResult
from thpdiag.store.schema import DATABASE_NAME
from thpdiag.store.store import Store

FOUND = {"fingerprint": "0123456789abcdef", "entity": "redis (12)"}


def batch(folder: Path, *results: dict[str, Any] | None, analysis: Analysis = ANALYSIS) -> Path:
    with Store.open(folder, analysis) as store:
        for number, document in enumerate(results):
            status = "ok" if document is not None else "timeout"
            store.add(BundleResult(content(number), f"in/{number}.tar", 1, status, document=document))
    return folder


def created(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["baseline", "create", *map(str, arguments), "--reason", "as of spring"])


def host(number: int, **finding: Any) -> dict[str, Any]:
    return with_findings(FOUND | {"fingerprint": f"{number:016x}"} | finding, case=f"host{number}")


def test_a_batch_is_accepted_as_its_documents_are(tmp_path: Path) -> None:
    """The same bytes as of the saved results, whether the folder or the store is named."""
    results = [host(number) for number in range(5)]
    saved = []
    for number, document in enumerate(results):
        saved.append(tmp_path / f"{number}.json")
        saved[-1].write_text(json.dumps(document))
    folder = batch(tmp_path / "out", *results)
    made = []
    for number, paths in enumerate(([folder], [folder / DATABASE_NAME], saved)):
        file = tmp_path / f"baseline{number}"
        assert created(*paths, "-o", file).exit_code == 0
        made.append(file.read_bytes())
    assert made[0] == made[1] == made[2]
    assert {entry.host for entry in read_baseline(tmp_path / "baseline0")} == {f"host{number}" for number in range(5)}


def test_a_batch_is_read_one_result_after_the_other(tmp_path: Path) -> None:
    """Of 50 large documents never two are held; all but the findings and the name of a host is let go."""
    folder = batch(tmp_path / "out", *({**host(number), "notes": [{"text": "n" * 100_000}]} for number in range(50)))
    every = documents([folder], RuleChoice((), ()))
    assert iter(every) is every
    assert {len(one.model_dump_json()) < 20_000 for one in every} == {True}


def test_bundles_without_a_result_and_replaced_ones_are_no_entries(tmp_path: Path) -> None:
    """What nothing came of is said; of two analyses of a bundle the younger one counts."""
    folder = batch(tmp_path / "out", host(0, severity="low"), None, host(2))
    batch(folder, host(0, severity="high"), analysis=Analysis("9.9", "fedcba9876543210"))
    done = created(folder, "-o", tmp_path / "baseline")
    assert done.exit_code == 0
    assert "1 bundle without a result; no findings of these are accepted" in done.stderr
    weights = [(entry.host, entry.severity) for entry in read_baseline(tmp_path / "baseline")]
    assert weights == [("host0", "high"), ("host2", "high")]


def test_a_finding_of_no_form_makes_no_entry_and_spoils_no_file(tmp_path: Path) -> None:
    """A baseline that a damaged result made unreadable would let nothing through, or everything."""
    odd: list[Any] = [
        {"severity": "dire"}, {"fingerprint": "x"}, {"confidence": 1}, {"rule": ""}, {"title": ["a"]}, {"entity": {}},
    ]  # fmt: skip
    results = [host(number, **one) for number, one in enumerate(odd)]
    results += [
        {**host(6), "cases": 5, "findings": 1},
        {**host(7), "findings": "none"},
        {**host(8), "host": "name"},
        {**host(9), "findings": [1, None]},
    ]
    done = created(batch(tmp_path / "out", *results), "-o", tmp_path / "baseline")
    assert "8 findings in an invalid form; not accepted" in done.stderr
    assert [entry.host for entry in read_baseline(tmp_path / "baseline")] == ["host8"]


def test_a_batch_beside_a_result(tmp_path: Path) -> None:
    """Both are accepted."""
    (tmp_path / "one.json").write_text(json.dumps(host(77)))
    created(batch(tmp_path / "out", host(1)), tmp_path / "one.json", "-o", tmp_path / "baseline")
    assert len(read_baseline(tmp_path / "baseline")) == 2


def test_a_baseline_that_nobody_could_read_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit to the size of one that is read."""
    monkeypatch.setattr(baseline, "MAX_BASELINE_BYTES", 500)
    done = created(batch(tmp_path / "out", host(1), host(2)), "-o", tmp_path / "baseline")
    assert isinstance(done.exception, InputError)
    assert not (tmp_path / "baseline").exists()
