"""Cleaning of terminal sessions, tickets and mails, and recognition of prompts and changes of speaker.

Text that customers send has passed through terminals, mail programs and web pages. This module strips escape sequences,
HTML tags, quoting and typographic quotes from a line and classifies it: a prompt with a command, a change of speaker,
or another line, whose format the parsers determine.

A text that one parser reads from end to end may skip most of its lines unseen: in a log of a hundred thousand lines, a
few hundred have a relevant word. One search for these words in the bytes of many lines costs a hundredth of creating a
numbered string for each of them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import re2

from thpdiag.bundle.member import Block, NumberedLines
from thpdiag.detect.timestamps import split_date
from thpdiag.model import Moment

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]|[()][0-9A-B])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_INVISIBLE_IN_NUMBER = re.compile(r"(?<=\d)[\u200b-\u200d\u2060\ufeff](?=\d)")  # one number, or two without a blank
_TYPOGRAPHY = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
     "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2212": "-",
     "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u2026": "..."}
)  # fmt: skip
# One dash that an editor made from two hyphens: in an option, a run of dashes, or the bars of a call graph.
_TWO_DASHES = re.compile(
    "(?<![\\w)\u2013\u2014-])[\u2013\u2014](?=[A-Za-z]{2})|[\u2013\u2014](?=[-\u2013\u2014])|"
    "(?<=[|%\u2013\u2014-])[\u2013\u2014]"
)
_BAR_WITH_SHARE = re.compile("(?<!\\w)[\u2013\u2014]([\\d.]{1,9}%?)[\u2013\u2014]")
# A line with columns that are not separated by tabs; or the fields of sadf -p.
_COLUMNS = re.compile(r"  |\t | \t|\t-?\d{1,9}\t\d{4}-\d\d-\d\d ")
_LINE_NUMBER = re.compile(r"[ \t]*(?:\d{1,7}[:-]?[ \t]+)?")  # the text after it may be indented by tabs
_SCROLL_BAR = re.compile(r"\s[\u2588\u2591-\u2593\u25c6\u2191\u2193]\s*$")  # of perf's browser, at the right edge
# Excludes the marks of collectl and of Gatling.
_QUOTE = re.compile(r"[ \t]?(?:>[ \t]?)+(?!>? ?\d+\.\d+ <<<| ?[a-z][\w ()/]{5,120}\s\|? *[\d.,]+ *(?:\(OK=|\|))")
_COLLECTL_MARK = re.compile(r"\s*>>> \d+\.\d+ <<<")
_TAG = re.compile(r"</?(?:p|br|pre|code|div|span|b|i|em|strong|tt|a|h[1-6]|li|ul|ol|t[dhr]|table|tbody|blockquote|font|"
                  r"html|body|head|hr|img)\b[^<>]{0,400}>", re.IGNORECASE)  # fmt: skip
_BREAKS = re.compile(r"(?:</?(?:p|br|div|h[1-6]|li|ul|ol|tr|table|tbody|blockquote|pre|body|html|hr)\b[^<>]{0,400}>"
                     r"[ \t]{0,80}){1,80}", re.IGNORECASE)  # fmt: skip
_CELL = re.compile(r"</t[dh]>\s{0,80}(?=<t[dh]\b)", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#160|#62|#60);")  # remains of web pages
_FORUM_TAG = re.compile(
    r"\[/?(?:code|font|pre|size|color|quote|noparse|tt|mono|php|bash)(?:=[^\[\]]{0,80})?\]", re.IGNORECASE
)
_FORUM_HINT = re.compile(r"\[/(?:code|font|pre|size|color|noparse|tt|mono|php|bash)\]", re.IGNORECASE)
_BOLD_WORD = re.compile(r"\[\*\*([\w+]{1,20})\*\*\]")  # the selected word of a setting, in bold by Markdown
_FENCE = re.compile(r"^\s{0,8}`{3}(?!`|\s{0,8}[\w+#.-]{0,20}$)|(?<=[^`\s])\s{0,200}`{3}$")  # on a line of text
_HTML_HINT = re.compile(r"<(?:html|body|p|br|pre|div|blockquote|table)\b[^<>]{0,200}/?>", re.IGNORECASE)

# Programs that make a line with a bare `# ` or `$ ` a command; any other word after `# ` makes it a comment.
COMMANDS = (
    "sudo|su|cat|echo|grep|egrep|zgrep|awk|sed|head|tail|less|more|ls|uname|uptime|date|time|for|while|watch|perf|"
    "vmstat|collectl|sar|sadf|mpstat|iostat|pidstat|ps|top|free|slabtop|numactl|numastat|sysctl|tuned-adm|dmesg|"
    "journalctl|rpm|dpkg|lscpu|nproc|crash|stress|stress-ng|redis-cli|java|find|mount|df|sync|grubby|systemctl|"
    "service|cd|which|getconf|strace|pstack|pmap|thpmaps|gdb|hostname|hostnamectl|export|bt|foreach|kmem|"
    r"bpftrace(?=\s+(?:-[a-z]|\S{1,200}\.bt\b))|trace-cmd(?=\s+(?:record|report|start|stop|show|stat)\b)|[a-z]{4,14}-bpfcc|"
    r"jcmd(?=\s+\d)|j(?:stat|stack|info)(?=\s+(?:-[a-zA-Z]|\d))|kubectl(?=\s+(?:get|describe|top)\s+[a-z])"
)
# Headers of perf, strace -c and sadf -d, and files with the names of commands
_NOT_TYPED = (
    r"# (?:(?:hostname|perf version|time of \w+ sample) ?: |hostname;interval;timestamp|/(?:proc|sys|etc)/\S+\s*$)|"
    r"% time +seconds +usecs/call|# +time +(?:cpu +)?counts +unit"
)
# `sleep 5` is a command; a remark has other words after the number.
_PAUSE = r"sleep\s{1,4}[\d.]{1,9}[smhd]?\s{0,4}(?:[;&|].{0,400})?$"
_WHO = r"(?P<user>[\w.$-]{1,64})@(?P<host>[\w.-]{1,255})"
_KNOWN = rf"(?P<cmd>(?:[\w./]{{1,200}}/)?(?:{COMMANDS})\b.*|{_PAUSE})"
_CLOCK = r"\d\d?:\d\d(?::\d\d)?"
_PROMPTS = (
    re.compile(
        rf"\[(?:{_CLOCK} )?{_WHO}(?:[ :](?P<folder>[^\]]{{0,200}}))?\](?:[~/]\S{{0,200}})?\s?[#$%>]\s*(?P<cmd>.*)"
    ),
    re.compile(rf"{_WHO}[: ](?P<folder>[~/][^#$%>]{{0,200}})[#$%>]\s*(?P<cmd>.*)"),
    re.compile(r"(?P<host>[A-Za-z][\w.-]{0,254}):(?P<folder>(?:~|/(?!/))[^#$%>]{0,200})\s?[#$]\s*(?P<cmd>.*)"),  # SUSE
    re.compile(r"-?(?:bash|sh|ksh|dash|zsh)-[\d.]+[#$]\s*(?P<cmd>.*)"),
    re.compile(rf"(?!{_NOT_TYPED})[#$%]\s?>?\s?{_KNOWN}"),
    re.compile(rf"(?:crash(?:64)?|gdb)>\s*{_KNOWN}"),
    re.compile(r"\$\s(?P<cmd>(?:[A-Za-z_]\w{0,40}=\S{0,200}\s){0,6}(?:\./|/)?[\w./-]+(?:\s.*)?)$"),
    # Forms that may be prose: only a known command makes them a prompt.
    re.compile(rf"{_WHO}\s?[#$>]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?P<host>[A-Za-z][\w.-]{{0,254}})[#$]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?:(?P<host>[A-Za-z][\w.-]{{0,254}}) )?[~/]\S{{0,200}} [#$]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?:\+{{1,3}}|[➜❯]\s{{1,3}}(?:\S{{1,60}} )?)\s?{_KNOWN}"),  # set -x; zsh
)
_PROMPT_PREFIX = re.compile(
    rf"(?:\([\w.@-]{{1,40}}\) |\[?(?:\d{{4}}-\d\d-\d\d[ T])?{_CLOCK}\]? ?)(?=\S)"
)  # conda; a clock
_PROMPT_SIGN = re.compile("[#$%>➜❯+]")
_PROMPT_HINT = re.compile(r"[\w.\[\]@:~/ ()-]{0,120}[#$%>➜❯]|\+")
_SPEAKER = re.compile(
    r"(?:\S.{0,180}\s(?:wrote|writes|said|a écrit|schrieb(?:\s[^:]{1,80})?)\s?:|(?:From|Von|De):\s+(?P<from>\S.*))$"
)
# ServiceNow's journal: `2026-11-09 12:00:00 - Bob Miller (Additional comments)`
_JOURNAL = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - (?P<name>[^\W\d_][^:;{}()\[\]]{1,80}) "
    r"\((?:Additional comments|Work notes)\b.{0,40}\)$"
)
_COMMENT = re.compile(r"\s{0,6}(?P<number>\d{1,4})\.\s+(?P<name>[^\W\d_][^.!?:;]{0,48}?|Pingback: .{1,200})\s*$")
_RULE_LINE = re.compile(r"-{3,}\s*(?:Original Message|Forwarded|Comment|Kommentar).{0,80}$", re.IGNORECASE)
_WATCH = re.compile(r"[^\W\d_][\w ]{2,20} \d{1,6}[.,]\d{1,2}s: (?P<rest>.{8,400})$")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.ASCII)
_QUOTED = re.compile(r"^[ \t]*>", re.MULTILINE)


class TextLine(NamedTuple):  # there are millions: creating a frozen dataclass takes three times as long
    """A cleaned line."""

    number: int
    text: str
    depth: int = 0  # of mail quoting, which was stripped
    stamp: str = ""  # a time that preceded the line


class Prompt(NamedTuple):
    """A typed command, with host, folder and user of the prompt, empty if it does not show them; `#` is root's."""

    command: str
    host: str = ""
    folder: str = ""
    user: str = ""


def without_domain(host: str) -> str:
    """Return the first label of a host name. Addresses are unchanged, since those of a network begin alike."""
    return host if _ADDRESS.fullmatch(host) else host.partition(".")[0]


def has_domain(host: str) -> bool:
    """Whether a host name has a distinctive domain; `localdomain` is the default of installers."""
    return host != without_domain(host) and not host.endswith(".localdomain")


class HostNames:
    """Unique labels of the hosts in a text.

    A label is the first label of the host name, or the full name if that is already used by another host, as for
    db1.prod.example.com and db1.stage.example.com.
    """

    def __init__(self) -> None:
        self._full_names: dict[str, str] = {}  # by label

    def label(self, name: str, current: str) -> str:
        """Return the label of a host. A name without domain that fits the label `current` is the same host."""
        short = without_domain(name)
        if not has_domain(name):
            return current if without_domain(current) == short else short
        return short if self._full_names.setdefault(short, name) == name else name


def looks_like_html(head: str) -> bool:
    """Whether a text has markup to strip: at least two HTML block tags, or one forum tag, in its first part."""
    return len(_HTML_HINT.findall(head[:65536])) >= 2 or _FORUM_HINT.search(head[:65536]) is not None


def clean(text: str) -> str:
    """Return a line without escape sequences, control characters, entities and typographic variants of ASCII."""
    if "&" in text and _ENTITY.search(text) and "<" not in text and ">" not in text:  # otherwise markup, or literal
        text = html.unescape(text)
    if "[**" in text:
        text = _BOLD_WORD.sub(r"[\1]", text)
    if "```" in text:
        text = _FENCE.sub("", text.rstrip())
    if text.isascii() and text.isprintable():
        return text.rstrip()
    text = _SCROLL_BAR.sub("", _ESCAPES.sub("", text))
    text = _CONTROLS.sub("", _INVISIBLE_IN_NUMBER.sub("?", text))
    text = _TWO_DASHES.sub("--", _BAR_WITH_SHARE.sub(r"--\1--", text)).translate(_TYPOGRAPHY).rstrip()
    start = number.end() if (number := _LINE_NUMBER.match(text)) else 0
    if "\t" in text[start:] and not _COLUMNS.search(text, start):  # an editor or web page made cells of the columns
        text = text[:start] + text[start:].replace("\t", "  ")
    return text


def plain_lines(block: Block) -> list[str] | None:
    """Return the lines of a piece of text, with trailing blanks stripped; None if they need more cleaning."""
    text = block.text
    if block.parted is not None or not text.isascii() or not text.replace("\n", "").isprintable():
        return None
    if (
        "[**" in text
        or "```" in text
        or ("&" in text and _ENTITY.search(text))
        or (">" in text and _QUOTED.search(text))
    ):
        return None
    return list(map(str.rstrip, text.split("\n")))


def clean_lines(lines: Iterable[tuple[int, str]], *, markup: bool) -> Iterator[TextLine]:
    """Yield the cleaned lines of a text, with their depth of quoting."""
    for number, raw in lines:
        if markup:
            for part in _without_tags(raw):
                yield clean_line(number, part)
        elif not any(sign in raw for sign in (">", "&", "[**", "```")) and raw.isascii() and raw.isprintable():
            yield TextLine(number, raw.rstrip())
        else:
            yield clean_line(number, raw)


def clean_line(number: int, raw: str) -> TextLine:
    """Return the cleaned line, with its depth of quoting."""
    text = clean(raw)
    if text.lstrip()[:1] == ">" and not _COLLECTL_MARK.match(text) and (mark := _QUOTE.match(text)):
        return TextLine(number, text[mark.end() :], mark[0].count(">"))
    return TextLine(number, text)


def _without_tags(raw: str) -> Iterator[str]:
    """Yield the lines that a browser shows for a line of HTML: one per paragraph or row, empty after two breaks."""
    parts, start = [], 0
    raw = _FORUM_TAG.sub("", _CELL.sub("\t", raw))
    for tags in _BREAKS.finditer(raw):
        parts.append(raw[start : tags.start()])
        parts += [""] * (tags[0].lower().count("<br") > 1)
        start = tags.end()
    parts.append(raw[start:])
    texts = [html.unescape(_TAG.sub("", part)) for part in parts]
    filled = [number for number, text in enumerate(texts) if text.strip()]
    yield from texts[filled[0] : filled[-1] + 1] if filled else [""]


def parse_prompt(text: str) -> Prompt | None:
    """Return the prompt and command of a line, None if it has no prompt."""
    if not _PROMPT_SIGN.search(text):
        return None
    start = text.lstrip()
    if not start or not _PROMPT_HINT.match(start):
        return None
    prompt = _match_prompt(start)
    if prompt is None and (prefix := _PROMPT_PREFIX.match(start)):
        prompt = _match_prompt(start[prefix.end() :])
    return prompt


def parse_watch(text: str) -> tuple[Prompt, Moment] | None:
    """Parse the first line of a screen of watch: `Every 2.0s: COMMAND     HOST: DATE`, in any language.

    Old versions print no host. A long command is cut.
    """
    match = _WATCH.match(text) if "s: " in text else None
    if match is None:
        return None
    rest, moment = split_date(match["rest"])
    command, blank, host = rest.rpartition(" ")
    if not host.endswith(":"):
        command, blank, host = rest, " ", ":"
    return (Prompt(command.strip().removesuffix("..."), host[:-1]), moment) if moment and blank else None


def _match_prompt(start: str) -> Prompt | None:
    for pattern in _PROMPTS:
        if match := pattern.match(start):
            groups = match.groupdict()
            sign = start[: match.start("cmd")].rstrip()[-1:]
            user = "root" if sign == "#" else groups.get("user") or ""
            return Prompt(groups["cmd"].strip(), groups.get("host") or "", (groups.get("folder") or "").strip(), user)
    return None


def parse_speaker(text: str, following: str) -> str | None:
    """Return the name in a line that introduces a speaker: a mail header, an attribution, or the title of a comment.

    The title of a numbered comment is a number and a name alone on a line, followed by an empty line (blog software).
    """
    if (match := _SPEAKER.match(text.strip())) and len(text) < 200:
        return (match["from"] or text).strip()
    if _RULE_LINE.match(text.strip()):
        return text.strip()
    if journal := _JOURNAL.match(text.strip()):
        return journal["name"]
    if not following.strip() and (comment := _COMMENT.match(text)):
        return comment["name"]
    return None


_Find = Callable[[bytes, int], Any]  # returns the first match from an offset, or None
# Bytes that cleaning may remove or replace, which may form a word that is not in the raw bytes.
_CLEANED = rb"[^\t\n -~]"


class WholeText:
    """Iterator over the numbered, cleaned lines of a member. The lines of a block remain bytes until requested."""

    def __init__(self, lines: Iterable[tuple[int, str]], *, markup: bool) -> None:
        blocks = lines.blocks if isinstance(lines, NumberedLines) and not markup else None
        self._blocks = blocks or iter((Block(1, "", lines),))
        self._markup = markup
        self._numbered: Iterator[TextLine] = iter(())  # lines of a block that is not plain text
        self._text, self._offset, self._line = b"", 1, 0  # of plain text: offset and number of the next line
        self._next: tuple[int, str] | None = None
        self.passed: tuple[int, bytes] = (0, b"")  # the last line that was skipped at the end of a block

    @property
    def number(self) -> int | None:
        """The number of the next line; None at the end."""
        self._next = self._next or next(self, None)
        return self._next[0] if self._next else None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        if line_and_number := self._next:
            self._next = None
            return line_and_number
        while self._offset > len(self._text):
            if (line := next(self._numbered, None)) is not None:
                return line.number, line.text
            if not self._next_block():
                raise StopIteration
        end = self._text.find(b"\n", self._offset)
        end = end if end >= 0 else len(self._text)
        line = clean_line(self._line, self._text[self._offset : end].decode())
        self._line, self._offset = self._line + 1, end + 1
        return line.number, line.text

    def pass_over(self, words: tuple[str, ...]) -> int:
        """Skip lines without any of these ASCII words, and return their number. May also stop before other lines."""
        find, count, text = _search_function(words), 0, self._text
        while not self._next and self._offset <= len(text):
            if match := find(text, self._offset):
                begin = text.rfind(b"\n", self._offset, match.start()) + 1 or self._offset
                lines = text.count(b"\n", self._offset, begin)
            else:
                begin, lines = len(text) + 1, text.count(b"\n", self._offset) + 1
                end = len(text.rstrip(b"\n"))
                self.passed = self._line + lines - 1, text[text.rfind(b"\n", self._offset, end) + 1 : end]
            self._line, self._offset, count = self._line + lines, begin, count + lines
            if match or not self._next_block():
                break
            text = self._text
        return count

    def _next_block(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            return False
        if block.parted is None:
            self._text, self._offset, self._line = block.text.encode(), 0, block.number
        else:
            self._text, self._offset, self._numbered = b"", 1, clean_lines(block.parted, markup=self._markup)
        return True


@cache
def _search_function(words: tuple[str, ...]) -> _Find:
    """Return a search for one of the words, or for a byte that cleaning may change."""
    find: _Find = re2.compile(b"|".join((_CLEANED, *(re2.escape(word.encode()) for word in words)))).search
    return find
