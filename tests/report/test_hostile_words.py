"""R8, a safe report: whatever a customer's host calls things, no output acts upon it, and no output tells of the
analyst's machine.

One bundle has the same hostile word in every place that a customer controls: names of commands, of hosts, of files, of
functions, lines of logs, values of settings, words of a mail. It is analysed, and every format of the result is
looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, document, documents, rules
from packed_bundles import tar
from parse_bytes import faults, line_count, readings
from thpdiag.pipeline import analyze
from thpdiag.report import FORMATS
from thpdiag.report.layout import columns

MARK = "Qx7"  # in every hostile word, to see where it comes out
WORDS = (
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "\"><img src=x onerror=alert(1)>",
    "'onmouseover='alert(1)",
    "<svg/onload=alert(1)>", "<!--", "-->", "]]>", "</style><b>", "<a href=javascript:alert(1)>x</a>", "{{7*7}}",
    "{%raw%}", "${7*7}",
    "&lt;script&gt;", "&#60;b&#62;", "\x1b[31mred", "\x1b]0;title\x07", "\x1b]8;;http://evil\x1b\\", "\x9b31m",
    "\x08\x08\x08", "\x0c",
    "\u202etxt.exe", "\u2066x\u2069", "\u200bzero", "\ufeff", "\u2028line", "=cmd|'/c calc'!A1", "+1+1", "@SUM(1)",
    "-2+3", "%s%n%x",
    "$(reboot)", "`reboot`", "; rm -rf /", "|| true", "../../../../etc/passwd", "C:\\windows", "A" * 200,
    "\u0130\u0131\ufb01", "\U0001f600" * 30,
    "\u4e2d" * 60, "e\u0301" * 40, "a\x00b", "null", "NaN", "-1", "__proto__", "[bold]x[/bold]", ":smile:",
    "\\u001b[31m",
)  # fmt: skip
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
OUR_SHAPES = {  # what a chart of ours says of itself
    "class", "width", "height", "role", "viewbox", "aria-hidden", "aria-label", "aria-labelledby", "x", "y",
    "preserveaspectratio", "font-size",
}  # fmt: skip
ELEMENTS_THAT_ACT = {
    "img",
    "svg",
    "iframe",
    "object",
    "embed",
    "form",
    "input",
    "link",
    "base",
    "video",
    "audio",
    "math",
    "template",
}


def bundle(word: str) -> dict[str, bytes]:
    """A small host on which everything is called by the word."""
    word = MARK + word
    flat = word.replace("\n", " ")
    name = re.sub(r"[/\0]", "_", flat)
    return {
        "ticket.txt": _ticket(flat).encode("utf-8", "surrogatepass"),
        "perf.script": _script(flat).encode("utf-8", "surrogatepass"),
        "dmesg.txt": _kernel_log(flat).encode("utf-8", "surrogatepass"),
        f"logs/{name}.txt": f"{flat}\n procs -----------memory----------\n{flat}\n".encode("utf-8", "surrogatepass"),
        f"proc/{name}": flat.encode("utf-8", "surrogatepass"),
        "sys/kernel/mm/transparent_hugepage/enabled": f"always [{flat}] never\n".encode("utf-8", "surrogatepass"),
        "sys/kernel/mm/transparent_hugepage/defrag": b"[always] madvise never\n",
        "etc/os-release": f'NAME="{flat}"\nPRETTY_NAME="{flat} 7"\nID={flat}\n'.encode("utf-8", "surrogatepass"),
        "proc/cmdline": f"ro quiet {flat} transparent_hugepage={flat}\n".encode("utf-8", "surrogatepass"),
        "etc/rc.local": f"echo {flat} > /sys/kernel/mm/transparent_hugepage/enabled # {flat}\n".encode("utf-8",
        "surrogatepass"),
    }  # fmt: skip


def _ticket(word: str) -> str:
    return "\n".join([
        f"From: {word} <{word}@example.org>", f"Subject: {word}", "",
        f"our host {word} is slow, kernel 3.10.0-229.el7.x86_64 {word}",
        f"[{word}@db1 ~]# uname -a", f"Linux db1{word} 3.10.0-229.el7.x86_64 #1 SMP {word} x86_64 GNU/Linux",
        "[root@db1 ~]# cat /sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never",
        f"[root@db1 ~]# echo {word} > /sys/kernel/mm/transparent_hugepage/khugepaged/{word}",
        "[root@db1 ~]# ps aux", "USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND",
        f"root      4711 99.0  1.0 120000 34560 ?        R    10:00   9:59 /opt/{word}/bin/{word} --{word}",
        f"{word}      4712 99.0  1.0 120000 34560 ?        R    10:00   9:59 java {word}", "",
        f"On Monday {word} wrote:", f"> {word}", f"> echo {word} > /sys/kernel/mm/transparent_hugepage/defrag", "",
    ])  # fmt: skip


def _script(word: str) -> str:
    """A recording in which the kernel compacts for a command of that name, in a function of that name."""
    samples = []
    for number in range(80):
        samples += [
            f"{word[:60]} {4000 + number % 4} [00{number % 4}] 100.{number:02d}0000:     250000 cpu-clock:",
            "\tffffffff8146a0d2 _raw_spin_lock_irqsave ([kernel.kallsyms])",
            f"\tffffffff8146a0d3 {word}+0x12 ([{word}])", "\tffffffff81159a5d compact_zone ([kernel.kallsyms])",
            "\tffffffff81159ee1 try_to_compact_pages ([kernel.kallsyms])",
            "\tffffffff8113e1d0 __alloc_pages_direct_compact ([kernel.kallsyms])",
            "\tffffffff81187ac2 do_huge_pmd_anonymous_page ([kernel.kallsyms])",
            f"\t    7f0012345678 {word} (/opt/{word}/lib{word}.so)", "",
        ]  # fmt: skip
    return "\n".join(samples)


def _kernel_log(word: str) -> str:
    return "\n".join([
        f"[  100.000000] {word}: {word}",
        f"[  120.000001] INFO: task {word[:15]}:4711 blocked for more than 120 seconds.",
        "[  120.000002] Call Trace:", f"[  120.000003]  [<ffffffff8146a0d2>] {word}+0x12/0x34",
        "[  120.000004]  [<ffffffff81159a5d>] compact_zone+0x1d/0x400",
        f"[  130.000000] {word[:15]}: page allocation failure. order:9, mode:0x20 {word}",
    ])  # fmt: skip


class Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def live(page: Page) -> Iterator[str]:
    """Elements and attributes that act, and attributes that hold a word of the customer."""
    for tag, attributes in page.tags:
        ours = tag == "svg" and set(attributes) <= OUR_SHAPES
        if tag in ELEMENTS_THAT_ACT and not ours:
            yield tag
        for name, value in attributes.items():
            if MARK in f"{name}{value}":
                yield f"{tag} says {name}={value}"
            if name.startswith("on") or (
                name in ("href", "src", "action") and not (value or "").startswith(("#", "data:"))
            ):
                yield f"{tag} {name}={value}"


LABEL = re.compile("(?:Do now|Undo|Verify):")  # before the first command of the first block


def wide(text: str, result: dict[str, Any]) -> list[str]:
    """Lines over 80 columns that need not be: neither a command, nor a path, nor one unbroken word."""
    commands = json.dumps(result, ensure_ascii=False)
    return [
        line
        for line in text.splitlines()
        if columns(line) > 80
        and json.dumps(LABEL.sub("", line).strip(), ensure_ascii=False)[1:-1] not in commands
        and max(columns(part) for part in line.split()) < 60
    ]


@pytest.fixture(scope="module", params=range(0, len(WORDS), 4), ids=lambda n: f"words {n} to {n + 3}")
def results(request: pytest.FixtureRequest) -> list[tuple[str, dict[str, Any]]]:
    """Four words with their results."""
    return [(word, document(tar(bundle(word)))) for word in WORDS[request.param : request.param + 4]]


def test_text_holds_no_control_and_is_narrow(results: list[tuple[str, dict[str, Any]]]) -> None:
    """No escape, no bidi control, no line over 80 columns that could be shorter."""
    for word, result in results:
        text = FORMATS["text"](result)
        assert CONTROLS.search(text) is None, repr(word)
        assert wide(text, result) == [], repr(word)


def test_the_page_has_no_live_part(results: list[tuple[str, dict[str, Any]]]) -> None:
    """No element or attribute of the customer's, and no raw control character."""
    for word, result in results:
        page = FORMATS["html"](result)
        parsed = Page(page)
        assert list(live(parsed)) == [], repr(word)
        scripts = [attributes for tag, attributes in parsed.tags if tag == "script"]
        assert scripts == [{}, {"type": "application/gzip+base64", "id": "result"}, {"type": "module"}], repr(word)
        assert CONTROLS.search(page) is None, repr(word)


def test_json_is_json(results: list[tuple[str, dict[str, Any]]]) -> None:
    """It loads again to the same result, and is UTF-8 without raw controls."""
    for word, result in results:
        text = FORMATS["json"](result)
        assert json.loads(text) == json.loads(json.dumps(result)), repr(word)
        assert not re.search("[\x00-\x09\x0b-\x1f\ud800-\udfff]", text), repr(word)


def test_every_other_format_is_free_of_controls(results: list[tuple[str, dict[str, Any]]]) -> None:
    """Whatever formats there are besides."""
    for _, result in results:
        for form in FORMATS.keys() - {"text", "html", "json"}:
            assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]", FORMATS[form](result)), form


def test_the_word_reached_the_report(results: list[tuple[str, dict[str, Any]]]) -> None:
    """The bundle is diagnosed, and the hostile word stands in it: the tests above look at something."""
    for _, result in results:
        assert MARK in json.dumps(result)
        assert result["findings"]


@pytest.mark.parametrize("word", WORDS)
def test_no_record_holds_a_control(word: str) -> None:
    """Already the records are clean."""
    for path, data in bundle(word).items():
        assert list(faults([r.record for r in readings(data, path)], line_count(data))) == []


def test_the_analysts_folders_are_not_told(tmp_path: Path) -> None:
    """Of the path on the analyst's machine no format says anything, not even when a file cannot be read."""
    folder = tmp_path / "analyst-home-4711" / "customer"
    for path, data in {**bundle("plain"), "broken.tar.gz": b"\x1f\x8b\x08\x00 broken", "link": b""}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    (folder / "link").unlink()
    (folder / "link").symlink_to(tmp_path / "analyst-home-4711" / "private")
    (folder / "secret").symlink_to("/etc/passwd")
    result = analyze([folder], rules(), STRICT)
    for form, render in FORMATS.items():
        text = render(result)
        assert "analyst-home-4711" not in text, form
        assert str(tmp_path) not in text, form
        assert "root:x:0:0" not in text, form
    assert documents(result)[0]["problems"]
