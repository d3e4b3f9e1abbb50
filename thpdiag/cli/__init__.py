"""The command line: one command per file, found by its name, imported only when it runs."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import rich_click as click
from click.exceptions import Abort, ClickException

from thpdiag import __version__
from thpdiag.cli.deferred import Commands
from thpdiag.errors import AcceptanceError, RuleError, ThpdiagError, UsageError

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "analyze": "Diagnose what a customer sent.",
        "triage": "Diagnose many bundles at once, in CI or on a cluster.",
        "compare": "Say whether a fix worked: before and after.",
        "render": "Print a saved result or comparison in another format.",
        "explain": "Say what a rule means, and why it fires or not.",
        "rules": "List, show, begin, check, test and document the rules.",
        "inputs": "Say what was recognised, and what each rule lacks.",
        "series": "Print the values of a metric over time, for other programs.",
        "flame": "Print call stacks, folded, for flame graphs.",
        "redact": "Replace the customer's names in a saved result.",
        "baseline": "Accept what is found today; only new and graver fails.",
        "ask": "Write what to ask the customer for, with the script for it.",
        "capture-script": "Print the script to send to the customer.",
        "serve": "Serve a page where a team uploads bundles.",
        "doctor": "Say what this installation has.",
    }
)
BUG, INTERRUPTED = 70, 130
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a disk that the output is sent to


@click.group(
    cls=Commands, known=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="thpdiag")
def cli() -> None:
    """Is the kernel's huge-page machinery hurting this host? Reads what a customer sent, proves it, says what to do."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one sentence on stderr and its exit code, never a traceback."""
    try:
        code = cli.main(list(arguments) if arguments is not None else None, "thpdiag", standalone_mode=False)
        if sys.stdout is not None:  # it was closed before we began
            sys.stdout.flush()
    except Abort:
        code = INTERRUPTED
    except ClickException as mistake:
        mistake.show()
        code = mistake.exit_code
    except (RuleError, AcceptanceError) as mistake:  # begins with file, line and column, as editors and CI expect
        click.echo(str(mistake), err=True)
        code = mistake.exit_code
    except ThpdiagError as mistake:
        click.echo(f"thpdiag: {mistake}", err=True)
        code = mistake.exit_code
    except Exception as mistake:
        if isinstance(mistake, OSError) and mistake.errno in FULL and mistake.filename is None:
            click.echo(f"thpdiag: the output cannot be written: {mistake.strerror}", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left must not fail again at exit
            sys.exit(UsageError.exit_code)
        traceback.print_exc()
        click.echo("thpdiag: this is a mistake of thpdiag itself; please report it with the lines above", err=True)
        code = BUG
    sys.exit(code or 0)
