"""Reports that thpdiag itself wrote. They are not read, because a conclusion is not evidence for itself.

Their sentences name settings, sizes and causes, and would otherwise count as testimony. Each format is detected by its
beginning: the page of a report, comparison or fleet (`report/html/head.html`), JSON with its keys in order (a result, a
comparison, a fleet, a baseline), SARIF, Code Quality of GitLab, JUnit, annotations of GitHub, Markdown, CSV. Recordings
that `thpdiag` exports (flame graphs, speedscope) are read like those of any other tool.

The report for a terminal, and Markdown inside a longer text, begin with sentences that are read as prose; the
paragraphs that repeat the host and its settings are detected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from thpdiag.model import Citation, Problem, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Parser, Source

NAME = "thpdiag_report"
NOT_READ = "a report that thpdiag wrote: not read, since no conclusion is evidence for itself"
_RULE = rb"(?:THP|ALT|CTX)-\d{2,3}"
_OPENS = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,9}(?:"
    rb'<!DOCTYPE html>\s{1,9}<html lang="en">\s{1,9}<head>\s{1,9}<meta charset="utf-8">\s{1,9}'
    rb'<meta http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;;'
    rb'|\{\s{0,9}"ask":\s{0,9}\{\s{0,9}"commands":\s{0,9}\['
    rb'|\{\s{0,9}"alone":\s{0,9}\['
    rb'|\{\s{0,9}"bundles":\s{0,9}\d{1,9},\s{0,9}"gate":\s{0,9}\{'
    rb'|\{\s{0,9}"accepted":\s{0,9}\[\s{0,9}\{\s{0,9}"confidence":'
    rb'|\{\s{0,9}"\$schema":\s{0,9}"[^"]{1,200}sarif'
    rb'|\[\s{0,9}\{\s{0,9}"check_name":\s{0,9}"' + _RULE + rb'"'
    rb'|<\?xml [^>]{1,100}\?>\s{1,9}<testsuites name="thpdiag"'
    rb"|::(?:error|warning|notice) [^\n]{0,400}title=" + _RULE +
    rb"|## thpdiag: |case,host,verdict,sentence,rule,|number,host,case,bundle,sha256,)"
)  # fmt: skip
_SHARED_FORMAT = re.compile(rb'\s{0,9}\{\s{0,9}"(?:\$schema|alone)"')
_THPDIAG_NAME = re.compile(rb'"id": "thpdiag/|"rules_digest"|"name": "thpdiag"')
_REPORT_PARAGRAPH = re.compile(
    r"thpdiag: |Severity (?:critical|high|medium|low|info), confidence (?:possible|likely|confirmed)(?:[;.]| \()"
    r"|Rule: (?:THP|ALT|CTX)-\d{2,3} \([\w-]{1,60}\)"
    r"|- \*\*Severity:\*\* (?:critical|high|medium|low|info); |- \*\*Confidence:\*\* (?:possible|likely|confirmed)\. "
)


def confirm(path: str, head: bytes, size: int | None) -> bool:
    """Return whether thpdiag wrote the member; in formats that other tools write too, its name must occur."""
    return not _SHARED_FORMAT.match(head) or bool(_THPDIAG_NAME.search(head))


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Yield the problem that the report is not read."""
    yield Problem(Citation(source.member), NOT_READ, reader=NAME)


def read_lines(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield the same problem for a paragraph of a report."""
    for number, line in islice(lines, 1):
        yield Problem(source.cite(number, line), NOT_READ, reader=NAME)


PARSER = Parser(
    NAME, "the head of a report that thpdiag wrote", read_lines, opens=_REPORT_PARAGRAPH, continues=str.strip
)

BULK_PARSER = BulkParser(NAME, "reports that thpdiag wrote (not read as evidence)", confirm, read, opens=_OPENS)
