"""Wrong invocations: one or two lines on stderr with what is wrong and a way out, in one style; nothing on stdout."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from command_line import ROOT, STORY, Run

SAVED = str(ROOT / "tests/results/found.json")
KNEE = ROOT / "fixtures/captures/knee/bundle"
WRONG = [  # the command with {tmp} for a folder, its exit code, a word of the mistake, a word of the way out
    ("analyse {story}", 2, "no command 'analyse'", "did you mean 'analyze'?"),
    ("rule list", 2, "no command 'rule'", "did you mean 'rules'?"),
    ("frobnicate", 2, "no command 'frobnicate'", "thpdiag --help"),
    ("rules lst", 2, "no command 'lst'", "; did you mean 'list'?"),
    ("rules lnit", 2, "no command 'lnit'", "; did you mean 'lint' or 'list'?"),
    ("triage mrege", 2, "no command 'mrege'", "did you mean 'merge'?"),
    ("help rendr", 2, "no command 'rendr'", "did you mean 'render'?"),
    ("completion tcsh", 2, "'tcsh'", "'bash', 'zsh', 'fish'"),
    ("analyze", 2, "missing argument", "thpdiag analyze --help"),
    ("analyze {story} --fromat json", 2, "no such option '--fromat'", "--format"),
    ("analyze {story} -f pdf", 2, "'pdf'", "'html'"),
    ("analyze {story} -o report.pdf", 2, "report.pdf", "FORMAT=PATH"),
    ("analyze {story} -o html={tmp}/none/report.html", 2, "cannot be written: no such folder", "create it first"),
    ("analyze {story} -o {tmp}/empty", 2, "empty is a folder", "empty/report.html"),
    ("flame {story} -o {tmp}/empty", 2, "empty is a folder", "name a file in it"),
    ("analyze {story} -o html={tmp}/empty", 2, "empty is a folder", "name a file in it"),
    (
        "series {tmp}/memory.txt MemFree -o csv=/proc/x.csv",
        2,
        "/proc/x.csv: cannot be written",
        "; choose a folder that exists",
    ),
    ("analyze {story} --since", 2, "option '--since' requires an argument", "see `thpdiag analyze --help`"),
    ("analyze {story} --until", 2, "option '--until' requires an argument", "see `thpdiag analyze --help`"),
    ("triage run {story} --out-dir", 2, "option '--out-dir' requires an argument", "see `thpdiag triage run --help`"),
    ("rules lint --rules", 2, "option '--rules' requires an argument", "see `thpdiag rules lint --help`"),
    ("--config", 2, "option '--config' requires an argument", "see `thpdiag --help`"),
    ("analyze {story} --fail-on worst", 2, "'worst'", "'critical'"),
    ("analyze {story} --color pink", 2, "'pink'", "'never'"),
    ("analyze {story} --progress bar", 2, "'bar'", "'auto'"),
    ("analyze {story} --since yesterday", 2, "yesterday", "write"),
    ("analyze {story} --since 10:00 --until 09:00", 2, "--until 09:00 is before --since 10:00", "; swap the two"),
    ("analyze {story} --at 10:00 --since 09:00", 2, "use --at alone", "--since and --until"),
    ("analyze {story} -o json=- -o html=-", 2, "two formats cannot both go to stdout", "; name another file"),
    ("analyze {story} --max-memory 1", 2, "at least", "256 MiB"),
    ("analyze {story} --max-time 0", 2, "at least 1 s", "written like '10 min'"),
    ("analyze {story} --set foo", 2, "not 'foo'", "--set takes RULE.PARAM=VALUE"),
    ("analyze {story} --set THP-013.often=fast", 2, "'fast' is not a number", "the rule has 0.05 /s"),
    ("analyze {story} --timings={saved}", 2, "already exists", "--timings=- is stderr"),
    ("analyze {story} --rules {tmp}/empty", 2, "has no rules", "thpdiag rules new"),
    ("analyze {story} --rules {tmp}/absent", 2, "does not exist", "thpdiag analyze --help"),
    ("analyze {story} --set THP-1.x=2", 2, "THP-1", "THP-"),
    ("analyze {story} --suppress {tmp}/absent.yaml", 2, "absent.yaml", "read"),
    ("analyze {story} --process nosuch", 2, "no process 'nosuch'", "omit --process"),
    (f"analyze {KNEE} --process nosuch", 2, "no process 'nosuch'", "give a PID or a command name"),
    (f"flame {KNEE} --process grwo", 2, "no process 'grwo'", "; did you mean 'grow'?"),
    ("analyze {saved}", 3, "the input is a report of thpdiag", "`thpdiag render` shows a saved result"),
    ("inputs {saved}", 3, "the input is a report of thpdiag", "`thpdiag render` shows a saved result"),
    ("render {tmp}/cut.json", 3, "no thpdiag result", "; if it is cut off, copy it again"),
    ("serve --config {tmp}/bad.toml", 2, "not valid TOML", "at line 1"),
    ("analyze {tmp}/bundel", 3, "no such file or folder", "did you mean 'bundle'?"),
    ("analyze {tmp}/absent", 3, "no such file or folder", "check the path"),
    ("analyze {tmp}/no/where", 3, "no such file or folder", "no such folder"),
    (
        "analyze https://example.org/sosreport.tar.xz",
        3,
        "https://example.org/sosreport.tar.xz is an address",
        "download",
    ),
    ("analyze {tmp}/empty", 3, "the folder has no files", "check the path"),
    ("analyze {tmp}/empty.tar", 3, "the file is empty", "ask for it again"),
    ("analyze -", 3, "standard input is empty", "the command before the pipe"),
    ("inputs {tmp}/empty.tar", 3, "the file is empty", "ask for it again"),
    ("explain THP-999", 2, "no rule 'THP-999'", "thpdiag rules list"),
    ("explain THP-1", 2, "no rule 'THP-1'", "did you mean 'ALT-01' or 'THP-001'?"),
    ("rules show compation", 2, "no rule 'compation'", "thpdiag rules list"),
    ("rules facts frobnication", 2, "no fact or metric matches", "thpdiag rules facts"),
    ("rules lint {tmp}/empty", 2, "has no rules", "thpdiag rules new"),
    ("rules lint {tmp}/notes.txt", 2, "notes.txt' is a file, not a folder", "thpdiag rules lint --help"),
    ("rules lint {tmp}/absent", 2, "folder '", "thpdiag rules lint --help"),
    ("doctor --config {tmp}/empty", 2, "empty' is a folder, not a file", "thpdiag doctor --help"),
    ("render {tmp}/notes.txt", 3, "no thpdiag result", "thpdiag analyze"),
    ("render {tmp}/later.json", 3, "no valid thpdiag result", "; update thpdiag if a later version wrote it"),
    ("render {tmp}/other.json", 3, "no thpdiag result", "thpdiag analyze"),
    ("triage run {tmp}/empty --out-dir {tmp}/out", 3, "holds no bundle", "check the path"),
    ("triage run {tmp}/absent --out-dir {tmp}/out", 3, "does not exist", "check the path"),
    ("triage run {tmp}/*.zip --out-dir {tmp}/out", 3, "nothing matches this pattern", "check the path"),
    ("triage merge {tmp}/empty", 3, "no such store", "the output folder of `thpdiag triage`"),
    ("triage run {story} --out-dir /proc/x", 3, "/proc/x: cannot be written (No such", "; choose a folder that exists"),
    ("triage run {story} --out-dir {tmp}/notes.txt", 2, "notes.txt' is a file, not a folder", "run --help"),
    ("serve --data /proc/x", 3, "/proc/x: cannot be written (No such", "; choose a folder that exists"),
    ("serve backup /proc/x.tar --data {tmp}/data", 2, "/proc/x.tar: cannot be written", "; choose a folder that"),
    ("serve restore {tmp}/notes.txt --data /proc/x", 3, "/proc/x: cannot be written", "; choose a folder that exists"),
    ("compare {story} {tmp}/absent", 3, "no such file or folder", "check the path"),
    ("series {story}", 2, "name a metric", "--list"),
    ("series {tmp}/switch.txt node_vmstat_compact_stall", 3, "values over time", "thpdiag inputs"),
    ("series {tmp}/memory.txt node_vmstat_compact_stall", 3, "is not in the input (", "; --list shows all"),
    ("series {tmp}/memory.txt compact_stal", 3, "compact_stal is not in the input", "; --list shows all"),
    ("series {tmp}/memory.txt MemFre", 3, "names with it are", "node_memory_MemFree_bytes"),
    ("series {tmp}/memory.txt node_memory_MemFere_bytes", 3, "is not in", "did you mean 'node_memory_MemFree_bytes'?"),
    ("flame {story} --member nosuch", 2, "no profile nosuch", "there are ticket.txt:9"),
    ("reproduce fault", 2, "no program reproduces 'fault'", "fault-compaction"),
    ("baseline show {saved}", 2, "not a baseline", "`thpdiag baseline create` writes one"),
    ("triage --out-dir {tmp}/out", 2, "no bundles given", "add paths"),
    ("triage run {story} --out-dir {tmp}/out --shard 3/2", 2, "not '3/2'", "with I from 1 to N"),
    ("triage run {story} --out-dir {tmp}/out --scheduler foo", 2, "not 'foo'", "tcp://HOST:PORT"),
    ("serve --host 0.0.0.0", 2, "there is no login", "tokens, proxy or oidc"),
    ("flame {story} -o {tmp}/flame.svg", 2, "does not write svg", "formats are folded, json, speedscope"),
    ("rules docs -o {tmp}/rules.html", 2, "does not write html", "formats are markdown"),
    ("ask {story} -o script={tmp}/none/x.sh", 2, "cannot be written", "no such folder"),
    ("triage {story} --out-dir {tmp}/out --progress bar", 2, "'bar'", "'none'"),
    ("baseline create {saved} -o {tmp}/b.json", 2, "missing option '--reason'", "thpdiag baseline create --help"),
]


@pytest.mark.parametrize(("command", "code", "mistake", "way_out"), WRONG, ids=[row[0] for row in WRONG])
def test_a_wrong_invocation_has_a_way_out(
    command: str, code: int, mistake: str, way_out: str, tmp_path: Path, run: Run
) -> None:
    """`thpdiag: ` and at most two lines; as text nothing is diagnosed of what is not there."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "empty.tar").touch()
    (tmp_path / "notes.txt").write_text("It was a dark and stormy night.\n")
    (tmp_path / "switch.txt").write_text("$ cat /sys/kernel/mm/transparent_hugepage/enabled\n[always] madvise never\n")
    (tmp_path / "memory.txt").write_text(
        "$ cat /proc/meminfo\nMemTotal:  24684092 kB\nMemFree:  1468409 kB\nBuffers:  4096 kB\nCached:  8192 kB\n"
    )
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "cut.json").write_text('{"schema": "thpdiag/result/1", "case')
    (tmp_path / "bad.toml").write_text("x = = 1")
    (tmp_path / "later.json").write_text('{"schema": "thpdiag/result/9"}')
    words = command.format(tmp=tmp_path, story=STORY, saved=SAVED).split()
    done = run(*words)
    assert (done.code, done.out) == (code, "")
    assert len(done.err.splitlines()) <= 2
    assert done.err.startswith(("thpdiag: ", SAVED))  # of a damaged file its place, as editors and CI want it
    assert mistake in done.err
    assert way_out in done.err


def test_a_baseline_of_another_format_names_the_one_that_is_expected(tmp_path: Path, run: Run) -> None:
    """The place first, as editors and CI want it, then the line."""
    (tmp_path / "notes.txt").write_text("It was a dark and stormy night.\n")
    done = run("analyze", STORY, "--baseline", tmp_path / "notes.txt")
    assert (done.code, done.out) == (2, "")
    assert "notes.txt:1:1: a baseline is JSON, as `thpdiag baseline create` writes it: " in done.err


def test_an_archive_without_members_is_a_document_in_json(tmp_path: Path, run: Run) -> None:
    """Programs that read JSON get theirs whatever was wrong."""
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    for path in (tmp_path / "empty.tar", tmp_path / "absent"):
        done = run("analyze", path, "-f", "json")
        assert done.code == 3
        assert done.document["verdict"]["status"] == "cannot_tell"


@pytest.mark.parametrize("words", [("fault-compaction",), ("FAULT-COMPACTION",), ("direct", "thp", "faults")])
def test_a_rule_is_found_by_mechanism_and_words(words: tuple[str, ...], run: Run) -> None:
    """Of several the gravest cause."""
    assert run("rules", "show", *words).out.startswith("id: THP-010")
    assert run("explain", " ".join(words)).out.startswith("THP-010 ")


def test_help_is_that_of_the_option(run: Run) -> None:
    """`help X Y` is `X Y --help`; without a command that of the program."""
    assert run("help", "rules", "lint").out.split() == run("rules", "lint", "--help").out.split()
    assert run("help", "triage", "merge").out.split() == run("triage", "merge", "--help").out.split()
    assert "analyze" in run("help").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str, run: Run) -> None:
    """Which calls thpdiag."""
    assert "_THPDIAG_COMPLETE" in run("completion", shell).out


def test_the_vocabulary_of_rules_is_listed(run: Run) -> None:
    """Name, kind, meaning, the command that prints it, and who uses it; in JSON too."""
    out = run("rules", "facts", "compact_stall").out
    assert out.startswith("node_vmstat_compact_stall  (counter")
    assert "THP-012" in out
    assert "$ cat /proc/vmstat" in out
    (first, *_) = json.loads(run("rules", "facts", "compact_stall", "-f", "json").out)
    assert first["name"] == "node_vmstat_compact_stall"
    assert "THP-012" in first["rules"]


def test_series_takes_the_format_as_other_commands_do(run: Run, tmp_path: Path) -> None:
    """`-f` for stdout, `-o` by suffix."""
    bundle = ROOT / "fixtures/captures/churn-never/bundle"
    listed = run("series", bundle, "compact_stall", "-f", "json").out
    run("series", bundle, "compact_stall", "-o", tmp_path / "rows.json")
    assert (tmp_path / "rows.json").read_text() == listed


def test_output_takes_a_format_and_a_path_in_every_command(run: Run, tmp_path: Path) -> None:
    """`-o FORMAT=PATH`, or by suffix; of `.json` the one of both formats that `-f` names."""
    bundle, quiet = (ROOT / f"fixtures/captures/{name}/bundle" for name in ("storm-always", "churn-never"))
    names = ("a.folded", "b.json", "c.speedscope.json", "d.json", "e.txt")
    a, b, c, d, e = (tmp_path / name for name in names)
    run("flame", bundle, "-o", a, "-o", b, "-o", c, "-o", e)
    run("flame", bundle, "-f", "speedscope", "-o", d)
    assert a.read_text() == e.read_text() == run("flame", bundle).out
    assert json.loads(b.read_text())["by"] == "comm"
    assert c.read_text() == d.read_text() == run("flame", bundle, "-f", "speedscope").out
    run("ask", quiet, "-o", tmp_path / "letter", "-o", tmp_path / "x.sh", "-o", f"text={tmp_path / 'y'}")
    assert (tmp_path / "x.sh").read_text() == run("ask", quiet, "--script-only").out
    assert (tmp_path / "y").read_text() == run("ask", quiet, "--text-only").out
    assert (tmp_path / "letter").read_text() == run("ask", quiet).out
    run("baseline", "create", bundle, "--reason", "known", "-o", f"json={tmp_path / 'base'}")
    assert json.loads((tmp_path / "base").read_text())["accepted"]
    run("rules", "docs", "-o", f"markdown={tmp_path / 'rules'}")
    assert (tmp_path / "rules").read_text().startswith("#")


def test_a_comparison_has_the_colours_of_a_report(run: Run) -> None:
    """Of what became of the host, headings and labels; none if nobody asked for them."""
    sides = [ROOT / "fixtures/comparisons/storm-thp-never" / f"{side}.json" for side in ("before", "after")]
    plain, coloured = (run("compare", *sides, "--color", mode).out for mode in ("never", "always"))
    assert "\x1b" not in plain
    assert coloured.startswith("\x1b[1;32m")
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured).split() == plain.split()


def test_rules_facts_names_the_parsers(run: Run) -> None:
    """Those that read a name; of a derived one that it is computed."""
    (swap,) = json.loads(run("rules", "facts", "node_vmstat_compact_stall", "-f", "json").out)
    assert "proc_vmstat" in swap["parsers"]
    assert "read by: " in run("rules", "facts", "numa.nodes").out
    assert "computed from: other facts and metrics" in run("rules", "facts", "memory.available_ratio").out


@pytest.mark.parametrize("words", [(), ("triage",), ("rules",), ("serve", "token")])
def test_a_group_without_a_command_shows_its_help(words: tuple[str, ...], run: Run) -> None:
    """It is a wrong command line, exit code 2, and not a closed pipe."""
    done = run(*words)
    assert done.code == 2
    assert f"Usage: {' '.join(('thpdiag', *words))}" in " ".join((done.out + done.err).split())
