"""The HTML page: complete without script, nothing fetched, nothing of the input alive in it."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from jinja2 import DictLoader, FileSystemLoader

from thpdiag.errors import InputError
from thpdiag.report.html import environment, from_page, render

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*.json"), key=str)
LEAST = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}
_WORDS = re.compile(r"\S+")
ELEMENTS = set(
    _WORDS.findall(
        """html head meta title style body main article header footer nav section h1 h2 h3 h4 p a dl dt dd ul ol li code
        pre span strong details summary figure figcaption svg g rect path text br wbr div em i table thead tbody
        tr th td script"""
    )
)
ATTRIBUTES = set(
    _WORDS.findall(
        """lang charset http-equiv content name id class href tabindex role aria-label aria-labelledby scope open type
        viewbox preserveaspectratio width height x y d fill fill-opacity stroke stroke-width stroke-dasharray
        vector-effect pointer-events font-size text-anchor aria-hidden data-host data-clock data-x data-s data-y
        data-share data-boot shape-rendering paint-order"""
    )
)
VOID = {"meta", "br", "wbr"}


class _Page(HTMLParser):
    """What a page is made of, and whether its elements are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.unbalanced: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _document(name: str) -> dict[str, Any]:
    return _read(Path(__file__).parents[1] / "results" / f"{name}.json")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_page_has_only_our_elements(path: Path) -> None:
    """Elements and attributes are ours, all closed, no handler, no inline style, ids used once."""
    page = _Page(render(_read(path)))
    assert page.unbalanced == []
    assert {tag for tag, _ in page.elements} <= ELEMENTS
    assert {name for _, attributes in page.elements for name in attributes} <= ATTRIBUTES
    assert [attributes for tag, attributes in page.elements if tag == "script"] == [
        {},
        {"type": "application/gzip+base64", "id": "result"},
        {"type": "module"},
    ]
    ids = Counter(attributes["id"] for _, attributes in page.elements if "id" in attributes)
    assert ids.most_common(1)[0][1] == 1


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_page_fetches_nothing(path: Path) -> None:
    """Links stay in the page and lead to something, the style loads nothing, and the policy forbids the rest."""
    page = render(_read(path))
    parsed = _Page(page)
    ids = {attributes.get("id") for _, attributes in parsed.elements}
    links = [attributes["href"] or "" for _, attributes in parsed.elements if "href" in attributes]
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    assert not re.search(r"url\(|@import", page.partition("<style>")[2].partition("</style>")[0])
    policy = next(a["content"] for _, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[\w+/=]+' 'sha256-[\w+/=]+'; "
        r"style-src 'sha256-[\w+/=]+'; base-uri 'none'; form-action 'none'",
        policy or "",
    )


def test_hostile_text_is_shown_not_obeyed() -> None:
    """Tags, template marks, escapes and bidirectional controls of the input stand in the page as visible text."""
    page = render(_document("hostile"))
    shown = _Page(page).text
    assert "<img src=x onerror=" in shown
    assert "{{ 7*7 }}" in shown
    assert r"\x1b[31m\u202e\u2066" in shown
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", page)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_page_gives_its_document_back(path: Path) -> None:
    """The document that a page was made of can be taken out of it; there it has no sign that HTML reads."""
    page = render(_read(path))
    assert from_page(page) == _read(path)
    assert re.fullmatch("[A-Za-z0-9+/=]+", page.partition('id="result">')[2].partition("</script>")[0])


def test_a_page_with_plain_json_gives_its_document_back() -> None:
    """Pages of the first version carry it so."""
    document = _document("found")
    assert from_page(f'<script type="application/json" id="result">{json.dumps(document)}</script>') == document


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<p>no result</p>",
        '<script type="application/json" id="result">{',
        '<script type="application/json" id="result">{</script>',
        '<script type="application/json" id="result">[]</script>',
        '<script type="application/gzip+base64" id="result">e30=</script>',
        '<script type="application/gzip+base64" id="result">{}</script>',
        '<script type="application/gzip+base64" id="result">H4sIAAAAAAAC/6uu</script>',
    ],
)
def test_a_page_without_a_result_is_the_users_mistake(page: str) -> None:
    """A page that is not ours, or is damaged, gives a sentence."""
    with pytest.raises(InputError, match="result"):
        from_page(page)


def test_the_first_screen_has_the_command_and_its_undo() -> None:
    """The verdict block holds sentence, confidence with its reason, the command to try and how to take it back."""
    block = render(_document("found")).partition("<header")[2].partition("</header>")[0]
    text = " ".join(_Page(block).text.split())
    for wanted in (
        "CPUs queue on the zone locks",
        "confirmed by on/off switch, call stacks",
        "echo never > /sys/kernel/mm/redhat_transparent_hugepage/defrag",
        "echo always > /sys/kernel/mm/redhat_transparent_hugepage/defrag",
    ):
        assert wanted in text


def test_the_first_screen_says_what_the_command_is_for() -> None:
    """Where nothing is decided, the wrong setting that can be mended stands with its line above the command."""
    first = render(_document("cannot_tell")).partition("</header>")[0]
    assert (
        first.index("The boot line says never")
        < first.index("sos_commands/boot/cmdline<wbr>:1")
        < first.index("tuned-adm")
    )


def test_a_host_without_a_name_is_called_so() -> None:
    """A document calls it `host`; the page does not take that for its name."""
    page = render({**LEAST, "case": "host", "host": {"name": "host"}})
    assert "<title>unnamed host: " in page
    assert "<dt>Name</dt><dd>unnamed host</dd>" in page
    assert "<dt>Name</dt><dd>ticket 7</dd>" in render({**LEAST, "case": "ticket 7", "host": {"name": "host"}})


def test_many_episodes_are_folded() -> None:
    """Of two hundred episodes and fifty actions the first of each are shown, the rest waits below."""
    told = {
        "episodes": [{"from": 100 * n, "to": 100 * n + 9, "clock": "day", "text": f"episode {n}."} for n in range(200)],
        "actions": [{"text": f"wrote {n}."} for n in range(50)],
    }
    page = render({**LEAST, "timeline": told})
    shown, _, folded = page.partition("<summary>The other episodes and actions</summary>")
    for first, other in (("episode 11.", "episode 12."), ("wrote 11.", "wrote 12.")):
        assert first in shown
        assert other not in shown
        assert other in folded
    assert "episode 199." in folded


def test_free_blocks_are_on_the_page() -> None:
    """A reading of /proc/buddyinfo: the counts, their shape, the share that huge pages can use, and the place."""
    told = {"node": "0", "zone": "Normal", "counts": [512, *[0] * 8, 1], "member": "buddyinfo", "line": 3}
    page = render({**LEAST, "host": {"free_blocks": [told]}})
    row = page.partition("<td>node 0 zone Normal</td>")[2].partition("</tr>")[0]
    assert '<td class="number">50.0 %</td><td><code>512 0 0 0 0 0 0 0 0 1</code></td>' in row
    assert "buddyinfo<wbr>:3" in row
    assert row.count("v-12h") == 2


def test_sections_follow_the_order_of_reading() -> None:
    """Why, timeline, stacks, what to do, what is open, other findings, rules, host, inputs, problems, notes."""
    page = render(_document("found"))
    order = ["why", "timeline", "stacks", "do", "ask", "others", "rules", "host", "inputs", "problems", "notes"]
    places = [page.find(f' id="h1-{name}"') for name in order] + [page.find(' id="reproduce"')]
    assert -1 not in places
    assert places == sorted(places)


def test_headings_do_not_skip_a_level() -> None:
    """One h1, and below each heading the next level at most, so that a screen reader can walk the page."""
    levels = [
        int(tag[1]) for tag, _ in _Page(render(_document("several_hosts"))).elements if re.fullmatch("h[1-6]", tag)
    ]
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in zip([0, *levels], levels, strict=False))


def test_a_script_keeps_its_lines() -> None:
    """A command of several lines is shown with its line ends, so that it can be copied."""
    assert "if test -f /sys/kernel/mm/redhat_transparent_hugepage/defrag; then\n  echo never &gt;" in render(
        _document("found")
    )


def test_a_tree_names_what_would_have_been_needed() -> None:
    """A check of a match tree stands with its value and its threshold; a part without a threshold names none."""
    text = " ".join(_Page(render(_document("found"))).text.split())
    assert "yes compacting 2.2 % (needed: 0.5 %)" in text
    assert "(needed: )" not in text


def test_a_rule_that_only_a_finding_names_is_listed() -> None:
    """Rules stand in the list of all rules also when `rules` is absent from the document."""
    document = {
        **LEAST,
        "findings": [{"rule": "A-1", "title": "fired"}],
        "unknown": [{"rule": "B-1", "missing": ["m"]}],
    }
    page = render(document)
    assert "<td><code>A-1</code> fired</td><td>matched</td>" in page
    assert "<td><code>B-1</code> </td><td>data missing</td><td>needs m</td>" in page


def test_compiled_templates_are_never_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of a template is used while the template is the same; a damaged file or none is no harm."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "cache"))
    template = tmp_path / "page.html"

    def text(source: str) -> str:
        template.write_text(source, encoding="utf-8")
        return environment(FileSystemLoader(tmp_path)).get_template("page.html").render()

    assert text("{{ 1 }}") == text("{{ 1 }}") == "1"
    (compiled,) = (tmp_path / "cache").rglob("*.pyc")
    assert text("{{ 2 }}") == "2"
    whole = compiled.read_bytes()
    for damaged in (b"", whole[:20], whole[:-20]):
        compiled.write_bytes(damaged)
        assert text("{{ 2 }}") == "2"
        assert compiled.read_bytes() == whole
    compiled.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert text("{{ 2 }}") == "2"
    assert not compiled.exists()


def test_a_template_without_a_file_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compiled of a text in memory is kept nowhere."""
    monkeypatch.chdir(tmp_path)
    assert environment(DictLoader({"page": "{{ 1 }}"})).get_template("page").render() == "1"
    assert not list(tmp_path.iterdir())
