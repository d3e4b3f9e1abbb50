"""Forty layouts in which people and tools write the path of a file and its content."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

Files = Mapping[str, str]  # the content of each file, by its absolute path
Layout = Callable[[Files], str]


def each(form: str) -> Layout:
    """Return the same form for each file: `{p}` its path, `{c}` its content, `{r}` a ruler as long as the path."""

    def write(files: Files) -> str:
        return "".join(form.format(p=p, c=c.rstrip("\n"), r="-" * len(p), e="=" * len(p)) for p, c in files.items())

    return write


def supportconfig(kind: str, width: int = 51, before: str = "") -> Layout:
    """A section of supportconfig."""
    bar = f"#==[ {kind} ]".ljust(width, "=") + "#"
    return each(bar + f"\n# {before}{{p}}\n{{c}}\n\n\n")


def table(left: str = "| ", between: str = " | ", right: str = " |", code: str = "") -> Layout:
    """Return rows of a table; lines of content are rows with an empty first cell."""

    def write(files: Files) -> str:
        rows = [f"{left}File{between}Content{right}", f"{left}---{between}---{right}"]
        rows += [f"{left}{code}{p}{code}{between}{code}{c}{code}{right}" for p, c in files.items()]
        return "\n".join(rows) + "\n"

    return write


def indented(text: str, by: str = "    ") -> str:
    return "".join(f"{by}{line}\n" for line in text.rstrip("\n").split("\n"))


def as_json(make: Callable[[str, str], object], *, indent: int | None = None) -> Layout:
    return lambda files: json.dumps([make(p, c) for p, c in files.items()], indent=indent) + "\n"


def json_lines(make: Callable[[str, str], object]) -> Layout:
    return lambda files: "".join(json.dumps(make(p, c)) + "\n" for p, c in files.items())


def yaml_block(files: Files) -> str:
    return "".join(f"{p}: |\n{indented(c, '  ')}" for p, c in files.items())


BLOCKS: Mapping[str, Layout] = {
    "supportconfig, configuration file": supportconfig("Configuration File"),
    "supportconfig, log file": supportconfig("Log File", 52),
    "supportconfig, command that prints a file": supportconfig("Command", 52, "/bin/cat "),
    "head": each("==> {p} <==\n{c}\n\n"),
    "file:": each("file: {p}\n{c}\n\n"),
    "File: of a report": each("File: {p}\n\n{c}\n\n"),
    "dashes on both sides": each("--- {p} ---\n{c}\n\n"),
    "equals signs on both sides": each("=== {p} ===\n{c}\n"),
    "rows of signs": each("##### {p} #####\n{c}\n\n"),
    "stars": each("*** {p} ***\n{c}\n"),
    "angles": each("<<< {p} >>>\n{c}\n"),
    "more": each("::::::::::::::\n{p}\n::::::::::::::\n{c}\n"),
    "path and a row of dashes": each("{p}\n{r}\n{c}\n\n"),
    "path and a row of equals signs": each("{p}\n{e}\n{c}\n\n"),
    "path in brackets": each("[{p}]\n{c}\n\n"),
    "path and a colon": each("{p}:\n{c}\n\n"),
    "path alone": each("{p}\n{c}\n\n"),
    "comment": each("# {p}\n{c}\n\n"),
    "comment, cat": each("# cat {p}\n{c}\n"),
    "cat at a prompt": each("root@db1:~ # cat {p}\n{c}\n"),
    "cat of set -x": each("+ cat {p}\n{c}\n"),
    "Ansible": each("db1 | CHANGED | rc=0 >>\n{p}\n{c}\n"),
    "Ansible, one host and file each": each("db1 | SUCCESS | rc=0 >>\n# {p}\n{c}\n\n"),
    "Markdown heading and fence": each("### `{p}`\n\n```\n{c}\n```\n\n"),
    "Markdown bold and fence": each("**{p}**\n\n```text\n{c}\n```\n\n"),
    "Markdown fence with the name": each("```{p}\n{c}\n```\n"),
    "Markdown item and indented code": lambda files: "".join(f"- {p}:\n\n{indented(c)}\n" for p, c in files.items()),
    "numbered": lambda files: "".join(f"{n}. {p}\n{c}\n\n" for n, (p, c) in enumerate(files.items(), 1)),
    "indented below its path": lambda files: "".join(f"{p}\n{indented(c)}\n" for p, c in files.items()),
    "YAML": yaml_block,
    "begin and end": each("BEGIN {p}\n{c}\nEND {p}\n"),
    "output of": each("Output of cat {p}:\n{c}\n\n"),
    "JSON, path and stdout": as_json(lambda p, c: {"path": p, "stdout": c}),
    "JSON, indented": as_json(lambda p, c: {"file": p, "content": c}, indent=2),
    "JSON, a line each": json_lines(lambda p, c: {"path": p, "rc": 0, "stdout": c}),
    "JSON, a map": lambda files: json.dumps(dict(files), indent=2) + "\n",
    "JSON of Ansible": json_lines(lambda p, c: {"cmd": ["cat", p], "rc": 0, "stdout": c, "stdout_lines": [c]}),
}  # fmt: skip
LINES: Mapping[str, Layout] = {  # of files with one line
    "path = value": each("{p} = {c}\n"),
    "path=value": each("{p}={c}\n"),
    "path:value": each("{p}:{c}\n"),
    "path: value": each("{p}: {c}\n"),
    "path -> value": each("{p} -> {c}\n"),
    "path, tab": each("{p}\t{c}\n"),
    "path, blanks": each("{p}  {c}\n"),
    "quotes": each("'{p}': '{c}'\n"),
    "table of Markdown": table(),
    "table of Markdown, code": table(code="`"),
    "table without outer bars": table("", " | ", ""),
    "CSV": lambda files: "path,value\n" + "".join(f'{p},"{c}"\n' for p, c in files.items()),
    "semicolons": each("{p};{c}\n"),
    "item": each("- {p}: {c}\n"),
    "item with code": each("* `{p}`: `{c}`\n"),
    "parenthesis": each("{c} ({p})\n"),
}
