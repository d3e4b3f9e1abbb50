"""Markdown for tickets, read back by markdown-it: the agreed subset, and no word of the customer becomes markup."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from ci_schemas import RESULTS, accepted, result, with_findings
from thpdiag.report import markdown
from thpdiag.report.escaping import code, code_block, paragraph
from thpdiag.report.markdown import render
from thpdiag.report.presentation import Presentation, Suppressed

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
SUBSET = {
    "heading_open", "heading_close", "paragraph_open", "paragraph_close", "bullet_list_open", "bullet_list_close",
    "list_item_open", "list_item_close", "fence", "inline", "text", "code_inline", "strong_open", "strong_close",
}  # fmt: skip
# What GitHub and GitLab make a link of in rendered text, outside of code.
LIVE = re.compile(
    r"@\w|#\w|[!%~$&^]\w|://|www\.|mailto:|\bGH-\d|(?<!\d):\w+:(?!\d)|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,}\b"
)
EVIL = [
    "@torvalds", "mail me@example.com", "#123", "owner/repo#5", "!77", "GH-12", "%3 ~bug $5 &1", "http://evil.example/x",
    "www.evil.example", "[click](http://evil.example)", "![x](y)", "[a]: http://x", "<b>x</b>", "<http://x>", "<!-- x",
    "&lt;b&gt;", "`code`", "``` fence", "~~~ fence", "**bold** _em_ __x__ ~~s~~", "| a | b |", "a | b", "# heading",
    "- item", "+ item", "1. item", "2) item", "> quote", "===", "---", "***", "    indented", "/close", "/assign @me",
    "line\nbreak", "line\n\n# heading", "end\\", "a  \nb", ":tada:", "deadbeef1", "{{ 7*7 }}", "$x$", "x`y``z```", "`",
    "\u202e\x1b[31m", "[ ] task", "[x] task", "[^1]", "[[wiki]]", "_a_ b_", "*", "",
]  # fmt: skip


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def shown(text: str) -> str:
    """The words that a reader sees."""
    return "".join(token.content for token in tokens(text) if token.type in {"text", "code_inline"})


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_only_the_agreed_subset(path: Path) -> None:
    """No HTML, links, tables, quotes or numbered lists; outside of code nothing that becomes a link or a mention."""
    for token in tokens(render(result(path.stem))):
        assert token.type in SUBSET, token
        assert token.type != "text" or not LIVE.search(token.content), token.content


@pytest.mark.parametrize("evil", EVIL, ids=repr)
def test_a_hostile_word_is_text_everywhere(evil: str) -> None:
    """In every place that shows what a customer wrote."""
    said = {"kind": "log", "text": evil, "member": evil or "m", "line": 1, "excerpt": [evil]}
    advice = {"id": evil, "reason": evil, "now": [evil], "undo": [evil], "cost": evil, "verify": {"how": evil}}
    document = with_findings(
        {"title": evil, "means": evil, "entity": evil, "evidence": [said], "against": [said], "remedies": [advice]},
        {"rule": evil, "title": evil, "entity": evil},
        case=evil,
        ruled_out=[{"rule": "ALT-01", "title": evil, "because": evil, "evidence": [said]}],
        ask={"text": evil, "commands": [evil]},
        tool={"version": evil, "rules_digest": evil, "options": {"process": evil}},
    )
    document["verdict"] |= {"rule": "THP-001", "sentence": evil, "severity": "high", "confidence": "likely"}
    report = render(document)
    wanted = [token.type for token in PARSER.parse(render(_tame(document))) if token.type != "fence"]
    assert [token.type for token in PARSER.parse(report) if token.type != "fence"] == wanted
    for token in tokens(report):
        assert token.type in SUBSET, token
        assert token.type != "text" or not LIVE.search(token.content), token.content


def _tame(value: Any) -> Any:
    """The same document with a harmless word wherever a hostile one stood."""
    if isinstance(value, dict):
        return {key: _tame(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tame(item) for item in value]
    return "word" if value in EVIL and value else value


@pytest.mark.parametrize("evil", [one for one in EVIL if one.strip()], ids=repr)
def test_what_is_shown_is_what_was_said(evil: str) -> None:
    """A reader sees the words as they are, with white space folded and controls written out."""
    visible = evil.replace("\u202e", r"\u202e").replace("\x1b", r"\x1b")
    assert shown(paragraph(f"before {evil} after")) == " ".join(f"before {visible} after".split())
    assert shown(code(visible.replace("\n", " "))) == visible.replace("\n", " ")


@pytest.mark.parametrize("text", ["```", "````\n~~~", "`x`", "plain", "", "  indented\n\nlast"])
def test_a_block_holds_whatever_is_in_it(text: str) -> None:
    """The fence is longer than any in the text."""
    (token,) = PARSER.parse(code_block([text], "sh"))
    assert (token.type, token.content) == ("fence", f"{text}\n")


def test_the_order_is_the_order_of_reading() -> None:
    """Verdict, confidence, proof with place and excerpt, ruled out, commands, undo, others, what to ask, reproduce."""
    report = render(result("found"))
    wanted = [
        "## thpdiag: chaos", "**Found.** CPUs queue on", "confidence confirmed", "**Host:**",
        "**Proof:** `ticket-4711.txt:28` 93.8 %", "**Do now:**", "echo never >", "**Undo:**", "**Verify:**",
        "**Confidence:**", "### Proof", "223182.00 93.8%", "### Not the cause", "### What to do", "### Also found",
        "### What to request from the customer", "### Reproduce", "thpdiag analyze",
    ]  # fmt: skip
    places = [report.find(part) for part in wanted]
    assert -1 not in places
    assert places == sorted(places)


def test_commands_stand_as_they_are() -> None:
    """Every line of every command of the leading finding is a line of a block."""
    document = result("found")
    blocks = {
        line for token in tokens(render(document)) if token.type == "fence" for line in token.content.splitlines()
    }
    (leader,) = [f for f in document["findings"] if f["rule"] == document["verdict"]["rule"]]
    for advice in leader["remedies"]:
        for command in (*advice["now"], *advice["persist"], *advice["undo"]):
            assert set(command.splitlines()) <= blocks


def test_at_most_five_are_ruled_out() -> None:
    """The others are counted."""
    out = [{"rule": f"ALT-{n}", "title": f"Cause {n}", "because": f"number {n}"} for n in range(9)]
    report = render(with_findings(ruled_out=out))
    assert [f"Cause {n}" in report for n in range(9)] == [True] * 5 + [False] * 4
    assert "- and 4 more in the full report" in report


def test_all_hosts_are_told() -> None:
    """Each with a heading of its own."""
    report = render(result("several_hosts"))
    assert re.findall("^## thpdiag: (.*)$", report, re.MULTILINE) == ["chaos", "db07", "uek01"]


def test_what_is_accepted() -> None:
    """The cause says that it is accepted; others are counted, or told with --show-suppressed."""
    document = with_findings({**accepted()}, {"rule": "THP-002", "title": "Other", **accepted()})
    document["verdict"]["rule"] = "THP-001"
    short, full = render(document), render(document, Presentation(suppressed=Suppressed.SHOWN))
    assert "**Accepted:** by a suppression until 2027-01-31: known, change is planned" in short
    assert "- 1 accepted finding left out" in short
    assert "Other" not in short
    assert "Other (accepted by a suppression" in full


def test_the_options_are_part_of_the_command() -> None:
    """What changes the analysis can be run again, quoted for a shell."""
    options = {"since": "10:00; rm -rf /", "at": None, "set": "A-1.b=1, A-2.c=0.1 /s"}
    report = render({**with_findings(), "tool": {"options": options}})
    assert (
        "\nthpdiag analyze WHAT-THE-CUSTOMER-SENT --set=A-1.b=1 '--set=A-2.c=0.1 /s' '--since=10:00; rm -rf /'\n"
        in report
    )


def test_a_summary_of_github_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 1 MiB: whole blocks are left out at the end, and that is said."""
    assert markdown.MAX_BYTES <= 1024 * 1024
    monkeypatch.setattr(markdown, "MAX_BYTES", 2000)
    report = render(result("found"))
    assert len(report.encode()) <= 2000
    assert report.endswith(f"{markdown.CUT}\n")
    assert {token.type for token in tokens(report)} <= SUBSET
    huge = {**with_findings({"means": "ü" * 5_000_000}), "ask": {"commands": ["y" * 50_000] * 500}}
    huge["verdict"]["rule"] = "THP-001"
    monkeypatch.undo()
    assert len(render(huge).encode()) <= 1024 * 1024
