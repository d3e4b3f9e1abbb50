"""A name, then content: how people and tools write which file or command a piece of text is.

    #==[ Configuration File ]===========================#      supportconfig: a section lasts to the next such line
    # /sys/kernel/mm/transparent_hugepage/enabled
    always [madvise] never

    ==> PATH <==    --- PATH ---    file: PATH    ### `PATH`    PATH and a ruler    3. PATH    PATH: |     content below
    PATH = VALUE    PATH: VALUE    PATH,"VALUE"    | PATH | VALUE |    - `PATH`: `VALUE`    VALUE (PATH)    beside it
    hugepages-64kB: [always] inherit madvise never             a folder of a size, which no other file has
    THP: always madvise [never]                                words for the file, where only the values can be meant
    {"path": PATH, "stdout": CONTENT}    {PATH: CONTENT}       JSON of tools, in base64 too (Ansible's slurp)
    db1 | CHANGED | rc=0 >>    ok: [db1] => {                  Ansible: the host of what comes below
    === db1 ===    ### 10.0.0.7                                people: the same, where others of its kind follow
    --------    db1    --------                                clush -b, dshbak: the same in three lines

All of them mean what `cat PATH` at a prompt does. A name counts only if what stands there can be the content of that
file: prose names paths all the time. Sources: supportutils, supportconfig.rc (conf_files, log_files, log_cmd); head(1),
more(1); clush(1), dshbak(1); Ansible's minimal and default callbacks, its command, debug, and slurp modules.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from thpdiag.knowledge.paths import output_name

MAX_JSON_LINES = 4000  # of one document
MAX_GAP_LINES = 3  # empty lines, rulers, the begin of a fence between a name and what it names
_MIN_RULER = 3  # signs

_PATH = r"/(?:proc|sys|etc|usr|boot|run|var|lib)/(?:[\w.+@-]+/){0,12}[\w.+@-]+"
_QUOTE = r"[`'\"*]{0,3}"
_WORDS = (
    r"(?:(?:contents?|output|result) of |(?:running|executing|command|cmd|file ?name|file|path|name|source|begin|start)"
    r"\b:? ?|cat ){0,2}"
)
_BEFORE = r"(?:[#=<>*:+~-]{1,40} ?|\d{1,3}[.)] |\[)?"
_REMARK = r"(?: \([\w /]{1,100}\)(?=:))?"  # `(defrag/compaction efforts parameter):` of a Java virtual machine
_AFTER = r"(?: ?[#=<>*:+~-]{1,80}|\])?"
_HEADING = re.compile(
    rf"\s{{0,8}}{_BEFORE}{_QUOTE}{_WORDS}{_QUOTE}(?P<path>{_PATH}){_QUOTE}{_REMARK}:?{_QUOTE}{_AFTER}\s*$",
    re.IGNORECASE,
)
_YAML = re.compile(rf"\s{{0,8}}(?:- )?{_QUOTE}(?P<path>{_PATH}){_QUOTE}: [|>][+-]?\s*$")
_END = re.compile(rf"(?:END|End)(?: of)?:? {_PATH}\s*$")
_RULER = re.compile(r"\s*([-=~_*#:])\1{2,}\s*$")
_FENCE = re.compile(r"\s{0,8}`{3}[\w+#.-]{0,20}\s*$")
_BRACKETED = r"(?:[a-z_+]{2,14} ){0,5}\[[a-z_+]{2,14}\](?: [a-z_+]{2,14}){0,5}"  # a word list of the kernel
_VALUE = rf"(?:{_BRACKETED}|-?\d[\d.]{{0,19}}(?:[ \t]+-?\d[\d.]{{0,19}}){{0,7}}|(?:BOOT_IMAGE|root)=\S.*)"
_BESIDE = re.compile(
    rf"\s{{0,8}}(?:[-*+|] |\d{{1,3}}[.)] |\"msg\": ?)?{_QUOTE}(?P<path>{_PATH}){_QUOTE}{_REMARK}\s{{0,40}}"
    rf"(?:->|=>|[:=|;,]|(?<=\s))\s{{0,40}}"
    rf"{_QUOTE}(?P<value>{_VALUE}){_QUOTE},?(?: ?\|)?\s*$"
)
_OF_SIZE = re.compile(
    rf"\s{{0,8}}{_QUOTE}(?:\./)?(?P<size>hugepages-\d{{1,7}}kB)(?:/(?P<file>(?:shmem_)?enabled))?{_QUOTE}\s{{0,40}}"
    rf"(?:->|=>|[:=|;,]|(?<=\s))\s{{0,40}}{_QUOTE}(?P<value>{_BRACKETED}){_QUOTE}\s*$"
)
_BEHIND = re.compile(rf"\s{{0,8}}(?P<value>{_VALUE}) {{1,4}}\((?P<path>{_PATH})\)\s*$")
_SUBJECT = (
    r"(?:(?:thp|transparent[ _-]?huge[ _-]?pages?(?: \(thp\))?)"
    r"(?:[ _/.-]{1,3}(?P<knob>enabled|defrag|shmem_enabled|khugepaged/defrag))?|(?P<alone>defrag))"
    r"(?: (?:settings?|status|state|mode|is))?"
)
_SETTING_HINT = re.compile(r"thp|transparent|defrag|hugepages-\d", re.IGNORECASE)
_LABEL = re.compile(
    rf"\s{{0,8}}(?:[-*+|#] ?|\d{{1,3}}[.)] ){{0,3}}{_QUOTE}{_SUBJECT}{_QUOTE}\s{{0,40}}[:=|,-]?{_QUOTE}\s{{0,40}}"
    rf"{_QUOTE}(?P<value>{_BRACKETED})?{_QUOTE}(?: ?\|)?\s*$",
    re.IGNORECASE,
)
_ONE_VALUE = re.compile(r"(?:sys/kernel/mm/|proc/sys/|proc/(?:cmdline|uptime)$)")  # files of one line
_BAR = re.compile(r"#==\[ (?P<kind>[A-Z][\w ]{2,60}) \]=*#?\s*$")
_SECTION = re.compile(r"# (?P<name>\S.{0,2000}?)(?P<state> - (?:File not found|Last (?P<most>\d{1,9}) Lines))?\s*$")
_REPORT = re.compile(r"\s*(?:#==\[ [A-Z]|={40,}\s+Support Utilities - )")
_WORD = r"(?:always|madvise|never|defer(?:\+madvise)?|within_size|advise|deny|force|inherit)"
_LIST = re.compile(rf"(?<![\w+\[\]])(?:{_WORD} ){{0,5}}\[(?P<word>{_WORD})\](?: {_WORD}){{0,5}}(?![\w+\[\]])")
_ANSIBLE = re.compile(
    r"(?P<host>[\w.-]{1,255}) \| (?:CHANGED|SUCCESS|FAILED!?) (?:\| rc=\d{1,3} >>|=> (?P<json>\{))\s*$"
)
_ANSIBLE_TASK = re.compile(  # of the default callback; a delegated task ran on the host behind the arrow
    r"(?:ok|changed|fatal|failed|unreachable): \[(?:[\w.-]{1,255} -> )?(?P<host>[\w.-]{1,255})(?:\([^()\]]{1,255}\))?\]"
    r"(?:: [A-Z]{2,20}!?)?(?: => \(item=[^()]{0,400}\))? => (?P<json>\{.*)$"
)
_PSSH = re.compile(
    r"\[\d{1,5}\] \d\d:\d\d:\d\d \[(?:SUCCESS|FAILURE)\] (?:[\w.-]{1,60}@)?(?P<host>[A-Za-z0-9][\w.-]{0,252})"
)
_HOST_RULER = re.compile(r"-{8,}\s*$")
_HOST_NAMES = re.compile(r"(?P<host>[A-Za-z0-9][\w.,\[\]-]{0,254})(?: \(\d{1,5}\))?\s*$")
_RULED = ("==", "##", "**", "--", "::")
_HEADED = re.compile(
    r"(?P<sign>[=#*:-])(?P=sign){1,40} ?(?:[Hh]ost(?:name)?:? |[Ss]erver:? )?"
    r"(?P<host>(?P<stem>[A-Za-z][A-Za-z-]{1,40})\d{1,4}(?:\.[A-Za-z][\w.-]{0,200})?|\d{1,3}(?:\.\d{1,3}){3})"
    r":? ?(?P=sign){0,40}$"
)
_COUNTED = re.compile(  # samples and parts, not hosts
    r"(?:attempt|case|cpu|day|disk|eth|hour|item|iteration|loop|node|page|part|pass|phase|round|run|sample|section|"
    r"snapshot|step|test|time|try|week)-?$",
    re.IGNORECASE,
)
MAX_HEADED_LINES = 400  # between the headings of two hosts
_JSON_PATHS = ("path", "file", "filename", "file_path", "name", "source", "src", "dest", "item")
_JSON_CONTENTS = ("stdout", "content", "contents", "output", "value", "data", "text", "body")
_JSON_HINT = re.compile(r'"/(?:proc|sys|etc)/|"(?:/usr)?/bin/cat"|"cat[ "]')
_CAT = re.compile(rf"(?:/usr|)(?:/bin/)?(?:sudo )?cat (?P<path>{_PATH})\s*$")


class Name(NamedTuple):
    """Which file comes: its path without the leading slash, how many lines the name takes, and what stands beside it.

    `value` is None where the content is below.
    """

    path: str
    lines: int = 1
    value: str | None = None

    @property
    def has_one_line(self) -> bool:
        """Whether such a file has one line, as most of the kernel's settings."""
        return _ONE_VALUE.match(self.path) is not None or "/" not in self.path


class Section(NamedTuple):
    """A section of supportconfig: a file (path without the leading slash) or a command, and what is said of it.

    Of a command `path` is where sos would keep its output. Of a log no more than `most` lines are there, 0: all.
    """

    kind: str
    path: str
    command: str
    lines: int
    is_missing: bool = False
    most: int = 0


def is_report(head: str) -> bool:
    """Whether a text is a file of supportconfig from its beginning on."""
    return _REPORT.match(head) is not None


def is_section(text: str) -> bool:
    """Whether a line begins a section of supportconfig."""
    return text.startswith("#==[") and _BAR.match(text) is not None


def section_of(texts: Sequence[str]) -> Section | None:
    """The section that begins with the first of the lines."""
    bar = _BAR.match(texts[0]) if texts[0].startswith("#==[") else None
    if bar is None:
        return None
    found = _SECTION.match(texts[1]) if len(texts) > 1 else None
    if found is None or is_section(texts[1]):
        return Section(bar["kind"], "", "", 1)
    name, most = found["name"], int(found["most"] or 0)
    is_missing = found["state"] is not None and not most
    if bar["kind"] in ("Configuration File", "Log File") and name.startswith("/"):
        return Section(bar["kind"], name.lstrip("/"), "", 2, is_missing, most)
    if cat := _CAT.match(name):
        return Section(bar["kind"], cat["path"].lstrip("/"), "", 2)
    command = name if bar["kind"] in ("Command", "Verification", "System", "Log File") else ""
    path = f"sos_commands/general/{output_name(command)}" if command else ""
    return Section(bar["kind"], path, command, 2, is_missing, most)


def may_be_host_heading(text: str) -> bool:
    """A quick look at a line."""
    return (
        text[:2] in _RULED or " | " in text or "] => " in text or "]: " in text
        or "SUCCESS] " in text or "FAILURE] " in text
    )  # fmt: skip


def is_host_heading(text: str, following: str) -> bool:
    """Whether a line can be the first of what names the host of the output below."""
    if not may_be_host_heading(text):
        return False
    return bool(
        headed_host(text)[0]
        or _ANSIBLE.match(text)
        or _ANSIBLE_TASK.match(text)
        or _PSSH.match(text)
        or (_HOST_RULER.match(text) and _HOST_NAMES.match(following))
    )


def headed_host(text: str) -> tuple[str, str]:
    """The host that a heading may be of, `=== db1 ===`, and what the names of such hosts have in common; else empty."""
    found = _HEADED.match(text.rstrip()) if text[:2] in _RULED else None
    if found is None or _COUNTED.match(found["stem"] or ""):
        return "", ""
    return found["host"], (found["stem"] or "an address").lower()


def host_heading(texts: Sequence[str]) -> tuple[str, int, str]:
    """The host, or hosts, that Ansible, pssh or clush names above what a command printed there, empty if these lines do
    not; how many lines that takes, and the begin of JSON.
    """
    if found := _ANSIBLE.match(texts[0]) or _ANSIBLE_TASK.match(texts[0]):
        return found["host"], 1, found["json"] or ""
    if found := _PSSH.match(texts[0]):
        return found["host"], 1, ""
    if len(texts) == 3 and texts[0] == texts[2] and _HOST_RULER.match(texts[0]):
        found = _HOST_NAMES.match(texts[1])
    return (found["host"], 3, "") if found else ("", 0, "")


def unplaced_setting(text: str) -> str:
    """The word in brackets of a list that the kernel prints for some setting, of which the line does not say which."""
    found = _LIST.search(text) if "[" in text and "]" in text else None
    return found["word"] if found and " " in found[0] else ""


def may_be_name(text: str) -> bool:
    """A quick look at a line."""
    return (
        "/sys/" in text or "/proc/" in text or "/etc/" in text or "/boot/" in text or "/usr/lib/" in text
        or "/var/" in text or _SETTING_HINT.search(text, 0, 40) is not None
    )  # fmt: skip


def is_end(text: str) -> bool:
    """Whether a line ends the content of a file that it names."""
    return text[:3] in ("END", "End") and _END.match(text) is not None


def is_block_name(text: str, following: str) -> bool:
    """Whether a line names the file whose content is indented below, as YAML does, or below a ruler or a fence."""
    is_indented = following[:1] in (" ", "\t") and following.strip() and text[:1] not in (" ", "\t")
    if not is_indented and not _RULER.match(following) and not _FENCE.match(following):
        return False
    return (_YAML.match(text) or _HEADING.match(text)) is not None


def name_in(texts: Sequence[str]) -> Name | None:
    """The name that the first of the lines holds, with the lines up to the content."""
    text = texts[0]
    if found := _BEHIND.match(text) or _BESIDE.match(text):
        value = found["value"].rstrip("`'\", |") if found["value"][:1] in "Br" else found["value"]
        return Name(found["path"].lstrip("/"), 1, value)
    if found := _OF_SIZE.match(text):
        path = f"sys/kernel/mm/transparent_hugepage/{found['size']}/{found['file'] or 'enabled'}"
        return Name(path, 1, found["value"])
    if label := _LABEL.match(text):
        knob = (label["knob"] or label["alone"] or "enabled").lower()
        if label["value"]:
            return Name(knob, 1, label["value"])
        below = 1 + _gap(texts[1:])
        is_list = len(texts) > below and re.fullmatch(_BRACKETED, texts[below].strip())
        return Name(knob, below) if is_list else None
    if found := _YAML.match(text) or _HEADING.match(text):
        return Name(found["path"].lstrip("/"), 1 + _gap(texts[1:]))
    return None


def _gap(texts: Sequence[str]) -> int:
    """How many lines stand between a name and the content: empty ones, rulers, the begin of a fence."""
    count = 0
    for text in texts[:MAX_GAP_LINES]:
        if text.strip() and not _RULER.match(text) and not _FENCE.match(text):
            break
        count += 1
    return count


def is_fence(text: str) -> bool:
    return _FENCE.match(text) is not None


class JsonFile(NamedTuple):
    """A file in JSON: path without the leading slash, content, host if it is told, the line that holds the path."""

    path: str
    content: str
    host: str
    line: int


def may_be_json(text: str) -> bool:
    """A quick look at a line: whether a document begins with it."""
    start = text.lstrip()
    return start[:1] in ("{", "[") and (start[-1:] in "{[,}]")


def files_in_json(texts: Sequence[str]) -> tuple[int, list[JsonFile]]:
    """The files in the JSON document that begins with the first of the lines, and how many lines it has; 0 if none."""
    if not (len(texts[0]) > 2 and _JSON_HINT.search(texts[0])) and not any(map(_JSON_HINT.search, texts[1:])):
        return 0, []
    text = "\n".join(texts)
    try:
        whole, end = json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return 0, []
    found: list[JsonFile] = []
    for path, content, host in _files(whole, "", 0):
        at = text.find(json.dumps(path)[1:-1])
        found.append(JsonFile(path.lstrip("/"), content, host, text.count("\n", 0, max(at, 0))))
    return text.count("\n", 0, end) + 1, found


def _files(value: Any, host: str, depth: int) -> Iterator[tuple[str, str, str]]:
    """Path, content and host of each file in a document."""
    if depth > 12:
        return
    if isinstance(value, list):
        for one in value:
            yield from _files(one, host, depth + 1)
    elif isinstance(value, dict):
        named = next(
            (value[k] for k in ("host", "hostname", "inventory_hostname") if isinstance(value.get(k), str)), ""
        )
        host = named or host
        path = _path_of(value)
        content = next((value[k] for k in _JSON_CONTENTS if isinstance(value.get(k), str | int)), None)
        if path and content is not None and not isinstance(content, bool):
            yield path, _decode(value, str(content)), host
            return
        for key, one in value.items():
            if isinstance(one, str | int) and not isinstance(one, bool) and re.fullmatch(_PATH, key):
                yield key, str(one), host
            else:
                yield from _files(one, host, depth + 1)


def _path_of(value: Mapping[str, Any]) -> str:
    for key in _JSON_PATHS:
        if isinstance(named := value.get(key), str) and re.fullmatch(_PATH, named):
            return named
    command = next((value[k] for k in ("cmd", "command", "_raw_params") if k in value), "")
    words = " ".join(map(str, command)) if isinstance(command, list) else str(command)
    found = _CAT.match(words)
    return found["path"] if found else ""


def _decode(value: Mapping[str, Any], content: str) -> str:
    if value.get("encoding") != "base64":
        return content
    try:
        return base64.b64decode(content, validate=True).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return ""
