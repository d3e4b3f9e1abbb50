"""A bundle whose content cannot be had."""

from __future__ import annotations

from thpdiag.errors import InputError


class UnreadError(InputError):
    """The message says why, without where; a batch takes it for the reason of the bundle and goes on."""
