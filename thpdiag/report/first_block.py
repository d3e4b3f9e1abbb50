"""The first block of a diagnosis: at most 14 lines of 80 columns that can be pasted into a ticket.

It has the verdict, confidence and reason, the host, two or three proofs with their places, the commands to apply, undo
and verify a step, and, if the confidence is low, what to send. Commands are neither wrapped nor cut; a proof that is
too long is cut here and complete in the detail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from thpdiag.model.result import Evidence, Finding, Remedy, Result
from thpdiag.report import messages
from thpdiag.report.escaping import lines, prose, visible
from thpdiag.report.layout import WIDTH, Line, columns, fold
from thpdiag.report.messages import place

MAX_LINES = 14
MAX_COMMAND_LINES = 3  # of one label; longer scripts are in the detail only
MAX_REQUESTS = 2
MAX_SENTENCE_LINES = 5
MAX_PROOF_LINES = 2
LABELS = ("Do now", "Undo", "Verify")
CUT = " ..."
_LINE_RANGE = re.compile(r" \(lines \d+ to \d+\)")  # left out: the place is printed next to the text
AUTHOR = "thpdiag: "  # `parsers/own_reports.py` recognizes the block by it, so that it is no evidence


class Block(NamedTuple):
    """The lines, the evidence that they show uncut, the number of the remedy step, and what they show of it.

    `labels` are Do now, Undo, Verify and To send, if shown; `requests` are the commands of the request.
    """

    lines: list[Line]
    evidence: list[Evidence]
    step: int | None = None
    labels: frozenset[str] = frozenset()
    requests: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of the block before layout: text, page and Markdown begin with the same.

    `finding` is the subject, `reason` its classes of evidence; `state` is set if the problem is over or may be.
    `actions` are the commands of step `step` by label, `no_action` the advice if there are none. `request` and
    `request_commands` ask the customer for what would raise the confidence.
    """

    sentence: str
    finding: Finding | None
    severity: str
    confidence: str
    reason: str
    state: str
    acceptance: str
    host: str
    proofs: Sequence[Evidence]
    step: int | None
    actions: Mapping[str, Sequence[str]]
    no_action: str
    request: str
    request_commands: Sequence[str]

    @property
    def grade(self) -> str:
        """Severity, confidence with its reason, the rule, and the state."""
        if self.finding is None:
            return ""
        reason = f" ({self.reason})" if self.reason else ""
        text = f"Severity {self.severity}, confidence {self.confidence}{reason}; {self.finding.rule}"
        return f"{text}; {self.state}" if self.state else text


def subject(result: Result) -> Finding | None:
    """Return the lead finding, else the best finding that can be fixed at once."""
    return messages.lead_finding(result) or messages.first_actionable_finding(result)


def summarize(result: Result) -> Summary:
    """Return the texts, commands and places of the block."""
    finding, host = subject(result), result.host
    number, advice = messages.first_step(finding) if finding and finding.remedies else (None, None)
    graded = result.verdict if finding is messages.lead_finding(result) else finding
    accepted = messages.acceptance(finding) if finding else ""
    kernel = f"kernel {host.kernel}" if host.kernel else ""
    text, commands = messages.customer_request(result)
    if result.verdict.status != "cannot_tell" and result.verdict.confidence != "possible":
        text = ""
    return Summary(
        sentence=_LINE_RANGE.sub("", messages.sentence(result)),
        finding=finding,
        severity=(graded and graded.severity) or "",
        confidence=(graded and graded.confidence) or "",
        reason=messages.strongest_classes(finding) if finding else "",
        state=messages.state(result) if finding and result.verdict.state in ("past", "unknown") else "",
        acceptance=accepted[:1].upper() + accepted[1:],
        host=", ".join(filter(None, [messages.name(result), host.os, kernel])),
        proofs=_proofs(finding),
        step=number,
        actions=_commands(advice) if advice else {},
        no_action=(advice.reason or "") if advice and not advice.now else "",
        request=text,
        request_commands=commands[:MAX_REQUESTS] if text else (),
    )


def _proofs(finding: Finding | None) -> Sequence[Evidence]:
    """Return the strongest evidence of each class; of a single class the two strongest."""
    if finding is None:
        return ()
    proof = messages.proof(finding)
    placed = [item for item in finding.evidence if item.member] or finding.evidence
    return proof if len(proof) > 1 else messages.distinct_evidence([*proof, *placed])[:2]


def _commands(advice: Remedy) -> Mapping[str, Sequence[str]]:
    how = advice.verify.how if advice.verify else None
    return dict(zip(LABELS, (advice.now, advice.undo_now or advice.undo, [how] if how else []), strict=True))


def first_block(result: Result) -> Block:
    """Return the block. Proofs get the lines that verdict, host and commands leave, at least one."""
    summary = summarize(result)
    head = [
        *_sentence(result, summary.sentence),
        *_grade(summary),
        *_plain_lines(cut(fold(prose(summary.host), "Host: ", "  "), 2)),
    ]
    actions: list[Line] = []
    labels: frozenset[str] = frozenset()
    for max_command_lines in range(MAX_COMMAND_LINES, -1, -1):
        actions, labels = _actions(summary, max_command_lines)
        if len(head) + len(actions) < MAX_LINES:
            break
    proofs, uncut = _proof_lines(summary.proofs, MAX_LINES - len(head) - len(actions))
    rows = [*head, *proofs, *actions]
    request = _request(summary)
    number = summary.step if labels else None
    if not request or len(rows) + len(request) > MAX_LINES:
        return Block(rows, uncut, number, labels)
    return Block([*rows, *request], uncut, number, labels | {"To send"}, summary.request_commands)


def _plain_lines(rows: Iterable[str]) -> list[Line]:
    return [Line(row) for row in rows]


def _grade(summary: Summary) -> list[Line]:
    """Return the grade and what accepts the finding."""
    rows = cut(fold(prose(summary.grade)), 2) if summary.grade else []
    if summary.acceptance:
        rows += cut(fold(prose(summary.acceptance), "", "  "), 2)
    return _plain_lines(rows)


def _sentence(result: Result, sentence: str) -> list[Line]:
    """Return the verdict in the colour of its severity, with thpdiag as its author: a ticket has many authors."""
    style = result.verdict.severity or ("good" if result.verdict.status == "nothing_found" else "bold")
    rows = fold(prose(sentence), AUTHOR, "")
    return [Line(line, style) for line in cut(rows, MAX_SENTENCE_LINES)]


def cut(rows: Sequence[str], max_lines: int, width: int = WIDTH) -> list[str]:
    """Return at most `max_lines` lines, the last with a mark if others are left out."""
    if len(rows) <= max_lines:
        return list(rows)
    last = rows[max_lines - 1]
    while columns(last + CUT) > width and " " in last.strip():
        last = last.rpartition(" ")[0]
    return [*rows[: max_lines - 1], last + CUT]


def _proof_lines(proofs: Sequence[Evidence], room: int) -> tuple[list[Line], list[Evidence]]:
    """Return up to three proofs in two lines each, or fewer and shorter ones for `room`, and those shown uncut."""
    if not proofs:
        return [], []
    for max_lines, count in ((MAX_PROOF_LINES, 3), (MAX_PROOF_LINES, 2), (1, 3), (1, 2), (1, 1)):
        shown = [_proof(item, max_lines) for item in proofs[:count]]
        if sum(len(rows) for rows, _ in shown) <= room:
            break
    proof_rows = (row for rows, _ in shown for row in rows)
    labelled = [
        Line(f"{'       ' if n else 'Proof: '}{row}", "", 0 if n else len("Proof:")) for n, row in enumerate(proof_rows)
    ]
    return labelled, [item for item, (_, is_uncut) in zip(proofs, shown, strict=False) if is_uncut]


def _proof(evidence: Evidence, max_lines: int) -> tuple[list[str], bool]:
    """Return `file:line  text` in at most `max_lines` lines, and whether it is uncut; a long path has its own line."""
    width = WIDTH - len("Proof: ")
    location, text = visible(place(evidence)), prose(_LINE_RANGE.sub("", evidence.text or ""))
    if columns(location) > width // 2 and max_lines > 1:
        rows = [location, *fold(text, "  ", "  ", width)]
    else:
        rows = fold(text, f"{location}  " if location else "", "    ", width)
    if len(rows) <= max_lines:
        return rows, True
    return cut(rows, max_lines, width), False


def _actions(summary: Summary, max_lines: int) -> tuple[list[Line], frozenset[str]]:
    """Return the commands of a step with at most `max_lines` lines each, and the labels shown."""
    rows: list[Line] = []
    shown = set()
    for label, commands in summary.actions.items():
        script = [line for command in commands for line in lines(command)]
        if len(script) > max_lines:
            text = f"{label + ':':<9}{len(script)} lines, under step {summary.step} of What to do"
            rows.append(Line(text, "", len(label) + 1))
        elif script:
            shown.add(label)
            rows += _label_commands(label, script)
    if summary.no_action:
        reason = cut(fold(prose(summary.no_action), "Do now:  ", "         "), 2)
        rows[:0] = [Line(line, "", len("Do now:") if not n else 0) for n, line in enumerate(reason)]
    return rows, frozenset(shown)


def _label_commands(label: str, commands: Sequence[str]) -> Iterator[Line]:
    for n, command in enumerate(commands):
        head = f"{label + ':' if label and not n else '':<9}"
        yield Line(f"{head}{command}".rstrip(), "", len(head.strip()))


def _request(summary: Summary) -> list[Line]:
    """Return the request to the customer and its commands."""
    if not summary.request:
        return []
    text = fold(prose(summary.request), "To send: ", "         ")
    rows = [Line(line, "", 0 if n else len("To send:")) for n, line in enumerate(text)]
    return [*rows, *_label_commands("", summary.request_commands)]
