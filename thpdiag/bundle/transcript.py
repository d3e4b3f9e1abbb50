"""Terminal sessions, tickets and mails as text: what was typed, who speaks, what is only decoration.

Support gets text that went through terminals, mail programs and web pages. This file takes the decoration off a
line (escape sequences, HTML tags, quoting, typographic quotes) and says what the line is: a prompt with a command,
a change of speaker, or anything else. What formats the other lines are in is for the readers.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_]|[()][0-9A-B])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_TYPOGRAPHY = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u201c": '"', "\u201d": '"', "\u201e": '"',
     "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": "-", "\u2212": "-",
     "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u2026": "..."}
)  # fmt: skip
_QUOTE = re.compile(r"[ \t]?(?:>[ \t]?)+(?!>? ?\d+\.\d+ <<<)")
_COLLECTL_MARK = re.compile(r"\s*>>> \d+\.\d+ <<<")
_TAG = re.compile(r"</?(?:p|br|pre|code|div|span|b|i|em|strong|tt|a|h[1-6]|li|ul|ol|td|tr|table|tbody|blockquote|font|"
                  r"html|body|head|hr|img)\b[^<>]{0,400}>", re.IGNORECASE)  # fmt: skip
_BREAKS = re.compile(r"(?:</?(?:p|br|div|h[1-6]|li|ul|ol|tr|table|tbody|blockquote|pre|body|html|hr)\b[^<>]{0,400}>"
                     r"[ \t]{0,80}){1,80}", re.IGNORECASE)  # fmt: skip
_HTML_HINT = re.compile(r"<(?:html|body|p|br|pre|div|blockquote|table)\b[^<>]{0,200}/?>", re.IGNORECASE)

# Words that start a command after a bare `# ` or `$ `; anything else after `# ` is a comment.
COMMANDS = (
    "sudo|su|cat|echo|grep|egrep|zgrep|awk|sed|head|tail|less|more|ls|uname|uptime|date|time|for|while|watch|perf|"
    "vmstat|collectl|sar|sadf|mpstat|iostat|pidstat|ps|top|free|slabtop|numactl|numastat|sysctl|tuned-adm|dmesg|"
    "journalctl|rpm|dpkg|lscpu|nproc|crash|stress|stress-ng|redis-cli|java|find|mount|df|sync|grubby|systemctl|"
    "service|cd|which|getconf|strace|pstack|gdb|hostname|hostnamectl|export|bt|foreach"
)
# headers of perf and of sadf -d, not typed by anybody
_NOT_TYPED = r"# (?:(?:hostname|perf version|time of \w+ sample) ?: |hostname;interval;timestamp)"
_WHO = r"(?P<user>[\w.$-]{1,64})@(?P<host>[\w.-]{1,255})"
_KNOWN = rf"(?P<cmd>(?:[\w./]{{1,200}}/)?(?:{COMMANDS})\b.*)"
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
    re.compile(r"\$\s(?P<cmd>(?:\./|/)?[\w./-]+(?:\s.*)?)$"),
    # Forms that could be prose: only a known command makes them a prompt.
    re.compile(rf"{_WHO}\s?[#$>]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?P<host>[A-Za-z][\w.-]{{0,254}})[#$]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?:(?P<host>[A-Za-z][\w.-]{{0,254}}) )?[~/]\S{{0,200}} [#$]\s{{0,3}}{_KNOWN}"),
    re.compile(rf"(?:\+{{1,3}}|[➜❯]\s{{1,3}}(?:\S{{1,60}} )?)\s?{_KNOWN}"),  # set -x; zsh
)
_LEAD = re.compile(rf"(?:\([\w.@-]{{1,40}}\) |\[?(?:\d{{4}}-\d\d-\d\d[ T])?{_CLOCK}\]? ?)(?=\S)")  # conda; a clock
_PROMPT_SIGN = re.compile("[#$%>➜❯+]")
_PROMPT_HINT = re.compile(r"[\w.\[\]@:~/ ()-]{0,120}[#$%>➜❯]|\+")
_SPEAKER = re.compile(r"(?:\S.{0,80}\s(?:wrote|writes|said|schrieb|a écrit)\s?:|(?:From|Von|De):\s+(?P<from>\S.*))$")
_COMMENT = re.compile(r"\s{0,6}(?P<number>\d{1,4})\.\s+(?P<name>[^\W\d_][^.!?:;]{0,48}?|Pingback: .{1,200})\s*$")
_RULE_LINE = re.compile(r"-{3,}\s*(?:Original Message|Forwarded|Comment|Kommentar).{0,80}$", re.IGNORECASE)


class TextLine(NamedTuple):  # there are millions; a frozen dataclass takes three times as long to make
    """A cleaned line. `depth` is the depth of mail quoting that was taken off."""

    number: int
    text: str
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A command somebody typed.

    `host`, `folder` and `user` are those of the prompt, empty if it shows none; a `#` is root's.
    """

    command: str
    host: str = ""
    folder: str = ""
    user: str = ""


def looks_like_html(head: str) -> bool:
    """Whether tags are to be taken off: at least two block tags in the first part of the text."""
    return len(_HTML_HINT.findall(head[:65536])) >= 2


def clean(text: str) -> str:
    """A line without escape sequences, control characters and typographic variants of ASCII signs."""
    if text.isascii() and text.isprintable():
        return text.rstrip()
    text = _ESCAPES.sub("", text)
    return _CONTROLS.sub("", text).translate(_TYPOGRAPHY).rstrip()


def cleaned(lines: Iterable[tuple[int, str]], *, markup: bool) -> Iterator[TextLine]:
    """The lines of a text without decoration, quoting depth noted."""
    for number, raw in lines:
        if markup:
            for part in _without_tags(raw):
                yield cleaned_line(number, part)
        elif ">" not in raw and raw.isascii() and raw.isprintable():
            yield TextLine(number, raw.rstrip())
        else:
            yield cleaned_line(number, raw)


def cleaned_line(number: int, raw: str) -> TextLine:
    """A line without decoration, its quoting depth noted."""
    text = clean(raw)
    if text.lstrip()[:1] == ">" and not _COLLECTL_MARK.match(text) and (mark := _QUOTE.match(text)):
        return TextLine(number, text[mark.end() :], mark[0].count(">"))
    return TextLine(number, text)


def _without_tags(raw: str) -> Iterator[str]:
    """The lines that a browser makes of a line of HTML: a paragraph or cell row each, an empty one for two breaks."""
    parts, at = [], 0
    for found in _BREAKS.finditer(raw):
        parts.append(raw[at : found.start()])
        parts += [""] * (found[0].lower().count("<br") > 1)
        at = found.end()
    parts.append(raw[at:])
    texts = [html.unescape(_TAG.sub("", part)) for part in parts]
    filled = [number for number, text in enumerate(texts) if text.strip()]
    yield from texts[filled[0] : filled[-1] + 1] if filled else [""]


def prompt(text: str) -> Prompt | None:
    """What was typed on this line, None if it is not a prompt."""
    if not _PROMPT_SIGN.search(text):
        return None
    start = text.lstrip()
    if not start or not _PROMPT_HINT.match(start):
        return None
    found = _typed(start)
    if found is None and (lead := _LEAD.match(start)):
        found = _typed(start[lead.end() :])
    return found


def _typed(start: str) -> Prompt | None:
    for pattern in _PROMPTS:
        if found := pattern.match(start):
            groups = found.groupdict()
            sign = start[: found.start("cmd")].rstrip()[-1:]
            user = "root" if sign == "#" else groups.get("user") or ""
            return Prompt(groups["cmd"].strip(), groups.get("host") or "", (groups.get("folder") or "").strip(), user)
    return None


def speaker(text: str, following: str) -> str | None:
    """The name if this line says who speaks next: a mail header, an attribution, or a numbered comment.

    A numbered comment is a number and a name alone on a line, an empty line after it (blog software).
    """
    if (found := _SPEAKER.match(text.strip())) and len(text) < 200:
        return (found["from"] or text).strip()
    if _RULE_LINE.match(text.strip()):
        return text.strip()
    if not following.strip() and (comment := _COMMENT.match(text)):
        return comment["name"]
    return None
