"""One remedy as text: why, the commands, how to make it last, to check, to undo, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.reports.columns import fold
from thpdiag.reports.visible import lines, prose


def remedy(
    advice: Mapping[str, Any], margin: str = "", label: str = "", checked_in: int | None = None
) -> Iterator[str]:
    """The lines of one remedy; every command on a line of its own, indented, unbroken.

    `checked_in` is the number of an earlier step that is verified in the same way.
    """
    yield from fold(prose(f"{advice['reason'] or ''} [{advice['id']}]"), margin + label, margin + " " * len(label))
    yield from _commands("Now:", advice["now"], margin)
    yield from _commands("To last:", advice["persist"], margin)
    yield from [f"{margin}Verify: as in step {checked_in}"] if checked_in else _verify(advice["verify"], margin)
    yield from _commands("Undo:", advice["undo"], margin)
    if advice["cost"]:
        yield from fold(prose(advice["cost"]), f"{margin}Cost: ", f"{margin}  ")
    if advice["restart"] is not None:
        yield from fold(prose(restart(advice["restart"])), f"{margin}Restart: ", f"{margin}  ")


def checked_before(remedies: Sequence[Mapping[str, Any]], number: int) -> int | None:
    """The first of the steps before step `number` (from 1 on) with the same verification."""
    same = (
        n for n, advice in enumerate(remedies[: number - 1], 1) if advice["verify"] == remedies[number - 1]["verify"]
    )
    return next(same, None) if remedies[number - 1]["verify"] else None


def restart(said: object) -> str:
    """Whether something must be restarted, in a word or in the remedy's own words."""
    return {True: "needed", False: "not needed"}[said] if isinstance(said, bool) else str(said)


def _commands(label: str, commands: Sequence[str], margin: str) -> Iterator[str]:
    if commands and label:
        yield margin + label
    yield from (f"{margin}    {line}" for command in commands for line in lines(command))


def _verify(check: Mapping[str, Any] | None, margin: str) -> Iterator[str]:
    if not check:
        return
    told = ": ".join(filter(None, [check["metric"], check["expect"]]))
    yield from fold(prose(told), f"{margin}Verify: ", f"{margin}  ")
    yield from _commands("", [check["how"]] if check["how"] else [], margin)
