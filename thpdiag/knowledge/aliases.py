"""Names of metrics as other tools have them (aliases.yaml), and as the kernel's own files do."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from thpdiag.knowledge.yaml_nodes import shipped

_VMSTAT_FORMS = ("node_vmstat_{}", "node_vmstat_{}:rate")  # thp_fault_alloc
_MEMINFO_FORMS = ("node_memory_{}_bytes", "node_memory_{}")  # AnonHugePages: /proc/meminfo has capitals, vmstat none
_VMSTAT = "mem.vmstat."


@cache
def aliases() -> Mapping[str, str]:
    """What other tools call it, and what it is called here."""
    return shipped("aliases.yaml")


def meant(name: str) -> tuple[str, ...]:
    """The names that may be meant, in the order in which they are looked for."""
    plain = name.removeprefix(_VMSTAT)
    told = (aliases()[name],) if name in aliases() else ()
    files = (_MEMINFO_FORMS, _VMSTAT_FORMS) if plain[:1].isupper() else (_VMSTAT_FORMS, _MEMINFO_FORMS)
    return (*told, plain, *(form.format(plain) for forms in files for form in forms))
