"""`thpdiag triage export`: the results of a batch as one table, for pandas, DuckDB, a spreadsheet or a warehouse."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.errors import UsageError
from thpdiag.triage.store.exported import FORMATS, export, suffix
from thpdiag.triage.store.reading import Reading

STDOUT = Path("-")
TEXTS = ("csv", "jsonl")  # what standard output is good for


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "-o", "--output", "output", required=True, metavar="FILE",
    help="A file that ends in .csv, .jsonl or .parquet, or FORMAT=FILE; csv=- and jsonl=- are standard output.",
)  # fmt: skip
def command(folder: Path, output: str) -> None:
    """Write the results in DIR, the --out-dir of `thpdiag triage`, as one table: a row per finding.

    A host without findings and a bundle without a host have one row. Names are those of the files: nothing is redacted.
    """
    form, file = target(output)
    if file == STDOUT:
        if form not in TEXTS:
            raise UsageError(f"{form} is no text for standard output: -o {form}=FILE")
        if sys.stdout is not None:  # else it was closed before we began: nobody wants it
            with Reading.at(folder) as store:
                FORMATS[form](store, sys.stdout.buffer)
        return
    export(folder, file, form)
    shared.notice(f"{file} written")


def target(output: str) -> tuple[str, Path]:
    """Format and file of `-o`."""
    name, sign, rest = output.partition("=")
    if sign and name in FORMATS and rest:
        return name, Path(rest)
    if output in FORMATS or Path(output) == STDOUT:
        raise UsageError(f"-o {output}: name the format and the file, such as csv=-, jsonl=- or results.{TEXTS[0]}")
    if Path(output).is_dir():
        raise UsageError(f"-o {output}: that is a folder; name a file in it, such as {Path(output) / 'results.csv'}")
    return suffix(Path(output)), Path(output)
