"""The documents say what the program does: generated parts are up to date, named files, targets and commands exist.

`BLESS=1` rewrites the generated parts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import manual
import pytest

from conftest import ROOT
from thpdiag.authoring.catalogue import ROLES
from thpdiag.cli import COMMANDS
from thpdiag.engine.load import Rule, builtin_rules, load_rules
from thpdiag.errors import EXIT_CODES, ThpdiagError

README = ROOT / "README.md"
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [README, CONTRIBUTING, ROOT / "SECURITY.md", ROOT / "bench" / "README.md", *PAGES]
README_LINES = 170
DEMO = "fixtures/stories/hadoop-centos62/bundle"


def rules() -> tuple[Rule, ...]:
    return tuple(sorted(load_rules([builtin_rules()]), key=lambda rule: rule.id))


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def diagnosis() -> str:
    """What `make demo` prints: the first block, and the detail below it."""
    command = [sys.executable, "-m", "thpdiag", "analyze", DEMO]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return f"    $ thpdiag analyze {DEMO}\n\n" + "\n".join(f"    {line}".rstrip() for line in printed)


def commands() -> str:
    return table(("command", "what it does"), [(f"`thpdiag {name}`", text) for name, text in COMMANDS.items()])


def rule_list() -> str:
    """rules/README.md, whole."""
    parts = [
        "# What thpdiag can diagnose",
        "",
        "Written by `BLESS=1 pytest tests/repository/test_docs.py` from the files beside it.",
    ]
    for role, heading in ROLES.items():
        rows = [
            (rule.id, rule.file.severity, f"[{rule.file.title}]({rule.source.path})", f"`{rule.file.mechanism}`")
            for rule in rules()
            if rule.file.role == role
        ]
        parts += ["", f"## {heading}", "", table(("id", "severity", "finding", "mechanism"), rows)]
    parts += ["", "## What is no rule", "", table(("subject", "what says it"), NO_RULES)]
    return "\n".join(parts) + "\n"


NO_RULES = [  # subject, what answers it instead
    ("the family of the kernel, its platform", "the facts `kernel.era` and `platform`"),
    ("which settings are assumed", "the provenance of a fact; alone it is never more than possible"),
    ("one look at the counters, or several", "a total since boot is never more than possible"),
    ("the size of a huge page", "the fact `memory.huge_page_bytes`"),
    (
        "programs, memory, and sockets that are only named in prose",
        "nothing: texts name other programs and hosts, too; a process list, `free`, and `lscpu` are asked for",
    ),
    ("that nothing is wrong", "the verdict `nothing_found`: each core mechanism was measured"),
    ("a lock convoy in call chains", "THP-001, which looks at flat profiles and at call chains"),
    ("a synthetic memory load", "nothing: it fills the kernel time of every host, two settings have to be compared"),
    (
        "huge pages of files",
        "nothing: FileHugePages also counts large folios, made by file systems; no harm and no cure is known",
    ),
    (
        "huge pages of shared memory by size (shmem_alloc, shmem_fallback, shmem_fallback_charge, file_*), "
        "file_thp and shmem_thp of control groups",
        "nothing: what they are set to is THP-084; that a file gets small pages delays nobody",
    ),
    (
        "nr_anon, split, split_failed, swpin, swpin_fallback and swpin_fallback_charge by size",
        "nothing: pages that exist and work that was done; what hurts is parting (THP-151), swapping (THP-150, "
        "ALT-03), and memory that stays taken (THP-045, from nr_anon_partially_mapped)",
    ),
    (
        "anon_fault_declined by size",
        "nothing: a kernel of 6.18 shows it, but no documentation that was read says what it counts",
    ),
    (
        "thp_swpout and thp_swpout_fallback of control groups",
        "THP-048 for the host; that the group swaps at its limit is ALT-22",
    ),
    (
        "contpte: 16 adjoining pages of ARM in one TLB entry",
        "nothing: no file tells whether a mapping has it; it makes pages of 64 KiB useful "
        "(`hugepages-64kB/enabled`), and 2 MiB where small pages have 64 KiB (THP-148)",
    ),
    (
        "PREEMPT_RT",
        "CTX-02: such a kernel is built without transparent huge pages (mm/Kconfig), which its build line tells",
    ),
    (
        "zswap's settings",
        "nothing: they say where swap is kept; that it is used hard is THP-142, and why memory is short ALT-02",
    ),
    (
        "DAMON",
        "nothing: its schemes advise or reclaim memory by rules of their own and count it in no file that "
        "collectors copy; kdamond in a profile shows its cost",
    ),
    (
        "vm.swappiness above 0",
        "nothing: it chooses what goes first under pressure, which ALT-02 and ALT-03 measure; 0 is THP-147, and "
        "above 100 is for swap in memory",
    ),
    (
        "vm.dirty_background_ratio, dirty_bytes, dirty_expire_centisecs",
        "nothing: they say when writing begins; waits for it are THP-054 and ALT-05, and how much may be dirty is "
        "THP-146",
    ),
    (
        "vm.overcommit_memory",
        "nothing: it decides whether a mapping is refused (ENOMEM, a failing fork), not what a page fault costs; "
        "huge pages are not counted in it",
    ),
    (
        "kernel.numa_balancing",
        "nothing: it is on by default on hosts of several nodes, and right for most; ALT-06 and THP-053 measure "
        "what it moves",
    ),
    (
        "vm.watermark_scale_factor, compact_unevictable_allowed",
        "nothing: how early kswapd wakes, and whether locked pages are moved; kswapd at work without need is "
        "THP-051, waits are THP-054",
    ),
]


BLOCKS: dict[str, Callable[[], str]] = {"diagnosis": diagnosis, "commands": commands}


def agree(file: Path, actual: str, wanted: str, whole: str) -> None:
    """`actual` is `wanted`; with BLESS=1 the file becomes `whole`."""
    if os.environ.get("BLESS") == "1":
        file.write_text(whole)
        return
    assert actual == wanted, f"{file.name} is out of date; BLESS=1 pytest tests/repository/test_docs.py rewrites it"


@pytest.mark.parametrize("name", BLOCKS)
def test_a_generated_part_of_the_readme_is_up_to_date(name: str) -> None:
    """Between the markers stands what the program says today."""
    text = README.read_text()
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, _, rest = text.partition(begin)
    actual, found, after = rest.partition(end)
    wanted = f"\n{BLOCKS[name]()}\n\n"

    assert found, f"README.md has no part {name}"
    agree(README, actual, wanted, f"{before}{begin}{wanted}{end}{after}")


def test_the_rule_list_is_up_to_date() -> None:
    """rules/README.md names every rule."""
    file, wanted = ROOT / "rules" / "README.md", rule_list()

    agree(file, file.read_text() if file.exists() else "", wanted, wanted)


def test_what_newer_kernels_count_and_set_has_a_rule_or_a_reason() -> None:
    """Counters of a size of huge pages (Linux 6.18) and settings of memory, in a rule or in the list of reasons."""
    counters = (
        "anon_fault_alloc anon_fault_declined anon_fault_fallback anon_fault_fallback_charge nr_anon "
        "nr_anon_partially_mapped shmem_alloc shmem_fallback shmem_fallback_charge split split_deferred split_failed "
        "swpin swpin_fallback swpin_fallback_charge swpout swpout_fallback zswpout"
    )
    settings = (
        "swappiness dirty_ratio dirty_background_ratio min_free_kbytes zone_reclaim_mode overcommit_memory "
        "numa_balancing compaction_proactiveness defrag_mode watermark_boost_factor extfrag_threshold contpte "
        "PREEMPT_RT DAMON zswap"
    )
    known = "".join(f"{rule.source.text}\n" for rule in rules()) + "\n".join(map(" ".join, NO_RULES))
    assert [name for name in f"{counters} {settings}".split() if not re.search(rf"(?:\b|_){name}\b", known)] == []


def test_the_manual_page_is_up_to_date() -> None:
    """`man thpdiag` has every command and option."""
    wanted = manual.page()

    agree(manual.PAGE, manual.PAGE.read_text() if manual.PAGE.exists() else "", wanted, wanted)


def test_every_role_has_a_heading() -> None:
    """No rule is left out of the list for its role."""
    assert {rule.file.role for rule in rules()} <= set(ROLES)


def test_every_rule_is_in_the_changelog() -> None:
    """Who reads the changelog learns of each rule; `A to B` stands for what is between."""
    named = set()
    for kind, first, last in re.findall(
        r"\b(THP|ALT)-(\d+)(?: to (?:THP|ALT)-(\d+))?", (ROOT / "CHANGELOG.md").read_text()
    ):
        named |= {(kind, number) for number in range(int(first), int(last or first) + 1)}

    own = {
        (rule.id.partition("-")[0], int(rule.id.partition("-")[2])) for rule in rules() if rule.file.role != "context"
    }

    assert own - named == set()


def test_every_dependency_has_its_reason() -> None:
    """A package without a comment beside it is one too many."""
    text = (ROOT / "pyproject.toml").read_text().partition("[dependency-groups]")[0]
    project = tomllib.loads(text)["project"]
    names = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    reasons = [line for line in text.splitlines() if re.search(r">=[\d.]+(?:,<\d+)?\".*  #? ?\S", line) and "#" in line]

    assert [d for d in names if not any(f'"{d}"' in line for line in reasons)] == []


def test_every_mistake_of_a_user_has_an_exit_code_in_the_table() -> None:
    """The exit codes of the error classes are documented."""
    assert {kind.exit_code for kind in (ThpdiagError, *ThpdiagError.__subclasses__())} <= set(EXIT_CODES)


def test_the_architecture_page_names_every_room() -> None:
    """A folder of the package that the page does not name cannot be found by a newcomer."""
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    rooms = [file.name for file in (ROOT / "thpdiag").iterdir() if (file / "__init__.py").is_file()]

    assert [room for room in rooms if f"`{room}" not in text] == []


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda f: str(f.relative_to(ROOT)))
def test_a_document_names_only_what_exists(file: Path) -> None:
    """Links between files, make targets and commands exist; the build of the site checks generated pages."""
    text = file.read_text()
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")]
    links = [link for link in links if link and "reference/" not in link]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert [link for link in links if not (file.parent / link).exists()] == []
    assert set(re.findall(r"(?:`|    )make (\w+)(?=`|    |  +#|$)", text, re.MULTILINE)) <= targets
    assert set(re.findall(r"(?:`|bin/|\$ )thpdiag ([a-z-]+)", text)) <= set(COMMANDS)


def test_the_readme_is_short() -> None:
    """Whoever meets thpdiag reads it once; everything else is on the site."""
    assert len(README.read_text().splitlines()) <= README_LINES


def test_the_site_builds_without_a_broken_link(tmp_path: Path) -> None:
    """`make docs`: every page, every generated reference page, every link and anchor."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "reference" / "rules").glob("*/index.html"))) >= len(rules())
    page = (tmp_path / "index.html").read_text()
    assert re.findall(r"<(?:script|link rel=\"stylesheet\")[^>]*https?://", page) == []
