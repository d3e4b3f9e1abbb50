"""Terminal sessions, tickets and mails as text: what was typed, who speaks, what is only decoration.

Support gets text that went through terminals, mail programs and web pages. This file takes the decoration off a
line (escape sequences, HTML tags, quoting, typographic quotes) and says what the line is: a prompt with a command,
a change of speaker, or anything else. What formats the other lines are in is for the parsers.

A text that one parser reads from end to end may pass over most of its lines without looking at them: of a log of a
hundred thousand lines a few hundred hold a word that matters. One search for these words in the bytes of many lines
costs a hundredth of what it costs to make each of them a string with a number.
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
_DIGITS_APART = re.compile(r"(?<=\d)[\u200b-\u200d\u2060\ufeff](?=\d)")  # one number, or two with a blank lost
_TYPOGRAPHY = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
     "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2212": "-",
     "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u2026": "..."}
)  # fmt: skip
# One dash that an editor made of two: of an option, of a run of dashes, of the bars of a call graph.
_TWO_DASHES = re.compile(
    "(?<![\\w)\u2013\u2014-])[\u2013\u2014](?=[A-Za-z]{2})|[\u2013\u2014](?=[-\u2013\u2014])|"
    "(?<=[|%\u2013\u2014-])[\u2013\u2014]"
)
_BAR_WITH_SHARE = re.compile("(?<!\\w)[\u2013\u2014]([\\d.]{1,9}%?)[\u2013\u2014]")
# A line with columns of its own, of which tabs are no part; or fields of sadf -p.
_COLUMNS = re.compile(r"  |\t | \t|\t-?\d{1,9}\t\d{4}-\d\d-\d\d ")
_NUMBER = re.compile(r"[ \t]*(?:\d{1,7}[:-]?[ \t]+)?")  # of a line, before what may be indented by tabs
_SCROLL_BAR = re.compile(r"\s[\u2588\u2591-\u2593\u25c6\u2191\u2193]\s*$")  # of perf's browser, at the right edge
# Not the marks of collectl and of Gatling.
_QUOTE = re.compile(r"[ \t]?(?:>[ \t]?)+(?!>? ?\d+\.\d+ <<<| ?[a-z][\w ()/]{5,120}\s\|? *[\d.,]+ *(?:\(OK=|\|))")
_COLLECTL_MARK = re.compile(r"\s*>>> \d+\.\d+ <<<")
_TAG = re.compile(r"</?(?:p|br|pre|code|div|span|b|i|em|strong|tt|a|h[1-6]|li|ul|ol|t[dhr]|table|tbody|blockquote|font|"
                  r"html|body|head|hr|img)\b[^<>]{0,400}>", re.IGNORECASE)  # fmt: skip
_BREAKS = re.compile(r"(?:</?(?:p|br|div|h[1-6]|li|ul|ol|tr|table|tbody|blockquote|pre|body|html|hr)\b[^<>]{0,400}>"
                     r"[ \t]{0,80}){1,80}", re.IGNORECASE)  # fmt: skip
_CELL = re.compile(r"</t[dh]>\s{0,80}(?=<t[dh]\b)", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#39|#x27|#160|#62|#60);")  # left over by web pages
_FORUM_TAG = re.compile(
    r"\[/?(?:code|font|pre|size|color|quote|noparse|tt|mono|php|bash)(?:=[^\[\]]{0,80})?\]", re.IGNORECASE
)
_FORUM_HINT = re.compile(r"\[/(?:code|font|pre|size|color|noparse|tt|mono|php|bash)\]", re.IGNORECASE)
_BOLD_WORD = re.compile(r"\[\*\*([\w+]{1,20})\*\*\]")  # a setting's word in brackets that Markdown made bold
_FENCE = re.compile(r"^\s{0,8}`{3}(?!`|\s{0,8}[\w+#.-]{0,20}$)|(?<=[^`\s])\s{0,200}`{3}$")  # on a line of text
_HTML_HINT = re.compile(r"<(?:html|body|p|br|pre|div|blockquote|table)\b[^<>]{0,200}/?>", re.IGNORECASE)

# Words that start a command after a bare `# ` or `$ `; anything else after `# ` is a comment.
COMMANDS = (
    "sudo|su|cat|echo|grep|egrep|zgrep|awk|sed|head|tail|less|more|ls|uname|uptime|date|time|for|while|watch|perf|"
    "vmstat|collectl|sar|sadf|mpstat|iostat|pidstat|ps|top|free|slabtop|numactl|numastat|sysctl|tuned-adm|dmesg|"
    "journalctl|rpm|dpkg|lscpu|nproc|crash|stress|stress-ng|redis-cli|java|find|mount|df|sync|grubby|systemctl|"
    "service|cd|which|getconf|strace|pstack|pmap|thpmaps|gdb|hostname|hostnamectl|export|bt|foreach|kmem|"
    r"bpftrace(?=\s+(?:-[a-z]|\S{1,200}\.bt\b))|trace-cmd(?=\s+(?:record|report|start|stop|show|stat)\b)|[a-z]{4,14}-bpfcc|"
    r"jcmd(?=\s+\d)|j(?:stat|stack|info)(?=\s+(?:-[a-zA-Z]|\d))|kubectl(?=\s+(?:get|describe|top)\s+[a-z])"
)
# headers of perf, strace -c and sadf -d, and files that are called like commands, not typed by anybody
_NOT_TYPED = (
    r"# (?:(?:hostname|perf version|time of \w+ sample) ?: |hostname;interval;timestamp|/(?:proc|sys|etc)/\S+\s*$)|"
    r"% time +seconds +usecs/call|# +time +(?:cpu +)?counts +unit"
)
# A bare one is a command, with a number behind it; a remark speaks of seconds.
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
    # Forms that could be prose: only a known command makes them a prompt.
    re.compile(rf"{_WHO}\s?[#$>]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?P<host>[A-Za-z][\w.-]{{0,254}})[#$]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?:(?P<host>[A-Za-z][\w.-]{{0,254}}) )?[~/]\S{{0,200}} [#$]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?:\+{{1,3}}|[➜❯]\s{{1,3}}(?:\S{{1,60}} )?)\s?{_KNOWN}"),  # set -x; zsh
)
_LEAD = re.compile(rf"(?:\([\w.@-]{{1,40}}\) |\[?(?:\d{{4}}-\d\d-\d\d[ T])?{_CLOCK}\]? ?)(?=\S)")  # conda; a clock
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


class TextLine(NamedTuple):  # there are millions; a frozen dataclass takes three times as long to make
    """A cleaned line. `depth` is the depth of mail quoting that was taken off, `stamp` a time that stood before it."""

    number: int
    text: str
    depth: int = 0
    stamp: str = ""


_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.ASCII)


class Prompt(NamedTuple):
    """A command somebody typed.

    `host`, `folder` and `user` are those of the prompt, empty if it shows none; a `#` is root's.
    """

    command: str
    host: str = ""
    folder: str = ""
    user: str = ""


def without_domain(host: str) -> str:
    """The first part of a host's name. An address stays whole: those of a network begin alike."""
    return host if _ADDRESS.fullmatch(host) else host.partition(".")[0]


def has_domain(host: str) -> bool:
    """Whether it has one that tells the host from others: `localdomain` is what installers write."""
    return host != without_domain(host) and not host.endswith(".localdomain")


class HostNames:
    """What the hosts of a text are called: by the first part of their names, and by the whole name where that part was
    another's, as in db1.prod.example.com and db1.stage.example.com.
    """

    def __init__(self) -> None:
        self._whole: dict[str, str] = {}

    def label(self, name: str, current: str) -> str:
        """Of the host that is named below one that is `current`, whose name without a domain may come again."""
        short = without_domain(name)
        if not has_domain(name):
            return current if without_domain(current) == short else short
        return short if self._whole.setdefault(short, name) == name else name


def looks_like_html(head: str) -> bool:
    """Whether tags are to be taken off: at least two block tags in the first part of the text, or one of a forum."""
    return len(_HTML_HINT.findall(head[:65536])) >= 2 or _FORUM_HINT.search(head[:65536]) is not None


def clean(text: str) -> str:
    """A line without escape sequences, control characters, entities and typographic variants of ASCII signs."""
    if "&" in text and _ENTITY.search(text) and "<" not in text and ">" not in text:  # else it is markup, or meant
        text = html.unescape(text)
    if "[**" in text:
        text = _BOLD_WORD.sub(r"[\1]", text)
    if "```" in text:
        text = _FENCE.sub("", text.rstrip())
    if text.isascii() and text.isprintable():
        return text.rstrip()
    text = _SCROLL_BAR.sub("", _ESCAPES.sub("", text))
    text = _TWO_DASHES.sub("--", _BAR_WITH_SHARE.sub(r"--\1--", _CONTROLS.sub("", _DIGITS_APART.sub("?", text))))
    text = text.translate(_TYPOGRAPHY).rstrip()
    start = found.end() if (found := _NUMBER.match(text)) else 0
    if "\t" in text[start:] and not _COLUMNS.search(text, start):  # columns that an editor or a web page made cells of
        text = text[:start] + text[start:].replace("\t", "  ")
    return text


_QUOTED = re.compile(r"^[ \t]*>", re.MULTILINE)


def plain_lines(block: Block) -> list[str] | None:
    """The lines of a piece of text in which there is nothing to be cleaned off but blanks at their ends, else None."""
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
    """The lines of a text without decoration, quoting depth noted."""
    for number, raw in lines:
        if markup:
            for part in _without_tags(raw):
                yield clean_line(number, part)
        elif not any(sign in raw for sign in (">", "&", "[**", "```")) and raw.isascii() and raw.isprintable():
            yield TextLine(number, raw.rstrip())
        else:
            yield clean_line(number, raw)


def clean_line(number: int, raw: str) -> TextLine:
    """A line without decoration, its quoting depth noted."""
    text = clean(raw)
    if text.lstrip()[:1] == ">" and not _COLLECTL_MARK.match(text) and (mark := _QUOTE.match(text)):
        return TextLine(number, text[mark.end() :], mark[0].count(">"))
    return TextLine(number, text)


def _without_tags(raw: str) -> Iterator[str]:
    """The lines that a browser makes of a line of HTML: a paragraph or cell row each, an empty one for two breaks."""
    parts, at = [], 0
    raw = _FORUM_TAG.sub("", _CELL.sub("\t", raw))
    for found in _BREAKS.finditer(raw):
        parts.append(raw[at : found.start()])
        parts += [""] * (found[0].lower().count("<br") > 1)
        at = found.end()
    parts.append(raw[at:])
    texts = [html.unescape(_TAG.sub("", part)) for part in parts]
    filled = [number for number, text in enumerate(texts) if text.strip()]
    yield from texts[filled[0] : filled[-1] + 1] if filled else [""]


def parse_prompt(text: str) -> Prompt | None:
    """What was typed on this line, None if it is not a prompt."""
    if not _PROMPT_SIGN.search(text):
        return None
    start = text.lstrip()
    if not start or not _PROMPT_HINT.match(start):
        return None
    found = _match_prompt(start)
    if found is None and (lead := _LEAD.match(start)):
        found = _match_prompt(start[lead.end() :])
    return found


def parse_watch(text: str) -> tuple[Prompt, Moment] | None:
    """The first line of a screen of watch: `Every 2.0s: COMMAND     HOST: DATE`, in any language; without host in old
    ones. A long command is cut."""
    found = _WATCH.match(text) if "s: " in text else None
    if found is None:
        return None
    rest, moment = split_date(found["rest"])
    command, blank, host = rest.rpartition(" ")
    if not host.endswith(":"):
        command, blank, host = rest, " ", ":"
    return (Prompt(command.strip().removesuffix("..."), host[:-1]), moment) if moment and blank else None


def _match_prompt(start: str) -> Prompt | None:
    for pattern in _PROMPTS:
        if found := pattern.match(start):
            groups = found.groupdict()
            sign = start[: found.start("cmd")].rstrip()[-1:]
            user = "root" if sign == "#" else groups.get("user") or ""
            return Prompt(groups["cmd"].strip(), groups.get("host") or "", (groups.get("folder") or "").strip(), user)
    return None


def parse_speaker(text: str, following: str) -> str | None:
    """The name if this line says who speaks next: a mail header, an attribution, a comment with a date or a number.

    A numbered comment is a number and a name alone on a line, an empty line after it (blog software).
    """
    if (found := _SPEAKER.match(text.strip())) and len(text) < 200:
        return (found["from"] or text).strip()
    if _RULE_LINE.match(text.strip()):
        return text.strip()
    if journal := _JOURNAL.match(text.strip()):
        return journal["name"]
    if not following.strip() and (comment := _COMMENT.match(text)):
        return comment["name"]
    return None


_Find = Callable[[bytes, int], Any]  # a match behind an offset, or None
# What cleaning may take off or replace, so that a word stands there that was not in the bytes.
_CLEANED = rb"[^\t\n -~]"


class WholeText:
    """The cleaned lines of a member, with their numbers; those of a block are bytes until they are asked for."""

    def __init__(self, lines: Iterable[tuple[int, str]], *, markup: bool) -> None:
        in_blocks = lines.blocks if isinstance(lines, NumberedLines) and not markup else None
        self._blocks = in_blocks or iter((Block(1, "", lines),))
        self._markup = markup
        self._parted: Iterator[TextLine] = iter(())  # lines of a block that is no plain text
        self._text, self._at, self._line = b"", 1, 0  # of one that is: the offset and number of the next line
        self._held: tuple[int, str] | None = None
        self.passed: tuple[int, bytes] = (0, b"")  # the last line that was passed over at the end of a block

    @property
    def number(self) -> int | None:
        """Of the next line; None at the end."""
        self._held = self._held or next(self, None)
        return self._held[0] if self._held else None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        if held := self._held:
            self._held = None
            return held
        while self._at > len(self._text):
            if (line := next(self._parted, None)) is not None:
                return line.number, line.text
            if not self._next_block():
                raise StopIteration
        end = self._text.find(b"\n", self._at)
        end = end if end >= 0 else len(self._text)
        line = clean_line(self._line, self._text[self._at : end].decode())
        self._line, self._at = self._line + 1, end + 1
        return line.number, line.text

    def pass_over(self, words: tuple[str, ...]) -> int:
        """Pass over lines that hold none of these words of plain ASCII, and say how many; it may stop before others."""
        find, passed, text = _search_of(words), 0, self._text
        while not self._held and self._at <= len(text):
            if found := find(text, self._at):
                begin = text.rfind(b"\n", self._at, found.start()) + 1 or self._at
                lines = text.count(b"\n", self._at, begin)
            else:
                begin, lines = len(text) + 1, text.count(b"\n", self._at) + 1
                end = len(text.rstrip(b"\n"))
                self.passed = self._line + lines - 1, text[text.rfind(b"\n", self._at, end) + 1 : end]
            self._line, self._at, passed = self._line + lines, begin, passed + lines
            if found or not self._next_block():
                break
            text = self._text
        return passed

    def _next_block(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            return False
        if block.parted is None:
            self._text, self._at, self._line = block.text.encode(), 0, block.number
        else:
            self._text, self._at, self._parted = b"", 1, clean_lines(block.parted, markup=self._markup)
        return True


@cache
def _search_of(words: tuple[str, ...]) -> _Find:
    """A search for the first line of interest: that holds a word, or that cleaning may change."""
    found: _Find = re2.compile(b"|".join((_CLEANED, *(re2.escape(word.encode()) for word in words)))).search
    return found
