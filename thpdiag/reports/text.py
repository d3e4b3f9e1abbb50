"""The result document for a terminal: 80 columns, the verdict first, plain text.

Level 0 is what one reads first; level 1 adds all findings, everything ruled out, settings, problems and the lines that
evidence cites; level 2 adds the evaluated condition of every rule. Commands stand alone on their lines, unbroken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from thpdiag.reports import confidence, excerpt, recordings, settings, verdict
from thpdiag.reports.columns import WIDTH, columns, fold
from thpdiag.reports.located import accepted
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.quantity import duration, quantity
from thpdiag.reports.remedy_text import checked_before, remedy
from thpdiag.reports.visible import lines, prose, visible

FORMAT = "text"
SHORT = 8  # list entries at level 0; "and N more" stands for the rest
_MARKS = {"yes": "+", "no": "-", "unknown": "?"}

Document = Mapping[str, Any]


def render(document: Document, presentation: Presentation = PLAIN) -> str:
    """The report; with several hosts the worst in full, the others too from level 1 on."""
    verbosity = presentation.verbosity
    worst, *rest = verdict.hosts(document)
    out = list(_host_report(worst, verbosity))
    if rest:
        out += ["", *_heading(f"{verdict.plural(len(rest), 'other host')}")]
    for other in rest:
        out += _host_report(other, verbosity) if verbosity else _one_line(other)
    return "\n".join(line.rstrip() for line in out) + "\n"


def _host_report(document: Document, verbosity: int) -> Iterator[str]:
    parts = [_verdict, _why, _do, _others, _disagreeing, _undecided, _recordings, _reading]
    if verbosity >= 1:
        parts += [_host, _problems]
    if verbosity >= 2:
        parts.append(_trees)
    for part in parts:
        yield from part(document, verbosity)


def _heading(text: str) -> list[str]:
    return [text, "-" * columns(text)]


def _one_line(document: Document) -> list[str]:
    return fold(f"{prose(verdict.name(document))}: {prose(verdict.sentence(document))}", "  ", "      ")


def _verdict(document: Document, verbosity: int) -> Iterator[str]:
    """The sentence, how bad, how sure and why, which host, which time."""
    yield from fold(prose(verdict.sentence(document)))
    yield ""
    said, finding = document["verdict"], verdict.leading(document)
    if said["severity"]:
        yield from fold(f"Severity {said['severity']}, confidence {said['confidence']}; {verdict.state(document)}.")
        yield from fold(visible(f"Rule {said['rule']} ({said['mechanism']})"))
    if finding:
        yield from _accepted(finding)
        yield from fold(prose(confidence.why(finding)))
        yield from _surer(finding, verbosity)
        for more in finding["raise_confidence"] if said["confidence"] != "confirmed" and verbosity else ():
            yield from fold(prose(more), "To be surer: ", "  ")
    yield from fold(prose(_described(document)), "Host ", "  ")
    if policy := _policy(document["host"]["settings"]):
        yield from fold(prose(policy), "Transparent huge pages: ", "  ")
    if said["window"]:
        yield from fold(prose(verdict.window(said["window"])), "Time ", "  ")
    if told := verdict.redacted(document):
        yield from fold(told)
    if finding and finding["means"]:
        yield ""
        yield from fold(prose(finding["means"]))


def _surer(finding: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    """What would make it surer; the furthest step at first, all from level 1 on."""
    for told, commands in confidence.surer(finding)[: None if verbosity else 1]:
        yield from fold(prose(told))
        yield from ("    " + line for command in commands for line in lines(command))


def _accepted(finding: Mapping[str, Any], margin: str = "") -> list[str]:
    """By whom it is accepted, why and until when."""
    told = prose(accepted(finding))
    return fold(told[:1].upper() + told[1:], margin) if told else []


def _described(document: Document) -> str:
    host = document["host"]
    parts = [
        verdict.name(document),
        host["os"],
        host["kernel"] and f"kernel {host['kernel']}",
        host["platform"] and f"platform {host['platform']}",
        host["uptime"] is not None and f"up {duration(host['uptime'])}",
        host["apps"] and f"runs {', '.join(host['apps'])}",
    ]
    return ", ".join(str(part) for part in parts if part)


def _policy(settings: Mapping[str, Any]) -> str:
    """The two settings that decide what a page fault may do, since a reader asks for them first."""
    known = [(name, settings[f"thp.{name}"]) for name in ("enabled", "defrag") if f"thp.{name}" in settings]
    assumed = " (assumed, the default of this kernel)"
    return ", ".join(f"{name} {s['value']}{assumed if s['provenance'] == 'assumed' else ''}" for name, s in known)


def _why(document: Document, verbosity: int) -> Iterator[str]:
    """Evidence for, against, and what was ruled out by which number."""
    finding = verdict.leading(document)
    if finding and finding["evidence"]:
        yield from ["", *_heading("Why")]
        told = verdict.distinct(finding["evidence"])
        yield from _short((_evidence(said, verbosity) for said in told), len(told), verbosity)
    if finding and finding["against"]:
        yield from ["", *_heading("What speaks against it")]
        against = (_evidence(said, verbosity) for said in finding["against"])
        yield from _short(against, len(finding["against"]), verbosity)
    if document["ruled_out"]:
        yield from ["", *_heading("Ruled out")]
        out = verdict.ruled_out(document)
        yield from _short(map(_ruled_out, out), len(out), verbosity)


def _short(blocks: Iterable[Sequence[str]], count: int, verbosity: int) -> Iterator[str]:
    for block in blocks if verbosity else islice(blocks, SHORT):
        yield from block
    if count > SHORT and not verbosity:
        yield f"  and {count - SHORT} more (-v)"


def _evidence(said: Mapping[str, Any], verbosity: int) -> list[str]:
    """From level 1 on with the line of the customer's file."""
    quoted = excerpt.quoted(said, "      ") if verbosity else []
    return [*cited(verdict.place(said), said["text"] or ""), *_since(said, "      "), *quoted]


def _since(said: Mapping[str, Any], margin: str) -> list[str]:
    """Since when a recording shows it."""
    return fold(prose(said["onset"]["text"]), margin) if said["onset"] and said["onset"]["text"] else []


def cited(place: str, text: str, margin: str = "  ") -> list[str]:
    """`file:line  text`; the text goes below a place that takes much of the line. A place is never broken."""
    at = visible(place)
    if columns(at) > WIDTH // 3:
        return [margin + at, *fold(prose(text), margin + "    ")]
    return fold(prose(text), f"{margin}{at}  " if at else margin, margin + "    ")


def _ruled_out(other: Mapping[str, Any]) -> list[str]:
    places = ", ".join(dict.fromkeys(filter(None, map(verdict.place, other["evidence"][:2]))))
    told = f"{other['title'] or other['rule']}: {other['because'] or 'its checks say no'}"
    return fold(prose(_with(told, places)), "  ", "      ")


def _do(document: Document, _: int) -> Iterator[str]:
    """The remedies in the order in which to try them, numbered if there are several."""
    finding = verdict.leading(document)
    remedies = finding["remedies"] if finding else []
    if remedies:
        yield from ["", *_heading("What to do")]
        if not document["host"]["platform"] and any(advice["persist"] for advice in remedies):
            yield from fold("The distribution is not in the input; the commands are written for any Linux.")
    if len(remedies) > 1:
        yield from fold("One step after the other, the mildest first; stop as soon as its Verify line holds.")
    for number, advice in enumerate(remedies, 1):
        yield from [""] if len(remedies) > 1 else []
        label = f"{number}. " if len(remedies) > 1 else ""
        yield from remedy(advice, label=label, checked_in=checked_before(remedies, number))


def _others(document: Document, verbosity: int) -> Iterator[str]:
    """Consequences and other findings: one line each; in full from level 1 on, and what is to be mended at once."""
    for heading, findings in verdict.groups(document):
        yield from ["", *_heading(heading)]
        for finding in findings:
            yield from _other(document, finding)
            if verbosity or verdict.acts_alone(document, finding):
                yield from _in_full(document, finding, verbosity)


def _other(document: Document, finding: Mapping[str, Any]) -> Iterator[str]:
    role = verdict.role(document, finding)
    weight = ", ".join(filter(None, [role, finding["severity"], finding["confidence"]] if role != "context" else []))
    when = verdict.window(finding["window"])
    aside = "; ".join(filter(None, [finding["entity"], when]))
    told = _with(finding["title"] or finding["rule"], aside)
    yield from fold(prose(f"{weight}: {told}" if weight else told), f"  {visible(finding['rule'])}  ", "      ")
    yield from _accepted(finding, "      ")
    if number := verdict.figure(finding):
        yield from cited(verdict.place(number), number["text"] or "", "      ")
    for better in verdict.explained_by(document, finding):
        yield from fold(prose(f"explained better by {better}"), "      ", "        ")


def _in_full(document: Document, finding: Mapping[str, Any], verbosity: int) -> Iterator[str]:
    for said in verdict.distinct(finding["evidence"]):
        yield from cited(verdict.place(said), said["text"] or "", "      ")
        yield from excerpt.quoted(said, " " * 10) if verbosity else ()
    for said in finding["against"]:
        yield from cited(verdict.place(said), f"against: {said['text']}", "      ")
        yield from excerpt.quoted(said, " " * 10) if verbosity else ()
    own, above = verdict.new_remedies(document, finding)
    if above:
        yield from fold(prose(f"Under What to do: {', '.join(above)}"), "      ")
    for advice in own:
        yield from remedy(advice, "      ")


def _disagreeing(document: Document, _: int) -> Iterator[str]:
    """Where the places that set huge pages disagree: what a reader must know before he believes one of them."""
    told = settings.contradictions(document["host"]["settings"])
    if told:
        yield from ["", *_heading("Settings that disagree")]
    for text, place in told[:SHORT]:
        yield from fold(prose(_with(text, place)), "  ", "      ")
    if len(told) > SHORT:
        yield f"  and {len(told) - SHORT} more (-f json)"


def _undecided(document: Document, verbosity: int) -> Iterator[str]:
    """What could not be decided, what is missing, and what to send to the customer."""
    count = len(document["unknown"])
    text, commands = verdict.ask(document)
    if not count and not commands and not text:
        return
    yield from ["", *_heading("Not decided")]
    if count:
        rest = "" if verbosity else " (-v lists them)"
        yield from fold(f"{verdict.plural(count, 'rule')} could not be decided{rest}.")
    if verbosity:
        for unknown in document["unknown"]:
            needs = ", ".join(unknown["missing"]) or "more data"
            told = ". ".join([f"{verdict.title(document, unknown['rule'])}: needs {needs}", *unknown["because"]])
            yield from fold(prose(told), f"  {visible(unknown['rule'])}  ", "      ")
    if text:
        yield from fold(prose(text))
    if commands:
        yield "By hand, the most useful first:"
    yield from ("    " + line for command in commands for line in lines(command))


def _recordings(document: Document, verbosity: int) -> Iterator[str]:
    """Each recording of call stacks: what it is and when it was made, what it lost, what findings saw in it when."""
    profiles = document["profiles"]
    if profiles:
        yield from ["", *_heading("Recordings of call stacks")]
    seen = SHORT if verbosity else 1
    yield from _short((_recording(profile, seen) for profile in profiles), len(profiles), verbosity)


def _recording(profile: Mapping[str, Any], seen: int) -> list[str]:
    """The `seen` first signatures are those of the gravest findings."""
    told = cited(verdict.place(profile), recordings.described(profile))
    further = [recordings.losses(profile), *map(recordings.signature, profile["signatures"][:seen])]
    return [*told, *(line for text in further if text for line in fold(prose(text), "      ", "        "))]


def _reading(document: Document, verbosity: int) -> Iterator[str]:
    """How many members were read, how many problems that met, and what was noted in passing."""
    inputs, problems = document["inputs"], document["problems"]
    yield ""
    members = {row["member"] for row in inputs}
    read = {row["member"] for row in inputs if row["reader"]}
    told = [f"{len(read):,} of {verdict.plural(len(members), 'member')} read."] if members else []
    if problems:
        kinds = Counter(problem["kind"] or "odd" for problem in problems)
        kept = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        told.append(f"{verdict.plural(len(problems), 'problem')} ({kept}){'' if verbosity else '; -v lists them'}.")
    if told:
        yield from fold(" ".join(told))
    asked = [f"{name}={value}" for name, value in sorted(document["tool"]["options"].items()) if value is not None]
    if asked:
        yield from fold(prose("; ".join(asked)), "Options that change the analysis: ", "  ")
    for note in document["notes"]:
        yield from fold(prose(_with(note["text"] or "", verdict.place(note))), "Note: ", "  ")


def _with(text: str, aside: str) -> str:
    return f"{text} ({aside})" if aside else text


def _host(document: Document, _: int) -> Iterator[str]:
    host = document["host"]
    if host["settings"]:
        yield from ["", *_heading("Settings")]
    for name, setting in sorted(host["settings"].items()):
        how = ", ".join(filter(None, [setting["provenance"], verdict.place(setting)]))
        value = "not known" if setting["value"] is None else quantity(setting["value"])
        yield from fold(prose(_with(f"{name} = {value}", how)), "  ", "      ")
        for text in settings.further(setting):
            yield from fold(prose(text), "      ", "        ")
    if host["measures"]:
        yield from ["", *_heading("Figures")]
    for name, measure in sorted(host["measures"].items()):
        how = ", ".join(filter(None, [measure["window"], measure["source"]]))
        told = f"{name} = {quantity(measure['value'], measure['unit'])}"
        yield from fold(prose(_with(told, how)), "  ", "      ")


def _problems(document: Document, _: int) -> Iterator[str]:
    if document["problems"]:
        yield from ["", *_heading("Problems")]
    for problem in document["problems"]:
        times = f" ({problem['count']} times)" if (problem["count"] or 1) > 1 else ""
        yield from cited(verdict.place(problem), f"{problem['kind'] or 'odd'}: {problem['text']}{times}")


def _trees(document: Document, _: int) -> Iterator[str]:
    """The condition of every rule as evaluated: + yes, - no, ? unknown."""
    if document["rules"]:
        yield from ["", *_heading("Rules (+ yes, - no, ? unknown)")]
    for rule in document["rules"]:
        yield from fold(prose(f"{rule['title'] or ''} [{rule['outcome']}]"), f"{visible(rule['id'])}  ", "    ")
        if rule["tree"]:
            yield from _tree(rule["tree"], 2)


def _tree(node: Mapping[str, Any], indent: int) -> Iterator[str]:
    margin = " " * min(indent, WIDTH // 2)
    told = ": ".join(filter(None, [node["expr"], node["text"]]))
    needed = f" (needed: {quantity(node['needed'])})" if node["needed"] not in {None, ""} else ""
    yield from fold(prose(told + needed), f"{margin}{_MARKS.get(node['value'], '?')} ", f"{margin}    ")
    for child in node["children"]:
        yield from _tree(child, indent + 2)
