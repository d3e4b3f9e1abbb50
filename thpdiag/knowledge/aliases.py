"""Names of metrics as other tools have them (aliases.yaml), and as the kernel's own files do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from thpdiag.knowledge.yaml_nodes import shipped

_FILES = ("{}", "node_vmstat_{}", "node_vmstat_{}:rate", "node_memory_{}_bytes", "node_memory_{}")
_VMSTAT = "mem.vmstat."


@cache
def aliases() -> Mapping[str, str]:
    """What other tools call it, and what it is called here."""
    return shipped("aliases.yaml")


def meant(name: str) -> tuple[str, ...]:
    """The names that may be meant, in the order in which they are looked for."""
    plain = name.removeprefix(_VMSTAT)
    told = (aliases()[name],) if name in aliases() else ()
    return (*told, *(form.format(plain) for form in _FILES))
