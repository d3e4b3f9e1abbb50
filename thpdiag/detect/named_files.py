"""Names of files, commands and hosts that people and tools write above, next to or after a piece of output.

    #==[ Configuration File ]===========================#      supportconfig: a section ends at the next such line
    # /sys/kernel/mm/transparent_hugepage/enabled
    always [madvise] never

    ==> PATH <==    --- PATH ---    file: PATH    ### `PATH`    PATH and a ruler    3. PATH    PATH: |     content below
    PATH = VALUE    PATH: VALUE    PATH,"VALUE"    | PATH | VALUE |    - `PATH`: `VALUE`    VALUE (PATH)    same line
    hugepages-64kB: [always] inherit madvise never             a folder for one size, a name that no other file has
    THP: always madvise [never]                                a description of the file, if its values are unambiguous
    {"path": PATH, "stdout": CONTENT}    {PATH: CONTENT}       JSON of tools, also in base64 (Ansible's slurp)
    db1 | CHANGED | rc=0 >>    ok: [db1] => {                  Ansible: the host of the output below
    === db1 ===    ### 10.0.0.7                                people: the same, if similar headings follow
    --------    db1    --------                                clush -b, dshbak: the same in three lines

All of them have the effect of `cat PATH` at a prompt. A name counts only if the text can be the content of that file,
because prose often mentions paths. Sources: supportutils, supportconfig.rc (conf_files, log_files, log_cmd); head(1),
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
_MAX_JSON_DEPTH = 12
MAX_GAP_LINES = 3  # empty lines, rulers and the start of a fence between a name and the content

_PATH = r"/(?:proc|sys|etc|usr|boot|run|var|lib)/(?:[\w.+@-]+/){0,12}[\w.+@-]+"
_QUOTE = r"[`'\"*]{0,3}"
_WORDS = (
    r"(?:(?:contents?|output|result) of |(?:running|executing|command|cmd|file ?name|file|path|name|source|begin|start)"
    r"\b:? ?|cat ){0,2}"
)
_PREFIX = r"(?:[#=<>*:+~-]{1,40} ?|\d{1,3}[.)] |\[)?"
_REMARK = r"(?: \([\w /]{1,100}\)(?=:))?"  # `(defrag/compaction efforts parameter):` of a Java virtual machine
_SUFFIX = r"(?: ?[#=<>*:+~-]{1,80}|\])?"
_HEADING = re.compile(
    rf"\s{{0,8}}{_PREFIX}{_QUOTE}{_WORDS}{_QUOTE}(?P<path>{_PATH}){_QUOTE}{_REMARK}:?{_QUOTE}{_SUFFIX}\s*$",
    re.IGNORECASE,
)
_YAML = re.compile(rf"\s{{0,8}}(?:- )?{_QUOTE}(?P<path>{_PATH}){_QUOTE}: [|>][+-]?\s*$")
_END = re.compile(rf"(?:END|End)(?: of)?:? {_PATH}\s*$")
_RULER = re.compile(r"\s*([-=~_*#:])\1{2,}\s*$")
_FENCE = re.compile(r"\s{0,8}`{3}[\w+#.-]{0,20}\s*$")
_BRACKETED = r"(?:[a-z_+]{2,14} ){0,5}\[[a-z_+]{2,14}\](?: [a-z_+]{2,14}){0,5}"  # a word list of the kernel
_VALUE = rf"(?:{_BRACKETED}|-?\d[\d.]{{0,19}}(?:[ \t]+-?\d[\d.]{{0,19}}){{0,7}}|(?:BOOT_IMAGE|root)=\S.*)"
_PATH_THEN_VALUE = re.compile(
    rf"\s{{0,8}}(?:[-*+|] |\d{{1,3}}[.)] |\"msg\": ?)?{_QUOTE}(?P<path>{_PATH}){_QUOTE}{_REMARK}\s{{0,40}}"
    rf"(?:->|=>|[:=|;,]|(?<=\s))\s{{0,40}}"
    rf"{_QUOTE}(?P<value>{_VALUE}){_QUOTE},?(?: ?\|)?\s*$"
)
_SIZE_FOLDER = re.compile(
    rf"\s{{0,8}}{_QUOTE}(?:\./)?(?P<size>hugepages-\d{{1,7}}kB)(?:/(?P<file>(?:shmem_)?enabled))?{_QUOTE}\s{{0,40}}"
    rf"(?:->|=>|[:=|;,]|(?<=\s))\s{{0,40}}{_QUOTE}(?P<value>{_BRACKETED}){_QUOTE}\s*$"
)
_VALUE_THEN_PATH = re.compile(rf"\s{{0,8}}(?P<value>{_VALUE}) {{1,4}}\((?P<path>{_PATH})\)\s*$")
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
_ANSIBLE_TASK = re.compile(  # of the default callback; a delegated task ran on the host after the arrow
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
_COUNTED = re.compile(  # numbered samples and parts, which are not hosts
    r"(?:attempt|case|cpu|day|disk|eth|hour|item|iteration|loop|node|page|part|pass|phase|round|run|sample|section|"
    r"snapshot|step|test|time|try|week)-?$",
    re.IGNORECASE,
)
MAX_HEADED_LINES = 400  # lines between the headings of two hosts
_JSON_PATHS = ("path", "file", "filename", "file_path", "name", "source", "src", "dest", "item")
_JSON_CONTENTS = ("stdout", "content", "contents", "output", "value", "data", "text", "body")
_JSON_HINT = re.compile(r'"/(?:proc|sys|etc)/|"(?:/usr)?/bin/cat"|"cat[ "]')
_CAT = re.compile(rf"(?:/usr|)(?:/bin/)?(?:sudo )?cat (?P<path>{_PATH})\s*$")


class Name(NamedTuple):
    """The name of a file in a text."""

    path: str  # without the leading slash
    lines: int = 1  # lines up to the content
    value: str | None = None  # content on the same line; None: it is below

    @property
    def has_one_line(self) -> bool:
        """Whether the file has only one line, like most settings of the kernel."""
        return _ONE_VALUE.match(self.path) is not None or "/" not in self.path


class Section(NamedTuple):
    """A section of supportconfig, with a file or the output of a command."""

    kind: str
    path: str  # without the leading slash; for a command, where sos stores its output
    command: str
    lines: int  # of the heading
    is_missing: bool = False
    max_lines: int = 0  # last lines of a log that are included; 0: all


def is_report(head: str) -> bool:
    """Whether a text begins like a file of supportconfig."""
    return _REPORT.match(head) is not None


def is_section(text: str) -> bool:
    """Whether a line begins a section of supportconfig."""
    return text.startswith("#==[") and _BAR.match(text) is not None


def section_of(texts: Sequence[str]) -> Section | None:
    """Return the section that begins with the first of the lines, None if none does."""
    bar = _BAR.match(texts[0]) if texts[0].startswith("#==[") else None
    if bar is None:
        return None
    title = _SECTION.match(texts[1]) if len(texts) > 1 else None
    if title is None or is_section(texts[1]):
        return Section(bar["kind"], "", "", 1)
    name, max_lines = title["name"], int(title["most"] or 0)
    is_missing = title["state"] is not None and not max_lines
    if bar["kind"] in ("Configuration File", "Log File") and name.startswith("/"):
        return Section(bar["kind"], name.lstrip("/"), "", 2, is_missing, max_lines)
    if cat := _CAT.match(name):
        return Section(bar["kind"], cat["path"].lstrip("/"), "", 2)
    command = name if bar["kind"] in ("Command", "Verification", "System", "Log File") else ""
    path = f"sos_commands/general/{output_name(command)}" if command else ""
    return Section(bar["kind"], path, command, 2, is_missing, max_lines)


def may_be_host_heading(text: str) -> bool:
    """Whether a line may name the host of the output below; a cheap test."""
    return (
        text[:2] in _RULED or " | " in text or "] => " in text or "]: " in text
        or "SUCCESS] " in text or "FAILURE] " in text
    )  # fmt: skip


def is_host_heading(text: str, following: str) -> bool:
    """Whether a line is, or begins, a heading that names the host of the output below."""
    return may_be_host_heading(text) and bool(
        headed_host(text)[0]
        or _ANSIBLE.match(text)
        or _ANSIBLE_TASK.match(text)
        or _PSSH.match(text)
        or (_HOST_RULER.match(text) and _HOST_NAMES.match(following))
    )


def headed_host(text: str) -> tuple[str, str]:
    """Return the possible host of a heading, `=== db1 ===`, and the stem that such hosts share; otherwise empty."""
    heading = _HEADED.match(text.rstrip()) if text[:2] in _RULED else None
    if heading is None or _COUNTED.match(heading["stem"] or ""):
        return "", ""
    return heading["host"], (heading["stem"] or "an address").lower()


def host_heading(texts: Sequence[str]) -> tuple[str, int, str]:
    """Parse a heading in which Ansible, pssh or clush names the host, or hosts, of the output below.

    Return the host (empty if there is no heading), the number of lines of the heading, and the start of JSON output.
    """
    if heading := _ANSIBLE.match(texts[0]) or _ANSIBLE_TASK.match(texts[0]):
        return heading["host"], 1, heading["json"] or ""
    if heading := _PSSH.match(texts[0]):
        return heading["host"], 1, ""
    if len(texts) == 3 and texts[0] == texts[2] and _HOST_RULER.match(texts[0]):
        heading = _HOST_NAMES.match(texts[1])
    return (heading["host"], 3, "") if heading else ("", 0, "")


def unplaced_setting(text: str) -> str:
    """Return the selected word of a list in the kernel's form (`always [madvise] never`) without the setting's name."""
    words = _LIST.search(text) if "[" in text and "]" in text else None
    return words["word"] if words and " " in words[0] else ""


def may_be_name(text: str) -> bool:
    """Whether a line may name a file; a cheap test."""
    return (
        "/sys/" in text or "/proc/" in text or "/etc/" in text or "/boot/" in text or "/usr/lib/" in text
        or "/var/" in text or _SETTING_HINT.search(text, 0, 40) is not None
    )  # fmt: skip


def is_end(text: str) -> bool:
    """Whether a line ends the content of a file that it names."""
    return text[:3] in ("END", "End") and _END.match(text) is not None


def is_block_name(text: str, following: str) -> bool:
    """Whether a line names a file whose content is below: indented as in YAML, or after a ruler or fence."""
    is_indented = following[:1] in (" ", "\t") and following.strip() and text[:1] not in (" ", "\t")
    if not is_indented and not _RULER.match(following) and not _FENCE.match(following):
        return False
    return (_YAML.match(text) or _HEADING.match(text)) is not None


def name_in(texts: Sequence[str]) -> Name | None:
    """Return the name in the first of the lines, None if there is none. Further lines are the gap above the content."""
    text = texts[0]
    if match := _VALUE_THEN_PATH.match(text) or _PATH_THEN_VALUE.match(text):
        value = match["value"].rstrip("`'\", |") if match["value"][:1] in "Br" else match["value"]
        return Name(match["path"].lstrip("/"), 1, value)
    if match := _SIZE_FOLDER.match(text):
        path = f"sys/kernel/mm/transparent_hugepage/{match['size']}/{match['file'] or 'enabled'}"
        return Name(path, 1, match["value"])
    if label := _LABEL.match(text):
        knob = (label["knob"] or label["alone"] or "enabled").lower()
        if label["value"]:
            return Name(knob, 1, label["value"])
        lines = 1 + _count_gap_lines(texts[1:])
        is_list = len(texts) > lines and re.fullmatch(_BRACKETED, texts[lines].strip())
        return Name(knob, lines) if is_list else None
    if match := _YAML.match(text) or _HEADING.match(text):
        return Name(match["path"].lstrip("/"), 1 + _count_gap_lines(texts[1:]))
    return None


def _count_gap_lines(texts: Sequence[str]) -> int:
    """Return the number of lines between a name and the content: empty lines, rulers, the start of a fence."""
    count = 0
    for text in texts[:MAX_GAP_LINES]:
        if text.strip() and not _RULER.match(text) and not _FENCE.match(text):
            break
        count += 1
    return count


def is_fence(text: str) -> bool:
    return _FENCE.match(text) is not None


class JsonFile(NamedTuple):
    """A file in a JSON document."""

    path: str  # without the leading slash
    content: str
    host: str  # empty if unknown
    line: int  # index of the line with the path


def may_be_json(text: str) -> bool:
    """Whether a JSON document may begin with a line; a cheap test."""
    start = text.lstrip()
    return start[:1] in ("{", "[") and (start[-1:] in "{[,}]")


def files_in_json(texts: Sequence[str]) -> tuple[int, list[JsonFile]]:
    """Return the number of lines of the JSON document that begins with the first line (0 if none), and its files."""
    if not (len(texts[0]) > 2 and _JSON_HINT.search(texts[0])) and not any(map(_JSON_HINT.search, texts[1:])):
        return 0, []
    text = "\n".join(texts)
    try:
        document, end = json.JSONDecoder().raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return 0, []
    files: list[JsonFile] = []
    for path, content, host in _files(document, "", 0):
        position = text.find(json.dumps(path)[1:-1])
        files.append(JsonFile(path.lstrip("/"), content, host, text.count("\n", 0, max(position, 0))))
    return text.count("\n", 0, end) + 1, files


def _files(value: Any, host: str, depth: int) -> Iterator[tuple[str, str, str]]:
    """Yield path, content and host of each file in a document."""
    if depth > _MAX_JSON_DEPTH:
        return
    if isinstance(value, list):
        for item in value:
            yield from _files(item, host, depth + 1)
    elif isinstance(value, dict):
        hosts = (value[k] for k in ("host", "hostname", "inventory_hostname") if isinstance(value.get(k), str))
        host = next(hosts, "") or host
        path = _path_of(value)
        content = next((value[k] for k in _JSON_CONTENTS if isinstance(value.get(k), str | int)), None)
        if path and content is not None and not isinstance(content, bool):
            yield path, _decode(value, str(content)), host
            return
        for key, item in value.items():
            if isinstance(item, str | int) and not isinstance(item, bool) and re.fullmatch(_PATH, key):
                yield key, str(item), host
            else:
                yield from _files(item, host, depth + 1)


def _path_of(value: Mapping[str, Any]) -> str:
    """Return the path in a JSON object, or in the `cat` command in it; empty if there is none."""
    for key in _JSON_PATHS:
        if isinstance(path := value.get(key), str) and re.fullmatch(_PATH, path):
            return path
    command = next((value[k] for k in ("cmd", "command", "_raw_params") if k in value), "")
    words = " ".join(map(str, command)) if isinstance(command, list) else str(command)
    cat = _CAT.match(words)
    return cat["path"] if cat else ""


def _decode(value: Mapping[str, Any], content: str) -> str:
    if value.get("encoding") != "base64":
        return content
    try:
        return base64.b64decode(content, validate=True).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return ""
