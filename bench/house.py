"""The size of the code base, the names of its functions, and how much of it one run enters.

    python bench/house.py [CHECKOUT]

Counts below CHECKOUT/thpdiag (this one, or an older one): files, lines, functions; names that are one participle,
adverb or preposition; files and functions entered from the command line to the HTML page; the CPU of a run with
compiled bytecode. Functions that run while a module is imported do not count as entered.
"""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = {
    "perf.data": "fixtures/recordings/fault-compaction/perf.data",
    "small sosreport": "fixtures/healthy/sosreport-debian12/bundle",
    "story 1": "fixtures/stories/hadoop-centos62/bundle",
}
VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 3  0      0 20068048  13064 877308    0    0   776   357  183  342  4  7 88  0  0
 4  0      0 20068048  13064 877308    0    0     0     0  575  268  4 96  0  0  1
"""
PREPOSITIONS = """
above after again ahead along already also apart around aside at away back before behind below beside between beyond by
down during else ever for from further here how in into like near next of off on once only out over per plain since
still sure then there through till to together under until up when where while whole with within without yet
"""
PARTICIPLES = """
begun born bound broken built chosen done drawn driven eaten fallen found given gone grown heard held hidden kept known
laid led left lost made meant met paid run said seen sent shown sold spent spoken stolen stood taken thought thrown told
understood woken won worn worth written
"""
PRIVATE_WORDS = frozenset((PREPOSITIONS + PARTICIPLES).split())
OTHER_WORDS = frozenset(("embed", "exceed", "feed", "need", "proceed", "seed", "speed"))
TRACER = """
import sys
root, sys.argv = sys.argv[1], ["thpdiag", *sys.argv[2:]]
files, functions, importing = set(), set(), 0
def enter(frame, event, _):
    global importing
    code = frame.f_code
    if code.co_name == "<module>":
        importing += {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not importing and code.co_filename.startswith(root):
        files.add(code.co_filename)
        functions.add((code.co_filename, code.co_firstlineno, code.co_name))
sys.setprofile(enter)
from thpdiag.cli import main
try:
    main()
except SystemExit:
    sys.setprofile(None)
named = sum(not name.startswith("<") for *_, name in functions)
print(len(files), len(functions), named, sum(name.startswith("thpdiag") for name in sys.modules), file=sys.stderr)
"""


def is_private_word(name: str) -> bool:
    """Return whether a function's name is one participle, adverb or preposition."""
    word = name.strip("_")
    is_participle = len(word) > 4 and "_" not in word and word.endswith("ed") and word not in OTHER_WORDS
    return word in PRIVATE_WORDS or is_participle


def sizes(package: Path) -> None:
    files = sorted(package.rglob("*.py"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    names = [
        node.name
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    odd = sum(map(is_private_word, names))
    print(f"files {len(files)}, lines {sum(text.count(chr(10)) for text in texts)}, functions {len(names)}")
    print(f"named by one participle, adverb or preposition: {odd} ({odd / len(names):.1%})")


def entered(checkout: Path, label: str, source: Path) -> None:
    traced = [sys.executable, "-c", TRACER, f"{checkout / 'thpdiag'}{os.sep}"]
    command = [*traced, "analyze", str(source), "--no-progress", "-o", f"html={os.devnull}"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True)
    files, functions, named, modules = done.stderr.split()[-4:]
    print(f"{label}: {files} files and {functions} functions entered ({named} with a name), {modules} modules loaded")


def cpu(checkout: Path, *arguments: str | Path, times: int = 7) -> float:
    """Return seconds of CPU of a Python process, the least of several runs."""
    seconds = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], cwd=checkout, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def main(checkout: Path) -> None:
    """Print all figures."""
    sizes(checkout / "thpdiag")
    with tempfile.TemporaryDirectory() as folder:
        ticket = Path(folder) / "vmstat.txt"
        ticket.write_text(VMSTAT)
        entered(checkout, "vmstat of four lines", ticket)
    for label, source in RUNS.items():
        entered(checkout, label, ROOT / source)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "thpdiag"], cwd=checkout, check=True)
    bare, numpy = cpu(checkout, "-c", "pass"), cpu(checkout, "-c", "import numpy")
    story = cpu(checkout, "-m", "thpdiag", "analyze", ROOT / RUNS["story 1"], "--no-progress")
    print(f"CPU: interpreter {bare:.3f} s, with numpy {numpy:.3f} s, analyze of story 1 {story:.3f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT)
