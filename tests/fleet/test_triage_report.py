"""`thpdiag triage report`: what it makes of a store, what it leaves alone, and with which exit code it ends."""

from __future__ import annotations

import json
import multiprocessing
import re
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from command_line import Run
from small_fleets import bundle, found, host, said, store
from small_results import ANALYSIS, content
from thpdiag.fleet import report as pages_module
from thpdiag.fleet.report import Pages, ReportOptions, ReportResult, atomic_file, make_redacted_report, make_report
from thpdiag.redact.names import Names
from thpdiag.report.baseline import Judge
from thpdiag.sandbox.preload import WorkerPool
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis, BundleResult
from thpdiag.store.store import Store

SAVED = Path(__file__).parents[2] / "fixtures/comparisons/storm-thp-never"
WELL = said("nothing_found")
TODAY = date(2027, 1, 1)


def results() -> list[BundleResult]:
    """A host with a finding, one that is well, one with an info only, a bundle without a result."""
    note = host("info1", WELL, unknown=[{"rule": "THP-001"}])
    note["findings"] = [{"rule": "CTX-05", "severity": "info"}]
    real = json.loads((SAVED / "before.json").read_text())
    return [bundle(1, real), bundle(2, host("web2", WELL)), bundle(3, note), bundle(4, reason="no result within 600 s")]


def made(folder: Path, judge: Judge | None = None, **wanted: Any) -> ReportResult:
    with StoreReader.at(folder) as reading:
        return make_report(reading, ReportOptions(**wanted), judge or Judge([], TODAY, {}))


def pages(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "hosts").glob("*"))


def page(number: int) -> str:
    return f"{content(number)[:12]}.html"


@pytest.mark.parametrize(
    ("which", "expected"),
    [(Pages.FINDINGS, [page(1)]), (Pages.ALL, sorted(map(page, (1, 2, 3)))), (Pages.NONE, [])],
)
def test_which_bundles_have_a_page(tmp_path: Path, which: Pages, expected: list[str]) -> None:
    """Those with a finding graver than info, all that have a result, or none; the index links those."""
    store(tmp_path, results())

    told = made(tmp_path, pages=which)

    index = (tmp_path / "index.html").read_text()
    assert (pages(tmp_path), told.pages) == (expected, len(expected))
    assert [name for name in map(page, range(1, 5)) if f'href="hosts/{name}"' in index] == [
        name for name in map(page, range(1, 5)) if name in expected
    ]


def test_a_page_is_that_of_the_result(tmp_path: Path, run: Run) -> None:
    """The page of a bundle gives its document back."""
    store(tmp_path, results())
    made(tmp_path)

    outcome = run("render", tmp_path / "hosts" / page(1), "-f", "json")

    assert json.loads(outcome.out) == json.loads(run("render", SAVED / "before.json", "-f", "json").out)


def test_a_page_that_is_there_is_left_alone(tmp_path: Path) -> None:
    """Until its result is another: a younger one, by other rules, or with other marks."""
    store(tmp_path, results())
    made(tmp_path)
    file = tmp_path / "hosts" / page(1)
    first = file.stat().st_ino

    made(tmp_path)
    assert file.stat().st_ino == first

    store(tmp_path, results()[:1], Analysis("1.1", "fedcba9876543210"))
    made(tmp_path)
    assert file.stat().st_ino != first


def test_a_page_that_was_cut_short_is_made_again(tmp_path: Path) -> None:
    """Whatever is there under its name."""
    store(tmp_path, results())
    made(tmp_path)
    file = tmp_path / "hosts" / page(1)
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])

    made(tmp_path)

    assert file.read_bytes() == whole
    assert pages(tmp_path) == [page(1)]


def test_processes_make_the_same_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their own connections to the store."""
    several = [bundle(number, host(f"db{number}", found("high"))) for number in range(1, 6)]
    for name, jobs in (("one", 1), ("two", 2)):
        monkeypatch.setattr(pages_module, "MIN_PAGES_FOR_POOL", 100 if jobs == 1 else 2)
        store(tmp_path / name, several)
        made(tmp_path / name, jobs=jobs)

    texts = [[file.read_text().rpartition("<!--")[0] for file in sorted((tmp_path / name / "hosts").iterdir())]
             for name in ("one", "two")]  # fmt: skip
    assert len(texts[0]) == 5
    assert texts[0] == texts[1]


def test_a_result_without_its_form_costs_its_own_page_only(tmp_path: Path) -> None:
    """It is said of which, and the index does not link what is not there."""
    broken = {**host("odd1", found("high")), "timeline": {"series": 3}, "rules": [[]]}
    store(tmp_path, [*results(), bundle(5, broken)])

    told = made(tmp_path)

    assert pages(tmp_path) == [page(1)]
    (warning,) = told.warnings
    assert warning.startswith("nightly/5.tar: its result is malformed")
    assert page(5) not in (tmp_path / "index.html").read_text()


def test_a_hash_of_a_stranger_is_no_path(tmp_path: Path) -> None:
    """A store that somebody else made could have anything for one."""
    outside = BundleResult("../../" + "a" * 58, "in/a", 1, "ok", document=host("a", found("high")))
    store(tmp_path / "out", [outside])

    assert made(tmp_path / "out").pages == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["out"]


def test_all_formats_are_written_and_none_in_part(tmp_path: Path, run: Run) -> None:
    """Of people and of CI, in one call; stdout has the text."""
    folder = store(tmp_path / "out", results())
    forms = ("csv", "github", "gitlab", "json", "junit", "markdown", "sarif", "text")
    outputs = [f"-o{form}={tmp_path / form}" for form in forms]

    outcome = run("triage", "report", folder, *outputs)

    assert outcome.code == 5
    assert outcome.out == (tmp_path / "text").read_text()
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([*forms, "out"])
    assert json.loads((tmp_path / "sarif").read_text())["version"] == "2.1.0"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 5), (["--fail-on", "high"], 1), (["--fail-on", "critical"], 5), (["--fail-on-missing"], 1),
        (["--fail-on", "high", "--suppress", "known.yaml"], 5), (["--fail-on", "often"], 2), (["-o", "pdf=x"], 2),
    ],
)  # fmt: skip
def test_the_exit_code(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int
) -> None:
    """A finding wins over a bundle without a result; an accepted one fails nothing."""
    monkeypatch.chdir(tmp_path)
    rules = {finding["mechanism"] for finding in (results()[0].document or {})["findings"]}
    Path("known.yaml").write_text("".join(f"- {{rule: {rule}, reason: known}}\n" for rule in sorted(rules)))
    store(tmp_path / "out", results())

    assert run("triage", "report", "out", *options).code == code


def test_a_fleet_without_trouble_ends_well(tmp_path: Path, run: Run) -> None:
    """0, and nothing on stderr."""
    outcome = run("triage", "report", store(tmp_path, [bundle(1, host("web1", WELL))]), "--fail-on", "info")

    assert (outcome.code, outcome.err) == (0, "")


def test_an_entry_without_effect_is_told(tmp_path: Path, run: Run) -> None:
    """On stderr, once for the whole fleet."""
    store(tmp_path / "out", results())
    (tmp_path / "known.yaml").write_text("- {rule: THP-999, reason: known}\n")

    outcome = run("triage", "report", tmp_path / "out", "--suppress", tmp_path / "known.yaml")

    assert "THP-999: accepts no finding of this input" in outcome.err


def test_no_store_is_one_sentence(tmp_path: Path, run: Run) -> None:
    """And makes nothing."""
    outcome = run("triage", "report", tmp_path)

    assert (outcome.code, outcome.err.count("\n"), list(tmp_path.iterdir())) == (3, 1, [])


def test_the_summary_of_a_step_is_added_to(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other commands of the step have written to it."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    run("triage", "report", store(tmp_path / "out", results()), "-o", f"markdown={summary}")

    assert summary.read_text().startswith("before\n## thpdiag: fleet\n")


def test_a_link_stays_one(tmp_path: Path, run: Run) -> None:
    """What it names is written anew."""
    (tmp_path / "there.txt").write_text("before\n" * 1000)
    link = tmp_path / "link.txt"
    link.symlink_to("there.txt")

    run("triage", "report", store(tmp_path / "out", results()), "-o", f"text={link}")

    assert link.is_symlink()
    assert (tmp_path / "there.txt").read_text().startswith("4 bundles, 3 hosts")
    assert "before" not in link.read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_one_sentence(tmp_path: Path, run: Run) -> None:
    """With the exit code of a full disk, and the store as it was."""
    outcome = run("triage", "report", store(tmp_path, results()), "-o", "text=/dev/full")

    assert (outcome.code, outcome.err.count("\n")) == (6, 1)
    assert "No space left on device" in outcome.err


def test_a_killed_report_leaves_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there stays until the new file is whole; nothing half-made is left by an error."""
    store(tmp_path, results())
    made(tmp_path)
    before = (tmp_path / "index.html").read_bytes()

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("thpdiag.fleet.report.write_page", cut)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path)

    assert (tmp_path / "index.html").read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))


def test_a_report_sees_one_moment_of_a_store_that_a_run_adds_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that comes while it is made is in none of its parts."""
    store(tmp_path, results())
    plan_pages = pages_module.plan_pages
    with Store.open(tmp_path, ANALYSIS) as writing:

        def planned(*arguments: Any) -> Any:
            yield from list(plan_pages(*arguments))
            writing.add(bundle(9, host("latecomer", WELL)))

        monkeypatch.setattr("thpdiag.fleet.report.plan_pages", planned)
        told = made(tmp_path)

    assert told.gate.bundles == 4
    assert "latecomer" not in (tmp_path / "index.html").read_text()


def test_two_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    """Each gives it its own whole text, and nothing else is left; what a kill left is used again."""
    file = tmp_path / "index.html"
    (tmp_path / ".index.html.part").write_text("half of an older page, longer than what comes")
    with atomic_file(file) as one:
        one.write("one")
        with atomic_file(file) as other:
            other.write("other")
        assert file.read_text() == "other"

    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("index.html", "one")]


@pytest.mark.parametrize("what", [("report", "-f", "json"), ("export", "-o", "csv=-")], ids=["report", "export"])
def test_a_closed_stdout_is_nobody_who_reads(what: tuple[str, ...], tmp_path: Path) -> None:
    """No mistake of ours: the page is made all the same."""
    store(tmp_path, [bundle(1, host("db1", WELL))])
    command = (sys.executable, "-m", "thpdiag", "triage", what[0], str(tmp_path), *what[1:])

    ended = subprocess.run(
        ("sh", "-c", 'exec "$@" >&-', "sh", *command), stderr=subprocess.PIPE, text=True, check=False, timeout=120
    )

    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False)


def test_processes_that_make_pages_never_hear_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in a terminal is for us, who hear it as before."""
    begun = {child.pid for child in multiprocessing.active_children()}
    deaf: list[bool] = []

    def stop(pool: WorkerPool) -> None:
        for child in multiprocessing.active_children():
            status = Path(f"/proc/{child.pid}/status").read_text()
            if child.pid not in begun:
                masks = re.findall(r"Sig(?:Blk|Ign):\s+(\w+)", status)
                deaf.append(any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in masks))
        real(pool)

    real = WorkerPool.stop
    monkeypatch.setattr(WorkerPool, "stop", stop)
    monkeypatch.setattr(pages_module, "MIN_PAGES_FOR_POOL", 2)
    store(tmp_path, [bundle(number, host(f"db{number}", found("high"))) for number in range(1, 6)])

    made(tmp_path, jobs=2)

    assert deaf
    assert all(deaf)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_redacted_reports_of_odd_stores(tmp_path: Path) -> None:
    """A result without the form of one is named and harms no other; an empty store has an empty report."""
    forms: list[dict[str, Any]] = [
        {"findings": [1]}, {"findings": "x"}, {"rules": 5}, {"host": "acme"}, {"cases": [7]}, {"problems": [None]},
        {"verdict": []}, {"tool": "x"}, {"inputs": {"a": 1}}, {"case": "acme", "verdict": "acme", "inputs": 7},
    ]  # fmt: skip
    odd = [bundle(20 + n, {"schema": "thpdiag/result/1", **one}) for n, one in enumerate(forms)]
    store(tmp_path / "odd", [*results(), *odd])
    store(tmp_path / "empty", [])
    for name in ("odd", "empty"):
        with StoreReader.at(tmp_path / name) as reading:
            wanted = ReportOptions([("json", tmp_path / f"{name}.json")], Pages.ALL)
            make_redacted_report(reading, wanted, Judge([], TODAY, {}), Names())
    told = json.loads((tmp_path / "odd.json").read_text())
    assert told["bundles"] == 4 + len(forms)
    assert told["statuses"]["damaged result"] > 0
    assert "acme" not in json.dumps(told)
    assert json.loads((tmp_path / "empty.json").read_text())["bundles"] == 0
