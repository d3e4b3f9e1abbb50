"""What every report says first, read from a completed result document."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from thpdiag.reports.quantity import moment
from thpdiag.result.schema import completed

Document = Mapping[str, Any]

SENTENCES = {
    "found": "A cause was found.",
    "not_applicable": "This host has no transparent huge pages that could hurt it.",
    "nothing_found": "Nothing found: the measurements speak against every known huge-page problem.",
    "cannot_tell": "Cannot tell: what was sent does not decide whether huge pages hurt this host.",
}
MOST_PROOF = 3  # lines of evidence on the first screen
FIRST_OUT = 5  # of what was ruled out, shown unfolded: look-alikes come first
SAME_SETTINGS = "the settings were the same at the end of what was sent"
_STATE = {
    "present": "still so at the end of what was sent",
    "past": "over at the end of what was sent",
    "unknown": "whether it is over cannot be told",
}


def hosts(document: Document) -> list[dict[str, Any]]:
    """The completed documents of all hosts: first the one that the top speaks of, then the others as listed."""
    whole = completed(document)
    cases: list[dict[str, Any]] = whole["cases"] or [whole]
    return sorted(cases, key=lambda case: (case["case"], case["verdict"]) != (whole["case"], whole["verdict"]))


NAMELESS = "unnamed host"
_NOBODY = "host"  # what a document calls a host whose name is not in the input
REDACTED = "Redacted: names of hosts, users, programs, functions and paths of the customer's own are pseudonyms."


def redacted(document: Document) -> str:
    """That a completed document has pseudonyms for names, in one sentence; empty if it has not."""
    return REDACTED if document["tool"]["redacted"] else ""


def name(document: Document) -> str:
    """The host's own name, or what the case is called."""
    names = (document["host"]["name"], document["case"])
    return next((str(told) for told in names if told and told != _NOBODY), NAMELESS)


def sentence(document: Document) -> str:
    verdict = document["verdict"]
    return verdict["sentence"] or SENTENCES.get(verdict["status"], "")


def leading(document: Document) -> dict[str, Any] | None:
    """The finding that the verdict is about."""
    rule = document["verdict"]["rule"]
    return next((finding for finding in document["findings"] if finding["rule"] == rule), None)


def groups(document: Document) -> list[tuple[str, list[dict[str, Any]]]]:
    """The findings beside the leading one, by what they are to it."""
    first = leading(document)
    rest = [finding for finding in document["findings"] if finding is not first]
    follows, belongs = (first["consequences"], first["attached"]) if first else ([], [])
    told = [
        ("Belongs to it", [f for f in rest if f["rule"] in belongs]),
        ("Also seen", [f for f in rest if f["rule"] not in belongs and not _folded(f, follows)]),
        ("Follows from it", [f for f in rest if f["rule"] not in belongs and _folded(f, follows)]),
    ]
    return [(heading, findings) for heading, findings in told if findings]


def _folded(finding: Mapping[str, Any], follows: Container[str]) -> bool:
    return finding["rule"] in follows and finding["role"] not in ("configuration", "risk", "context")


def others(document: Document) -> list[dict[str, Any]]:
    """The findings beside the leading one, those folded under it last."""
    return [finding for _, findings in groups(document) for finding in findings]


def role(document: Document, finding: Mapping[str, Any]) -> str:
    """What a finding is beside the verdict: a wrong setting or a risk stays one, whatever explains it."""
    first = leading(document)
    if first is not None and _folded(finding, first["consequences"]):
        return "consequence"
    return (finding["role"] or "finding").replace("_", " ")


def figure(finding: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The line of evidence with the number of a further cause: a share in call stacks, else what moved or grew."""
    if finding["role"] not in ("contributing", "alternative"):
        return None
    order = ("stack", "cpu", "effect", "counter", "toggle")
    found = [said for said in finding["evidence"] if said["kind"] in order]
    return min(found, key=lambda said: order.index(said["kind"]), default=None)


def explained_by(document: Document, finding: Mapping[str, Any]) -> list[str]:
    """What explains better what a finding saw: rule, title and the number that says so; not for consequences."""
    if role(document, finding) == "consequence":
        return []
    found = {other["rule"]: other for other in document["findings"]}
    return [_explained(found[rule]) if rule in found else rule for rule in finding["demoted_by"]]


def _explained(other: Mapping[str, Any]) -> str:
    number = figure({**other, "role": "alternative"})
    told = f": {number['text']}" if number else ""
    return f"{other['rule']} ({other['title'] or other['mechanism']}{told})"


def acts_alone(document: Document, finding: Mapping[str, Any]) -> bool:
    """Whether a finding beside the verdict is shown in full: a wrong configuration, or the best there is.

    Nothing is to be done for what steps back behind another finding where nobody leads: that one speaks against it; nor
    for what somebody accepts.
    """
    if finding["suppressed"]:
        return False
    open_case = document["verdict"]["status"] == "cannot_tell" and not finding["demoted_by"]
    wanted = ("configuration", "contributing") if open_case else ("configuration",)
    return finding["role"] in wanted and finding["severity"] not in ("info", "low")


def acting_alone(document: Document) -> dict[str, Any] | None:
    """The first finding beside the verdict that has something to mend at once."""
    return next((f for f in others(document) if acts_alone(document, f) and f["remedies"]), None)


def proof(finding: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The lines of evidence for the first screen: the strongest of each class that raises the confidence."""
    order = ("toggle", "stack", "counter", "cpu", "effect", "log", "application", "total")
    best: dict[str, Mapping[str, Any]] = {}
    for said in finding["evidence"]:
        if said["kind"] in order and said["member"]:
            best.setdefault(said["kind"], said)
    return distinct(sorted(best.values(), key=lambda said: order.index(said["kind"])))[:MOST_PROOF]


def distinct(evidence: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Lines of evidence for people: the same figure of the same line once, however many checks looked at it."""
    seen: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for said in evidence:
        figure = (
            (said["value"], said["unit"]) if said["value"] is not None and said["line"] is not None else said["text"]
        )
        seen.setdefault((said["member"], said["line"], figure), said)
    return list(seen.values())


def ruled_out(document: Document) -> list[Mapping[str, Any]]:
    """What was ruled out, each number once: two rules about one mechanism often fall by the same line."""
    seen: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for other in document["ruled_out"]:
        place = (other["evidence"][0]["member"], other["evidence"][0]["line"]) if other["evidence"] else other["rule"]
        seen.setdefault((other["because"] or other["rule"], place), other)
    return list(seen.values())


def new_remedies(document: Document, finding: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """The remedies of a finding beside the verdict, and the names of those that the verdict's own advice has told."""
    first = leading(document)
    told = [advice["now"] for advice in first["remedies"]] if first else []
    own = [advice for advice in finding["remedies"] if advice["now"] not in told]
    return own, [advice["id"] for advice in finding["remedies"] if advice["now"] in told]


def first_try(finding: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The number (from 1) of the step for the first screen, and the step: the first that shows its effect at once.

    The mildest step often needs a restart of the application, and begins with commands that only look. A setting that
    is changed on the running host and set back a minute later tells more at once.
    """
    steps = list(enumerate(finding["remedies"], 1))
    at_once = (step for step in steps if step[1]["undo_now"] and str(step[1]["restart"]).startswith("none"))
    return next(at_once, steps[0])


def title(document: Document, rule: str) -> str:
    """What a rule finds, as far as the document says."""
    named: Iterable[tuple[str, str | None]] = (
        *((finding["rule"], finding["title"]) for finding in document["findings"]),
        *((other["rule"], other["title"]) for other in document["ruled_out"]),
        *((other["id"], other["title"]) for other in document["rules"]),
    )
    return next((text for name, text in named if name == rule and text), "")


def state(document: Document) -> str:
    """Whether it is still so; of a stretch of a recording only the settings can be."""
    told, finding = document["verdict"]["state"], leading(document)
    if told == "present" and finding and finding["window"]:
        return SAME_SETTINGS
    return _STATE.get(told, "")


def window(said: Mapping[str, Any] | None) -> str:
    """The window's own text, else its two ends; empty if there is none."""
    if not said:
        return ""
    return said["text"] or f"{moment(said['from'], said['clock'])} to {moment(said['to'], said['clock'])}"


def ask(document: Document) -> tuple[str, list[str]]:
    """What to write to the customer, and the commands; made of what each rule asks for if the document has no `ask`."""
    asked = document["ask"]
    if asked["text"] or asked["commands"]:
        return asked["text"] or "", list(asked["commands"])
    commands = dict.fromkeys(command for unknown in document["unknown"] for command in unknown["ask_for"])
    return "", list(commands)


def place(cited: Mapping[str, Any]) -> str:
    """`member:line`, or as much of it as there is."""
    member, line = cited["member"] or "", cited["line"]
    return f"{member}:{line}" if member and line is not None else member


def places(evidence: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Evidence with a place, each place once."""
    seen: dict[str, Mapping[str, Any]] = {}
    for said in evidence:
        if place(said):
            seen.setdefault(place(said), said)
    return list(seen.values())


def plural(count: int, one: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"
