"""A comparison for a terminal: 80 columns; answer, changed settings, findings, figures. Also the words that text and
page share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thpdiag.compare.figures import SHARE, Change
from thpdiag.compare.model import (
    ComparedEvidence,
    ComparedFigure,
    ComparedHost,
    Comparison,
    Placed,
    Remaining,
    SettingValue,
    Value,
)
from thpdiag.report.escaping import lines, prose, visible
from thpdiag.report.layout import Line, columns, fold, paint
from thpdiag.report.messages import REDACTED, acceptance_text, plural, with_aside
from thpdiag.report.presentation import PLAIN, Presentation
from thpdiag.report.quantity import quantity

MAX_CHANGES = 3  # per sentence
MAX_BRIEF_FIGURES = 12  # figures without -v
_STATUS_WIDTH = 12
INCREASED = ("new", "worse")
_FIGURE_NAMES = {
    "cpu_ratio.sys_share": "kernel share of busy CPU time",
    "cpu_ratio.sys_total": "CPU time in the kernel",
    "cpu_ratio.sys_total_steal": "CPU time in the kernel or stolen",
    "cpu_ratio.user_total": "CPU time of programs",
    "cpu_ratio.busy": "busy CPU time",
    "cpu_ratio.softirq": "CPU time in soft interrupts",
    "cpu_ratio.iowait": "CPU time waiting for I/O",
    "cpu_ratio.steal": "CPU time stolen by the hypervisor",
    "node_vmstat_pgalloc_normal": "memory pages allocated",
    "node_vmstat_pgfault": "page faults",
    "node_allocstall_total": "direct reclaim (allocstall)",
    "node_memory_AnonHugePages_bytes": "memory in huge pages (AnonHugePages)",
    "node_memory_MemFree_bytes": "free memory (MemFree)",
    "node_memory_MemTotal_bytes": "memory (MemTotal)",
}
_FAMILY_NAMES = {
    "direct_compact": "direct compaction", "compaction": "memory compaction", "spin_lock": "spin locks",
    "thp_fault": "huge-page faults", "zeroing": "clearing of pages", "migrate": "page migration",
    "reclaim": "memory reclaim", "tlb_flush": "TLB flushes", "page_fault": "page faults",
    "base_page_fault": "faults of small pages", "fork_cow": "fork and copy on write",
}  # fmt: skip
HEADINGS = {
    "moved": "Figures that changed beyond noise and load",
    "still": "Figures that did not change beyond noise and load",
}
_TWO_HOST_STATUSES = {
    "fixed": "before only", "improved": "after less", "unchanged": "both", "worse": "after more", "new": "after only",
    "cannot_tell": "cannot tell",
}  # fmt: skip


def figure_name(name: str) -> str:
    """Return the display name of a figure."""
    if name.startswith(SHARE):
        family = name.removeprefix(SHARE)
        return f"share of samples in {_FAMILY_NAMES.get(family, family.replace('_', ' '))}"
    base = name.removesuffix(":rate")
    return _FIGURE_NAMES.get(base, base.removeprefix("node_vmstat_"))


def describe_changes(changes: Iterable[Change]) -> str:
    """Return the most important changes, those that moved first: `compact_stall 890/s to 0/s`."""
    return ", ".join(map(describe_change, sorted(changes, key=lambda c: not c.has_moved)[:MAX_CHANGES]))


def describe_course(change: Change) -> str:
    """Return a change for a headline: `compact_stall fell from 890/s to 0/s`."""
    return describe_change(change, " fell from" if change.after.value < change.before.value else " rose from")


def describe_change(change: Change, verb: str = "") -> str:
    before, after = (quantity(figure.value, figure.unit) for figure in (change.before, change.after))
    less = " (less for the same work)" if change.direction == "down" != change.unscaled else ""
    return f"{figure_name(change.before.name)}{verb} {before} to {after}{less}"


def changed_heading(host: ComparedHost) -> str:
    return "What differs in the settings" if host.same == "different" else "What was changed"


def findings_heading(host: ComparedHost) -> str:
    return "Which finding is on which side" if host.same == "different" else "What became of each finding"


def status_word(status: str, host: ComparedHost) -> str:
    """Return the status of a finding; for two hosts, the side that has it."""
    return _TWO_HOST_STATUSES[status] if host.same == "different" else status.replace("_", " ")


def remains(host: ComparedHost) -> str:
    """Return the findings that AFTER still has, without the one that the answer is about."""
    return _list_findings(host, [row for row in host.answer.remains if row.status not in INCREASED])


def newly(host: ComparedHost) -> str:
    """Return the findings that are new or worse in AFTER."""
    return _list_findings(host, [row for row in host.answer.remains if row.status in INCREASED])


def _list_findings(host: ComparedHost, rows: Iterable[Remaining]) -> str:
    return "; ".join(
        f"{row.title or row.rule} ({', '.join(filter(None, [row.severity, status_word(row.status, host)]))})"
        for row in rows
    )


def effect(row: ComparedFigure) -> str:
    """Return how much a figure changed: the ratio and the difference."""
    difference = row.difference or 0
    if difference == 0:
        return "the same"
    sign = "+" if difference > 0 else "-"
    change = sign + quantity(abs(difference), row.unit).replace(" %", " percentage points")
    if row.ratio is None:
        ratio = "from nothing"
    elif row.ratio == 0:
        ratio = "to nothing"
    else:
        ratio = f"{row.ratio:.3g} times" if row.ratio >= 0.01 else "less than 0.01 times"
    reason = ", within the noise of its samples" if row.change == "noise" else ""
    if row.change == "same" and row.alone in ("up", "down"):  # older comparisons lack `alone`
        reason = ", which the change of the load may explain"
    return f"{ratio}, {change}{reason}"


def sample_words(value: Value, unit: str) -> str:
    """Return the number of samples and their range."""
    if value.samples is None:
        return ""
    count = f"{value.samples} {'sample' if value.samples == 1 else 'samples'}"
    if value.min is None or value.max is None:
        return count
    return f"{count}, {quantity(value.min, unit)} to {quantity(value.max, unit)}"


def place(cited: Placed) -> str:
    member = cited.member or ""
    return f"{member}:{cited.line}" if member and cited.line is not None else member


def render(comparison: Comparison, presentation: Presentation = PLAIN) -> str:
    out: list[str] = []
    for host in comparison.hosts:
        out += [*([""] if out else []), *_host(host, presentation.verbosity)]
    if comparison.alone:
        out += _heading("Hosts of one side only: not compared")[0 if out else 1 :]
    for unpaired in comparison.alone:
        text = f"{unpaired.name or 'unnamed host'} (only {unpaired.side.upper()}): {unpaired.sentence}"
        out += fold(prose(text), "  ", "      ")
    if comparison.redacted:
        out += ["", *fold(REDACTED)]
    return "\n".join(paint(line) if presentation.color else line.rstrip() for line in out) + "\n"


def _heading(text: str) -> list[str]:
    return ["", Line(text, "bold"), "-" * columns(text)]


def _fold_labelled(text: str, label: str, rest: str = "  ") -> list[str]:
    """Return the folded text after a bold label."""
    first, *others = fold(prose(text), label, rest)
    return [Line(first, "", len(label.rstrip())), *others]


_STYLES = {"fixed": "good", "improved": "good", "worse": "high", "new": "high", "unchanged": "medium"}


def _host(host: ComparedHost, verbosity: int) -> Iterator[str]:
    style = "bold" if host.same == "different" else _STYLES.get(host.answer.status, "bold")
    yield from (Line(line, style) for line in fold(prose(host.answer.sentence)))
    yield ""
    if host.name:
        yield from _fold_labelled(host.name, "Host ")
    for label, side in (("BEFORE", host.before), ("AFTER", host.after)):
        yield from _fold_labelled(f"{side.case}: {side.sentence}", f"{label}: ")
    yield from _fold_labelled(host.load.text, "Load: ")
    if more := newly(host):
        yield from _fold_labelled(more, "New or worse: ")
    if left := remains(host):
        yield from _fold_labelled(left, "Remains: ")
    for note in host.notes:
        yield from fold(prose(note), "! ", "  ")
    yield from _changed_settings(host)
    yield from _findings(host, verbosity)
    yield from _figures(host, verbosity)
    if host.answer.ask.text or host.answer.ask.commands:
        yield from _heading("What to send")
        yield from fold(prose(host.answer.ask.text))
        yield from ("    " + line for command in host.answer.ask.commands for line in lines(command))


def _changed_settings(host: ComparedHost) -> Iterator[str]:
    yield from _heading(changed_heading(host))
    if not host.settings:
        yield from fold("No setting that both sides have differs.", "  ")
    for row in host.settings:
        yield from fold(prose(f"{row.name}: {_setting(row.before)} -> {_setting(row.after)}"), "  ", "      ")
        if row.lasting:
            yield from fold(prose(row.lasting), "      ")
    for fact in host.facts:
        text = f"{fact.name}: {fact.before or 'not known'} -> {fact.after or 'not known'}"
        yield from fold(prose(text), "  ", "      ")


def _setting(setting: SettingValue | None) -> str:
    if setting is None or setting.value is None:
        return "not known"
    return with_aside(quantity(setting.value), ", ".join(filter(None, [setting.provenance, place(setting)])))


def _findings(host: ComparedHost, verbosity: int) -> Iterator[str]:
    if host.findings:
        yield from _heading(findings_heading(host))
    for number, finding in enumerate(host.findings):
        word = status_word(finding.status, host).upper()
        title = with_aside(finding.title or "", finding.entity or "")
        label = f"  {word:{_STATUS_WIDTH}}{visible(finding.rule)}  "
        yield from _fold_labelled(f"{finding.severity or ''}: {title}".lstrip(": "), label, "      ")
        yield from fold(prose(finding.reason), "      ")
        if finding.suppressed:
            yield from fold(prose(acceptance_text(finding.suppressed)), "      ")
        if verbosity or number == 0:
            yield from _evidence("before", finding.evidence.before)
            yield from _evidence("after", finding.evidence.after)


def _evidence(side: str, evidence: Iterable[ComparedEvidence]) -> Iterator[str]:
    for row in evidence:
        cited = place(row)
        yield from fold(prose(f"{f'{cited}  ' if cited else ''}{row.text}"), f"      {side}: ", "        ")


def _figures(host: ComparedHost, verbosity: int) -> Iterator[str]:
    moved = [row for row in host.figures if row.change in ("up", "down")]
    still = [row for row in host.figures if row.change not in ("up", "down")]
    for heading, rows in ((HEADINGS["moved"], moved), (HEADINGS["still"], still if verbosity else [])):
        if rows:
            yield from _heading(heading)
        shown = rows if verbosity else rows[:MAX_BRIEF_FIGURES]
        for row in shown:
            yield from _figure(row)
        if len(rows) > len(shown):
            yield f"  and {len(rows) - len(shown)} more (-v)"
    if still and not verbosity:
        text = f"{plural(len(still), 'figure')} did not change beyond noise and load (-v)."
        yield from fold(text, "  ", "  ")
    for side, names in (("before", host.only_before), ("after", host.only_after)):
        if names:
            yield from fold(prose(", ".join(names)), f"  Measured {side} only: ", "      ")


def _figure(row: ComparedFigure) -> Iterator[str]:
    values = [quantity(value.value, row.unit) for value in (row.before, row.after)]
    yield from fold(prose(f"{row.text}: {values[0]} -> {values[1]} ({effect(row)})"), "  ", "      ")
    for side, value in (("before", row.before), ("after", row.after)):
        source = ", ".join(filter(None, [sample_words(value, row.unit), place(value)]))
        yield from fold(prose(source), f"      {side}: ", "        ") if source else []
