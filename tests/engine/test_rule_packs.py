"""Rules of other people: a package on the path gives a folder by an entry point, and nothing of it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import STORY, Run
from faulty_rules import GOOD, GOOD_CASES
from thpdiag.engine.load import builtin_rules, installed_packs, load_rules
from thpdiag.errors import RuleError

OWN = GOOD.replace("THP-999", "ACME-01").replace("Page faults compact memory", "Fault after fault compacts memory")
BOOBY_TRAP = "raise RuntimeError('a pack is data and is not run')\n"


def distribution(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "acme-thp", value: str = "acme_rules:diagnoses",
    rules: dict[str, str] | None = None,
) -> Path:  # fmt: skip
    """A small package with rules, installed in a folder that is put on the path; its rules' folder."""
    package = value.partition(":")[0]
    inner = folder / package / "diagnoses"
    inner.mkdir(parents=True)
    (folder / package / "__init__.py").write_text(BOOBY_TRAP)
    for file, text in (rules or {"fault-compaction.yaml": OWN, "fault-compaction.cases.yaml": GOOD_CASES}).items():
        (inner / file).write_text(text)
    information = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (information / "entry_points.txt").write_text(f"[thpdiag.rules]\n{package} = {value}\n")
    monkeypatch.syspath_prepend(str(folder))
    return inner


def test_the_rules_of_a_package_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """They stand among ours in list, show, lint and test; list and doctor say where they come from."""
    folder = distribution(tmp_path, monkeypatch)

    assert [(pack.name, pack.version, pack.folder) for pack in installed_packs()] == [("acme-thp", "1.2", folder)]
    listed = run("rules", "list").out.splitlines()
    assert next(line for line in listed if line.startswith("ACME-01")).endswith("[acme-thp 1.2]")
    assert run("rules", "show", "acme-01").out.startswith("id: ACME-01")
    assert run("rules", "lint").code == 0
    assert "rules of acme-thp 1.2: 1 (digest " in run("doctor").out
    assert "ACME-01: case 'chains and a moving counter'" in run("rules", "test", "ACME-01", "--no-mutate").out


def test_the_result_names_the_packs_that_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """By name, version and digest; a folder that the user names by its own name, without where it is."""
    distribution(tmp_path / "site", monkeypatch)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "compaction.yaml").write_text(OWN.replace("ACME-01", "MINE-01"))

    tool = run("analyze", STORY, "--rules", tmp_path / "mine", "-f", "json").document["tool"]
    packs = {pack["name"]: (pack["version"], pack["rules"]) for pack in tool["packs"]}

    assert packs == {"acme-thp": ("1.2", 1), "mine": (None, 1)}
    assert len({tool["rules_digest"], *(pack["digest"] for pack in tool["packs"])}) == 3
    assert str(tmp_path) not in str(tool)


def test_without_packs_the_result_names_none(run: Run) -> None:
    """Ours are told by version and digest."""
    assert run("analyze", STORY, "-f", "json").document["tool"]["packs"] == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("acme_rules:nowhere", "no such folder"),
        ("acme_gone_rules_of_nobody", "no package 'acme_gone_rules_of_nobody'"),
        ("acme_rules:", "it must be PACKAGE or PACKAGE:FOLDER"),
    ],
)
def test_a_package_without_its_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, value: str, words: str
) -> None:
    """One sentence with the package and its entry point, and exit 4."""
    distribution(tmp_path, monkeypatch)
    (tmp_path / "acme_thp-1.2.dist-info" / "entry_points.txt").write_text(f"[thpdiag.rules]\nacme = {value}\n")

    done = run("rules", "list")

    assert done.code == 4
    assert "the package acme-thp 1.2 gives no rules" in done.err
    assert words in done.err
    assert f"acme = {value}" in done.err


def test_a_broken_rule_of_a_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The package, the file, the line."""
    folder = distribution(
        tmp_path, monkeypatch, rules={"broken.yaml": OWN.replace("severity: high", "severity: awful")}
    )

    done = run("rules", "list")

    assert done.code == 4
    assert "the rules of the package acme-thp 1.2 cannot be used" in done.err
    assert f"{folder / 'broken.yaml'}:4:1: severity" in done.err


def test_a_package_has_a_prefix_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an id of ours nor one with our prefix; both files are named."""
    folder = distribution(tmp_path, monkeypatch, rules={"fault.yaml": OWN.replace("ACME-01", "THP-001")})
    with pytest.raises(RuleError) as twice:
        load_rules([builtin_rules(), *installed_packs()])
    (folder / "fault.yaml").write_text(OWN.replace("ACME-01", "THP-9999"))
    with pytest.raises(RuleError) as prefix:
        load_rules([builtin_rules(), *installed_packs()])

    assert "duplicate rule ID THP-001, also in compaction-lock-convoy.yaml" in str(twice.value)
    assert f"{folder / 'fault.yaml'}:1:1: ids with THP are those of thpdiag" in str(prefix.value)
    assert "acme-thp 1.2 needs its own prefix" in str(prefix.value)


def test_two_packages_do_not_share_a_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later rule of the one would meet an id of the other."""
    distribution(tmp_path / "a", monkeypatch)
    other = OWN.replace("ACME-01", "ACME-02").replace("Fault after fault", "Every fault")
    distribution(tmp_path / "b", monkeypatch, "bcme-thp", "bcme_rules:diagnoses", {"fault.yaml": other})

    with pytest.raises(RuleError, match=r"ids with ACME are those of acme-thp 1\.2 .*bcme-thp 1\.2 needs its own"):
        load_rules([builtin_rules(), *installed_packs()])


def test_rules_wait_for_one_another_only_one_way(tmp_path: Path) -> None:
    """A circle is told in the order in which it goes round, at the reference that closes it."""
    ids = ["AAA-01", "AAA-02", "AAA-03"]
    for own, other in zip(ids, [*ids[1:], ids[0]], strict=True):
        text = OWN.replace("ACME-01", own).replace("means: Programs", f"excluded_by: [{other}]\nmeans: Programs")
        (tmp_path / f"{own.lower()}.yaml").write_text(text)

    with pytest.raises(RuleError) as circle:
        load_rules([tmp_path])

    assert str(circle.value).count("->") == 3
    assert "aaa-0" in str(circle.value)
    assert ":18:15: rules wait for one another in a circle" in str(circle.value)
