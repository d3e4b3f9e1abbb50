"""Names of hosts that installers and templates give: two machines with one of them are not one machine for that."""

from __future__ import annotations

from typing import Final

GIVEN: Final = frozenset({
    "", "localhost", "localhost4", "localhost6", "(none)", "none", "linux", "debian", "ubuntu", "centos", "rhel",
    "fedora", "rocky", "alma", "vm", "host", "template", "default", "unknown",
})  # fmt: skip


def given(name: str) -> bool:
    """Whether a name says nothing of which machine it is; with or without a domain."""
    return name.partition(".")[0].lower() in GIVEN
