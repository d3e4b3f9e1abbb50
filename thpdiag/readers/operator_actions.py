"""What an operator did to kernel settings, from the commands in a session, a ticket or a script.

    # echo never > /sys/kernel/mm/redhat_transparent_hugepage/enabled
    sudo echo never > /sys/kernel/mm/transparent_hugepage/defrag    (writes nothing: the shell opens the file)
    sysctl -w vm.compact_memory=1

Yields setting_written (fields setting, value, path, how), operator_compaction and operator_drop_caches events.
`how` is `prompt` for a command at a prompt, `prose` for one that a text merely shows, `sudo-redirect` and `failed`
for those without effect. Not a format of its own: `thpdiag.recognise` calls it for prompts and prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Event

_THP = r"/sys/kernel/mm/(?:redhat_)?transparent_hugepage/(?P<knob>[\w/-]+)"
_WRITES = (
    re.compile(
        rf"(?P<sudo>\bsudo\s+(?:-\S+\s+)*)?echo\s+(?:-n\s+)?['\"]?(?P<value>[\w+]+)['\"]?\s*>\s*['\"]?(?P<path>{_THP})"
    ),
    re.compile(rf"echo\s+(?:-n\s+)?['\"]?(?P<value>[\w+]+)['\"]?\s*\|\s*(?:sudo\s+)?tee\s+(?:-a\s+)?(?P<path>{_THP})"),
)
_SYSCTL = re.compile(
    r"(?:echo\s+['\"]?(?P<v1>\d+)['\"]?\s*(?:>|\|\s*(?:sudo\s+)?tee)\s*/proc/sys/vm/(?P<n1>\w+)"
    r"|sysctl\s+(?:-w\s+)?vm\.(?P<n2>\w+)\s?=\s?(?P<v2>\d+))"
)
_REFUSED = re.compile(
    r".{0,200}(?:Permission denied|Invalid argument|Read-only file system|write error|Operation not permitted)"
)
_SHELL_WRAPPED = re.compile(r"\bsudo\s+(?:-\S+\s+)*(?:ba|da|k)?sh\s+-c\b")


def refused(answer: str) -> bool:
    """Whether the line after a command says that it had no effect."""
    return bool(_REFUSED.match(answer))


def actions(cite: Citation, command: str, *, how: str) -> Iterator[Event]:
    """The operator events of one command line. `how`: prompt, prose or failed."""
    if "transparent_hugepage/" in command:
        for pattern in _WRITES:
            for found in pattern.finditer(command):
                yield Event("setting_written", cite, fields=_fields(found, command, how))
    if "vm" in command:
        for found in _SYSCTL.finditer(command):
            name, value = found["n1"] or found["n2"], found["v1"] or found["v2"]
            yield _sysctl(cite, name, value, how)


def _fields(found: re.Match[str], command: str, how: str) -> dict[str, str]:
    sudo = found.groupdict().get("sudo") and not _SHELL_WRAPPED.search(command)
    knob = found["knob"].strip("/").replace("/", ".")
    return {
        "setting": f"thp.{knob}",
        "value": found["value"],
        "path": found["path"],
        "how": "sudo-redirect" if sudo and how != "failed" else how,
    }


def _sysctl(cite: Citation, name: str, value: str, how: str) -> Event:
    kinds = {"compact_memory": "operator_compaction", "drop_caches": "operator_drop_caches"}
    fields = {"setting": f"sysctl.vm.{name}", "value": value, "path": f"/proc/sys/vm/{name}", "how": how}
    return Event(kinds.get(name, "setting_written"), cite, fields=fields)
