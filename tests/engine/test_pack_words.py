"""Packs that bring words of their own: a foreign wheel about NFS, of which nothing is run, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import STORY, Run
from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.errors import RuleError
from thpdiag.knowledge import packs, yaml_nodes
from thpdiag.knowledge.applications import application
from thpdiag.knowledge.known_issues import catalogue
from thpdiag.knowledge.mechanisms import mechanisms, remedies
from thpdiag.knowledge.paths import is_wanted
from thpdiag.knowledge.symbols import families_of
from thpdiag.knowledge.vocabulary import event, term

PACK = Path(__file__).parents[1] / "support/nfs_pack"
RULES = PACK / "nfs_rules/diagnoses"
LOG = """\
[    0.000000] Linux version 5.14.0-427.13.1.el9_4.x86_64 (mockbuild@x) #1 SMP PREEMPT_DYNAMIC Wed Apr 10 2024
[ 1000.100000] nfs: server filer1 not responding, still trying
[ 1120.200000] nfs: server filer1 not responding, still trying
"""
FIGURES = """\
# TYPE node_nfs_rpcs_total counter
node_nfs_rpcs_total 1000 1795170792123
node_nfs_rpc_retransmissions_total 10 1795170792123
node_nfs_rpcs_total 2000 1795170802123
node_nfs_rpc_retransmissions_total 310 1795170802123
"""


@pytest.fixture(autouse=True)
def without_packs() -> Iterator[None]:
    """No words of a pack stay behind."""
    yield
    packs.use(())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as its maker would, without the network and without a file of thpdiag."""
    folder = tmp_path_factory.mktemp("foreign")
    source = shutil.copytree(PACK, folder / "source")
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A host whose kernel log and exporter speak of NFS."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "dmesg.txt").write_text(LOG)
    (folder / "metrics.prom").write_text(FIGURES)
    return folder


def test_a_foreign_wheel_is_enough(
    wheel: Path, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Its mechanism is the verdict, by its own event and metrics, with its own remedy and verification."""
    before = run("analyze", bundle, "-f", "json").document
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    found = run("analyze", bundle, "-f", "json").document

    assert before["verdict"]["status"] == "cannot_tell"
    verdict = found["verdict"]
    assert (verdict["rule"], verdict["mechanism"], verdict["confidence"]) == ("NFS-01", "nfs-server-wait", "likely")
    (finding,) = (f for f in found["findings"] if f["rule"] == "NFS-01")
    assert {e["member"] for e in finding["evidence"]} == {"dmesg.txt", "metrics.prom"}
    assert finding["remedies"][0]["id"] == "nfs-find-server"
    assert "sent again" in finding["remedies"][0]["verify"]["metric"]
    assert [pack["name"] for pack in found["tool"]["packs"]] == ["acme-nfs-rules"]
    assert "acme-nfs-rules 1.3" in run("rules", "list").out


def test_lint_and_mutation_treat_them_alike(run: Run) -> None:
    """No complaint about the pack; a slip in it is a complaint, and each mistake in its rule is noticed by a case."""
    linted = run("rules", "lint", RULES)
    tested = run("rules", "test", "--rules", RULES, "NFS-01")
    assert (linted.code, linted.out) == (0, "")
    assert (tested.code, tested.out) == (0, "")


def test_every_kind_of_word_counts_and_goes_again() -> None:
    """Beside ours while the pack is in use, and nowhere afterwards."""

    def known() -> list[bool]:
        return [
            "nfs-server-wait" in mechanisms(), "nfs-find-server" in remedies(), event("nfs_server_silent") is not None,
            term("node_nfs_rpcs_total") is not None, "nfs_client" in families_of("rpc_wait_bit_killable"),
            application("nfs-ganesha") is not None, is_wanted("sos/var/log/nfs-client.log"),
            any(issue.id == "nfs-example-of-a-pack" for issue in catalogue().issues),
        ]  # fmt: skip

    count = len(mechanisms())
    assert not any(known())
    load_rules([builtin_rules(), RULES])
    assert all(known())
    assert len(mechanisms()) == count + 1
    load_rules([builtin_rules()])
    assert not any(known())


def test_exports_know_the_words_of_packs(bundle: Path, tmp_path: Path, run: Run) -> None:
    """`series` has the pack's metrics with their meaning, `flame` the shares of its symbol families."""
    without = run("series", bundle, "node_nfs_rpcs_total")
    listed = run("series", bundle, "--list", "--rules", RULES).out
    rows = run("series", bundle, "node_nfs_rpcs_total", "--rules", RULES).out.splitlines()
    assert (without.code, without.out) == (3, "")
    assert "calls of the NFS client that were sent again" in listed
    assert [row.split(",")[4] for row in rows[1:]] == ["1000", "2000"]

    stacks = tmp_path / "stacks.folded"
    stacks.write_text("backup;main;read;nfs_wait_bit_killable 3\nbackup;main;work 1\n")
    plain, known = (run("flame", stacks, "-f", "json", *more).document for more in ((), ("--rules", RULES)))
    assert "nfs_client" not in plain["families"]
    assert known["families"]["nfs_client"] == 0.75


def test_without_packs_no_yaml_is_read(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """A run by our rules alone never looks at what a pack could bring."""

    def parse(text: str) -> None:
        raise AssertionError(f"read: {text[:80]}")

    monkeypatch.setattr(packs, "load_with_places", parse)
    assert run("analyze", STORY, "-f", "json").code == 0
    assert yaml_nodes.ADDED == {}


def test_other_words_are_another_digest(bundle: Path, tmp_path: Path, run: Run) -> None:
    """Two results are judged alike only if the words were the same."""
    other = shutil.copytree(RULES, tmp_path / "other")
    mechanisms_file = other / "knowledge/mechanisms.yaml"
    mechanisms_file.write_text(mechanisms_file.read_text().replace("answers late", "answers too late"))
    first, second = (run("analyze", bundle, "--rules", folder, "-f", "json").document for folder in (RULES, other))
    assert first["verdict"]["rule"] == second["verdict"]["rule"] == "NFS-01"
    assert first["tool"]["rules_digest"] != second["tool"]["rules_digest"]


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("pack.yaml", "nfs", "NFS share", "says the prefix of all names"),
        ("pack.yaml", "nfs", "thp", "the prefix thp is ours"),
        ("pack.yaml", "nfs", "zfs", "does not begin with the prefix of the pack"),
        ("mechanisms.yaml", "  nfs-server-wait:", "  server-wait:", ":2:3: 'server-wait' does not begin"),
        ("mechanisms.yaml", "    title:", "    titel:", "unknown key 'titel'; did you mean 'title'?"),
        ("mechanisms.yaml", "mechanisms:", "mechanism:", "unknown section 'mechanism'; did you mean 'mechanisms'?"),
        ("symbols.yaml", "    source: net/sunrpc/sched.c, fs/nfs/pagelist.c\n", "", "'nfs_client' needs source"),
        ("vocabulary.yaml", "(?P<server>", "(?<!x)(?P<server>", "is no regular expression of RE2"),
        ("paths.yaml", "['var", "['(?=x)var", "is no regular expression of RE2"),
        ("remedies.yaml", "  nfs-server-wait: {", "  fault-compaction: {", "is no mechanism of this pack"),
        ("known_issues.yaml", "issues:", "issues: 5 #", "expected"),
    ],
)
def test_what_a_pack_may_not_say(file: str, old: str, new: str, says: str, tmp_path: Path) -> None:
    """A sentence with the file and the place; no word of the pack counts."""
    folder = shutil.copytree(RULES, tmp_path / "rules")
    changed = folder / "knowledge" / file
    text = changed.read_text()
    assert old in text
    changed.write_text(text.replace(old, new, 1))

    with pytest.raises(RuleError) as error:
        load_rules([builtin_rules(), folder])

    assert str(changed.parent) in str(error.value)
    assert says in str(error.value)
    assert yaml_nodes.ADDED == {}


def test_two_packs_do_not_share_a_prefix(tmp_path: Path) -> None:
    """Their names would meet."""
    other = shutil.copytree(RULES, tmp_path / "rules")
    with pytest.raises(RuleError, match="the prefix nfs is that of"):
        load_rules([builtin_rules(), RULES, other])


def test_a_rule_stands_under_the_prefix_of_its_pack(tmp_path: Path) -> None:
    """The same word in capitals."""
    folder = shutil.copytree(RULES, tmp_path / "rules")
    rule = folder / "nfs-server-wait.yaml"
    rule.write_text(rule.read_text().replace("id: NFS-01", "id: ACME-01"))
    with pytest.raises(RuleError, match=r"the prefix of this pack is nfs .*call it NFS-NN"):
        load_rules([builtin_rules(), folder])


def test_a_file_that_no_pack_may_have_is_named(tmp_path: Path) -> None:
    """Kernels and platforms are ours."""
    folder = shutil.copytree(RULES, tmp_path / "rules")
    (folder / "knowledge/kernels.yaml").write_text("eras: {}\n")
    with pytest.raises(RuleError, match="a pack has no such file; it may have mechanisms"):
        load_rules([builtin_rules(), folder])


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("mechanisms.yaml", "compaction-lockup,", "compaction-lookup,", "did you mean 'compaction-lockup'?"),
        ("mechanisms.yaml", "kind: alternative", "kind: other", "kind is one of"),
        ("remedies.yaml", "now: ['nfsstat -rc;", "now: ['sysctl -w sunrpc.tcp_slot_table_entries=9;", "has an undo"),
        ("vocabulary.yaml", "    hint: not responding\n", "", "message and hint are given together"),
        ("symbols.yaml", "'nfs_wait_*'", "'nfs_*_bit'", "a name has one star"),
    ],
)
def test_slips_in_words_are_complaints_of_lint(
    file: str, old: str, new: str, says: str, tmp_path: Path, run: Run
) -> None:
    """Names that exist, and remedies that can be taken back."""
    folder = shutil.copytree(RULES, tmp_path / "rules")
    changed = folder / "knowledge" / file
    assert old in changed.read_text()
    changed.write_text(changed.read_text().replace(old, new, 1))

    done = run("rules", "lint", folder)

    assert done.code == 4
    assert says in done.out + done.err
