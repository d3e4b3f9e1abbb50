"""Defaults of options: the command line before a variable, a variable before the file; mistakes name file and key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import ROOT, STORY, Run

SAVED = str(ROOT / "tests/results/found.json")
WRONG = [  # the file's text, and what the one line on stderr has after its name
    ('[all]\nfial-on = "high"', "fial-on in [all]: no such option of all commands; did you mean 'fail-on'?"),
    ('[all]\nformat = "json"', "format in [all]: no such option of all commands; set options of one command in its"),
    ('format = "json"', "format: put it in a table: [all]"),
    ('[analyse]\nformat = "json"', "[analyse] is not a command; did you mean 'analyze'?"),
    ('[render]\nfromat = "json"', "fromat in [render]: no such option; did you mean 'format'?"),
    ('[render]\nformat = "pdf"', "format in [render]: 'pdf' is not one of"),
    ('[render]\nformat = ["json"]', "format in [render]: takes one value"),
    ('[all]\nfail-on = "worst"', "fail-on in [all]: 'worst' is not one of"),
    ("[serve]\nport = 1", "[serve] cannot be set here; the server has a file of its own"),
    ("[all", "not valid TOML"),
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file whose tables show which one wins."""
    (tmp_path / "ours").mkdir()
    path = tmp_path / "thpdiag.toml"
    path.write_text('[all]\nfail-on = "critical"\ncolor = "always"\n\n[render]\nformat = "json"\nfail-on = "low"\n')
    return path


@pytest.mark.parametrize(("text", "mistake"), WRONG, ids=[row[1][:40] for row in WRONG])
def test_a_mistake_names_file_and_key(text: str, mistake: str, tmp_path: Path, run: Run) -> None:
    """In one line, before anything is done."""
    path = tmp_path / "thpdiag.toml"
    path.write_text(text)
    done = run("render", SAVED, "--config", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"thpdiag: {path}: {mistake}")
    assert len(done.err.splitlines()) == 1


def test_the_command_line_wins_over_a_variable_and_that_over_the_file(
    config: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the table of the command over that of all; the file may be named before the command as well."""
    assert run("render", SAVED, "--config", config).out.startswith("{")
    assert run("--config", config, "render", SAVED).code == 1
    monkeypatch.setenv("THPDIAG_RENDER_FORMAT", "csv")
    monkeypatch.setenv("THPDIAG_FAIL_ON", "never")
    assert run("render", SAVED, "--config", config).out.startswith("case,host,")
    assert run("render", SAVED, "--config", config).code == 0
    assert run("render", SAVED, "--config", config, "-f", "markdown", "--fail-on", "low").out.startswith("#")
    assert run("render", SAVED, "--config", config, "-f", "text").out.startswith("\x1b[")


def test_a_file_is_used_only_if_it_is_named(
    config: Path, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that lies in the current folder, as among a customer's data, is not."""
    monkeypatch.chdir(tmp_path)
    assert not run("render", SAVED).out.startswith("{")
    monkeypatch.setenv("THPDIAG_CONFIG", config.name)
    done = run("render", SAVED)
    assert (done.code, "absolute path" in done.err) == (2, True)
    monkeypatch.setenv("THPDIAG_CONFIG", str(config))
    assert run("render", SAVED).out.startswith("{")


def test_a_variable_that_is_wrong_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """And paths in variables are absolute."""
    monkeypatch.setenv("THPDIAG_FAIL_ON", "worst")
    assert run("render", SAVED).err.startswith("thpdiag: THPDIAG_FAIL_ON: invalid value for '--fail-on'")
    monkeypatch.setenv("THPDIAG_FAIL_ON", "never")
    monkeypatch.setenv("THPDIAG_RULES", "rules")
    assert run("analyze", STORY).err.startswith("thpdiag: THPDIAG_RULES=rules: write an absolute path")


def test_suppressions_rule_packs_and_parameters_can_be_set_once(tmp_path: Path, run: Run) -> None:
    """Paths are relative to the file; what changes the analysis is in the result, as from the command line."""
    accepted = "- {rule: THP-001, reason: known, expires: 2999-01-01}\n"
    (tmp_path / "accepted.yaml").write_text(accepted)
    config = tmp_path / "thpdiag.toml"
    config.write_text('[all]\nsuppress = "accepted.yaml"\nset = ["THP-013.often=0.1 /s"]\n')
    options = ("--suppress", tmp_path / "accepted.yaml", "--set", "THP-013.often=0.1 /s")
    plain = run("analyze", STORY, "-f", "json", *options)
    done = run("analyze", STORY, "-f", "json", "--config", config)
    assert json.loads(done.out) == json.loads(plain.out)
    assert '"suppress": "accepted.yaml (sha256' in done.out


def test_a_table_of_a_group_is_for_all_its_parts(tmp_path: Path, run: Run) -> None:
    """[rules] holds for `rules facts`, which has the option, and is no mistake for `rules list`, which does not."""
    config = tmp_path / "thpdiag.toml"
    config.write_text('[rules]\nformat = "json"\n')
    assert run("rules", "facts", "compact_stall", "--config", config).out.startswith("[")
    assert run("rules", "list", "--config", config).code == 0
