"""Settings in the result and the reports: value and provenance, what else was said, what will hold, what disagrees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from thpdiag.host.options import Options
from thpdiag.model.result import schema
from thpdiag.pipeline import analyze
from thpdiag.report import FORMATS
from thpdiag.report.presentation import Presentation

FULL = Presentation(verbosity=1)

ENABLED = "sys/kernel/mm/transparent_hugepage/enabled"
ON, OFF = "[always] madvise never\n", "always madvise [never]\n"
OLD_TUNED = {
    "proc/version": "Linux version 3.10.0-229.14.1.el7.x86_64 (builder@demo) (gcc) #1 SMP Tue Sep 15 2015\n",
    "proc/cmdline": "ro root=/dev/sda1 transparent_hugepage=never quiet\n",
    ENABLED: ON,
    "sos_commands/tuned/tuned-adm_active": "Current active profile: virtual-guest\n",
    "installed-rpms": "tuned-2.4.1-1.el7.noarch           Wed 05 Aug 2015 10:00:00 AM UTC\n",
    "etc/tmpfiles.d/thp.conf": "w /sys/kernel/mm/transparent_hugepage/khugepaged/defrag - - - - 0\n",
}
PROMPT = "[root@demo ~]# "


def document(folder: Path, files: Mapping[str, str]) -> dict[str, Any]:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    found = analyze([folder], [], Options(strict=True))
    Draft202012Validator(schema()).validate(found)
    return found


def test_the_document_tells_who_says_what(tmp_path: Path) -> None:
    """The value of the kernel, both places that speak of it, the value after a boot, the contradiction, with lines."""
    told = document(tmp_path / "host", OLD_TUNED)["host"]["settings"]["thp.enabled"]

    assert (told["value"], told["provenance"], told["member"], told["line"]) == (
        "always",
        "measured",
        told["member"],
        1,
    )
    assert told["member"].endswith(ENABLED)
    assert [(s["place"], s["value"], s["counts"], s["line"]) for s in told["said"]] == [
        ("the boot line", "never", True, 1), ("tuned's profile virtual-guest (tuned 2.4.1)", "always", True, 1),
    ]  # fmt: skip
    assert (told["next_boot"]["value"], told["next_boot"]["assumed"]) == ("always", False)
    assert [c["kind"] for c in told["contradictions"]] == ["overridden"]


def test_what_only_a_start_up_file_says(tmp_path: Path) -> None:
    """It is known from there, not measured."""
    told = document(tmp_path / "host", OLD_TUNED)["host"]["settings"]["thp.khugepaged.defrag"]
    assert (told["value"], told["provenance"], told["next_boot"]["value"]) == (0, "rc file", "0")


def test_what_places_disagree_about_has_no_value(tmp_path: Path) -> None:
    """Nobody read the kernel's own value and the boot line is no more than a hint: null, and what is said."""
    files = {path: text for path, text in OLD_TUNED.items() if path not in {ENABLED, "installed-rpms"}}
    told = document(tmp_path / "host", files)["host"]["settings"]["thp.enabled"]
    assert (told["value"], told["provenance"], len(told["said"])) == (None, "unknown", 2)


@pytest.mark.parametrize(
    ("read_back", "provenance"),
    [(f"{PROMPT}cat /{ENABLED}\n{OFF}", "measured"), ("", "written at a prompt, not read back")],
    ids=["read back", "not read back"],
)
def test_a_write_at_a_prompt(read_back: str, provenance: str, tmp_path: Path) -> None:
    """What somebody wrote is known better once he has read it back; the value before is told too."""
    text = f"{PROMPT}cat /{ENABLED}\n{ON}{PROMPT}echo never > /{ENABLED}\n{read_back}{PROMPT}uptime\n"
    told = document(tmp_path / "host", {"ticket.txt": text})["host"]["settings"]["thp.enabled"]
    assert (told["value"], told["provenance"]) == ("never", provenance)
    assert [(s["value"], s["line"]) for s in told["other_states"]] == [("always", 2)]


def test_sizes_have_a_key_each(tmp_path: Path) -> None:
    """By the size of the pages, with what contradicts the setting for all."""
    folder = ENABLED.removesuffix("enabled")
    sizes = {f"{folder}hugepages-{size}kB/enabled": "[always] inherit madvise never\n" for size in (64, 2048)}
    told = document(tmp_path / "host", {ENABLED: OFF, **sizes})["host"]["settings"]
    assert told["thp.size.enabled{size=64kB}"]["value"] == "always"
    assert [c["kind"] for c in told["thp.enabled"]["contradictions"]] == ["size", "size"]


def test_the_text_says_it_in_plain_words(tmp_path: Path) -> None:
    """Contradictions at once, the rest with -v, within 80 columns."""
    found = document(tmp_path / "host", OLD_TUNED)
    short, full = FORMATS["text"](found), FORMATS["text"](found, FULL)

    assert "Settings that disagree" in short
    assert "tuned 2.4.1) writes that later in the boot" in " ".join(short.split())
    assert "after the next boot: always (from tuned's profile virtual-guest" in " ".join(full.split())
    assert [line for line in full.splitlines() if len(line) > 80] == []


def test_texts_that_differ_are_both_shown(tmp_path: Path) -> None:
    """Of two texts without a host and a time nobody knows which was first, or whether they are of one host."""
    found = document(
        tmp_path, {f"{of}/out.txt": f"$ cat /{ENABLED}\n{listed}" for of, listed in (("a", OFF), ("b", ON))}
    )
    assert "enabled always; elsewhere never (a/out.txt:2)" in " ".join(FORMATS["text"](found).split())


def test_the_page_says_it_too(tmp_path: Path) -> None:
    """Contradictions as a list, the rest to be opened."""
    page = FORMATS["html"](document(tmp_path / "host", OLD_TUNED))
    assert "Settings that disagree" in page
    assert "writes that later in the boot" in page
    assert "and after the next boot" in page


def test_words_of_a_customer_are_shown_not_obeyed(tmp_path: Path) -> None:
    """Paths and words of files stand in the report as text."""
    found = document(tmp_path / "host", OLD_TUNED)
    bad = "<script>alert(1)</script>\x1b[31m"
    told = found["host"]["settings"]["thp.enabled"]
    told["said"] = [{"value": bad, "place": bad, "counts": False, "why": bad, "member": bad, "line": 1}]
    told["next_boot"] = {"value": bad, "from": bad, "assumed": False, "member": bad}
    told["contradictions"] = [{"text": bad, "kind": "overridden", "member": bad}]
    told["other_states"] = [{"value": bad, "member": bad}]

    page, text = FORMATS["html"](found), FORMATS["text"](found, FULL)
    assert "<script>alert" not in page
    assert "\x1b" not in page + text
