"""`thpdiag ask`: the text for the customer's ticket, and the script that records just what is missing."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import result_of
from ci_schemas import with_findings
from command_line import ROOT, STORY, Run
from thpdiag.diagnosis import capture
from thpdiag.diagnosis.missing_data import REPEAT_COMMAND, REPEAT_SECONDS, request
from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.export.customer import FENCE, MAX_SECTIONS, Wanted, letter, missing_questions, with_script
from thpdiag.knowledge import vocabulary
from thpdiag.pipeline import analyze
from thpdiag.report.layout import WIDTH

SUDO = ROOT / "fixtures" / "stories" / "sudo-echo" / "bundle"
JAVA = ROOT / "fixtures" / "stories" / "voltdb-rhel66-kvm" / "bundle"
STORM = ROOT / "fixtures" / "captures" / "storm-thp-never" / "bundle"
KINDS = {  # what is left out of a capture, the sections that bring it back, those that would be for nothing
    "perf": (["perf-script.txt"], {"perf", "stacks"}, {"zones", "startup", "interrupts", "cpu"}),
    "counters": (["vmstat.txt", "mpstat.txt", "loops/counters.txt", "proc/vmstat"], {"counters", "cpu"}, {"zones"}),
}


@cache
def asked(path: Path) -> Wanted:
    return missing_questions(copy.deepcopy(result_of(path)))


def without(kind: str, folder: Path) -> Path:
    """A capture from which a part was left out."""
    copy = folder / kind
    shutil.copytree(STORM, copy)
    gone = [path for name in KINDS[kind][0] for path in copy.rglob(name)]
    assert gone
    for path in gone:
        path.unlink()
    return copy


def names_of(sections: list[capture.Section]) -> set[str]:
    return {section.name for section in sections}


@pytest.mark.parametrize("kind", KINDS)
def test_the_script_asks_for_what_was_left_out(kind: str, tmp_path: Path) -> None:
    """perf where there is no profile, counters where there are none, and nothing that one of them has already."""
    found = asked(without(kind, tmp_path))
    _, there, absent = KINDS[kind]
    names = names_of(list(found.sections))
    assert there <= names
    assert not names & absent
    if kind == "perf":
        assert "perf" not in names_of(list(asked(STORM).sections))


def test_what_is_confirmed_needs_no_letter(run: Run, tmp_path: Path) -> None:
    """It says so on stderr, and writes no file."""
    told = run("ask", STORY, "-o", tmp_path / "ticket.txt")
    assert (told.code, told.out) == (0, "")
    assert "Nothing is missing" in told.err
    assert list(tmp_path.iterdir()) == []


def test_the_letter_says_all_that_somebody_must_know_before_running_it_as_root() -> None:
    """What is known and missing, and why, how to run it, how long, what it costs, what it names and does not read."""
    text = letter(asked(SUDO))
    assert re.findall(r"^[A-Z].*[^.,\n]$", text, re.MULTILINE)[0] == "Known so far"
    assert "- Host node4: A write to the huge-page setting did not reach" in text
    assert "- call stacks of what runs on the CPUs: which function takes the time\n- the kernel's counters over" in text
    assert "WHILE THE HOST IS SLOW, as root: `sh thp-capture.sh`. It takes about 140" in text
    assert "perf looks at each CPU 99 times a second for at most 30 s" in text
    assert "names of processes, programs and functions" in " ".join(text.partition("The archive contains:")[2].split())
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


def test_a_finding_that_is_not_sure_asks_for_what_makes_it_surer() -> None:
    """Not for what other rules lack; the process that it is about is watched."""
    found = asked(JAVA)
    assert names_of(list(found.sections)) == {"host", "settings", "counters", "processes"}
    text = " ".join(letter(found).split())
    assert "This is likely, not certain: supported by measured growth or pace" in text
    assert "the kernel's counters over time: what it does for huge pages meanwhile" in text
    assert "If java is not among the largest processes, add `-p PID`" in text
    assert "It does not read: command lines of processes," in text


def test_the_first_request_is_for_the_few_that_decide_most() -> None:
    """Not for command lines and control groups, which touch what the call stacks and the counters touch already."""
    found = asked(SUDO)
    assert [s.name for s in found.ranked][:2] == ["perf", "counters"]
    assert len([s for s in found.sections if not s.always and not s.beside]) == MAX_SECTIONS
    assert {"tasks", "groups"} <= names_of(list(found.later))
    text = letter(found)
    assert "If that does not decide it, we will ask for memory of control groups" in text
    reasons = text.partition("and why\n")[2].partition("If that")[0].splitlines()
    assert len(reasons) == len(found.ranked)
    assert not names_of(list(found.later)) & names_of(list(found.sections))


def test_a_host_without_a_name_is_the_host() -> None:
    """Nobody's host is called `unnamed host`."""
    ask = {"text": "x", "commands": ["x"], "missing": ["profile"]}
    text = letter(missing_questions(with_findings(ask=ask, case="host", host={"name": "host"})))
    assert "- The host: " in text
    assert "as thp-capture.sh on the host.\n" in text
    assert "unnamed" not in text


def test_one_section_alone_does_not_wait() -> None:
    """A second request for one thing costs the customer more than that thing in the first one."""
    needs = ["profile", "kernel_log", "node_vmstat_compact_stall:rate", "process_anon_huge_bytes", "interrupts"]
    missing = [*needs, "tuned.profile"]
    for names, waits in ((missing[:5], 0), (missing, 2)):
        unknown = [{"rule": f"THP-{number}", "missing": [name]} for number, name in enumerate(names)]
        ask = {"text": "x", "commands": ["x"], "missing": names}
        found = missing_questions(with_findings(verdict={"status": "cannot_tell"}, unknown=unknown, ask=ask))
        assert len(found.later) == waits


def test_what_the_script_recorded_is_not_asked_for_by_name(tmp_path: Path) -> None:
    """A capture that cannot tell is to be made again, for longer; one that lacks a part is asked for that part."""
    host = {"verdict": {"status": "cannot_tell"}, "unknown": [{"rule": "THP-001", "missing": ["profile"]}]}
    found = missing_questions(
        with_findings(**host, ask={"text": "x", "commands": [REPEAT_COMMAND], "missing": ["profile"]})
    )
    assert (found.seconds, found.by_hand) == (REPEAT_SECONDS, [])
    assert "What was recorded does not show it. Record again," in letter(found)
    assert f"\nseconds={REPEAT_SECONDS}\n" in found.script()
    calm = result_of(STORM)["ask"]
    assert not {"dmesg", "cat /proc/meminfo"} & set(calm["commands"])
    cut = analyze([without("perf", tmp_path)], load_rules([builtin_rules()]))["ask"]
    assert cut["commands"][0] == request("profile")
    assert "ask for what the script did not record" in cut["text"]


def test_what_needs_no_time_takes_none() -> None:
    """Settings, start-up files and the kernel log are read once: the script does not record for two minutes."""
    host = {"verdict": {"status": "cannot_tell"}, "unknown": [{"rule": "THP-071", "missing": ["tuned.profile"]}]}
    found = missing_questions(with_findings(**host, ask={"text": "x", "commands": ["x"], "missing": ["tuned.profile"]}))
    assert found.seconds == 1
    assert "\nseconds=1\ninterval=1\n" in found.script()
    assert "As root, at any time" in letter(found)


def test_what_no_script_records_is_asked_for_by_hand() -> None:
    """A switch of a setting makes no script; names for an old recording come before."""
    ask = {"text": "x", "commands": ["sudo cat /proc/kallsyms > k"], "missing": ["recording.other_setting"]}
    found = missing_questions(with_findings(ask=ask))
    assert (found.script(), found.sections) == ("", [])
    assert found.by_hand[0] == "sudo cat /proc/kallsyms > k"
    assert len(found.by_hand) == 2
    text = letter(found)
    assert "By hand\n- sudo cat /proc/kallsyms > k\n- " in text
    assert "Save the script" not in text
    assert with_script(text, "") == text


def test_documents_of_before_tell_it_by_their_open_rules() -> None:
    """`ask.missing` may be absent."""
    document = with_findings(
        verdict={"status": "cannot_tell"},
        unknown=[{"rule": "THP-001", "missing": ["profile"], "ask_for": ["perf record"]}],
        ask={"text": "x", "commands": ["perf record"]},
    )
    assert names_of(list(missing_questions(document).sections)) == {"host", "settings", "perf", "stacks"}


def test_hosts_share_one_script(run: Run, tmp_path: Path) -> None:
    """What all hosts lack together; each has its sentence."""
    hosts: list[dict[str, Any]] = [
        {"schema": "thpdiag/result/1", "case": name,
         "verdict": {"status": "cannot_tell", "sentence": f"{name} is odd."},
         "ask": {"text": "x", "commands": ["x"], "missing": [missing]}}
        for name, missing in (("db1", "profile"), ("db2", "kernel_log"))
    ]  # fmt: skip
    path = tmp_path / "several.json"
    path.write_text(json.dumps({**hosts[0], "cases": hosts}))
    told = run("ask", path)
    assert "- Host db1: db1 is odd." in told.out
    assert "- Host db2: db2 is odd." in told.out
    assert "# Sections: host settings perf stacks kernel_log\n" in told.out


def test_text_and_script_in_one_piece_or_each_alone(run: Run, tmp_path: Path) -> None:
    """The piece is the text, and the script between the marks of Markdown, as they are alone."""
    whole, text, script = (run("ask", SUDO, *more).out for more in ((), ("--text-only",), ("--script-only",)))
    assert whole == f"{text}\n{FENCE}sh\n{script}{FENCE}\n"
    path = tmp_path / "thp-capture.sh"
    assert run("ask", SUDO, "--script-only", "-o", path, "--seconds", "30", "--interval", "5", "--pid", "12").out == ""
    assert "\nseconds=30\ninterval=5\npids='12'\n" in path.read_text()


@pytest.mark.parametrize("shell", ["dash", "busybox"])
def test_every_shell_takes_the_script(shell: str, tmp_path: Path) -> None:
    """No syntax error, and `-n` prints the plan and writes nothing."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "thp-capture.sh"
    path.write_text(asked(JAVA).script())
    command = [shell, *(["sh"] if shell == "busybox" else []), str(path), "-n"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "and runs:" in done.stdout
    assert [child.name for child in tmp_path.iterdir()] == ["thp-capture.sh"]


def test_shellcheck_has_nothing_to_say(tmp_path: Path) -> None:
    """About the shortest choice for each single name of the vocabulary that a script can record."""
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    choices = {tuple(s.name for s in capture.min_sections([name])): name for name in vocabulary.names()}
    for number, name in enumerate(sorted(name for sections, name in choices.items() if sections)):
        (tmp_path / f"{number}.sh").write_text(capture.script_of(capture.min_sections([name]), (), 120, 10))
    scripts = sorted(map(str, tmp_path.iterdir()))
    assert len(scripts) > 5
    command = ["shellcheck", "-s", "sh", "-e", "SC2034,SC2317,SC2329", *scripts]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == ""


def test_the_shortest_choice_has_what_the_whole_script_has() -> None:
    """What any section supplies is in it, over time if a section records it over time."""
    for name in (*vocabulary.names(), *capture.words()):
        ways = [section for section in capture.sections() if section.gives(name)]
        picked = capture.min_sections([name])
        assert bool(picked) is bool(ways), name
        if ways:
            assert any(s in ways for s in picked), name
            assert max(s.best_for(name) for s in picked if s in ways) == max(s.best_for(name) for s in ways), name


def test_every_section_says_what_it_is() -> None:
    """The letter names each; what runs all the time says so."""
    assert [section.name for section in capture.sections() if not section.what] == []
    rounds = {s.name for s in capture.sections() if f"{s.name}_round()" in s.fragment or "$seconds" in s.fragment}
    assert rounds <= {s.name for s in capture.sections() if s.lasts}


@pytest.mark.parametrize(
    ("paths", "code", "said"),
    [
        (["absent"], 3, "no such file"),
        ([SUDO, "result.json"], 2, "give one result"),
        (["odd.json"], 3, "no valid"),
    ],
)
def test_mistakes_of_a_user(
    run: Run, paths: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, the right exit code."""
    monkeypatch.chdir(tmp_path)
    empty: dict[str, Any] = {"schema": "thpdiag/result/1", "verdict": {"status": "nothing_found"}}
    (tmp_path / "result.json").write_text(json.dumps(empty))
    (tmp_path / "odd.json").write_text(json.dumps(empty | {"ask": {"commands": ["x"]}, "unknown": [1]}))
    told = run("ask", *paths)
    assert (told.code, said in told.err) == (code, True)


def test_hostile_words_do_not_end_the_script() -> None:
    """A name with the marks of Markdown, line ends or escapes stays one name; the script holds none of it."""
    document = with_findings(
        verdict={"status": "cannot_tell", "sentence": "x\n```\nrm -rf /\n\x1b[31m"},
        unknown=[{"rule": "```\n", "missing": ["profile", "x\n$(reboot)"]}],
        ask={"text": "x", "commands": ["```\nreboot"], "missing": ["profile", "x\n$(reboot)"]},
        case="```\nreboot",
    )
    found = missing_questions(document)
    whole = with_script(letter(found), found.script())
    assert len(re.findall(f"^{FENCE}", whole, re.MULTILINE)) == 2
    assert "\x1b" not in whole
    assert "reboot" not in found.script()


def test_the_page_names_the_command(run: Run) -> None:
    """Under what could not be decided, where commands to ask for stand; not where nothing is asked for."""
    command = "<code>thpdiag ask PAGE.html</code>"
    assert command in run("analyze", SUDO, "-f", "html").out
    assert command not in run("analyze", STORY, "-f", "html").out
