"""Default options of a team, from a TOML file (`--config`, THPDIAG_CONFIG) and THPDIAG_* variables.

    [all]                        # every command that has the option
    rules = ["rules-of-ours"]    # relative to this file
    suppress = ["accepted.yaml"]
    fail-on = "high"

    [analyze]                    # one command; [triage.report] is one of its parts
    format = "markdown"

The command line overrides a variable, a variable overrides the file, and a narrower table overrides a wider one. No
file is searched for, and paths in variables must be absolute: otherwise files in a customer's data could choose rules
and hide findings.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import rich_click as click
from click.exceptions import ClickException

from thpdiag.cli.terminal import saved_option
from thpdiag.errors import ThpdiagError, UsageError
from thpdiag.knowledge.yaml_nodes import suggestion

ALL_COMMANDS: Final = "all"  # the table of all commands
TEAM_OPTIONS: Final = (  # have the same meaning in each command
    *("rules", "set", "suppress", "baseline", "show-suppressed", "fail-on", "fail-on-missing", "redact", "redact-map"),
    *("require-sandbox", "max-memory", "max-time", "color", "quiet", "progress", "verbose"),
)
UNCONFIGURED: Final = ("serve", "help", "completion")  # the server has its own file, and no variables
_PREFIX = "THPDIAG"


def configurable(command: click.Command, *words: str) -> click.Command:
    """Add `--config` and the variables to a command; `words` are its names, such as `triage`, `report`."""
    if words[0] in UNCONFIGURED:
        return command
    if isinstance(command, click.Group):
        for name, part in command.commands.items():
            configurable(part, *words, name)
    elif not any(parameter.name == "config" for parameter in command.params):
        for key, option in options_of(command).items():
            option.envvar = list(variables(words, key))
            option.show_envvar = False
        command.params.append(
            click.RichOption(
                ["--config"], metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                is_eager=True, expose_value=False, callback=_apply, help="A TOML file with default options.",
            )
        )  # fmt: skip
    return command


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that may have a default by their long names, without flags that share a parameter."""
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden and not p.is_eager]
    count = Counter(parameter.name for parameter in command.params)
    return {max(option.opts, key=len).removeprefix("--"): option for option in options if count[option.name] == 1}


def variables(words: tuple[str, ...], key: str) -> Iterator[str]:
    """Yield THPDIAG_TRIAGE_RUN_JOBS, THPDIAG_TRIAGE_JOBS; for team options also the name without a command."""
    for length in range(len(words), -1 if key in TEAM_OPTIONS else 0, -1):
        yield "_".join((_PREFIX, *words[:length], key)).upper().replace("-", "_")


def _apply(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    """Set the values of the file as defaults of the command, each validated by its option."""
    options, defaults = options_of(context.command), {}
    _check_variables(options.values())
    file = file or saved_option("config")
    if file is None:
        return
    for table, key, value in _values(file, context):
        if (option := options.get(key)) is None:  # an option of another command of the group
            continue
        try:
            default = _convert(option, value, file.parent)
            option.process_value(context, default)
        except (ClickException, ThpdiagError) as error:
            text = error.message if isinstance(error, ClickException) else str(error)
            raise UsageError(f"{file}: {key} in [{table}]: {text.rstrip('.')}") from error
        defaults[str(option.name)] = default
    context.default_map = defaults


def _check_variables(options: Iterable[click.Option]) -> None:
    """Raise UsageError for a relative path in a variable."""
    for option in options:
        names = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
        name = next((name for name in names if os.environ.get(name)), "")
        if name and isinstance(option.type, click.Path):
            for path in os.environ[name].split(os.pathsep) if option.multiple else [os.environ[name]]:
                if path and not Path(path).is_absolute():
                    raise UsageError(f"{name}={path}: {RELATIVE_PATH}")


RELATIVE_PATH: Final = "write an absolute path; a relative one may lead into analyzed data"


def _values(file: Path, context: click.Context) -> Iterator[tuple[str, str, Any]]:
    """Yield table, key and value of the entries for a command, the widest table first."""
    document, root = read_config(file), context.find_root()
    tables = (ALL_COMMANDS, *(root.command.list_commands(root) if isinstance(root.command, click.Group) else ()))
    for name in document:
        if name in UNCONFIGURED:
            raise UsageError(f"{file}: [{name}] cannot be set here{SERVER_HINT if name == 'serve' else ''}")
        if name not in tables:
            raise UsageError(f"{file}: [{name}] is not a command{suggestion(name, tables)}")
    for key, value in document.get(ALL_COMMANDS, {}).items():
        if key not in TEAM_OPTIONS:
            hint = suggestion(key, TEAM_OPTIONS) or "; set options of one command in its table, such as [analyze]"
            raise UsageError(f"{file}: {key} in [{ALL_COMMANDS}]: no such option of all commands{hint}")
        yield ALL_COMMANDS, key, value
    table: Any = document
    chain = context.command_path.split()[1:]
    for depth, word in enumerate(chain, 1):
        table = table.get(word, {})
        name, known = ".".join(chain[:depth]), _valid_keys(context, len(chain) - depth)
        for key, value in table.items():
            if key not in known:
                raise UsageError(f"{file}: {key} in [{name}]: no such option{suggestion(key, known)}")
            if not isinstance(value, dict):
                yield name, key, value


SERVER_HINT = "; the server has a file of its own: `thpdiag serve run --config`"


def _valid_keys(context: click.Context, levels: int) -> list[str]:
    """Return the keys that a table may have: options of the command; for a group its commands and their options."""
    if not levels or context.parent is None:
        return list(options_of(context.command))
    group: Any = context.parent.command
    load = getattr(group, "load", None) or group.commands.__getitem__
    commands = {name: load(name) for name in group.list_commands(context)}
    return [*commands, *(key for command in commands.values() for key in options_of(command))]


def read_config(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """Read the tables of a file; raises UsageError."""
    import tomllib  # rarely needed

    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not valid TOML: {error}") from error
    for name, table in document.items():
        if not isinstance(table, dict):
            raise UsageError(
                f"{file}: {name}: put it in a table: [{ALL_COMMANDS}], or that of a command, such as [analyze]"
            )
    return document


def _convert(option: click.Option, value: Any, folder: Path) -> Any:
    """Convert a TOML value for an option: a list for a repeatable option, paths relative to the folder."""
    if option.multiple:
        return [_convert_item(option, item, folder) for item in (value if isinstance(value, list) else [value])]
    if option.is_flag and not option.is_bool_flag and isinstance(value, bool):
        return option.flag_value if value else option.default
    return _convert_item(option, value, folder)


def _convert_item(option: click.Option, value: Any, folder: Path) -> Any:
    if isinstance(value, dict | list):
        raise UsageError("takes one value")
    if isinstance(option.type, click.Path) and str(value) != "-":
        return str(folder / str(value))
    return value if isinstance(value, bool | int) else str(value)
