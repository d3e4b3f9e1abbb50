"""The few mistakes a user can make, each with its exit code (DESIGN: contracts, exit codes)."""

from __future__ import annotations


class ThpdiagError(Exception):
    """A mistake that the command line prints as one sentence, without a traceback."""

    exit_code = 2


class UsageError(ThpdiagError):
    """An option or argument that makes no sense."""

    exit_code = 2


class InputError(ThpdiagError):
    """Nothing readable, or nothing in it recognised."""

    exit_code = 3


class RuleError(ThpdiagError):
    """A rule file is invalid; the message carries file, line, column, the line itself and a caret."""

    exit_code = 4
