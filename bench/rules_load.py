"""The cost of loading and linting many rules: copies of the shipped ones with unique ids and titles.

    python bench/rules_load.py [100 1000 10000]

Prints user time in seconds and rules per second of each step, each number of rules in a process of its own.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from thpdiag.engine.lint import lint_rules
from thpdiag.engine.lint.issue import read_cases
from thpdiag.engine.load import builtin_rules, load_rules, rule_files

SIZES = (100, 1000, 10_000)
IDENTITY = re.compile(r"\b(THP|ALT|CTX)-(\d+)\b")


def copies(folder: Path, count: int) -> None:
    """Yield `count` rules with their cases: copies of the shipped set, whose references stay within a copy."""
    originals = rule_files(builtin_rules())
    for number in range(count):
        round_, at = divmod(number, len(originals))
        file = originals[at]
        for name in (file.name, file.name.replace(".yaml", ".cases.yaml")):
            text = (builtin_rules() / name).read_text(encoding="utf-8")
            text = IDENTITY.sub(lambda found, r=round_: f"{found[1]}C-{r:03}{int(found[2]):03}", text)
            text = re.sub(r"^(title: )(\"?)(.{3,80}?)", rf"\1\2\3 ({round_})", text, count=1, flags=re.MULTILINE)
            (folder / f"{round_:03}-{name}").write_text(text, encoding="utf-8")


def whole_rounds(count: int) -> int:
    """Return the next number without dangling references."""
    size = len(rule_files(builtin_rules()))
    return -(-count // size) * size


def timed(step: Callable[[], object]) -> tuple[object, float]:
    """Return the outcome and the user time."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    outcome = step()
    return outcome, resource.getrusage(resource.RUSAGE_SELF).ru_utime - before


def measured(count: int) -> str:
    """Return one line of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder, number = Path(name), whole_rounds(count)
        copies(folder, number)
        rules, loading = timed(lambda: load_rules([folder]))
        beside, reading = timed(lambda: read_cases([folder], rules))  # type: ignore[arg-type]
        found, linting = timed(lambda: lint_rules(rules, *beside))  # type: ignore[arg-type,misc]
    steps = " ".join(f"{seconds:9.2f} {1000 * seconds / number:7.2f}" for seconds in (loading, reading, linting))
    return f"{number:7} {steps} {len(found):10}"  # type: ignore[arg-type]


def main(arguments: Sequence[str]) -> None:
    """Run each size in a process of its own, so that none pays for the memory of another."""
    if arguments[:1] == ["--one"]:
        sys.stdout.write(measured(int(arguments[1])) + "\n")
        return
    sys.stdout.write(f"{'rules':>7} {'load s':>9} {'ms each':>7} {'cases s':>9} {'ms each':>7} {'lint s':>9} ")
    sys.stdout.write(f"{'ms each':>7} {'complaints':>10}\n")
    sys.stdout.flush()
    for size in map(int, arguments or map(str, SIZES)):
        subprocess.run([sys.executable, __file__, "--one", str(size)], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
