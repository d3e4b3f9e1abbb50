"""The THP settings in sysfs: one value per file, a word list with the chosen one in brackets, or an integer.

    always madvise [never]
    /sys/kernel/mm/redhat_transparent_hugepage/khugepaged/defrag:[yes] no

RHEL 6 names the directory redhat_transparent_hugepage (6.4 and later have both names) and khugepaged/defrag is `[yes]
no`, elsewhere 1 or 0; RHEL 6.1 to 6.4 offer no madvise; defer and defer+madvise came with 4.6 and 4.11; hugepages-*kB
folders with 6.8. A value says nothing without the name of its file: it comes from the member, the command, grep's
`path:value`, head's `==> path <==`, from the path below in a copy of a part of the tree; a file that is called so
itself (enabled, thp_defrag.txt) is believed. Listings and error messages of ls and cat tell which directory exists:
thp.directory = its name, or `absent` (label directory: only that name was looked for). What the kernel counts:
khugepaged/pages_collapsed and full_scans, and by size stats/X (from 6.8 on; nr_X are gauges, the rest totals since
boot), which becomes node_thp_X of kind thp_size. Source: kernel tree, Documentation/admin-guide/mm/transhuge.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Fact, Moment, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, ValueRows, any_of, with_errors
from thpdiag.parsers._time import with_block_time
from thpdiag.parsers._units import NOT_A_COUNT, parse_count

_MM = r"sys/kernel/mm"
_DIRECTORY = r"(?:redhat_|\*|\?\*|redhat_\*)?transparent_hugepages?"
_KNOB = (
    r"(?:enabled|defrag|shmem_enabled|use_zero_page|hpage_pmd_size|shrink_underused|debug_cow|khugepaged/\w+|"
    r"hugepages-\d{1,7}kB/(?:shmem_)?enabled|hugepages-\d{1,7}kB/stats/\w+)"
)
_LISTED = (
    r"(?:cleancache|cma|damon|hugepages|ksm|lru_gen|memory_tiers|mempolicy|numa|page_idle|swap|"
    r"(?:redhat_)?transparent_hugepage)"
)
_PATH = re.compile(rf"{_MM}/({_DIRECTORY})(?:/(.*?))?/?$")
_OF_SIZE = r"hugepages-\d{1,7}kB/(?:(?:shmem_)?enabled|stats/\w{1,60})"
_ONLY_THERE = (  # names that no other folder has
    r"hpage_pmd_size|use_zero_page|shrink_underused|"
    r"khugepaged/(?:\w{2,8}_sleep_millisecs|pages_(?:to_scan|collapsed)|full_scans|max_ptes_\w{4,6}|defrag)"
)
_PART_OF_TREE = re.compile(  # of a copy that was begun below /sys/kernel/mm
    rf"(?:^|/)((?:redhat_)?transparent_hugepage)/({_KNOB})$|(?:^|/)()({_OF_SIZE}|{_ONLY_THERE})$"
)
_NAMED = re.compile(rf"(?:\S{{0,100}}?{_MM}/({_DIRECTORY})/|(?:\./)?)({_KNOB})\s?[:=]\s?(.*)$")
_BANNER = re.compile(
    rf"==> (?:\S{{0,100}}?{_MM}/({_DIRECTORY})/)?({_KNOB}) <==\s*$|/{_MM}/({_DIRECTORY})/({_KNOB}):?\s*$"
)
_MISSING = re.compile(
    rf".{{0,80}}/?{_MM}/({_DIRECTORY})(?:/(?:enabled|defrag|khugepaged|\*)?)?/?['’\"]?: "
    r".{0,20}No such file or directory"
)
_LS_LONG = r"[dl][rwxst-]{9}\S?\s.{0,80}\s"  # what `ls -l` prints before the name
_ROW = rf"(?:{_LISTED}\s+){{0,12}}{_LISTED}\s*$|{_LS_LONG}{_LISTED}/?(?: -> \S+)?\s*$"
_LISTING = re.compile(rf"{_ROW}|total \d+\s*$|{_LS_LONG}[\w-]+\.{{3}}$")
_EXISTS = re.compile(rf"(?:{_LS_LONG})?/{_MM}/((?:redhat_)?transparent_hugepage)(?:/:?|:)?\s*$")
_OPENS = re.compile(
    rf"(?:/?{_MM}/{_DIRECTORY}/{_KNOB}|(?:\./)?{_KNOB})\s?[:=]\s?\S(?!\S{{0,20}}:\s)|==> \S{{0,100}}{_KNOB} <==|"
    rf"/{_MM}/{_DIRECTORY}/{_KNOB}:?\s*$|"
    rf"(?:\S{{1,20}}: )?.{{0,60}}/{_MM}/{_DIRECTORY}\S{{0,40}}: .{{0,20}}No such file or directory|"
    rf"(?:{_LS_LONG})?/{_MM}/(?:redhat_)?transparent_hugepage(?:/:?|:)?\s*$|{_ROW}|"
    r"(?:always\s+(?:defer|within_size|inherit)|\[(?:always|yes)\]|always|yes)\s+(?:\[?[a-z+_]+\]?(?:\s+|$))+$"
)
_SHORT_NUMBER = re.compile(r"\d{1,8}\s*$")  # a value below its banner; `date +%s` prints more digits
_WORDS = frozenset(
    "always madvise never defer defer+madvise within_size advise deny force inherit yes no".split()  # noqa: SIM905
)
_WORDS_OF = {
    "enabled": frozenset({"always", "madvise", "never"}),
    "defrag": frozenset({"always", "defer", "defer+madvise", "madvise", "never"}),
    "shmem_enabled": frozenset({"always", "within_size", "advise", "never", "deny", "force"}),
}
_LISTS_ITS_VALUES = frozenset({"enabled", "defrag"})
_INTEGERS = frozenset({
    "use_zero_page", "hpage_pmd_size", "shrink_underused", "khugepaged/defrag", "khugepaged/pages_to_scan",
    "khugepaged/scan_sleep_millisecs", "khugepaged/alloc_sleep_millisecs", "khugepaged/max_ptes_none",
    "khugepaged/max_ptes_swap", "khugepaged/max_ptes_shared",
})  # fmt: skip
_SIZE = re.compile(r"hugepages-(\d{1,7}kB)/(enabled|shmem_enabled)$")
_STATS = re.compile(r"hugepages-(\d{1,7}kB)/stats/(\w{1,60})$")
_COUNTED = frozenset({"khugepaged/pages_collapsed", "khugepaged/full_scans"})
_PRINTS = re.compile(r"\b(?:cat|head|tail|more)\b")
_BARE = re.compile(rf"(?<=[\s{{,/])({_KNOB})(?=[\s,;}}]|$)")
_OWN_NAME = re.compile(r"(?:^|[/._-])(enabled|defrag)(?:\.(?:txt|out|log))?$")


def _confirm(lines: list[str]) -> object:
    """A single word is a directory of a listing only among the others; a word list must have its brackets."""
    first = lines[0]
    if "[" in first or not re.match(r"(?:always|yes)\s", first):
        return not re.fullmatch(rf".*{_LISTED}/?(?: -> \S+)?\s*", first) or "/" in first or _is_listing(lines)
    return False


def _is_listing(lines: list[str]) -> bool:
    names: list[str] = []
    for line in lines:
        if not _LISTING.match(line):
            break
        names += re.findall(r"[\w-]+", line)
    return "hugepages" in names and ("ksm" in names or any(n.endswith("transparent_hugepage") for n in names))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One fact per setting, thp.directory, and a sample of what the kernel counted."""
    rows = {kind: ValueRows(source, PARSER.name, kind) for kind in ("system", "thp_size")}
    ended: list[Sample] = []
    for record in _records(source, lines):
        if not isinstance(record, Sample):
            yield record
            continue
        for name, value in record.values.items():
            line = record.cite.line or 0, record.cite.text
            ended += rows[record.kind].add(record.entity, name, value, *line)
    yield from with_block_time(source, [*ended, *rows["system"].finish(), *rows["thp_size"].finish()])


@with_errors("thp_sysfs")
def _records(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """The same, a sample per line."""
    directories = set[str]()
    path = _PATH.search(source.path)
    directory, knob = (path[1], path[2] or "") if path else ("", "")
    if not path and (part := _PART_OF_TREE.search(source.path)):
        directory, knob = part[1] or "", part[2] or part[4]
    listed: list[tuple[int, str]] = []
    # files that a command names without their directory: `cat enabled defrag`, `cat .../{enabled,defrag}`
    typed = _BARE.findall(source.command) if not knob and _PRINTS.search(source.command) else []
    for number, line in lines:
        if banner := _BANNER.match(line):
            directory, knob = banner[1] or banner[3] or directory, banner[2] or banner[4]
        elif found := _MISSING.match(line):
            labels = () if "*" in found[1] else (("directory", found[1]),)
            yield Fact("thp.directory", "absent", source.cite(number, line), labels, time=source.time)
        elif exists := _EXISTS.match(line):
            yield from _directory(source, number, line, exists[1], directories)
        elif _LISTING.match(line):
            listed.append((number, line))
        elif named := _NAMED.match(line):
            yield from _directory(source, number, line, named[1] or directory, directories)
            yield from _setting(source, number, line, named[2], named[3].strip(), odd)
        elif line.strip(" `") and "No such file" not in line:
            yield from _directory(source, number, line, directory, directories)
            of = knob or (typed.pop(0) if typed else _by_values(line) or _by_its_file(source.path, line))
            yield from _setting(source, number, line, of, line.strip(), odd)
    yield from _from_listing(source, listed)


def _directory(source: Source, number: int, line: str, name: str, known: set[str]) -> Iterator[Fact]:
    """thp.directory, once per name; a name with a wildcard says nothing."""
    if name in {"transparent_hugepage", "redhat_transparent_hugepage"} and name not in known:
        known.add(name)
        yield Fact("thp.directory", name, source.cite(number, line), time=source.time)


def _from_listing(source: Source, listed: list[tuple[int, str]]) -> Iterator[Fact]:
    names = [name for _, line in listed for name in re.findall(rf"(?<!\S){_LISTED}(?!\S)", line)]
    if not {"hugepages", "ksm"} & set(names):
        return
    cite = source.cite(*listed[0])
    found = [name for name in names if name.endswith("transparent_hugepage")]
    is_cut = any(line.endswith("...") for _, line in listed)
    for name in found or ([] if is_cut else ["absent"]):
        yield Fact("thp.directory", name, cite, time=source.time)


def _by_values(line: str) -> str:
    """The file that a word list without a path can only be, else nothing."""
    words = _words_of(line)
    if words == {"yes", "no"}:
        return "khugepaged/defrag"
    if "defer" in words:
        return "defrag"
    return "shmem_enabled" if "within_size" in words and "deny" in words else ""


def _by_its_file(path: str, line: str) -> str:
    """The setting that a file is called after, if it can have this value: those of single sizes list `inherit` too."""
    words = _words_of(line)
    found = _OWN_NAME.search(path) if words <= {"always", "madvise", "never"} else None
    return found[1] if found else ""


def _count(source: Source, number: int, line: str, knob: str, text: str, odd: ParseErrors) -> Iterator[Sample]:
    value, cite = parse_count(text), source.cite(number, line)
    if value is None:
        odd.note(number, line, NOT_A_COUNT)
    elif of_size := _STATS.match(knob):
        entity = (("size", of_size[1]),)
        yield Sample("thp_size", {f"node_thp_{of_size[2]}": value}, cite, PARSER.name, entity)
    else:
        name = f"node_khugepaged_{knob.removeprefix('khugepaged/')}_total"
        yield Sample("system", {name: value}, cite, PARSER.name)


def _setting(source: Source, number: int, line: str, knob: str, text: str, odd: ParseErrors) -> Iterator[Fact | Sample]:
    cite = source.cite(number, line)
    if knob == "debug_cow":
        return
    knob = _knob_of_list(knob, text)
    if knob in _COUNTED or _STATS.match(knob):
        yield from _count(source, number, line, knob, text, odd)
    elif knob in _WORDS_OF or _SIZE.match(knob) or (knob == "khugepaged/defrag" and "[" in text):
        word = _bracketed_word(text)
        if word is None:
            odd.note(number, line, "a word list without exactly one known word in brackets")
            if knob in _LISTS_ITS_VALUES and re.search(r"always|madvise|never", text):
                yield Fact("setting.unplaced", text[:60], cite, time=source.time)  # stated, and not to be read
        else:
            yield from _word(cite, source.time, knob, text, word)
    elif knob in _INTEGERS:
        value = parse_count(text)
        if value is None or value > 2**40 or str(value) != text:  # the end of a longer number begins with a 0
            odd.note(number, line, "not an integer in the range of this setting; it is left out")
        else:
            yield Fact(f"thp.{knob.replace('/', '.')}", value, cite, time=source.time)
    elif knob:
        odd.note(number, line, "a setting that this version does not know")
    else:
        odd.note(number, line, "a THP setting without the name of its file")
        if word := _bracketed_word(text):
            yield Fact("setting.unplaced", word, cite, time=source.time)


def _word(cite: Citation, time: Moment | None, knob: str, text: str, word: str) -> Iterator[Fact]:
    """The chosen word, and which words the kernel offers."""
    if size := _SIZE.match(knob):
        yield Fact(f"thp.size.{size[2]}", word, cite, (("size", size[1]),), time)
        return
    yield Fact(f"thp.{knob.replace('/', '.')}", word, cite, time=time)
    if knob in _LISTS_ITS_VALUES:
        accepts = " ".join(text.replace("[", "").replace("]", "").split())
        yield Fact(f"thp.{knob}.accepts", accepts, cite, time=time)


def _knob_of_list(knob: str, text: str) -> str:
    """The setting of a name, or of its list of words if that cannot be the one: lines between them are missing."""
    if knob not in _WORDS_OF or not _bracketed_word(text) or _words_of(text) <= _WORDS_OF[knob]:
        return knob
    return _by_values(text) or "another list"


def _words_of(text: str) -> set[str]:
    return set(text.replace("[", " ").replace("]", " ").split())


def _bracketed_word(text: str) -> str | None:
    """The one word in brackets, None if there is none, more than one, or an unknown one."""
    chosen = re.findall(r"\[([^\[\]]*)\]", text)
    words = _words_of(text)
    return chosen[0] if len(chosen) == 1 and words <= _WORDS and chosen[0] in words else None


PARSER = Parser(
    "thp_sysfs", "THP settings in /sys/kernel/mm", read, opens=_OPENS, confirm=_confirm,
    continues=any_of(_OPENS, _LISTING, _SHORT_NUMBER),
    paths=(re.compile(rf"(?:^|/){_MM}/{_DIRECTORY}(?:/.*)?$"), _PART_OF_TREE),
)  # fmt: skip
