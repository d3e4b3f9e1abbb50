"""The command line. Commands are listed with a one-line help; their modules are imported when they run."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

import rich_click as click
from click.core import ParameterSource
from click.exceptions import Abort, BadOptionUsage, ClickException, NoArgsIsHelpError
from click.exceptions import UsageError as ClickUsageError

from thpdiag import __version__
from thpdiag.errors import BUG_EXIT_CODE, AcceptanceError, RuleError, ThpdiagError, UsageError


@contextmanager
def help_context(command: click.Command, name: str | None, parent: click.Context | None) -> Iterator[None]:
    """Set the command in the error of an option without a value, which click leaves out."""
    try:
        yield
    except BadOptionUsage as error:
        error.ctx = error.ctx or click.Context(command, parent, name)
        raise


class EagerCommand(click.RichCommand):
    """A command that is imported with its group."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        with help_context(self, info_name, parent):
            return super().make_context(info_name, args, parent, **extra)


class EagerGroup(click.RichGroup):
    """A group whose commands are imported with it."""

    command_class = EagerCommand


class DeferredCommand(click.RichCommand):
    """A command whose module is not imported yet."""

    def __init__(self, load: Callable[[], click.Command], **settings: Any) -> None:
        super().__init__(**settings)
        self._load = load

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        command = self._load()
        with help_context(command, info_name, parent):
            return command.make_context(info_name, args, parent, **extra)


class DeferredGroup(click.RichGroup):
    """A group of deferred commands: `known` maps their names to one-line helps, in the order of the help."""

    def __init__(self, *, known: Mapping[str, str], **settings: Any) -> None:
        super().__init__(**settings)
        self.known = known

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.known:
            return None
        return DeferredCommand(lambda: self.load(cmd_name), name=cmd_name, help=self.known[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command; suggest a similar one for an unknown name."""
        if args and args[0] not in self.known and not args[0].startswith("-"):
            raise ClickUsageError(f"no command {args[0]!r}{similar_command(args[0], self.known)}", ctx)
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> click.Command:
        """Import a command. Its module is named in `MODULES` or like the command."""
        return GROUPS[name] if name in GROUPS else _import_command(MODULES.get(name, name), name)


def similar_command(word: str, known: Iterable[str], cutoff: float = 0.55) -> str:
    """Return `; did you mean 'analyze'?` if a command is similar to the word."""
    import difflib  # rarely needed

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""


def _import_command(module: str, *words: str) -> click.Command:
    """Import a command (`command` of a module, or an entry of its `COMMANDS`), and make it configurable."""
    imported = importlib.import_module(f"thpdiag.cli.{module}")
    command: click.Command = imported.COMMANDS[words[-1]] if hasattr(imported, "COMMANDS") else imported.command
    from thpdiag.cli.config import configurable

    return configurable(command, *words)


class DefaultingGroup(DeferredGroup):
    """A group whose first command is the default: it gets arguments that do not begin with the name of a command.

    Without arguments the group prints its help, or runs the default command with `no_args_is_help=False`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_default = args[0] not in (*self.known, *ctx.help_option_names) if args else not self.no_args_is_help
        word = args[0] if args and is_default and args[0].isalpha() and not Path(args[0]).exists() else ""
        if hint := similar_command(word, self.known, cutoff=0.75):
            raise ClickUsageError(f"no command {word!r}{hint}", ctx)
        if is_default:
            args = [next(iter(self.known)), *args]
        return super().parse_args(ctx, args)


def check_linux(feature: str) -> None:
    """Raise UsageError on platforms without a sandbox."""
    if sys.platform != "linux":
        raise UsageError(f"{feature} needs the sandbox, which is of Linux; this platform is {sys.platform}")


class TriageGroup(DefaultingGroup):
    """Starts the fork server, which loads the engine, while the command itself is imported, which takes as long."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        is_local = not any(word in ctx.help_option_names or word.startswith("--scheduler") for word in rest)
        if name == "run" and is_local and sys.platform == "linux":
            from thpdiag import fleet
            from thpdiag.sandbox.preload import start_fork_server

            start_fork_server(fleet.preloaded_modules)
        return name, command, rest

    def load(self, name: str) -> click.Command:
        check_linux("triage")
        return _import_command("triage", "triage", name)


class ServeGroup(DefaultingGroup):
    """Names the extra to install if a package of the server is missing."""

    def load(self, name: str) -> click.Command:
        check_linux("serve")
        try:
            return _import_command("serve", "serve", name)
        except ModuleNotFoundError as missing:
            package = str(missing.name).partition(".")[0]
            if package not in SERVE_PACKAGES:
                raise
            text = f"the server needs packages that are not installed ({package} is missing)"
            raise UsageError(f"{text}: pip install 'thpdiag[serve]'") from missing


SERVE_PACKAGES = frozenset(
    (
        *("anyio", "httptools", "itsdangerous", "prometheus_client"),
        *("python_multipart", "sqlalchemy", "starlette", "uvicorn"),
    )
)


@click.group(
    cls=TriageGroup,
    known={
        "run": "Diagnose many bundles (`run` can be left out).",
        "merge": "Merge the results of shards.",
        "report": "Rebuild the fleet page, host pages, and CI files.",
        "export": "Export the results as CSV, JSON Lines, or Parquet.",
    },
)
def triage() -> None:
    """Diagnose many bundles; a hostile, huge, or broken bundle cannot affect the others.

    `thpdiag triage PATH... --out-dir DIR`: each PATH is an archive, a folder of archives, a pattern, or an address
    (s3://). All results go into one store in DIR, with the fleet page DIR/index.html. For the options, see `thpdiag
    triage run --help`.
    """


@click.group(
    cls=ServeGroup,
    known={
        "run": "Start the server (`run` can be left out).",
        "token": "Create, list, and revoke API tokens.",
        "upload": "List and cancel unfinished uploads.",
        "prune": "Delete expired bundles and cases now.",
        "check": "Check and repair the database and the data folder.",
        "backup": "Back up the database and the key.",
        "restore": "Restore a backup.",
    },
    no_args_is_help=False,
)
def serve() -> None:
    """Run a page where a team uploads bundles and reads the diagnoses.

    To try it, run `thpdiag serve`: it listens on this machine only and needs no login. For the options, see `thpdiag
    serve run --help`; to run it for others, see docs/how-to/serve.md.
    """


GROUPS: Mapping[str, click.Command] = MappingProxyType({"triage": triage, "serve": serve})
MODULES: Mapping[str, str] = MappingProxyType(
    {
        "render": "saved",
        "redact": "saved",
        "capture-script": "ask",
        "series": "recorded",
        "flame": "recorded",
        "help": "assistance",
        "completion": "assistance",
    }
)
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "analyze": "Diagnose the data that a customer sent.",
        "triage": "Diagnose many bundles, in CI or on a cluster.",
        "compare": "Compare before and after: did the fix work?",
        "render": "Print a saved result or comparison in another format.",
        "explain": "Explain a rule, and why it fires or does not.",
        "rules": "List, show, create, lint, test, and document rules.",
        "inputs": "List the recognized files, and what each rule lacks.",
        "series": "Print a metric over time, for other programs.",
        "flame": "Print folded call stacks for flame graphs.",
        "redact": "Replace the customer's names in a saved result.",
        "baseline": "Accept current findings so that only new or worse ones fail.",
        "ask": "Write a request for missing data, with a capture script.",
        "capture-script": "Print the capture script for the customer.",
        "reproduce": "Print a program that reproduces a mechanism on a test host.",
        "serve": "Run an upload page for a team.",
        "mcp": "Answer an agent's questions about bundles.",
        "doctor": "Check this installation.",
        "help": "Show the help of a command.",
        "completion": "Print the completion script for a shell.",
    }
)
INTERRUPTED = 130
PIPE_CLOSED = 141  # the exit code that a shell reports for SIGPIPE
ENVIRONMENT: Mapping[str, str] = MappingProxyType(
    {
        "PYDANTIC_DISABLE_PLUGINS": "__all__",  # searching for plugins reads the metadata of every package
        "OPENBLAS_NUM_THREADS": "1",  # thpdiag does no linear algebra, and its threads are slow to start
    }
)
GC_THRESHOLD: Final = 200_000  # allocations between two collections: most objects live until the end of a run
DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def remember_config(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
    """Store the file of `--config`. A relative path in the variable is refused: it may lead into a customer's data."""
    if file and not file.is_absolute() and context.get_parameter_source("config") is ParameterSource.ENVIRONMENT:
        raise UsageError(f"THPDIAG_CONFIG={file}: write an absolute path; a relative one may lead into analyzed data")
    context.meta["thpdiag.cli.config"] = file


@click.group(
    cls=DeferredGroup,
    known=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="thpdiag")
@click.option(
    "--config", metavar="FILE", envvar="THPDIAG_CONFIG", expose_value=False, callback=remember_config,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with default options (or THPDIAG_CONFIG); also accepted after the command.",
)  # fmt: skip
def cli() -> None:
    """Find out whether the kernel's huge-page machinery slows down a host: cause, proof, fix, and how to undo it."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit. An error of the user is one sentence on stderr with its exit code, not a traceback."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        code = cli.main(list(arguments) if arguments is not None else None, "thpdiag", standalone_mode=False)
        if sys.stdout is not None:  # None: it was closed before the program started
            sys.stdout.flush()
    except (Abort, SystemExit) as end:  # click exits with 1 if the reader closed the pipe, with 2 after help
        code = INTERRUPTED if isinstance(end, Abort) else PIPE_CLOSED if end.code == 1 else end.code
    except NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except ClickException as error:
        click.echo(f"thpdiag: {_describe(error)}", err=True)
        code = error.exit_code
    except (RuleError, AcceptanceError) as error:  # the message begins with file, line and column, for editors and CI
        click.echo(str(error), err=True)
        code = error.exit_code
    except ThpdiagError as error:
        click.echo(f"thpdiag: {error}", err=True)
        code = error.exit_code
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL_ERRNOS and error.filename is None:
            click.echo(f"thpdiag: cannot write the output: {error.strerror}", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the flush at exit does not fail
            sys.exit(UsageError.exit_code)
        traceback.print_exc()
        click.echo("thpdiag: this is a bug in thpdiag; please report it with the lines above", err=True)
        code = BUG_EXIT_CODE
    sys.exit(code or 0)


def _alternatives(hint: re.Match[str]) -> str:
    """Turn click's `(Did you mean one of: 'lint', 'list'?)` into `; did you mean 'lint' or 'list'?`."""
    return f"; did you mean {' or '.join(hint[1].split(', '))}?"


def _describe(error: ClickException) -> str:
    """Return the message of click as one sentence, with a reference to the help of the command."""
    text = " ".join(error.format_message().split()).rstrip(".")
    text = re.sub(r"\.? \(?Did you mean (?:one of: )?(.+?)\?\)?$", _alternatives, text)
    if not isinstance(error, ClickUsageError):
        return text
    text = f"{text[:1].lower()}{text[1:]}".replace("no such command", "no command")
    text = re.sub(r"Directory ('.*') is a file$", r"\1 is a file, not a folder", text)
    text = re.sub(r"File ('.*') is a directory$", r"\1 is a folder, not a file", text)
    text = text.replace(": Directory '", ": folder '").replace(": File '", ": file '").replace(": Path '", ": path '")
    context = error.ctx
    if context and (variable := _variable(error, context)):
        return f"{variable}: {text}"
    return text if "did you mean" in text else f"{text}; see `{context.command_path if context else 'thpdiag'} --help`"


def _variable(error: ClickUsageError, context: click.Context) -> str:
    """Return the environment variable with the invalid value, or empty if the value has another source."""
    option = getattr(error, "param", None)
    if option is None or context.get_parameter_source(option.name) is not ParameterSource.ENVIRONMENT:
        return ""
    names = [option.envvar] if isinstance(option.envvar, str) else option.envvar
    return next((name for name in names if os.environ.get(name)), "")


def program() -> NoReturn:
    """Run a command as the main program. Exits without freeing memory, which takes a tenth of a short run."""
    gc.set_threshold(GC_THRESHOLD)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # the console of Windows cannot print all characters
    try:
        main()
    except SystemExit as end:
        is_traced = sys.getprofile() or sys.gettrace()  # a profiler or debugger needs the normal exit
        if is_traced or threading.active_count() > 1 or not isinstance(end.code, int):
            raise
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, or None
                stream.flush()
        os._exit(end.code)
