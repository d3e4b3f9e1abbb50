"""The first block of a diagnosis: at most 14 lines of 80 columns that can be pasted into a ticket.

What, how sure and why, on which host, two or three proofs with their places, what to do now, how to undo and verify it;
of a diagnosis that is not sure, what to send. Commands are neither wrapped nor cut; a proof is cut where it takes more
than its lines, and stands whole in the detail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def subject(result: Result) -> Finding | None:
    """The finding that the block is about: the verdict's, else the best of those with something to mend at once."""
    return messages.leading(result) or messages.acting_alone(result)


def first_block(result: Result) -> Block:
    """The block; the proofs get the lines that verdict, host and commands leave, at least one."""
    finding = subject(result)
    head = [*_sentence(result), *_weight(result, finding), *_host(result)]
    number, advice = messages.first_try(finding) if finding and finding.remedies else (None, None)
    actions: list[Line] = []
    labels: frozenset[str] = frozenset()
    for most in range(MAX_COMMAND_LINES, -1, -1):
        actions, labels = _actions(advice, number, most) if advice else ([], labels)
        if len(head) + len(actions) < MAX_LINES:
            break
    proofs, whole = _proofs(finding, MAX_LINES - len(head) - len(actions)) if finding else ([], [])
    rows = [*head, *proofs, *actions]
    request, commands = _request(result)
    if not request or len(rows) + len(request) > MAX_LINES:
        return Block(rows, whole, number if labels else None, labels)
    return Block([*rows, *request], whole, number if labels else None, labels | {"To send"}, commands)


def _sentence(result: Result) -> list[Line]:
    """The verdict, in the colour of its severity; who says it, since a ticket has many authors."""
    style = result.verdict.severity or ("good" if result.verdict.status == "nothing_found" else "bold")
    told = fold(prose(messages.sentence(result)), OWN, "")
    return [Line(line, style) for line in cut(told, MAX_SENTENCE_LINES)]


def cut(rows: Sequence[str], most: int, width: int = WIDTH) -> list[str]:
    """The first so many lines; the last of them says that there are more."""
    if len(rows) <= most:
        return list(rows)
    last = rows[most - 1]
    while columns(last + CUT) > width and " " in last.strip():
        last = last.rpartition(" ")[0]
    return [*rows[: most - 1], last + CUT]


def _weight(result: Result, finding: Finding | None) -> list[Line]:
    """How bad, how sure and by what, and whether it is over."""
    if finding is None:
        return []
    verdict = result.verdict
    if finding is messages.leading(result):
        severity, confidence = verdict.severity, verdict.confidence
    else:
        severity, confidence = finding.severity, finding.confidence
    why = f" ({messages.classes_in_short(finding)})" if finding.classes_spoken else ""
    told = f"Severity {severity}, confidence {confidence}{why}; {finding.rule}"
    if verdict.state in ("past", "unknown"):
        told += f"; {messages.state(result)}"
    rows = cut(fold(prose(told)), 2)
    if accepted := prose(messages.acceptance(finding)):
        rows += cut(fold(accepted[:1].upper() + accepted[1:], "", "  "), 2)
    return [Line(line) for line in rows]


def _host(result: Result) -> list[Line]:
    host = result.host
    kernel = f"kernel {host.kernel}" if host.kernel else ""
    told = ", ".join(filter(None, [messages.name(result), host.os, kernel]))
    return [Line(line) for line in cut(fold(prose(told), "Host: ", "  "), 2)]


def _proofs(finding: Finding, room: int) -> tuple[list[Line], list[Evidence]]:
    """Three proofs, or two where there is less room: in two lines each, else in one."""
    placed = [one for one in finding.evidence if one.member] or finding.evidence
    proof = messages.proof(finding)
    wanted = proof if len(proof) > 1 else messages.distinct_evidence([*proof, *placed])[:2]
    for most, count in ((PROOF_LINES, 3), (PROOF_LINES, 2), (1, 3), (1, 2), (1, 1)):
        told = [_proof(one, most) for one in wanted[:count]]
        if sum(len(rows) for rows, _ in told) <= room:
            break
    every = (row for rows, _ in told for row in rows)
    lines_ = [
        Line(f"{'       ' if n else 'Proof: '}{row}", "", 0 if n else len("Proof:")) for n, row in enumerate(every)
    ]
    return lines_, [one for one, (_, whole) in zip(wanted, told, strict=False) if whole]


def _proof(one: Evidence, most: int) -> tuple[list[str], bool]:
    """`file:line  text` in this many lines, and whether that is all of it; a long path takes a line of its own."""
    width = WIDTH - len("Proof: ")
    where, text = visible(place(one)), prose(one.text or "")
    if columns(where) > width // 2 and most > 1:
        rows = [where, *fold(text, "  ", "  ", width)]
    else:
        rows = fold(text, f"{where}  " if where else "", "    ", width)
    if len(rows) <= most:
        return rows, True
    return cut(rows, most, width), False


def _actions(advice: Remedy, number: int | None, most: int) -> tuple[list[Line], frozenset[str]]:
    """The commands of a step; a script longer than a few lines is left to the detail."""
    how = advice.verify.how if advice.verify else None
    parts: tuple[Sequence[str], ...] = (advice.now, advice.undo_now or advice.undo, [how] if how else [])
    rows: list[Line] = []
    shown = set()
    for label, commands in zip(LABELS, parts, strict=True):
        found = [line for command in commands for line in lines(command)]
        if len(found) > most:
            rows.append(
                Line(f"{label + ':':<9}{len(found)} lines, under step {number} of What to do", "", len(label) + 1)
            )
        elif found:
            shown.add(label)
            rows += _labelled(label, found)
    if not advice.now and advice.reason:
        told = cut(fold(prose(advice.reason), "Do now:  ", "         "), 2)
        rows[:0] = [Line(line, "", len("Do now:") if not n else 0) for n, line in enumerate(told)]
    return rows, frozenset(shown)


def _labelled(label: str, commands: Sequence[str]) -> Iterator[Line]:
    for n, command in enumerate(commands):
        head = f"{label + ':' if label and not n else '':<9}"
        yield Line(f"{head}{command}".rstrip(), "", len(head.strip()))


def _request(result: Result) -> tuple[list[Line], Sequence[str]]:
    """What to send to the customer, where more would be surer, and the commands of it that are shown."""
    text, commands = messages.customer_request(result)
    if not text or (result.verdict.status != "cannot_tell" and result.verdict.confidence != "possible"):
        return [], ()
    told = fold(prose(text), "To send: ", "         ")
    rows = [Line(line, "", 0 if n else len("To send:")) for n, line in enumerate(told)]
    return [*rows, *_labelled("", commands[:MAX_REQUESTS])], commands[:MAX_REQUESTS]
