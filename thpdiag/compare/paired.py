"""Which host of AFTER is which host of BEFORE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thpdiag.compare.figures import Host

UNNAMED = "host"  # what a result calls a host whose name is not in the input


@dataclass(frozen=True, slots=True)
class Hosts:
    """`same` is same, different or unnamed (of a pair); what has no partner stands alone."""

    pairs: Sequence[tuple[Host, Host, str]]
    alone: Sequence[tuple[str, Host]]


def named(host: Mapping[str, Any]) -> str:
    """The host's own name, empty if the input does not tell it."""
    name = str(host["host"]["name"] or host["case"] or "")
    return "" if name == UNNAMED else name


def paired(before: Sequence[Host], after: Sequence[Host]) -> Hosts:
    """By name; of one host on each side the two belong together whatever they are called, and that is told."""
    if len(before) == len(after) == 1:
        return Hosts([(before[0], after[0], _same(before[0], after[0]))], [])
    left, pairs, alone = list(after), [], []
    for host in before:
        partner = next((other for other in left if _same(host, other) == "same"), None)
        if partner is None:
            alone.append(("before", host))
        else:
            left.remove(partner)
            pairs.append((host, partner, "same"))
    return Hosts(pairs, [*alone, *(("after", host) for host in left)])


def half_redacted(before: Host, after: Host) -> bool:
    """Whether the names of one side only are pseudonyms, so that no name of the one is any of the other."""
    return bool(before["tool"]["redacted"]) != bool(after["tool"]["redacted"])


def _same(before: Host, after: Host) -> str:
    names = named(before), named(after)
    if not all(names) or half_redacted(before, after):
        return "unnamed"
    short = [name.partition(".")[0] for name in names]
    alike = names[0] == names[1] or (short[0] == short[1] and any("." not in name for name in names))
    return "same" if alike else "different"
