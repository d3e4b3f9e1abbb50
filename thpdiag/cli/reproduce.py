"""`thpdiag reproduce`: a program that reproduces a mechanism on a test host."""

from __future__ import annotations

import rich_click as click

from thpdiag.diagnosis.reproduce import head, mechanisms, program
from thpdiag.errors import UsageError
from thpdiag.knowledge.yaml_nodes import suggestion


@click.command()
@click.argument("mechanism", required=False)
def command(*, mechanism: str | None) -> None:
    """Print a POSIX sh script that reproduces MECHANISM on a TEST host; without MECHANISM, list them.

    The script begins with its needs and changes, compiles a small C program, runs it for a limited time, and restores
    each setting. With -r, it applies the remedy first. To record, run `sh reproduce.sh -c capture.sh`, where
    capture.sh is the output of `thpdiag capture-script`, and analyze the recording.
    """
    known = mechanisms()
    if mechanism is None:
        click.echo("\n\n".join(_summary(name) for name in known))
        return
    if mechanism not in known:
        raise UsageError(f"no program reproduces '{mechanism}'{suggestion(mechanism, known)}; try: {', '.join(known)}")
    click.echo(program(mechanism), nl=False)


def _summary(mechanism: str) -> str:
    entries = head(mechanism)
    return "\n".join(
        [entries["mechanism"], *(f"  {key}: {entries[key]}" for key in ("memory", "time", "knobs", "expect", "remedy"))]
    )
