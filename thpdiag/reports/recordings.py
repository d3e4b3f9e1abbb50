"""A recording of call stacks in two sentences: what it is, and what is missing from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thpdiag.reports.quantity import duration, percent
from thpdiag.reports.verdict import plural

Profile = Mapping[str, Any]


def described(profile: Profile) -> str:
    """Event, samples, length, when, and where the names of kernel functions come from."""
    event = profile["event"] or "an unnamed event"
    samples = profile["samples"]
    told = event if samples is None else f"{plural(samples, 'sample')} of {event}"
    if profile["first"] is not None and profile["last"] is not None:
        told += f" in {duration(profile['last'] - profile['first'])}"
    parts = [told, profile["when"]]
    if profile["symbols"]:
        parts.append(f"kernel functions: {profile['symbols']}")
    return "; ".join(part for part in parts if part)


def in_state(profile: Profile) -> str:
    """Of several stretches of unchanged settings the one that it was recorded in, as the end of a sentence."""
    state = profile["state"]
    return f"; recorded under the settings of {state}" if state and state != "all" else ""


def losses(profile: Profile) -> str:
    """What the recording or the text lost or does not show; empty if that is nothing."""
    return "; ".join(_losses(profile["loss"]))


def _losses(loss: Mapping[str, Any]) -> Iterator[str]:
    read, kept = loss["read"] or 0, loss["kept"]
    if loss["lost"]:
        share = f", {percent(loss['lost_share'])} of all" if loss["lost_share"] is not None else ""
        yield f"the recording says it lost {plural(loss['lost'], 'sample')}{share}"
    if loss["throttled"]:
        yield f"the kernel slowed sampling down {plural(loss['throttled'], 'time')}"
    if kept is not None and kept < read:
        yield f"{kept:,} of {read:,} read were kept"
    for reason, count in sorted(loss["odd"].items()):
        yield f"{count:,} times: {reason}"
    for key, what in (
        ("without_stack", "without a stack"),
        ("truncated", "with a stack cut at the recorded depth"),
        ("unknown_symbol", "in a function without a name"),
    ):
        if loss[key]:
            yield f"{_of(loss[key], read)} {what}"
    if loss["unlisted"]:
        yield f"{percent(loss['unlisted'])} is not listed"


def _of(count: int, read: int) -> str:
    share = f" ({percent(count / read)})" if read else ""
    return f"{plural(count, 'sample')}{share}"


def signature(told: Mapping[str, Any]) -> str:
    """A signature of a finding over the recording's time; since when it is there stands with the finding."""
    share = f": {percent(told['share'])} on average" if told["share"] is not None else ""
    worst = told["worst"]["text"] if told["worst"] else ""
    return "; ".join(filter(None, [f"{told['what']}{share}", worst]))
