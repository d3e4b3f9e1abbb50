"""Defaults of options that a team sets once: a TOML file (`--config`, THPDIAG_CONFIG) and THPDIAG_* variables.

    [all]                        # every command that has the option
    rules = ["rules-of-ours"]    # relative to this file
    suppress = ["accepted.yaml"]
    fail-on = "high"

    [analyze]                    # one command; [triage.report] is one of its parts
    format = "markdown"

The command line wins over a variable, a variable over the file, and in the file the narrower table. A file is never
searched for, and variables name paths from the root: what lies beside a customer's data would choose rules and hide
findings.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import rich_click as click
from click.exceptions import ClickException

from thpdiag.cli.terminal import setting
from thpdiag.errors import ThpdiagError, UsageError
from thpdiag.knowledge.yaml_nodes import suggestion

EVERY: Final = "all"  # the table of all commands
TEAM_OPTIONS: Final = (  # what means the same in each command
    *("rules", "set", "suppress", "baseline", "show-suppressed", "fail-on", "fail-on-missing", "redact", "redact-map"),
    *("require-sandbox", "max-memory", "max-time", "color", "quiet", "progress", "verbose"),
)
UNCONFIGURED: Final = ("serve", "help", "completion")  # the server has a file of its own, and no variables
_PREFIX = "THPDIAG"


def configurable(command: click.Command, *words: str) -> click.Command:
    """The command with `--config` and the variables of its options; `words` are its names, as in triage report."""
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
    """The options that may have a default, by their long names; not those that stand for one of several answers."""
    found = [one for one in command.params if isinstance(one, click.Option) and not one.hidden and not one.is_eager]
    count = Counter(one.name for one in command.params)
    return {max(one.opts, key=len).removeprefix("--"): one for one in found if count[one.name] == 1}


def variables(words: tuple[str, ...], key: str) -> Iterator[str]:
    """THPDIAG_TRIAGE_RUN_JOBS, THPDIAG_TRIAGE_JOBS; without a command for what is the same in each."""
    for length in range(len(words), -1 if key in TEAM_OPTIONS else 0, -1):
        yield "_".join((_PREFIX, *words[:length], key)).upper().replace("-", "_")


def _apply(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    """Give the command the file's values as defaults, each read as the option reads it."""
    options, defaults = options_of(context.command), {}
    _check_variables(options.values())
    file = file or setting("config")
    if file is None:
        return
    for table, key, value in _values(file, context):
        if (option := options.get(key)) is None:  # of another part of the group
            continue
        try:
            given = _as_given(option, value, file.parent)
            option.process_value(context, given)
        except (ClickException, ThpdiagError) as mistake:
            text = mistake.message if isinstance(mistake, ClickException) else str(mistake)
            raise UsageError(f"{file}: {key} in [{table}]: {text.rstrip('.')}") from mistake
        defaults[str(option.name)] = given
    context.default_map = defaults


def _check_variables(options: Iterable[click.Option]) -> None:
    """Refuse paths of the current folder."""
    for option in options:
        names = [option.envvar] if isinstance(option.envvar, str) else option.envvar or ()
        name = next((one for one in names if os.environ.get(one)), "")
        if name and isinstance(option.type, click.Path):
            for path in os.environ[name].split(os.pathsep) if option.multiple else [os.environ[name]]:
                if path and not Path(path).is_absolute():
                    raise UsageError(f"{name}={path}: {ABSOLUTE}")


ABSOLUTE: Final = "write an absolute path; a relative one may lead into analyzed data"


def _values(file: Path, context: click.Context) -> Iterator[tuple[str, str, Any]]:
    """Table, key and value of what the file has for a command, the widest table first."""
    document, root = read_config(file), context.find_root()
    tables = (EVERY, *(root.command.list_commands(root) if isinstance(root.command, click.Group) else ()))
    for name in document:
        if name in UNCONFIGURED:
            raise UsageError(f"{file}: [{name}] cannot be set here{SERVER if name == 'serve' else ''}")
        if name not in tables:
            raise UsageError(f"{file}: [{name}] is not a command{suggestion(name, tables)}")
    for key, value in document.get(EVERY, {}).items():
        if key not in TEAM_OPTIONS:
            hint = suggestion(key, TEAM_OPTIONS) or "; set options of one command in its table, such as [analyze]"
            raise UsageError(f"{file}: {key} in [{EVERY}]: no such option of all commands{hint}")
        yield EVERY, key, value
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


SERVER = "; the server has a file of its own: `thpdiag serve run --config`"


def _valid_keys(context: click.Context, levels: int) -> list[str]:
    """What a table may have: options of the command, or of a group the names of its parts and all their options."""
    if not levels or context.parent is None:
        return list(options_of(context.command))
    group: Any = context.parent.command
    load = getattr(group, "load", None) or group.commands.__getitem__  # of deferred commands the ones themselves
    parts = {name: load(name) for name in group.list_commands(context)}
    return [*parts, *(key for part in parts.values() for key in options_of(part))]


def read_config(file: Path) -> Mapping[str, Mapping[str, Any]]:
    """The tables of the file."""
    import tomllib  # few runs have a file

    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not valid TOML: {error}") from error
    for name, table in document.items():
        if not isinstance(table, dict):
            raise UsageError(f"{file}: {name}: put it in a table: [{EVERY}], or that of a command, such as [analyze]")
    return document


def _as_given(option: click.Option, value: Any, folder: Path) -> Any:
    """A value of TOML as the option takes it: a list where it may be given several times, paths from the folder."""
    if option.multiple:
        return [_one(option, item, folder) for item in (value if isinstance(value, list) else [value])]
    if option.is_flag and not option.is_bool_flag and isinstance(value, bool):
        return option.flag_value if value else option.default
    return _one(option, value, folder)


def _one(option: click.Option, value: Any, folder: Path) -> Any:
    if isinstance(value, dict | list):
        raise UsageError("takes one value")
    if isinstance(option.type, click.Path) and str(value) != "-":
        return str(folder / str(value))
    return value if isinstance(value, bool | int) else str(value)
