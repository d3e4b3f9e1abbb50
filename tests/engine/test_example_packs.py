"""The packs of the repository: whole, off by default, silent about healthy hosts; their remedies can be taken back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from advice_items import advice
from command_line import Run
from command_sandbox import CommandRoot
from thpdiag.diagnosis.remedies import HostView
from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.knowledge import packs
from thpdiag.knowledge.mechanisms import cures, mechanisms, remedies
from thpdiag.knowledge.vocabulary import added_messages
from thpdiag.parsers.kernel_log.messages import parse_headline

ROOT = Path(__file__).parents[2]
PACKS = (ROOT / "packs/numa-and-reclaim", ROOT / "packs/locks-and-storage-waits")
OPTIONS = tuple(word for pack in PACKS for word in ("--rules", pack))


@pytest.fixture(autouse=True)
def without_packs() -> Iterator[None]:
    """No words of a pack stay behind."""
    yield
    packs.use(())


def test_ten_rules_each_with_cases_and_sources() -> None:
    """Thresholds say where they are from, and each rule names the documentation or the source of the kernel."""
    for pack in PACKS:
        rules = [rule for rule in load_rules([builtin_rules(), pack]) if rule.source.pack and not rule.source.pack.own]
        assert len(rules) == 10
        for rule in rules:
            assert (pack / f"{Path(rule.source.path).stem}.cases.yaml").is_file()
            assert any("Documentation/" in text or "mm/" in text for text in rule.file.references)
            assert all("JUDGMENT" in param.means for param in rule.file.params.values())


def test_they_are_off_by_default(run: Run) -> None:
    """Neither rules nor words, unless they are named."""
    assert not re.search(r"^(?:NUMA|WAIT)-", run("rules", "list").out, re.M)
    listed = run("rules", "list", *OPTIONS).out
    assert len(re.findall(r"^(?:NUMA|WAIT)-\d\d ", listed, re.M)) == 20


def test_lint_and_cases_have_nothing_to_say(run: Run) -> None:
    """Both at once, so that their names do not meet either; `make check` looks for mistakes that no case notices."""
    linted = run("rules", "lint", *PACKS)
    assert (linted.code, linted.out) == (0, "")
    ids = [f"{prefix}-{number:02}" for prefix in ("NUMA", "WAIT") for number in range(1, 11)]
    tested = run("rules", "test", "--no-mutate", *OPTIONS, *ids)
    assert (tested.code, tested.out) == (0, "")


@pytest.mark.parametrize(
    ("line", "event", "fields"),
    [
        ("nvme nvme0: I/O 5 QID 3 timeout, aborting", "wait_nvme_timeout", {"device": "nvme0"}),
        (
            "nvme nvme1: I/O tag 85 (1055) opcode 0x2 (I/O Cmd) QID 4 timeout, aborting req_op:READ(0) size:4096",
            "wait_nvme_timeout", {"device": "nvme1"},
        ),
        (
            "sd 2:0:0:0: [sdb] tag#7 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK cmd_age=30s",
            "wait_scsi_failed", {"device": "sdb", "why": "DID_TIME_OUT"},
        ),
        ("device-mapper: multipath: 253:3: Failing path 8:32.", "wait_path_failed", {"path": "8:32"}),
        ("md: data-check of RAID array md127", "wait_raid_sync", {"what": "data-check", "device": "md127"}),
        ("postgres: nvme nvme0: I/O 5 QID 3 timeout, aborting", "", {}),
    ],
)  # fmt: skip
def test_messages_of_the_kernel_are_events(line: str, event: str, fields: dict[str, str]) -> None:
    """As drivers/nvme/host/pci.c, scsi_logging.c, dm-mpath.c and md.c print them; a program that quotes one is none."""
    load_rules([builtin_rules(), PACKS[1]])
    assert len(added_messages()) == 4
    found = parse_headline(line)
    assert ((found[0].kind, found[1]) if found else ("", {})) == (event, fields)


@pytest.mark.parametrize(
    "bundle",
    [path for group in ("healthy", "stories") for path in sorted((ROOT / "fixtures" / group).glob("*/bundle"))],
    ids=lambda path: path.parent.name,
)
def test_hosts_without_these_causes_have_none_of_them(bundle: Path, run: Run) -> None:
    """Healthy hosts work and lack nothing; those of the stories have other causes, and keep their verdict."""
    plain, found = (run("analyze", bundle, *more, "-f", "json").document for more in ((), OPTIONS))
    assert not [f["rule"] for f in found["findings"] if f["rule"].startswith(("NUMA", "WAIT"))]
    assert found["verdict"].get("rule") == plain["verdict"].get("rule")


@pytest.mark.parametrize("platform", ["el6.2", "el9", "debian13"])
def test_remedies_work_twice_and_go_back(platform: str, tmp_path: Path) -> None:
    """As those of thpdiag: what a step writes is there once, and gone after its undo."""
    load_rules([builtin_rules(), *PACKS])
    own = [name for name in remedies() if name.startswith(("numa-b", "numa-l", "numa-w", "wait-"))]
    assert len(own) == 7
    wrote = 0
    for name in own:
        known = [mechanism for mechanism in mechanisms() if cures(remedies()[name], mechanism)]
        items = [item for mechanism in known for item in advice([name], mechanism, HostView(platform))]
        assert all(item["id"] in (name, "collect-more") and item["safety"] for item in items)
        for number, item in enumerate(one for one in items if one["undo_now"]):
            root = CommandRoot(tmp_path / f"{name}{number}", "transparent_hugepage", "sh")
            before = root.state()
            for _ in range(2):
                root.run([*item["now"], *item["persist"]])
            assert root.state() != before
            root.run(item["undo"])
            assert root.state() == before
            wrote += 1
    assert wrote >= 3
