"""`thpdiag triage`: every bundle has its result or its reason, whatever the others do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hostile_archives as hostile
import planted_names
from command_line import ROOT, Run
from packed_bundles import files, gz, tar
from planted_names import SECRETS
from thpdiag.fleet.formats import CI_FORMATS
from thpdiag.store.reading import StoreReader
from triage_runs import STORY, Done, bad, command, ends, progress, results, small, triage

MIB = 1 << 20
GOOD = [f"in/web{number:04}" for number in range(4)]
ENDS = {
    "in/aborts": "signal 6",
    "in/allocates": "limit",
    "in/bomb.tar.gz": "refused",
    "in/cut.tar.gz": "partial",
    "in/endless": "limit",
    "in/kills_itself": "signal 9",
    "in/leaves": "bug",
    "in/nothing.txt": "refused",
    "in/pipe": "refused",
    "in/prints_without_end": "limit (output)",
    "in/raises": "partial",
    "in/story": "ok",
    "in/waits_without_end": "timeout",
    **dict.fromkeys(GOOD, "ok"),
}


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A folder of good and bad bundles, whose results are in `out`, and the run that made them."""
    folder = tmp_path_factory.mktemp("batch")
    place = small(folder / "in", 4)
    (place / "story").mkdir()
    shutil.copy(STORY, place / "story/session.txt")
    for word in ("aborts", "allocates", "raises", "leaves", "waits_without_end", "prints_without_end", "kills_itself"):
        bad(place / word, word)
    with (place / "bomb.tar.gz").open("wb") as out:
        hostile._bomb("gz")(out, 64)
    (place / "cut.tar.gz").write_bytes(gz(tar(files(STORY.parent)))[:-200])
    shutil.copytree(place / "web0000", place / "endless")
    with (place / "endless/messages").open("wb") as out:
        out.truncate(64 * MIB)
    os.mkfifo(place / "pipe")
    (place / "nothing.txt").write_text("a shopping list\n")
    return folder, triage(place, "--out-dir", folder / "out", "-j", "2", "--progress", "json")


def test_every_bundle_has_its_result_or_its_reason(batch: tuple[Path, Done]) -> None:
    """The good ones are done, whatever the others do; each of the others has a name for its end, and a reason."""
    folder, _ = batch
    found = results(folder / "out")

    assert {path: result.status for path, result in found.items()} == ENDS
    assert all(result.reason and "\n" not in result.reason for result in found.values() if result.status != "ok")
    assert "named pipe" in found["in/pipe"].reason
    assert "memory" in found["in/allocates"].reason
    assert "limit" in found["in/bomb.tar.gz"].reason
    assert found["in/kills_itself"].document is None


def test_the_documents_are_those_of_analyze(batch: tuple[Path, Done], run: Run) -> None:
    """The same bytes come to the same result, alone or among others."""
    folder, _ = batch
    found = results(folder / "out")

    assert found["in/story"].document == run("analyze", folder / "in/story", "-f", "json").document


def test_progress_for_machines(batch: tuple[Path, Done]) -> None:
    """A line of JSON after each bundle; the last one tells all."""
    lines = progress(batch[1].stderr)

    assert [line["done"] for line in lines] == list(range(1, len(ENDS) + 1))
    assert (lines[-1]["found"], lines[-1]["listed"], lines[-1]["findings"]["high"]) == (len(ENDS), True, 3)


def test_nothing_is_left_behind(batch: tuple[Path, Done]) -> None:
    """No file that was unpacked or fetched stays, and no process."""
    folder, _ = batch

    assert not (folder / "out/scratch").exists()
    assert not [line for line in Path("/proc").glob("[0-9]*/cmdline") if _of(folder, line)]


def _of(folder: Path, line: Path) -> bool:
    try:
        return os.fsencode(folder) in line.read_bytes()
    except OSError:  # it has ended
        return False


def test_results_that_are_there_are_not_written_over(batch: tuple[Path, Done], run: Run) -> None:
    """Without --resume a folder with results is refused, and stays as it is."""
    folder, _ = batch
    before = ends(folder / "out")
    again = run("triage", folder / "in", "--out-dir", folder / "out")

    assert (again.code, "--resume" in again.err) == (2, True)
    assert ends(folder / "out") == before


def test_resume_does_what_is_new(tmp_path: Path) -> None:
    """By content: a bundle that changed is done, one that has another name is not; failures wait to be asked for."""
    place, out = small(tmp_path / "in", 2), tmp_path / "out"
    bad(place / "bad", "aborts")
    triage(place, "--out-dir", out, "-j", "1")
    (place / "web0001").rename(place / "other")
    (place / "web0000/proc/loadavg").write_text("0.41 0.32 0.20 2/345 6789\n")
    first = triage(place, "--out-dir", out, "-j", "1", "--resume", "--progress", "json")
    again = triage(place, "--out-dir", out, "-j", "1", "--resume", "--retry-failed", "--progress", "json")

    told = [
        (line["skipped"], sum(line["statuses"].values())) for line in (progress(r.stderr)[-1] for r in (first, again))
    ]
    assert told == [(2, 1), (2, 1)]
    with StoreReader.at(out) as store:
        every = sorted((one.result.path, one.result.status, one.result.attempts) for one in store.results())
    assert every == [
        ("in/bad", "signal 6", 2), ("in/web0000", "ok", 1), ("in/web0000", "ok", 1), ("in/web0001", "ok", 1),
    ]  # fmt: skip


def test_every_failed_upload_is_told_by_its_name(tmp_path: Path, run: Run) -> None:
    """They are all alike, empty or the same page of an error; one that succeeds later leaves no word of its failure."""
    place, out = small(tmp_path / "in", 1), tmp_path / "out"
    for name in ("web1", "web2"):
        (place / f"{name}.tar.xz").touch()
        (place / f"{name}.txt").write_text("<Error><Code>AccessDenied</Code></Error>\n")
    first = run("triage", place, "--out-dir", out, "-j", "1")
    failed = {f"in/{name}.{kind}" for name in ("web1", "web2") for kind in ("tar.xz", "txt")}

    assert first.code == 5
    assert {path: result.status for path, result in results(out).items()} == {
        "in/web0000": "ok",
        **dict.fromkeys(failed, "refused"),
    }
    for number, path in enumerate(sorted(failed)):
        place.parent.joinpath(path).write_text(f"nr_free_pages {number}\ncompact_stall 1\n")
    run("triage", place, "--out-dir", out, "-j", "1", "--resume")

    assert {result.status for result in results(out).values()} <= {"ok", "partial"}
    assert set(results(out)) == {"in/web0000", *failed}


def test_a_host_that_came_unpacked_beside_archives_of_others(tmp_path: Path, run: Run) -> None:
    """Its files are no archive of the collection, and have a result nevertheless; one with packed logs is one host."""
    hosts = small(tmp_path / "hosts", 3)
    packed = {f"c/web{number}.tar.gz": gz(tar(files(hosts / f"web{number:04}"))) for number in (0, 1)}
    plain = {f"c/web2/proc/{name}": (hosts / f"web0002/proc/{name}").read_bytes() for name in ("meminfo", "vmstat")}
    logs = {f"c/{name}-logs.tar.gz": gz(tar({f"{name}.log": os.urandom(900)})) for name in ("hadoop", "yarn")}
    (tmp_path / "in").mkdir()
    (tmp_path / "in/several.tar").write_bytes(tar({**packed, **plain}))
    (tmp_path / "in/case.tar").write_bytes(tar({**logs, **{path.rpartition("/")[2]: plain[path] for path in plain}}))
    ended = run("triage", tmp_path / "in", "--out-dir", tmp_path / "out", "-j", "1")

    assert {path: result.status for path, result in results(tmp_path / "out").items()} == {
        "in/several.tar/web0.tar.gz": "ok",
        "in/several.tar/web1.tar.gz": "ok",
        "in/several.tar/(beside its archives)": "ok",
        "in/case.tar": "ok",
    }
    assert ended.code == 0


def test_the_same_content_twice_is_one_result(tmp_path: Path, run: Run) -> None:
    """Two copies in one run: whichever comes first is stored, the other is counted."""
    place = small(tmp_path / "in", 1)
    shutil.copytree(place / "web0000", place / "copy")
    ended = run("triage", place, "--out-dir", tmp_path / "out", "-j", "1", "--progress", "json")

    assert progress(ended.err)[-1]["twice"] == 1
    assert len(results(tmp_path / "out")) == 1


def test_the_folder_of_results_is_no_bundle(tmp_path: Path, run: Run) -> None:
    """It may lie within what is named."""
    place = small(tmp_path, 1)
    run("triage", place, "--out-dir", place / "out", "-j", "1")
    run("triage", place, "--out-dir", place / "other", "-j", "1")

    assert list(ends(place / "other")) == [f"{place.name}/web0000"]


@pytest.mark.parametrize("wrong", [("--shard", "3/2"), ("no-such-place",), (), ("--from", "no-such-list")])
def test_mistakes_are_told_before_anything_begins(wrong: tuple[str, ...], tmp_path: Path, run: Run) -> None:
    """Exit 2 or 3, one sentence, and no store."""
    ended = run("triage", *wrong, "--out-dir", tmp_path / "out")

    assert (ended.code in {2, 3}, len(ended.err.splitlines())) == (True, 1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("files", [12, 20])
def test_too_few_open_files_are_told_before_anything_begins(files: int, tmp_path: Path) -> None:
    """One sentence that says how many it takes."""
    command = f'ulimit -n {files}; exec "$0" -m thpdiag triage "$1" -j 2 --out-dir "$2"'
    words = ["sh", "-c", command, sys.executable, str(small(tmp_path, 1)), str(tmp_path / "out")]
    ended = subprocess.run(words, capture_output=True, check=False, cwd=ROOT)
    text = f"the open file limit is {files}, but 2 jobs need 40"

    assert (ended.returncode, ended.stdout) == (6, b"")
    assert ended.stderr.decode().splitlines() == [
        f"thpdiag: {text}: raise the limit (`ulimit -n 40`), or use fewer jobs (-j)"
    ]
    assert not (tmp_path / "out").exists()


def test_resume_counts_all_that_is_stored(tmp_path: Path, run: Run) -> None:
    """The last line of a run that finds everything done is that of the first one."""
    shutil.copytree(STORY.parent, tmp_path / "in" / "shop1")
    (tmp_path / "in" / "notes.txt").write_text("no bundle\n")
    told = ("triage", tmp_path / "in", "--out-dir", tmp_path / "out", "--pages", "none")
    first, again = run(*told), run(*told, "--resume")
    lines = [one.err.splitlines()[-1] for one in (first, again)]
    assert lines[0] == lines[1]
    assert "2 high" in lines[0]
    assert lines[0].endswith("1 incomplete")
    last = progress(run(*told, "--resume", "--progress", "json").err)[-1]
    assert (last["skipped"], last["hosts"], last["findings"]["high"], last["statuses"]) == (1, 1, 2, {"refused": 1})


def test_redacted_reports_have_no_name_of_a_customer(tmp_path: Path) -> None:
    """In no format, page or message, of a bundle, a stray file and one that is damaged; the results keep them."""
    (tmp_path / "in" / "acmecorp").mkdir(parents=True)
    whole = planted_names.bundle(tmp_path / "in" / "acmecorp")
    (tmp_path / "in" / "acmecorp" / "wmeyer-notes.txt").write_text("ask walter\n")
    (tmp_path / "in" / "acmecorp" / "zeusprod.tar.gz").write_bytes(b"\x1f\x8b\x08\0damaged")
    out = tmp_path / "out"
    files = {form: tmp_path / f"report.{form}" for form in ("text", "json", "csv", "markdown", *CI_FORMATS)}
    asked = [word for form, file in files.items() for word in ("-o", f"{form}={file}")]
    plain = triage(tmp_path / "in", "--out-dir", out, "--pages", "all", mocked=False)
    done = triage("report", out, "--redact", "--pages", "all", "-f", "json", *asked, mocked=False)

    assert (plain.returncode, done.returncode) == (5, 5)
    assert "zeusprod" in plain.stdout
    made = [done.stdout, done.stderr, *(file.read_text() for file in (*files.values(), *out.rglob("*.html")))]
    assert len(made) == 2 + len(files) + 2
    assert [(word, text[:80]) for text in made for word in SECRETS if word in text.lower()] == []
    assert "host1" in done.stdout
    assert [file.name for file in out.iterdir() if file.name.startswith(".thpdiag")] == []
    assert f"in/acmecorp/{whole.name}" in results(out)


def test_redacted_exports_have_no_name_of_a_customer(tmp_path: Path) -> None:
    """In no table, and in no byte of the copy, of which reports can be made; the results keep them."""
    (tmp_path / "in" / "acmecorp").mkdir(parents=True)
    planted_names.bundle(tmp_path / "in" / "acmecorp")
    out, shared = tmp_path / "out", tmp_path / "shared"
    shared.mkdir()
    triage(tmp_path / "in", "--out-dir", out, mocked=False)
    for name in ("rows.csv", "rows.jsonl", "results.sqlite"):
        assert triage("export", out, "--redact", "-o", shared / name, mocked=False).returncode == 0
    packed = (result.result.document for result in StoreReader.at(shared).results())
    made = [json.dumps(list(packed)), *(file.read_bytes().decode("latin-1") for file in sorted(shared.iterdir()))]

    assert [(word, text[:80]) for text in made for word in SECRETS if word in text.lower()] == []
    assert triage("report", shared, "-f", "json", mocked=False).returncode == 0
    assert "zeusprod" in json.dumps([one.result.document for one in StoreReader.at(out).results()])


def test_redacted_reports_accept_what_the_baseline_does(tmp_path: Path, run: Run) -> None:
    """It names hosts as they are; a suppression too. The same mapping gives the same pseudonym."""
    shutil.copytree(STORY.parent, tmp_path / "in" / "shop1")
    out, baseline, names = tmp_path / "out", tmp_path / "baseline.json", tmp_path / "names.json"
    run("triage", tmp_path / "in", "--out-dir", out, "--pages", "none")
    run("baseline", "create", out, "-o", baseline, "--reason", "known on shop1")
    (tmp_path / "accepted.yaml").write_text("- {rule: THP-041, host: shop1, reason: known}\n")
    asked = ("triage", "report", out, "--redact", "--fail-on", "high", "-f", "json")

    assert run(*asked).code == 1
    accepted = run(*asked, "--baseline", baseline, "--redact-map", names)
    assert (accepted.code, accepted.document["hosts"][0]["accepted"]) == (0, True)
    assert "shop1" not in accepted.out + (out / "index.html").read_text()
    assert json.loads(names.read_text())["hostname_map"]["shop1"] == accepted.document["hosts"][0]["name"]
    assert run(*asked, "--suppress", tmp_path / "accepted.yaml").document["gate"]["failing"] < 2


def test_a_reader_that_goes_away_costs_no_file_and_no_exit_code(tmp_path: Path) -> None:
    """`| head`: no word on stderr; the other files are written, the gate decides."""
    shutil.copytree(STORY.parent, tmp_path / "in" / "shop1")
    out, junit = tmp_path / "out", tmp_path / "junit.xml"
    commands = [
        command(tmp_path / "in", "--out-dir", out, "--pages", "none", "--progress", "no", "--fail-on", "high",
                "-o", f"junit={junit}", mocked=False),
        [sys.executable, "-m", "thpdiag", "analyze", str(STORY), "-f", "json", "--fail-on", "high",
         "-o", f"junit={tmp_path / 'one.xml'}"],
    ]  # fmt: skip
    for asked, file in zip(commands, (junit, tmp_path / "one.xml"), strict=True):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(asked, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writing)
        assert (done.returncode, done.stderr) == (1, "")
        assert file.read_text().startswith("<?xml")
