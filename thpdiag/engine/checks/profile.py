"""`profile`: the share of non-idle samples that a symbol family takes, alone or under certain callers.

A source that shows no callers cannot decide a clause about callers: what it leaves open counts as possible in both
directions, so the answer is yes or no only where the open part cannot change it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import re2

from thpdiag.engine.expression import negated
from thpdiag.engine.judged import NO, UNKNOWN, YES, Judged, Scene, unknown
from thpdiag.engine.quantity import quantity, shown
from thpdiag.engine.schema import Names, listed
from thpdiag.engine.schema import Profile as ProfileSpec
from thpdiag.engine.stacks import Compiled, compiled
from thpdiag.knowledge.symbols import families
from thpdiag.model import ProfileRow, Stacks, Verdict3

SMALLEST_GROUP = 0.02  # of the non-idle weight: a command below it is no subject of `of: comm`


@dataclass(frozen=True, slots=True)
class Share:
    """`low` is surely matched, `high` may be; `row` is the heaviest matched stack, `group` the command or thread."""

    low: float
    high: float
    row: ProfileRow | None
    group: str = ""


def judge(check: ProfileSpec, scene: Scene) -> Judged:
    """The most telling answer over all profiles of the state: yes before unknown before no."""
    needed = _needed(check)
    if not scene.state.profiles:
        return unknown("profile", "no recording of call stacks in the input", needed=needed, kind="stack")
    answers = [_on(check, compiled(profile), needed) for profile in scene.state.profiles]
    return max(answers, key=lambda a: (a.value.value, _strength(a)))


def _strength(answer: Judged) -> float:
    return answer.measured if isinstance(answer.measured, float) else -1.0


def _on(check: ProfileSpec, profile: Compiled, needed: str) -> Judged:
    source = profile.profile
    if profile.samples is not None and profile.samples < check.min_samples:
        text = (
            f"only {profile.samples} samples that are not idle in {source.cite.member}, {check.min_samples} are needed"
        )
        return unknown("profile", text, needed=needed, kind="stack")
    if profile.idle_host:
        text = f"the host was idle when perf top looked ({source.facts['irqs_per_second']} samples per second)"
        return unknown("profile", text, needed=needed, kind="stack")
    if profile.weight <= 0:
        return unknown("profile", f"no samples that are not idle in {source.cite.member}", needed=needed, kind="stack")
    share = max(_shares(check, profile), key=lambda s: (s.low, s.high))
    value = _decided(check, share)
    cite = share.row.cite if share.row else source.cite
    missing = ("profile",) if value is UNKNOWN else ()
    window = (source.start, source.end) if source.start and source.end else None
    said = _said(check, profile, share, value)
    return Judged(value, said, needed, "stack", cite, share.low, "ratio", missing=missing, window=window)


def _decided(check: ProfileSpec, share: Share) -> Verdict3:
    bound = quantity(check.at_least if check.at_least is not None else check.below or 0)
    reached = YES if share.low >= bound else (NO if share.high < bound else UNKNOWN)
    return reached if check.at_least is not None else negated(reached)


def _shares(check: ProfileSpec, profile: Compiled) -> Iterator[Share]:
    rows = [r for r in profile.rows if check.comm is None or re2.fullmatch(check.comm, r.comm)]
    if check.of in ("all", "symbol"):
        yield _share(check, profile, rows, None, "")
        return
    groups: dict[str, list[ProfileRow]] = defaultdict(list)
    for row in rows:
        groups[
            row.comm if check.of == "comm" else f"{row.comm} ({row.tid if row.tid is not None else row.pid})"
        ].append(row)
    big = {g: rs for g, rs in groups.items() if sum(r.weight for r in rs) >= SMALLEST_GROUP * profile.weight}
    for name, members in sorted(big.items()):
        yield _share(check, profile, members, sum(r.weight for r in members), name)
    if not big:
        yield Share(0.0, 1.0, None)


def _share(
    check: ProfileSpec, profile: Compiled, rows: Sequence[ProfileRow], weight: float | None, group: str
) -> Share:
    """Matched and open weight of the rows relative to the denominator that `of` names."""
    matched = opened = named = 0.0
    heaviest: ProfileRow | None = None
    for row in rows:
        hit, calls = _match(check, profile, row)
        named += row.weight if hit is not NO else 0.0
        both = Verdict3(min(hit.value, calls.value))
        if both is YES:
            matched += row.weight
            heaviest = row if heaviest is None or row.weight > heaviest.weight else heaviest
        elif both is UNKNOWN:
            opened += row.weight
    if check.of == "symbol":
        total, rest = named, 0.0
    else:
        total, rest = (weight, 0.0) if weight is not None else (profile.weight, profile.profile.ledger.unlisted)
    if total <= 0:
        return Share(0.0, 1.0 if check.of == "symbol" and rest else 0.0, None, group)
    return Share(matched / total, min(1.0, (matched + opened + rest) / total), heaviest, group)


def _match(check: ProfileSpec, profile: Compiled, row: ProfileRow) -> tuple[Verdict3, Verdict3]:
    """Whether the row holds the symbol, and whether it stands under the callers."""
    place, hit = _place(check, profile, row)
    if hit is not YES or place is None:
        return hit, UNKNOWN if hit is UNKNOWN else NO
    if check.under is None and check.not_under is None:
        return hit, YES
    if _no_callers(profile, row):
        return hit, UNKNOWN
    calls = check.under is None or profile.ordered(row, place + 1, [(f,) for f in listed(check.under)])
    if calls and check.not_under is not None:
        calls = not profile.any_caller(row, place + 1, listed(check.not_under))
    return hit, YES if calls else NO


def _place(check: ProfileSpec, profile: Compiled, row: ProfileRow) -> tuple[int | None, Verdict3]:
    if not row.stack:
        return None, UNKNOWN
    if check.self_ is not None:
        return 0, YES if profile.leaf(row, listed(check.self_)) else NO
    place = profile.place(row, listed(check.anywhere))
    if place is not None:
        return place, YES
    return None, UNKNOWN if _no_callers(profile, row) else NO


def _no_callers(profile: Compiled, row: ProfileRow) -> bool:
    """The source shows only the leaf of this row."""
    kind = profile.profile.stacks
    return kind is Stacks.NONE or (kind is Stacks.PARTIAL and len(row.stack) <= 1)


def _words(names: Names | None) -> str:
    """Families for people; `=name` is one function."""
    return " or ".join(families()[n].title if n in families() else n.removeprefix("=") for n in listed(names))


def _callers(check: ProfileSpec) -> str:
    if check.under is None:
        return ""
    return " called from " + " within ".join(_words(name) for name in listed(check.under))


def _what(check: ProfileSpec) -> str:
    text = _words(check.self_ if check.self_ is not None else check.anywhere)
    text = f"{text} (top frame)" if check.self_ is not None else text
    text += _callers(check)
    if check.not_under is not None:
        text += f", not for {_words(check.not_under)}"
    return text


def _of(check: ProfileSpec, group: str = "") -> str:
    if check.of == "symbol":
        return f"of the samples in {_words(check.self_ if check.self_ is not None else check.anywhere)}"
    if check.of == "all":
        return "of the non-idle samples"
    return f"of the non-idle samples of {group or 'one ' + check.of}"


def _needed(check: ProfileSpec) -> str:
    bound = f"at least {check.at_least}" if check.at_least is not None else f"below {check.below}"
    return f"{_what(check)}: {bound} {_of(check)}"


def _said(check: ProfileSpec, profile: Compiled, share: Share, value: Verdict3) -> str:
    what = _callers(check) if check.of == "symbol" and check.under is not None else f"in {_what(check)}"
    text = f"{shown(share.low, 'ratio')} {_of(check, share.group)} are {what.strip()}"
    if value is UNKNOWN:
        text += f"; up to {shown(share.high, 'ratio')} cannot be told from this source"
    if share.row is not None and len(share.row.stack) > 1:
        text += f", most in {profile.shown(share.row)}"
    elif share.row is not None:
        text += f", most in {profile.shown(share.row)} alone"
    return text
