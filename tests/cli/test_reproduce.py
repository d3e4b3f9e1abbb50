"""`thpdiag reproduce`: the scripts put back what they change, and what they make happen is diagnosed as such."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from analyze_bytes import STRICT, result_of, rules
from command_line import Run
from conftest import ROOT
from thpdiag.diagnosis.reproduce import head, mechanisms, program
from thpdiag.pipeline import analyze

MECHANISMS = mechanisms()
CAPTURES = ROOT / "fixtures" / "reproduce"
THP = "sys/kernel/mm/transparent_hugepage"
SETTINGS = {
    f"{THP}/enabled": "always [madvise] never\n",
    f"{THP}/defrag": "always defer defer+madvise [madvise] never\n",
    f"{THP}/khugepaged/max_ptes_none": "511\n",
    f"{THP}/khugepaged/scan_sleep_millisecs": "10000\n",
    "proc/meminfo": "MemTotal: 16000000 kB\nMemFree: 8000000 kB\nMemAvailable: 12000000 kB\n",
}
PROGRAM = """#!/bin/sh
# stands for the compiled program: notes the settings while it runs
grep -r . "$REPRODUCE_ROOT/sys" >>"$REPRODUCE_ROOT/seen"
echo "$@" >>"$REPRODUCE_ROOT/arguments"
echo ready
"""
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
cp "$REPRODUCE_ROOT/program" "$2"
chmod 755 "$2"
"""


def knobs(mechanism: str) -> set[str]:
    """The files that the head of the script names."""
    return set(re.findall(r"/(?:sys|proc)/[\w/]+", head(mechanism)["knobs"]))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder that stands for /, with a compiler and a root user of its own."""
    for name, text in SETTINGS.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "run").mkdir()
    (tmp_path / "program").write_text(PROGRAM)
    for name, text in {"cc": COMPILER, "id": "#!/bin/sh\necho 0\n", "sleep": "#!/bin/sh\n"}.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def execute(mechanism: str, host: Path, *options: str, shell: str = "sh") -> subprocess.CompletedProcess[str]:
    """The script on that host."""
    environment: Mapping[str, str] = {
        "PATH": f"{host / 'bin'}:{os.environ['PATH']}",
        "REPRODUCE_ROOT": str(host),
        "TMPDIR": str(host),
    }
    return subprocess.run(
        [shell, _file(mechanism, host), *options],
        env=environment, cwd=host, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def _file(mechanism: str, host: Path) -> str:
    path = host / f"{mechanism}.sh"
    path.write_text(program(mechanism))
    return str(path)


def settings(host: Path) -> dict[str, str]:
    """The chosen value of each setting."""
    files = [name for name in SETTINGS if name.startswith("sys")]
    return {name: re.sub(r".*\[(.*)\].*", r"\1", (host / name).read_text()).strip() for name in files}


AT_FIRST = {
    f"{THP}/enabled": "madvise",
    f"{THP}/defrag": "madvise",
    f"{THP}/khugepaged/max_ptes_none": "511",
    f"{THP}/khugepaged/scan_sleep_millisecs": "10000",
}


def test_the_list_names_mechanism_cost_and_settings(run: Run) -> None:
    """Without an argument, what there is and what it takes."""
    out = run("reproduce").out
    assert re.findall(r"^([a-z-]+) \(rules? [A-Z]+-\d+", out, re.MULTILINE) == list(MECHANISMS)
    for key in ("memory", "time", "knobs", "expect", "remedy"):
        assert len(re.findall(rf"^  {key}: \S", out, re.MULTILINE)) == len(MECHANISMS)


def test_an_unknown_mechanism_is_exit_2_with_a_suggestion(run: Run) -> None:
    """Nothing is printed that somebody could run."""
    done = run("reproduce", "khugepaged-blot")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'khugepaged-bloat'" in done.err


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_script_is_of_a_mechanism_and_of_rules_that_exist(mechanism: str, run: Run) -> None:
    """The head names both, and the command prints the script whole."""
    assert run("reproduce", mechanism).out == program(mechanism)
    by_id = {rule.id: rule.file.mechanism for rule in rules()}
    named = re.findall(r"[A-Z]+-\d+", head(mechanism)["mechanism"])
    assert named
    assert {by_id[rule] for rule in named} == {mechanism}


@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_shells_accept_it(mechanism: str, shell: str) -> None:
    """By their own syntax check."""
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    done = subprocess.run([shell, "-n"], input=program(mechanism), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_its_program_compiles_without_a_warning(mechanism: str, tmp_path: Path) -> None:
    """Where there is a compiler."""
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no cc")
    source = re.search(r"<<'PROGRAM'\n(.*?)^PROGRAM$", program(mechanism), re.DOTALL | re.MULTILINE)
    assert source
    flags = ["-O1", "-Wall", "-Werror", "-pthread", "-x", "c", "-", "-o", str(tmp_path / "demo")]
    done = subprocess.run([compiler, *flags], input=source[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_head_names_what_the_script_changes(mechanism: str) -> None:
    """Each file that is written, and no other."""
    text = program(mechanism)
    assert set(re.findall(r"^set_knob (\S+)", text, re.MULTILINE)) == knobs(mechanism)
    assert not re.search(r">\s*\"?/(?:sys|proc)", text)
    assert "sysctl -w" not in text


@pytest.mark.parametrize("options", [(), ("-r",)], ids=["cause", "remedy"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_settings_are_changed_and_put_back(mechanism: str, options: tuple[str, ...], host: Path) -> None:
    """While the program runs all named ones were set; afterwards nothing is left but what was there."""
    before = {path.relative_to(host).as_posix() for path in host.rglob("*")}
    done = execute(mechanism, host, *options)
    assert done.returncode == 0, done.stderr
    assert settings(host) == AT_FIRST
    changed = {f"/{name}" for name in AT_FIRST if f"/{name}: {AT_FIRST[name]} ->" in done.stdout}
    assert changed == knobs(mechanism)
    left = {path.relative_to(host).as_posix() for path in host.rglob("*")} - before
    assert left == {"seen", "arguments", f"{mechanism}.sh"}


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if knobs(name)])
def test_the_remedy_is_another_setting_or_another_program(mechanism: str, host: Path) -> None:
    """What the program ran under differs between cause and remedy."""
    seen = []
    for options in ((), ("-r",)):
        (host / "seen").unlink(missing_ok=True)
        execute(mechanism, host, *options)
        seen.append((host / "seen").read_text())
    assert seen[0] != seen[1]


@pytest.mark.parametrize("signal", ["INT", "TERM", "HUP"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_an_interrupted_script_puts_settings_back(mechanism: str, signal: str, host: Path) -> None:
    """The program itself sends the signal, in the midst of its run."""
    (host / "program").write_text(f"{PROGRAM}kill -{signal} $PPID\n")
    done = execute(mechanism, host)
    assert done.returncode == {"INT": 130, "TERM": 143, "HUP": 143}[signal]
    assert settings(host) == AT_FIRST
    assert not (host / "run" / "thpdiag-reproduce").exists()


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if knobs(name)])
@pytest.mark.parametrize("lacks", ["root", "memory", "huge pages", "compiler", "nobody else", "tuned"])
def test_without_a_precondition_nothing_is_changed(mechanism: str, lacks: str, host: Path) -> None:
    """Exit 2 with one line."""
    match lacks:
        case "root":
            (host / "bin" / "id").write_text("#!/bin/sh\necho 1000\n")
        case "memory":
            (host / "proc/meminfo").write_text("MemFree: 100000 kB\nMemAvailable: 300000 kB\n")
        case "huge pages":
            shutil.rmtree(host / THP)
        case "compiler":
            (host / "bin" / "cc").write_text("#!/bin/sh\nexit 1\n")
        case "nobody else":
            (host / "run" / "thpdiag-reproduce").mkdir()
        case "tuned":
            (host / "run" / "tuned").mkdir()
            (host / "run" / "tuned" / "tuned.pid").touch()
    done = execute(mechanism, host)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("reproduce: ")
    assert not (host / "seen").exists()
    assert lacks == "huge pages" or settings(host) == AT_FIRST


@pytest.mark.parametrize("mechanism", ["allocation-knee", "fault-compaction"])
def test_memory_that_is_still_whole_is_exit_2(mechanism: str, host: Path) -> None:
    """What runs then would show nothing; settings are as before."""
    (host / "program").write_text(PROGRAM.replace("echo ready", "echo late"))
    done = execute(mechanism, host, "-w", "7")
    assert done.returncode == 2
    assert "not in pieces after 7 s" in done.stderr
    assert len((host / "arguments").read_text().splitlines()) == 1
    assert settings(host) == AT_FIRST


@pytest.mark.parametrize(("idle", "code"), [(0, 2), (9, 2), (10, 0), (200, 0)])
def test_khugepaged_needs_a_twentieth_of_the_cpus(idle: int, code: int, host: Path) -> None:
    """It has the lowest priority. All CPUs together count 200 ticks between the two looks."""
    (host / "proc/stat").write_text("cpu 1000 0 100 5000 10 0 0 0 0 0\ncpu0 1000 0 100 5000 10 0 0 0 0 0\n")
    later = f"cpu {1200 - idle} 0 100 {5000 + idle} 10 0 0 0 0 0"
    (host / "bin/sleep").write_text(f"#!/bin/sh\necho '{later}' >{host}/proc/stat\n")
    done = execute("khugepaged-bloat", host)
    assert (done.returncode, "no CPU is idle" in done.stderr) == (code, code == 2)
    assert settings(host) == AT_FIRST
    assert (host / "seen").exists() is (code == 0)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_recording_is_made_of_the_program(mechanism: str, host: Path) -> None:
    """With -c the given script runs for the same seconds and watches the process; without, its command is printed."""
    (host / "capture.sh").write_text(f'echo "$@" >{host}/watched\n')
    done = execute(mechanism, host, "-s", "7", "-c", "capture.sh")
    assert re.fullmatch(r"-d 7 -i 2 -p \d+\n", (host / "watched").read_text())
    assert "capture-script" not in done.stdout
    assert "sh capture.sh -d 7 -i 2 -p " in execute(mechanism, host, "-s", "7").stdout


@pytest.mark.parametrize("number", ["0", "", "x", "1234", "-1"])
def test_a_time_that_is_none_is_exit_2(number: str, host: Path) -> None:
    """Before anything is looked at."""
    assert execute("memory-leak", host, "-s", number).returncode == 2


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_it_makes_happen_is_diagnosed(mechanism: str) -> None:
    """A recording of the script's run gives the mechanism; ORIGIN.md says how it was made."""
    document = result_of(CAPTURES / mechanism / "cause")
    rule = re.findall(r"[A-Z]+-\d+", head(mechanism)["mechanism"])
    assert document["verdict"]["mechanism"] == mechanism
    assert document["verdict"]["rule"] in rule
    assert (CAPTURES / mechanism / "ORIGIN.md").is_file()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_under_the_remedy_it_is_not(mechanism: str) -> None:
    """No finding of the rules that the head names, nor another root cause of the mechanism."""
    document = analyze([CAPTURES / mechanism / "remedy"], rules(), STRICT)
    named = set(re.findall(r"[A-Z]+-\d+", head(mechanism)["mechanism"]))
    assert document["inputs"]
    assert not [f for f in document["findings"] if f["rule"] in named]
    assert document["verdict"].get("mechanism") != mechanism
