"""`thpdiag flame`: what is written is what was recorded, in forms that viewers read."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from analyze_bytes import STDIN, STRICT
from command_line import ROOT, STORY, Run, at_a_terminal
from thpdiag.engine.state_view import compiled_profile
from thpdiag.export.flame import By, Weight, count_stacks, document, folded_text, label, label_stacks, schema
from thpdiag.host.cases import host_cases
from thpdiag.host.reading import read_input
from thpdiag.knowledge.symbols import families
from thpdiag.model import Citation, Clock, Frame, Moment, Profile, StackCounts, Stacks, Task

READERS = ROOT / "fixtures" / "readers"
SCRIPT = READERS / "perf_script" / "default"
TOP = READERS / "perf_top" / "el6"
CITE = Citation("perf.txt", 1, "")
LINE = re.compile(r"[^;]+(?:;[^;]+)*;?\S* \d+$")


def profiles(*paths: Path, text: str = "") -> list[Profile]:
    given = read_input(paths or [STDIN], STRICT, stdin=io.BytesIO(text.encode()))
    return [p for case in host_cases(given, STRICT) for state in case.states for p in state.profiles]


def profile(*stacks: tuple[str, int], **more: Any) -> Profile:
    """A profile of folded stacks (`comm;root;leaf`), each with its number of samples."""
    frames: dict[Frame, int] = {}
    counts = StackCounts()
    for number, (text, samples) in enumerate(stacks):
        comm, *names = text.split(";")
        chain = [frames.setdefault(_frame(name), len(frames)) for name in reversed(names)]
        counts.add(chain, samples * 10.0, samples, CITE, Task(comm, 7, 8), number % 2, number)
    told = {"stacks": Stacks.FULL, **more}
    return Profile(
        "test", "cycles", tuple(frames), counts.chains(), counts.tasks(), counts.rows(), cite=CITE, has_time=True,
        start=Moment(100.98, Clock.BOOT), **told,
    )  # fmt: skip


def _frame(name: str) -> Frame:
    """`k:name` is of the kernel, `name@object` has no name, the rest are a program's."""
    plain, _, dso = name.removeprefix("k:").partition("@")
    return Frame("[unknown]" if dso else plain, dso, name.startswith("k:"))


def lines(found: Profile, by: str = "comm", mark: str = "", **how: Any) -> list[str]:
    return folded_text(label_stacks(count_stacks(found, By(by), **how), Weight.SAMPLES, mark)).splitlines()


BUSY = profile(("java;main;k:compact_zone", 5), ("java;main;k:compact_zone", 2), ("cc;k:clear_page", 1),
               ("swapper;k:intel_idle", 90))  # fmt: skip


@pytest.mark.parametrize(
    ("by", "mark", "expected"),
    [
        ("comm", "", ["cc;clear_page 1", "java;main;compact_zone 7"]),
        ("comm", "_[k]", ["cc;clear_page_[k] 1", "java;main;compact_zone_[k] 7"]),
        ("pid", "", ["cc-7;clear_page 1", "java-7;main;compact_zone 7"]),
        ("tid", "", ["cc-7/8;clear_page 1", "java-7/8;main;compact_zone 7"]),
        ("cpu", "", ["cpu0;clear_page 1", "cpu0;main;compact_zone 5", "cpu1;main;compact_zone 2"]),
        ("none", "", ["main;compact_zone 7", "clear_page 1"]),
    ],
)
def test_stacks_are_folded_under_who_ran(by: str, mark: str, expected: list[str]) -> None:
    """Root first, one line per stack, sorted, idle CPUs left out."""
    assert lines(BUSY, by, mark) == expected


def test_idle_samples_stay_on_request() -> None:
    """They are counted in both cases."""
    kept = count_stacks(BUSY, idle=True)

    assert "swapper;intel_idle 90" in folded_text(label_stacks(kept)).splitlines()
    assert count_stacks(BUSY).idle_samples == kept.idle_samples == 90


@pytest.mark.parametrize("process", ["java", "7"])
def test_one_process_is_picked_by_name_or_pid(process: str) -> None:
    """As with `analyze --process`."""
    assert "java;main;compact_zone 7" in lines(BUSY, process=process)
    assert len(lines(BUSY, process=process)) == (1 if process == "java" else 2)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a;b", "a:b"),
        ("a\x1b[31m\nb", "a\\x1b[31m\\x0ab"),
        ("x@/usr/lib/libjvm.so", "[libjvm.so]"),
        ("x@[vdso]", "[vdso]"),
        ("x@//anon", "[anon]"),
        ("x@/memfd:x (deleted)", "[memfd:x (deleted)]"),
        ("k:[unknown]", "[kernel.kallsyms]"),
        ("[unknown]", "[unknown]"),
        ("operator new(unsigned long)", "operator new(unsigned long)"),
    ],
)
def test_names_are_made_safe(name: str, written: str) -> None:
    """What folded text cannot carry is replaced; without a name there is the object."""
    assert label(_frame(name)) == written


def test_samples_without_a_stack_are_not_lost() -> None:
    """They stand under their task, or as unknown where there is no task."""
    found = profile(("java", 3), ("java;main", 4))

    assert lines(found) == ["java;main 4", "java 3"]
    assert lines(found, "none") == ["[unknown] 3", "main 4"]


def test_frames_that_differ_in_address_only_are_one() -> None:
    """A picture shows names."""
    found = profile(("a;x@/bin/one;f", 1), ("a;x@/opt/one;f", 2))

    assert lines(found) == ["a;[one];f 3"]


def test_weights_are_samples_or_periods() -> None:
    """Periods on request; where there are no numbers of samples, periods are all there is."""
    lonely = profile(("java;main", 0))

    assert label_stacks(count_stacks(BUSY), Weight.PERIOD).counts == [
        w * 10 for w in label_stacks(count_stacks(BUSY)).counts
    ]
    assert (label_stacks(count_stacks(lonely)).unit, label_stacks(count_stacks(BUSY)).unit) == ("period", "samples")


def test_percentages_become_whole_numbers(run: Run) -> None:
    """With what the table leaves out, so that shares in the picture are those of the host."""
    found = [line.rsplit(" ", 1) for line in run("flame", READERS / "perf_top" / "current").out.splitlines()]
    counts = {stack: int(count) for stack, count in found}

    assert sum(counts.values()) == pytest.approx(100_000, abs=20)
    assert counts["?;[unlisted]"] > 0


@pytest.mark.parametrize("case", ["perf_script/default", "perf_script/pid_and_tid", "folded/marks", "perf_top/el6"])
@pytest.mark.parametrize("by", ["comm", "tid", "cpu"])
def test_folded_text_read_again_has_the_same_shares(case: str, by: str) -> None:
    """A round trip through our own reader."""
    found = max(profiles(READERS / case), key=lambda p: len(p.rows))
    (again,) = profiles(text=folded_text(label_stacks(count_stacks(found, By(by)), Weight.PERIOD)))
    shares = {name: compiled_profile(found).share(name) for name in families()}

    assert {name: compiled_profile(again).share(name) for name in families()} == pytest.approx(shares, abs=0.003)
    assert max(shares.values()) > 0.1


@pytest.mark.parametrize("mark", ["", "_[k]"])
def test_functions_without_a_name_stay_where_they_were(mark: str) -> None:
    """A program without symbols is not taken for a module of the kernel when the text is read again."""
    text = "\n".join(lines(profile(("gcc;x@/usr/bin/gcc;k:vfs_read", 1), ("gcc;main;k:[unknown]", 2)), mark=mark))
    (again,) = profiles(text=text)

    assert {f.dso.removesuffix("_[k]"): f.kernel for f in again.frames if f.dso} == {
        "[gcc]": False,
        "[kernel.kallsyms]": True,
    }


def test_the_command_prints_nothing_but_stacks(run: Run) -> None:
    """Standard output is for a viewer; nothing is said on stderr, which is no terminal here."""
    done = run("flame", SCRIPT)

    assert (done.code, done.err) == (0, "")
    assert all(LINE.match(line) for line in done.out.splitlines())
    assert sum(int(line.rsplit(" ", 1)[1]) for line in done.out.splitlines()) == 83


@pytest.mark.parametrize("form", ["folded", "json", "speedscope"])
def test_a_file_gets_the_same_bytes(form: str, tmp_path: Path, run: Run) -> None:
    """Twice the same input, once into a file."""
    printed = run("flame", SCRIPT, "-f", form).out

    assert run("flame", SCRIPT, "-f", form, "-o", tmp_path / "out").out == ""
    assert (tmp_path / "out").read_text() == printed


@pytest.mark.parametrize("path", [SCRIPT, TOP, READERS / "folded" / "with_ids", STORY], ids=lambda p: p.parent.name)
@pytest.mark.parametrize("by", ["comm", "cpu", "none"])
def test_the_document_follows_its_schema(path: Path, by: str, run: Run) -> None:
    """And its columns are of equal length."""
    found = run("flame", path, "-f", "json", "--by", by).document

    jsonschema.validate(found, schema())
    assert len({len(column) for column in found["rows"].values()}) == 1
    assert max(found["rows"]["stack"]) == len(found["stacks"]) - 1
    assert max(found["rows"]["task"]) == len(found["tasks"]) - 1


def test_the_schema_is_one_and_strict() -> None:
    """It is valid, and a key that it does not know is an error."""
    jsonschema.Draft202012Validator.check_schema(schema())
    told = document(count_stacks(BUSY))
    jsonschema.validate(json.loads(json.dumps(told)), schema())
    with pytest.raises(jsonschema.ValidationError, match="unexpected"):
        jsonschema.validate({**told, "unknown": 1}, schema())


def test_the_document_and_the_folded_text_tell_the_same() -> None:
    """Stacks of the document, folded by hand."""
    (found,) = profiles(SCRIPT)
    told = document(count_stacks(found))
    names = [frame["name"] for frame in told["frames"]]
    by_hand: Counter[str] = Counter()
    for stack, task, samples in zip(*(told["rows"][key] for key in ("stack", "task", "samples")), strict=True):
        chain = [names[i] for i in reversed(told["stacks"][stack])]
        by_hand[";".join([told["tasks"][task]["comm"], *chain])] += samples

    assert sorted(f"{stack} {count}" for stack, count in by_hand.items()) == lines(found)


def test_the_document_has_samples_over_time() -> None:
    """Cells begin at whole seconds of the recording's clock, fifty to a second; the rest of a second runs over."""
    heat = document(count_stacks(BUSY, idle=True))["heat"]
    cells = list(zip(heat["second"], heat["part"], heat["samples"], strict=True))

    assert (heat["from"], heat["clock"], heat["parts"]) == (100, "boot", 50)
    assert cells == [(0, 49, 7), (1, 0, 91)]


def test_speedscope_gets_a_sampled_profile(run: Run) -> None:
    """Stacks root first as numbers of frames, a weight each."""
    told = run("flame", SCRIPT, "-f", "speedscope").document
    (one,) = told["profiles"]
    names = [frame["name"] for frame in told["shared"]["frames"]]

    assert told["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert (one["type"], one["unit"], one["startValue"], one["endValue"]) == ("sampled", "none", 0, sum(one["weights"]))
    written = [";".join(names[i] for i in stack) for stack in one["samples"]]
    both = zip(written, one["weights"], strict=True)
    assert sorted(f"{s} {w}" for s, w in both) == run("flame", SCRIPT).out.splitlines()


def test_of_several_profiles_the_fullest_is_taken(run: Run) -> None:
    """Whole stacks before leaves, then the number of samples; a name takes another one."""
    assert run("flame", TOP, SCRIPT).out == run("flame", SCRIPT).out
    assert run("flame", TOP, SCRIPT, "--member", "screen.txt").out == run("flame", TOP).out
    assert run("flame", READERS / "perf_script" / "two_events", "--event", "cpu-clock").out.endswith("compute 2\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--event", "cycles"], "no profile event cycles; there are script.txt:1 (page-faults), script.txt:163"),
        (["--member", "script.txt"], "several profiles fit"),
        (["--member", "nowhere"], "no profile nowhere; there are"),
    ],
)
def test_a_name_that_fits_none_or_several_is_a_mistake(options: list[str], said: str, run: Run) -> None:
    """All that there are are listed."""
    done = run("flame", READERS / "perf_script" / "two_events", *options)

    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "(cpu-clock)" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([str(READERS / "vmstat")], "no call stacks in the input"),
        (["nowhere"], "no such file or folder"),
        ([str(SCRIPT), "--since", "9999999"], "no samples in the requested time range; recordings: script.txt"),
        ([str(ROOT / "LICENSE")], "nothing in the input was recognized"),
    ],
)
def test_without_a_profile_it_says_why(arguments: list[str], said: str, run: Run) -> None:
    """Exit 3 and nothing on stdout."""
    done = run("flame", *arguments)

    assert (done.code, done.out) == (3, "")
    assert said in done.err


def test_a_stretch_of_time_is_cut_out(run: Run) -> None:
    """With the options that `analyze` has."""
    early, late = (run("flame", SCRIPT, *part).out for part in (("--until", "2192.001"), ("--since", "2192.002")))
    counts = [sum(int(line.rsplit(" ", 1)[1]) for line in part.splitlines()) for part in (early, late)]

    assert min(counts) > 0
    assert sum(counts) == 83


def test_a_terminal_is_told_what_is_left_out() -> None:
    """Which profile it is, and which there are besides."""
    told = at_a_terminal("flame", str(TOP), str(SCRIPT), "--no-progress")

    assert "--member and --event choose others: el6/screen.txt:2 (cycles)" in re.sub(r"\s+", " ", told)


def test_the_help_does_not_load_numpy() -> None:
    """Nor does an input without a profile."""
    for arguments in (["flame", "--help"], ["flame", str(READERS / "uname")]):
        code = f"import sys\nfrom thpdiag.cli import main\ntry: main({arguments})\nexcept SystemExit: pass\n"
        command = [sys.executable, "-c", f"{code}print('numpy' in sys.modules)"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

        assert done.stdout.endswith("False\n")
