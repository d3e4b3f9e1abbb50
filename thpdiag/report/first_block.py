"""The first block of a diagnosis: at most 14 lines of 80 columns that can be pasted into a ticket.

What, how sure and why, on which host, two or three proofs with their places, what to do now, how to undo and verify it;
of a diagnosis that is not sure, what to send. Commands are neither wrapped nor cut; a proof is cut where it takes more
than its lines, and stands whole in the detail.
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
MAX_COMMAND_LINES = 3  # of one label; longer scripts stand in the detail only
MAX_REQUESTS = 2
MAX_SENTENCE_LINES = 5
PROOF_LINES = 2
LABELS = ("Do now", "Undo", "Verify")
CUT = " ..."
LINES = re.compile(r" \(lines \d+ to \d+\)")  # beside a place they take the room of a figure
OWN = "thpdiag: "  # by which `parsers/own_reports.py` knows that the block is no evidence


class Block(NamedTuple):
    """The lines; the evidence that they show whole; the step and what of it they show; what they ask to send.

    `labels` are those of the commands shown: of Do now, Undo and Verify; `To send` of the request for the customer.
    """

    lines: list[Line]
    evidence: list[Evidence]
    step: int | None = None
    labels: frozenset[str] = frozenset()
    requests: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What the block says, before it is laid out: text, page and Markdown begin with the same.

    `finding` is what it is about, how bad, how sure and by what classes of evidence; `over` is told where it is over.
    `actions` are the commands of step `step` by label, `instead` is what to do where it has none. `request` and `asked`
    are what to write to the customer, and the first commands of it, where more would be surer.
    """

    sentence: str
    finding: Finding | None
    severity: str
    confidence: str
    reason: str
    over: str
    accepted: str
    host: str
    proofs: Sequence[Evidence]
    step: int | None
    actions: Mapping[str, Sequence[str]]
    instead: str
    request: str
    asked: Sequence[str]

    @property
    def weight(self) -> str:
        """Severity, confidence with its reason, the rule, and whether it is over."""
        if self.finding is None:
            return ""
        why = f" ({self.reason})" if self.reason else ""
        told = f"Severity {self.severity}, confidence {self.confidence}{why}; {self.finding.rule}"
        return f"{told}; {self.over}" if self.over else told


def subject(result: Result) -> Finding | None:
    """The finding that the block is about: the verdict's, else the best of those with something to mend at once."""
    return messages.leading(result) or messages.acting_alone(result)


def summarize(result: Result) -> Summary:
    """The block's words, commands and places."""
    finding, host = subject(result), result.host
    number, advice = messages.first_try(finding) if finding and finding.remedies else (None, None)
    graded = result.verdict if finding is messages.leading(result) else finding
    accepted = messages.acceptance(finding) if finding else ""
    kernel = f"kernel {host.kernel}" if host.kernel else ""
    text, commands = messages.customer_request(result)
    if result.verdict.status != "cannot_tell" and result.verdict.confidence != "possible":
        text = ""
    return Summary(
        sentence=LINES.sub("", messages.sentence(result)),
        finding=finding,
        severity=(graded and graded.severity) or "",
        confidence=(graded and graded.confidence) or "",
        reason=messages.classes_in_short(finding) if finding else "",
        over=messages.state(result) if finding and result.verdict.state in ("past", "unknown") else "",
        accepted=accepted[:1].upper() + accepted[1:],
        host=", ".join(filter(None, [messages.name(result), host.os, kernel])),
        proofs=_proofs(finding),
        step=number,
        actions=_commands(advice) if advice else {},
        instead=(advice.reason or "") if advice and not advice.now else "",
        request=text,
        asked=commands[:MAX_REQUESTS] if text else (),
    )


def _proofs(finding: Finding | None) -> Sequence[Evidence]:
    """The strongest evidence of each class; where that is of one class, the next too."""
    if finding is None:
        return ()
    proof = messages.proof(finding)
    placed = [one for one in finding.evidence if one.member] or finding.evidence
    return proof if len(proof) > 1 else messages.distinct_evidence([*proof, *placed])[:2]


def _commands(advice: Remedy) -> Mapping[str, Sequence[str]]:
    how = advice.verify.how if advice.verify else None
    return dict(zip(LABELS, (advice.now, advice.undo_now or advice.undo, [how] if how else []), strict=True))


def first_block(result: Result) -> Block:
    """The block; the proofs get the lines that verdict, host and commands leave, at least one."""
    told = summarize(result)
    head = [
        *_sentence(result, told.sentence),
        *_grade(told),
        *_plain_lines(cut(fold(prose(told.host), "Host: ", "  "), 2)),
    ]
    actions: list[Line] = []
    labels: frozenset[str] = frozenset()
    for most in range(MAX_COMMAND_LINES, -1, -1):
        actions, labels = _actions(told, most)
        if len(head) + len(actions) < MAX_LINES:
            break
    proofs, whole = _proof_lines(told.proofs, MAX_LINES - len(head) - len(actions))
    rows = [*head, *proofs, *actions]
    request = _request(told)
    number = told.step if labels else None
    if not request or len(rows) + len(request) > MAX_LINES:
        return Block(rows, whole, number, labels)
    return Block([*rows, *request], whole, number, labels | {"To send"}, told.asked)


def _plain_lines(rows: Iterable[str]) -> list[Line]:
    return [Line(row) for row in rows]


def _grade(told: Summary) -> list[Line]:
    """How bad, how sure and by what, and whether it is over; by whom it is accepted."""
    rows = cut(fold(prose(told.weight)), 2) if told.weight else []
    if told.accepted:
        rows += cut(fold(prose(told.accepted), "", "  "), 2)
    return _plain_lines(rows)


def _sentence(result: Result, sentence: str) -> list[Line]:
    """The verdict, in the colour of its severity; who says it, since a ticket has many authors."""
    style = result.verdict.severity or ("good" if result.verdict.status == "nothing_found" else "bold")
    told = fold(prose(sentence), OWN, "")
    return [Line(line, style) for line in cut(told, MAX_SENTENCE_LINES)]


def cut(rows: Sequence[str], most: int, width: int = WIDTH) -> list[str]:
    """The first so many lines; the last of them says that there are more."""
    if len(rows) <= most:
        return list(rows)
    last = rows[most - 1]
    while columns(last + CUT) > width and " " in last.strip():
        last = last.rpartition(" ")[0]
    return [*rows[: most - 1], last + CUT]


def _proof_lines(proofs: Sequence[Evidence], room: int) -> tuple[list[Line], list[Evidence]]:
    """Three proofs, or two where there is less room: in two lines each, else in one."""
    if not proofs:
        return [], []
    for most, count in ((PROOF_LINES, 3), (PROOF_LINES, 2), (1, 3), (1, 2), (1, 1)):
        told = [_proof(one, most) for one in proofs[:count]]
        if sum(len(rows) for rows, _ in told) <= room:
            break
    every = (row for rows, _ in told for row in rows)
    lines_ = [
        Line(f"{'       ' if n else 'Proof: '}{row}", "", 0 if n else len("Proof:")) for n, row in enumerate(every)
    ]
    return lines_, [one for one, (_, whole) in zip(proofs, told, strict=False) if whole]


def _proof(one: Evidence, most: int) -> tuple[list[str], bool]:
    """`file:line  text` in this many lines, and whether that is all of it; a long path takes a line of its own."""
    width = WIDTH - len("Proof: ")
    where, text = visible(place(one)), prose(LINES.sub("", one.text or ""))
    if columns(where) > width // 2 and most > 1:
        rows = [where, *fold(text, "  ", "  ", width)]
    else:
        rows = fold(text, f"{where}  " if where else "", "    ", width)
    if len(rows) <= most:
        return rows, True
    return cut(rows, most, width), False


def _actions(told: Summary, most: int) -> tuple[list[Line], frozenset[str]]:
    """The commands of a step; a script longer than a few lines is left to the detail."""
    rows: list[Line] = []
    shown = set()
    for label, commands in told.actions.items():
        found = [line for command in commands for line in lines(command)]
        if len(found) > most:
            rows.append(
                Line(f"{label + ':':<9}{len(found)} lines, under step {told.step} of What to do", "", len(label) + 1)
            )
        elif found:
            shown.add(label)
            rows += _label_commands(label, found)
    if told.instead:
        reason = cut(fold(prose(told.instead), "Do now:  ", "         "), 2)
        rows[:0] = [Line(line, "", len("Do now:") if not n else 0) for n, line in enumerate(reason)]
    return rows, frozenset(shown)


def _label_commands(label: str, commands: Sequence[str]) -> Iterator[Line]:
    for n, command in enumerate(commands):
        head = f"{label + ':' if label and not n else '':<9}"
        yield Line(f"{head}{command}".rstrip(), "", len(head.strip()))


def _request(told: Summary) -> list[Line]:
    """What to send to the customer, and the commands of it that are shown."""
    if not told.request:
        return []
    text = fold(prose(told.request), "To send: ", "         ")
    rows = [Line(line, "", 0 if n else len("To send:")) for n, line in enumerate(text)]
    return [*rows, *_label_commands("", told.asked)]
