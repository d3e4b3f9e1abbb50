"""The answer of a comparison: did it help, in one sentence; what remains, and what to send if it cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thpdiag.compare.judged import Judged
from thpdiag.compare.load import Load
from thpdiag.compare.paired import named
from thpdiag.compare.sides import Pair
from thpdiag.compare.wording import said, told
from thpdiag.reports.severities import rank
from thpdiag.reports.verdict import leading, sentence

MOST_SWITCHED = 3
MOST_COMMANDS = 6
_HEADS = {
    "fixed": "it is gone",
    "improved": "it got better",
    "unchanged": "nothing changed",
    "worse": "it got worse",
    "cannot_tell": "whether it helped cannot be told",
}
_BETTER = (_HEADS["fixed"], _HEADS["improved"])
_APART = {
    "fixed": "found on {before} only",
    "improved": "found on {before}, less or not looked at on {after}",
    "unchanged": "found on both",
    "worse": "more of it on {after}",
    "cannot_tell": "how they differ in this cannot be told",
}
_LOAD = "Record AFTER once more while the host does the work that it did in BEFORE, for as long, with the same script."


def answer(pair: Pair, judged: Sequence[Judged]) -> dict[str, Any]:
    """About the root cause of BEFORE; without one, about what AFTER has."""
    lead, now = leading(pair.before), leading(pair.after)
    main = next((one for one in judged if lead is not None and one.before is lead), None)
    status, text = _about(main, pair) if main else _without_cause(pair, judged)
    differs = bool(lead and now and lead["rule"] != now["rule"])
    if differs and now:
        text += f" The root cause is another one after: {_plain(now['title'] or now['rule'])}."
    told_of = main or next((one for one in judged if now is not None and one.after is now), None)
    remains = [one for one in judged if one.after is not None and one is not told_of]
    return {
        "status": status, "sentence": text, "root_cause_differs": differs,
        "remains": [_line(one) for one in remains], "ask": _ask(main, judged, pair),
    }  # fmt: skip


def _about(main: Judged, pair: Pair) -> tuple[str, str]:
    title, reason = _plain(main.finding["title"] or main.finding["rule"]), _proof(main, pair).rstrip(".")
    if pair.same == "different":
        names = {"before": named(pair.before) or "BEFORE", "after": named(pair.after) or "AFTER"}
        return main.status, f"Two hosts: {_APART[main.status].format(**names)}: {title}. {_capital(reason)}."
    return main.status, f"{_capital(_head(pair, _HEADS[main.status]))}: {title}. {_capital(reason)}."


def _proof(main: Judged, pair: Pair) -> str:
    """The surest figure and the load, short; the whole reason where it cannot be told."""
    moved = [one for one in main.changes if one.direction in ("up", "down")]
    if main.status not in ("fixed", "improved", "worse") or not moved:
        return main.reason
    if moved[0] is pair.toggled and pair.programs_time is not None:
        return f"{told([moved[0], pair.programs_time])}; the mechanism itself was not measured after"
    load = pair.load_of(main.finding)
    short = f"{said(moved[0])} {_at_load(load)}"
    return f"{short}, but {load.weak}" if load.weak and load.work is not None else short


def _at_load(load: Load) -> str:
    if load.weak and load.by is not None and load.by.before.name.startswith("cpu_ratio"):
        return "with as much CPU time for programs" if load.word == "same" else "with more CPU time for programs"
    if load.work is not None and load.word == "more":
        return f"at {load.work:.2g} times the work"
    return {"same": "at a comparable load", "more": "with more work", "less": "with less work"}.get(load.word, "")


def _head(pair: Pair, outcome: str) -> str:
    """What was switched stands before the outcome: after it, not more; a cause takes more than one look."""
    changes = [f"{name} from {old} to {new}" for name, old, new in pair.switched[:MOST_SWITCHED]]
    more = len(pair.switched) - len(changes)
    if not changes:
        return (
            outcome if pair.changed or outcome not in _BETTER else f"no setting is known to have changed, yet {outcome}"
        )
    return f"after the change of {' and '.join(changes)}{f' and {more} more settings' if more else ''} {outcome}"


def _without_cause(pair: Pair, judged: Sequence[Judged]) -> tuple[str, str]:
    """BEFORE has no root cause to be mended."""
    if pair.same_files and all(one.status == "unchanged" for one in judged):
        return "unchanged", "BEFORE and AFTER are the same files, so nothing changed."
    if pair.before["verdict"]["status"] == "cannot_tell":
        return (
            "cannot_tell",
            f"There is nothing to compare with: BEFORE does not decide it. AFTER: {sentence(pair.after)}",
        )
    now = leading(pair.after)
    own = next((one for one in judged if now is not None and one.after is now), None)
    if own is not None:
        return own.status, _come(own, pair)
    if pair.after["verdict"]["status"] == "cannot_tell":
        return "cannot_tell", f"BEFORE had no huge-page problem; AFTER does not decide it. {sentence(pair.after)}"
    if any(one.status in ("new", "worse") for one in judged):
        return "unchanged", "No huge-page problem was at work before or after; but something lesser is new or worse."
    return "unchanged", "No huge-page problem was at work before or after."


def _come(own: Judged, pair: Pair) -> str:
    """The root cause of AFTER, which is none of BEFORE."""
    if own.before is not None:
        return _about(own, pair)[1]
    title, reason = _plain(own.finding["title"] or own.finding["rule"]), own.reason.rstrip(".")
    head = "AFTER has a problem, and whether BEFORE had it cannot be told"
    if own.status == "new":
        head = "BEFORE had no such problem, AFTER has"
    return f"{head}: {title}. {_capital(reason)}."


def _line(one: Judged) -> dict[str, Any]:
    finding = one.finding
    return {"rule": finding["rule"], "title": finding["title"], "severity": finding["severity"], "status": one.status}


def _ask(main: Judged | None, judged: Sequence[Judged], pair: Pair) -> dict[str, Any]:
    """What would decide the root cause if that is open, else what else is grave and open."""
    grave = [one for one in judged if one is main or rank(one.finding["severity"]) >= rank("medium")]
    undecided = [one for one in grave if one.status in ("cannot_tell", "improved")]
    undecided = [one for one in undecided if one is main] or undecided
    open_rules = {one.finding["rule"] for one in undecided}
    lacking = [unknown for unknown in pair.after["unknown"] if unknown["rule"] in open_rules]
    commands = dict.fromkeys(command for unknown in lacking for command in unknown["ask_for"])
    text = _LOAD if any(one.needs_load for one in undecided) else ""
    if commands:
        text = f"{text} To be sure, AFTER lacks:".strip()
    return {"text": text, "commands": list(commands)[:MOST_COMMANDS]}


def _plain(title: str) -> str:
    return title.rstrip(".")


def _capital(text: str) -> str:
    """A sentence's begin; a counter keeps its own spelling."""
    first = text.split(" ", 1)[0]
    return text if "_" in first else text[:1].upper() + text[1:]
