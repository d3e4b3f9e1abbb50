"""THP settings in sysfs: one value per file, a word list with the selected word in brackets, or an integer.

    always madvise [never]
    /sys/kernel/mm/redhat_transparent_hugepage/khugepaged/defrag:[yes] no

RHEL 6 names the directory redhat_transparent_hugepage (6.4 and later have both names), and its khugepaged/defrag is
`[yes] no` instead of 1 or 0; RHEL 6.1 to 6.4 have no madvise; defer and defer+madvise exist from 4.6 and 4.11,
hugepages-*kB directories from 6.8. A value needs the name of its file, which comes from the member, the command, grep's
`path:value`, head's `==> path <==`, or the lower part of the path in a copy of a subtree; a file that is itself named
after a setting (enabled, thp_defrag.txt) is accepted. Listings and error messages of ls and cat show which directory
exists: thp.directory is its name, or `absent` (with the label directory: only that name was tried). Counters:
khugepaged/pages_collapsed and full_scans, and stats/X by size (from 6.8 on; nr_X are gauges, the others totals since
boot), which become node_thp_X of kind thp_size. Source: kernel tree, Documentation/admin-guide/mm/transhuge.rst.
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
_SIZE_KNOB = r"hugepages-\d{1,7}kB/(?:(?:shmem_)?enabled|stats/\w{1,60})"
_UNIQUE_KNOB = (  # names that exist in no other directory of sysfs
    r"hpage_pmd_size|use_zero_page|shrink_underused|"
    r"khugepaged/(?:\w{2,8}_sleep_millisecs|pages_(?:to_scan|collapsed)|full_scans|max_ptes_\w{4,6}|defrag)"
)
_PART_OF_TREE = re.compile(  # path in a copy that begins below /sys/kernel/mm
    rf"(?:^|/)((?:redhat_)?transparent_hugepage)/({_KNOB})$|(?:^|/)()({_SIZE_KNOB}|{_UNIQUE_KNOB})$"
)
_NAMED = re.compile(rf"(?:\S{{0,100}}?{_MM}/({_DIRECTORY})/|(?:\./)?)({_KNOB})\s?[:=]\s?(.*)$")
_BANNER = re.compile(
    rf"==> (?:\S{{0,100}}?{_MM}/({_DIRECTORY})/)?({_KNOB}) <==\s*$|/{_MM}/({_DIRECTORY})/({_KNOB}):?\s*$"
)
_MISSING = re.compile(
    rf".{{0,80}}/?{_MM}/({_DIRECTORY})(?:/(?:enabled|defrag|khugepaged|\*)?)?/?['’\"]?: "
    r".{0,20}No such file or directory"
)
_LS_LONG = r"[dl][rwxst-]{9}\S?\s.{0,80}\s"  # columns of `ls -l` before the name
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
_SHORT_NUMBER = re.compile(r"\d{1,8}\s*$")  # a value after its banner; `date +%s` prints more digits
_WORDS = frozenset(
    "always madvise never defer defer+madvise within_size advise deny force inherit yes no".split()  # noqa: SIM905
)
_WORDS_BY_KNOB = {
    "enabled": frozenset({"always", "madvise", "never"}),
    "defrag": frozenset({"always", "defer", "defer+madvise", "madvise", "never"}),
    "shmem_enabled": frozenset({"always", "within_size", "advise", "never", "deny", "force"}),
}
_KNOBS_WITH_ACCEPTED_WORDS = frozenset({"enabled", "defrag"})
_INTEGERS = frozenset({
    "use_zero_page", "hpage_pmd_size", "shrink_underused", "khugepaged/defrag", "khugepaged/pages_to_scan",
    "khugepaged/scan_sleep_millisecs", "khugepaged/alloc_sleep_millisecs", "khugepaged/max_ptes_none",
    "khugepaged/max_ptes_swap", "khugepaged/max_ptes_shared",
})  # fmt: skip
_SIZE = re.compile(r"hugepages-(\d{1,7}kB)/(enabled|shmem_enabled)$")
_STATS = re.compile(r"hugepages-(\d{1,7}kB)/stats/(\w{1,60})$")
_COUNTERS = frozenset({"khugepaged/pages_collapsed", "khugepaged/full_scans"})
_PRINT_COMMAND = re.compile(r"\b(?:cat|head|tail|more)\b")
_COMMAND_KNOB = re.compile(rf"(?<=[\s{{,/])({_KNOB})(?=[\s,;}}]|$)")
_FILE_NAME = re.compile(r"(?:^|[/._-])(enabled|defrag)(?:\.(?:txt|out|log))?$")


def _confirm(lines: list[str]) -> object:
    """Require the other directories for a single name of a listing, and brackets for a word list."""
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
    """Yield one fact per setting, thp.directory, and samples of the counters."""
    rows = {kind: ValueRows(source, PARSER.name, kind) for kind in ("system", "thp_size")}
    complete: list[Sample] = []
    for record in _records(source, lines):
        if not isinstance(record, Sample):
            yield record
            continue
        for name, value in record.values.items():
            line = record.cite.line or 0, record.cite.text
            complete += rows[record.kind].add(record.entity, name, value, *line)
    yield from with_block_time(source, [*complete, *rows["system"].finish(), *rows["thp_size"].finish()])


@with_errors("thp_sysfs")
def _records(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield the same records, with one sample per line."""
    directories = set[str]()
    path = _PATH.search(source.path)
    directory, knob = (path[1], path[2] or "") if path else ("", "")
    if not path and (part := _PART_OF_TREE.search(source.path)):
        directory, knob = part[1] or "", part[2] or part[4]
    listed: list[tuple[int, str]] = []
    # Files that a command names without their directory: `cat enabled defrag`, `cat .../{enabled,defrag}`.
    command_knobs = _COMMAND_KNOB.findall(source.command) if not knob and _PRINT_COMMAND.search(source.command) else []
    for number, line in lines:
        if banner := _BANNER.match(line):
            directory, knob = banner[1] or banner[3] or directory, banner[2] or banner[4]
        elif missing := _MISSING.match(line):
            labels = () if "*" in missing[1] else (("directory", missing[1]),)
            yield Fact("thp.directory", "absent", source.cite(number, line), labels, time=source.time)
        elif exists := _EXISTS.match(line):
            yield from _directory(source, number, line, exists[1], directories)
        elif _LISTING.match(line):
            listed.append((number, line))
        elif named := _NAMED.match(line):
            yield from _directory(source, number, line, named[1] or directory, directories)
            yield from _setting(source, number, line, named[2], named[3].strip(), errors)
        elif line.strip(" `") and "No such file" not in line:
            yield from _directory(source, number, line, directory, directories)
            name = knob or (command_knobs.pop(0) if command_knobs else "")
            name = name or _knob_by_values(line) or _knob_by_file_name(source.path, line)
            yield from _setting(source, number, line, name, line.strip(), errors)
    yield from _parse_listing(source, listed)


def _directory(source: Source, number: int, line: str, name: str, known: set[str]) -> Iterator[Fact]:
    """Yield thp.directory once per name; names with a wildcard are ignored."""
    if name in {"transparent_hugepage", "redhat_transparent_hugepage"} and name not in known:
        known.add(name)
        yield Fact("thp.directory", name, source.cite(number, line), time=source.time)


def _parse_listing(source: Source, listed: list[tuple[int, str]]) -> Iterator[Fact]:
    names = [name for _, line in listed for name in re.findall(rf"(?<!\S){_LISTED}(?!\S)", line)]
    if not {"hugepages", "ksm"} & set(names):
        return
    cite = source.cite(*listed[0])
    directories = [name for name in names if name.endswith("transparent_hugepage")]
    is_cut = any(line.endswith("...") for _, line in listed)
    for name in directories or ([] if is_cut else ["absent"]):
        yield Fact("thp.directory", name, cite, time=source.time)


def _knob_by_values(line: str) -> str:
    """Return the only file that can have this word list, or "" if there are several."""
    words = _words_of(line)
    if words == {"yes", "no"}:
        return "khugepaged/defrag"
    if "defer" in words:
        return "defrag"
    return "shmem_enabled" if "within_size" in words and "deny" in words else ""


def _knob_by_file_name(path: str, line: str) -> str:
    """Return the setting after which a file is named, if it can have this value; single sizes also list `inherit`."""
    match = _FILE_NAME.search(path) if _words_of(line) <= {"always", "madvise", "never"} else None
    return match[1] if match else ""


def _count(source: Source, number: int, line: str, knob: str, text: str, errors: ParseErrors) -> Iterator[Sample]:
    value, cite = parse_count(text), source.cite(number, line)
    if value is None:
        errors.note(number, line, NOT_A_COUNT)
    elif stats := _STATS.match(knob):
        entity = (("size", stats[1]),)
        yield Sample("thp_size", {f"node_thp_{stats[2]}": value}, cite, PARSER.name, entity)
    else:
        name = f"node_khugepaged_{knob.removeprefix('khugepaged/')}_total"
        yield Sample("system", {name: value}, cite, PARSER.name)


def _setting(
    source: Source, number: int, line: str, knob: str, text: str, errors: ParseErrors
) -> Iterator[Fact | Sample]:
    cite = source.cite(number, line)
    if knob == "debug_cow":
        return
    knob = _corrected_knob(knob, text)
    if knob in _COUNTERS or _STATS.match(knob):
        yield from _count(source, number, line, knob, text, errors)
    elif knob in _WORDS_BY_KNOB or _SIZE.match(knob) or (knob == "khugepaged/defrag" and "[" in text):
        word = _bracketed_word(text)
        if word is None:
            errors.note(number, line, "a word list without exactly one known word in brackets")
            if knob in _KNOBS_WITH_ACCEPTED_WORDS and re.search(r"always|madvise|never", text):
                yield Fact("setting.unplaced", text[:60], cite, time=source.time)  # a setting that cannot be read
        else:
            yield from _word_facts(cite, source.time, knob, text, word)
    elif knob in _INTEGERS:
        value = parse_count(text)
        if value is None or value > 2**40 or str(value) != text:  # a leading 0 is the tail of a truncated number
            errors.note(number, line, "not an integer in the range of this setting; it is left out")
        else:
            yield Fact(f"thp.{knob.replace('/', '.')}", value, cite, time=source.time)
    elif knob:
        errors.note(number, line, "a setting that this version does not know")
    else:
        errors.note(number, line, "a THP setting without the name of its file")
        if word := _bracketed_word(text):
            yield Fact("setting.unplaced", word, cite, time=source.time)


def _word_facts(cite: Citation, time: Moment | None, knob: str, text: str, word: str) -> Iterator[Fact]:
    """Yield the selected word, and the words that the kernel accepts."""
    if size := _SIZE.match(knob):
        yield Fact(f"thp.size.{size[2]}", word, cite, (("size", size[1]),), time)
        return
    yield Fact(f"thp.{knob.replace('/', '.')}", word, cite, time=time)
    if knob in _KNOBS_WITH_ACCEPTED_WORDS:
        accepts = " ".join(text.replace("[", "").replace("]", "").split())
        yield Fact(f"thp.{knob}.accepts", accepts, cite, time=time)


def _corrected_knob(knob: str, text: str) -> str:
    """Return the setting, or that of the word list if they do not match, because lines between them are missing."""
    if knob not in _WORDS_BY_KNOB or not _bracketed_word(text) or _words_of(text) <= _WORDS_BY_KNOB[knob]:
        return knob
    return _knob_by_values(text) or "another list"


def _words_of(text: str) -> set[str]:
    return set(text.replace("[", " ").replace("]", " ").split())


def _bracketed_word(text: str) -> str | None:
    """Return the word in brackets; None if there is none, more than one, or an unknown one."""
    bracketed = re.findall(r"\[([^\[\]]*)\]", text)
    words = _words_of(text)
    return bracketed[0] if len(bracketed) == 1 and words <= _WORDS and bracketed[0] in words else None


PARSER = Parser(
    "thp_sysfs", "THP settings in /sys/kernel/mm", read, opens=_OPENS, confirm=_confirm,
    continues=any_of(_OPENS, _LISTING, _SHORT_NUMBER),
    paths=(re.compile(rf"(?:^|/){_MM}/{_DIRECTORY}(?:/.*)?$"), _PART_OF_TREE),
)  # fmt: skip
