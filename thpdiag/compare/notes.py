"""What a reader must know before he believes a comparison; said first and loudly."""

from __future__ import annotations

from collections.abc import Iterator

from thpdiag.compare.figures import Host, state, states
from thpdiag.compare.paired import named
from thpdiag.compare.sides import Pair


def notes(pair: Pair) -> list[str]:
    return [*_hosts(pair), *_order(pair), *_states(pair), *_making(pair)]


def _hosts(pair: Pair) -> Iterator[str]:
    before, after = named(pair.before), named(pair.after)
    if pair.same == "different":
        yield (
            f"These are two hosts, {before} and {after}: what follows tells how they differ, not whether a change on "
            "one of them worked."
        )
    if pair.half_redacted:
        side = "BEFORE" if pair.before["tool"]["redacted"] else "AFTER"
        yield (
            f"The names of {side} are pseudonyms, those of the other side are not: both are taken for the same host, "
            "and programs cannot be recognised. Compare the two originals, with --redact."
        )
    elif _pseudonyms(pair):
        yield (
            "The names of both sides are pseudonyms. They mean the same host and the same programs only if one "
            "--redact-map was used for both."
        )
    elif pair.same == "unnamed":
        missing = [side for side, name in (("BEFORE", before), ("AFTER", after)) if not name]
        verb = "do" if len(missing) > 1 else "does"
        yield f"{' and '.join(missing)} {verb} not name the host; both are taken for the same host."


def _pseudonyms(pair: Pair) -> bool:
    """Whether both were redacted, and not together for this comparison, which leaves the checksums."""
    sides = pair.before, pair.after
    return all(one["tool"]["redacted"] for one in sides) and not any(
        row["sha256"] for one in sides for row in one["inputs"]
    )


def _order(pair: Pair) -> Iterator[str]:
    if pair.reversed:
        yield "AFTER was recorded before BEFORE, by the clocks in both; were the two swapped?"
    if pair.rebooted:
        yield (
            f"The host was booted in between ({pair.rebooted}): memory is whole again and processes began anew, which "
            "alone ends many of these problems for days; totals since boot do not compare."
        )


def _states(pair: Pair) -> Iterator[str]:
    for side, one in (("BEFORE", pair.before), ("AFTER", pair.after)):
        known = states(one)
        if len(known) > 1:
            yield (
                f"{side} holds {len(known)} states of the settings ({'; '.join(known)}); its figures are those of "
                f"{state(one) or 'the last'}. Its findings may be of another; a file for each state compares better."
            )


def _making(pair: Pair) -> Iterator[str]:
    """Whether both were made alike."""
    if _fingerprint(pair.before) == _fingerprint(pair.after):
        yield "BEFORE and AFTER are the same files."
    tools = pair.before["tool"], pair.after["tool"]
    if all(tool["rules_digest"] for tool in tools) and tools[0]["rules_digest"] != tools[1]["rules_digest"]:
        yield "The two results were made with different rules; analyse both with one version to be sure."
    if not pair.same_options:
        yield "The two results were made with different options (--since, --until, --process, --set)."


def _fingerprint(host: Host) -> object:
    found = sorted((one["member"], one["sha256"] or "") for one in host["inputs"])
    return found if found and all(digest for _, digest in found) else object()
