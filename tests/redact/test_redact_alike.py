"""What a redacted result says does not depend on how the customer's names are spelled: names that are words of ours, of
the kernel, or more than a word, go like any other, and what is none of them stays."""

from __future__ import annotations

# ruff: noqa: E501 (lines of other programs)
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import planted_names as planted
from thpdiag.engine.load import rule_set
from thpdiag.host.options import Options
from thpdiag.pipeline import analyze
from thpdiag.redact.document import redact_result
from thpdiag.redact.names import SECTIONS, Names
from thpdiag.redact.words import Words

OURS = {"payrolld": "Memory Batch", "zeusprod01": "production", "wmeyer": "pressure"}
PSEUDONYM = re.compile(rf"\b({'|'.join(SECTIONS)})\d+")
QUOTED = frozenset(
    {
        "text", "sentence", "because", "what", "when", "expr", "needed", "place", "why", "from", "first", "last", "reason",
        "raise_confidence", "symbols", "window", "state", "excerpt", "entity", "case", "name", "folded",
    }
)  # fmt: skip


def strings(part: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(part, str):
        yield key, PSEUDONYM.sub(r"\1", part)
    elif isinstance(part, dict):
        yield from (text for name, item in part.items() for text in strings(item, name))
    elif isinstance(part, list):
        yield from (text for item in part for text in strings(item, key))


def named_otherwise(root: Path, names: dict[str, str]) -> Path:
    """The files of a bundle with other names in them."""
    for file in [f for f in root.rglob("*") if f.is_file()]:
        text = file.read_text(encoding="utf-8")
        for old, new in names.items():
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
    return root


def said(root: Path) -> set[tuple[str, str]]:
    """What the redacted result of a bundle says and quotes."""
    return {
        found
        for found in strings(redact_result(analyze([root], rule_set(()), Options()), Names()))
        if found[0] in QUOTED
    }


def test_names_that_are_words(tmp_path: Path) -> None:
    """A program called Memory Batch on a host called production is as unknown as payrolld on zeusprod01."""
    (tmp_path / "other").mkdir()
    new = said(named_otherwise(planted.bundle(tmp_path / "other"), OURS)) - said(planted.bundle(tmp_path))
    assert [text for _, text in sorted(new) if re.search("Memory|Batch|production|pressure", text)] == []


def document(stack: str, **more: Any) -> dict[str, Any]:
    profile = {"folded": [[stack, 1.0]], "kernel_entries": ["asm_exc_page_fault"], **more}
    return {"schema": "thpdiag/result/1", "case": "zeus", "host": {"name": "zeus"}, "profiles": [profile]}


def test_functions_of_a_module_of_the_customers() -> None:
    """Below the entry of the kernel stand functions of modules; only those that any host may have keep their names."""
    given = document(
        "payrolld;main;asm_exc_page_fault;ledger_hook;xfs_filemap_fault;compact_zone",
        modules={"ledgerfs": ["ledger_hook"], "xfs": ["xfs_filemap_fault"]},
        signatures=[{"what": "ledger_hook"}],
    )
    done = redact_result(given, Names())
    assert done["profiles"][0]["folded"][0][0] == "proc1;main;asm_exc_page_fault;fn1;xfs_filemap_fault;compact_zone"
    assert sorted(done["profiles"][0]["modules"]) == ["file1", "xfs"]
    assert "ledger" not in json.dumps(done)


def test_why_a_finding_is_accepted() -> None:
    """That is the customer's text, in which numbers of tickets are theirs."""
    reason = "license key 99887766, says anna@bank.example: pw swap"
    finding = {"rule": "THP-001", "suppressed": {"by": "suppression", "reason": reason, "expires": "2027-01-01"}}
    done = redact_result({**document("?;main"), "findings": [finding]}, Names())["findings"][0]["suppressed"]
    assert done["expires"] == "2027-01-01"
    assert re.findall("99887766|anna|swap", done["reason"]) == []


def test_a_task_that_the_source_does_not_name() -> None:
    """`?` is no program."""
    assert redact_result(document("?;main"), Names())["profiles"][0]["folded"][0][0] == "?;main"


@pytest.mark.parametrize(("given", "wanted"), [
    ("\tffffffffc0a81000 xfs_file_read+0x2b ([xfs])", "\tffffffffc0a81000 xfs_file_read+0x2b ([xfs])"),
    (" 2.76%  payrolld  [ledgerfs]  [k] ledger_hook", " 2.76%  word1  [word2]  [k] word3"),
    (" 2.76%  payrolld  /lib/modules/6.1.0-1-amd64/extra/ledgerfs.ko.xz  [k] ledger_hook", " 2.76%  word1  /lib/modules/6.1.0-1-amd64/dir1/file1.ko.xz  [k] word2"),
    (" 2.76%  java  [kernel.kallsyms]  [k] some_function", " 2.76%  java  [kernel.kallsyms]  [k] some_function"),
    (" 2.76%  java  [kernel.vmlinux]  [k] some_function", " 2.76%  java  [kernel.vmlinux]  [k] some_function"),
    (" 2.76%  java  [xfs]  [k] xfs_function", " 2.76%  java  [xfs]  [k] xfs_function"),
    (" 2.76%  [k] some_function", " 2.76%  [k] some_function"),
    ("fd12:3456::42 FD12:3456:0:0::42 fd12:3456:0:0:0:0:0:42", "ipv6_1 ipv6_1 ipv6_1"),
    ("02:42:ac:99:88:77 02-42-AC-99-88-77", "mac1 mac1"),
    ("10.77.33.11_old 10.77.33.11x 10.77.33.11.5432", "word1 word2 word3"),
    ("sshd: anna@pts/0, sshd: anna@notty, root@localhost", "sshd: user1@pts/0, sshd: user1@notty, root@localhost"),
    ("user@1000.service getty@tty1.service", "user@1000.service file1.service"),
    ("BOOT_IMAGE=/vmlinuz-3.10.0-123.el7.x86_64 root=/dev/mapper/rhel-root", "BOOT_IMAGE=/vmlinuz-3.10.0-123.el7.x86_64 root=/dev/mapper/rhel-root"),
    ("/boot/vmlinuz-3.10.0-123.acme", "/boot/file1"),
    ("-rw-r--r-- 1 root root 4096 Nov 20 12:00 acme", "-word1-- 1 root root 4096 Nov 20 12:00 word2"),
])  # fmt: skip
def test_one_thing_has_one_name(given: str, wanted: str) -> None:
    """However an address is spelled it is one; terminals, units of systemd and kernels of distributions are nobody's."""
    assert Words(Names()).line(given) == wanted


def test_a_host_called_as_a_file_is() -> None:
    """`zeus.txt` is no host in a domain, even where the host is called zeus; a case without a name has no secret."""
    names = Names()
    names.pseudonym("host", "zeus")
    assert Words(names).line("zeus.txt vmstat.txt") == "host1.txt vmstat.txt"
    names.pseudonym("domain", "bank.sh")
    assert Words(names).line("zeus.bank.sh hera.bank.sh run.sh bank.sh") == "host1.domain1 host2.domain1 run.sh domain1"
    done = redact_result({**document("?;main"), "case": "host", "host": {"name": "host"}}, Names())
    assert (done["case"], done["host"]["name"]) == ("host", "host")


def test_files_that_differ_in_capitals_are_two() -> None:
    """Their pseudonyms differ too, with a mapping as without; a host in capitals is the same host."""
    names = Names()
    words = Words(names)
    assert words.place("Ledger/Bill.txt") == "dir1/file1.txt"
    assert words.place("ledger/bill.txt") == "dir2/file2.txt"
    names.pseudonym("host", "zeus")
    assert words.place("ZEUS/ledger.txt") == "host1/dir2.txt"
