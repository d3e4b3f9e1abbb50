"""Where a rule is from: references that can be looked up, examples that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.load import Rule, builtin_rules
from thpdiag.knowledge.complaints import suggestion

KERNEL = (
    "Documentation", "arch", "block", "crypto", "drivers", "fs", "include", "init", "io_uring", "ipc", "kernel", "lib",
    "mm", "net", "samples", "scripts", "security", "sound", "tools", "virt",
)  # fmt: skip
_SOURCE = re.compile(r"(?<![\w./-])(?P<top>[\w-]+)/[\w./-]*[\w-]+\.(?:c|h|S|rst|txt)\b")
_FORM = re.compile(
    r"https?://|[\w.-]+/[\w.-]+#\d+|\w+\(\d\w?\)|[\w-]+/[\w./-]+|\b(?:CVE|RHSA|JDK|MDEV|LU|KB)-?\d+|"
    r"(?:\S+\s+){3,}\S+"  # an observation takes a sentence
)
_LOCAL = re.compile(r"(?<![\w.])/(?:root|home|tmp|work|Users)/|\blocalhost\b")


def _form(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for i, text in enumerate(rule.file.references):
        if _LOCAL.search(text):
            yield Complaint("nobody else can look this up; name a public source", ("references", i))
        elif not _FORM.search(text):
            message = (
                "name a file of the kernel, a manual page, a URL, project#number, or say in a sentence what was seen"
            )
            yield Complaint(message, ("references", i))


def _kernel(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    for i, text in enumerate(rule.file.references):
        for found in _SOURCE.finditer(text):
            if "://" in text[: found.start()]:
                break
            if found["top"] not in KERNEL and not found["top"].lower().startswith(("hotspot", "src", "zfs")):
                hint = suggestion(found["top"], KERNEL)
                message = f"'{found['top']}/' is no folder of the kernel's source{hint}"
                yield Complaint(message, ("references", i), found["top"])


def _examples(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    folder = fixtures()
    for i, example in enumerate(rule.file.examples if folder else ()):
        if folder and not folder.joinpath(*example.split("/")).is_dir():
            known = [f"{f.parent.name}/{f.name}" for f in folder.glob("*/*")]
            yield Complaint(f"no fixture '{example}'{suggestion(example, known)}", ("examples", i))


def fixtures() -> Path | None:
    """The fixtures of a checkout; an installed package has none."""
    rules = builtin_rules()
    found = rules.parent / "fixtures" if isinstance(rules, Path) else None
    return found if found is not None and found.is_dir() else None


LINTS = (
    Lint("reference-form", "a reference that nobody can look up", _form),
    Lint("reference-folder", "a path that is none of the kernel's source", _kernel),
    Lint("missing-example", "an example that is no fixture", _examples),
)
