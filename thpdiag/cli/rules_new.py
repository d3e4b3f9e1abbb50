"""`thpdiag rules new`: a rule and its cases to begin with."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from thpdiag.engine.rule_set import rule_set
from thpdiag.errors import UsageError
from thpdiag.workbench.skeleton import skeleton


@click.command("new")
@click.argument("wanted", metavar="ID|MECHANISM")
@click.option("--rules", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(),
              help="The folder to write into; the current one if it is not given.")  # fmt: skip
@click.option("--mechanism", default="", help="The mechanism of a rule that is named by its id.")
@click.option("--name", default="", help="What the two files are called; the mechanism if it is not given.")
def command(wanted: str, folder: Path, mechanism: str, name: str) -> None:
    """Write a commented rule and its cases to begin with, for an id (ACME-01) or for a mechanism.

    `thpdiag rules lint FOLDER` says what is left to do. Files that are there are not touched.
    """
    others = (folder,) if folder.is_dir() else ()
    made = skeleton(wanted, rule_set(others), mechanism)
    stem = name.removesuffix(".yaml") or made.name
    files = {folder / f"{stem}.yaml": made.rule, folder / f"{stem}.cases.yaml": made.cases}
    for path in files:
        if path.exists():
            raise UsageError(f"{path} is there already; name the files otherwise with --name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
            click.echo(path)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from error
