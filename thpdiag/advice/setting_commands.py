"""Commands that write a setting now, keep it over a boot and bring the old value back, on one host.

Sysctls are the settings whose names begin with `vm.` or `kernel.`; all others stand in the directory of huge pages, of
which only `enabled` has a parameter on the kernel command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from thpdiag.advice.host_view import DIRECTORIES, HostView

_PLACEHOLDER = re.compile(r"@([a-z]+)@")
_BOTH = " ".join(f"/sys/kernel/mm/{name}" for name in DIRECTORIES)


def filled(text: str, words: Mapping[str, str]) -> str:
    """A template with its placeholders replaced; an unknown one is a mistake of ours."""
    return _PLACEHOLDER.sub(lambda found: words[found[1]], text)


def placed(command: str, host: HostView) -> str:
    """A command with the directory of huge pages in it; both with a test where the host does not tell."""
    if "@dir@" not in command:
        return command
    if host.place:
        return command.replace("@dir@", f"/sys/kernel/mm/{host.place}")
    return f"for d in {_BOTH}; do if [ -d $d ]; then {command.partition('   #')[0].replace('@dir@', '$d')}; fi; done"


def notes(settings: Iterable[str], host: HostView) -> Iterator[str]:
    """Note the old values of settings, unless the input says them; what was noted first stays."""
    for name in settings:
        if host.measured(fact_name(name)):
            continue
        if _is_sysctl(name):
            yield f"[ -e {_noted(name)} ] || sysctl {name} > {_noted(name)}"
        else:
            read = placed(rf"sed 's/.*\[//; s/\].*//' @dir@/{name} > {_noted(name)}", host)
            yield f"[ -e {_noted(name)} ] || {read}"


def now(settings: Mapping[str, str], host: HostView) -> Iterator[str]:
    """Write the values; before that note what they replace."""
    yield from notes(settings, host)
    for name, value in settings.items():
        yield f"sysctl -w {name}={value}" if _is_sysctl(name) else placed(f"echo {value} > @dir@/{name}", host)


def undo(settings: Iterable[str], host: HostView) -> Iterator[str]:
    """Write the old values: those of the input, else those noted by `now`."""
    for name in settings:
        old = host.measured(fact_name(name))
        if _is_sysctl(name):
            yield f"sysctl -w {name}={old}" if old else f"sysctl -p {_noted(name)}"
        else:
            yield placed(f"echo {old} > @dir@/{name}" if old else f"cat {_noted(name)} > @dir@/{name}", host)


def persist(settings: Mapping[str, str], host: HostView) -> Iterator[str]:
    """The kernel command line for `enabled`, a start-up file for what has no parameter there."""
    family = host.family
    for name, value in settings.items():
        if _is_sysctl(name):
            yield from _fill(family.sysctl, setting=name, value=value)
        elif name == "enabled" and family.boot and value != host.bootline:
            yield from _fill((*family.boot, *family.boot_check), value=value)
    if late := _late(settings, host):
        yield from _fill(family.start, **_start_words(late, host))
    if on_nodes := _on_nodes(settings, host):
        yield from _fill(family.kubernetes, **_start_words(on_nodes, host))


def persist_undo(settings: Mapping[str, str], host: HostView) -> Iterator[str]:
    """Take back what `persist` wrote; the boot line gets its old word again if it had one."""
    family = host.family
    for name, value in settings.items():
        if _is_sysctl(name):
            yield from _fill(family.sysctl_back, setting=name, value=value)
        elif name == "enabled" and family.boot and value != host.bootline:
            yield from _fill(family.boot, value=host.bootline) if host.bootline else family.boot_back
    if late := _late(settings, host):
        yield from _fill(family.start_back, **_start_words(late, host))
    if on_nodes := _on_nodes(settings, host):
        yield from _fill(family.kubernetes_back, **_start_words(on_nodes, host))


def fact_name(setting: str) -> str:
    """The name of a setting in the vocabulary."""
    return f"sysctl.{setting}" if _is_sysctl(setting) else f"thp.{setting.replace('/', '.')}"


def _late(settings: Mapping[str, str], host: HostView) -> dict[str, str]:
    """Settings that can only be written when the system starts."""
    at_boot = {"enabled"} if host.family.boot else set()
    return {n: v for n, v in settings.items() if not _is_sysctl(n) and n not in at_boot}


def _on_nodes(settings: Mapping[str, str], host: HostView) -> dict[str, str]:
    """What the nodes of a cluster must get again whenever one is added."""
    return {n: v for n, v in settings.items() if not _is_sysctl(n)} if "kubernetes" in host.apps else {}


def _start_words(settings: Mapping[str, str], host: HostView) -> dict[str, str]:
    writes = "; ".join(placed(f"echo {value} > @dir@/{name}", host) for name, value in settings.items())
    sysfs = "\n".join(f"kernel/mm/transparent_hugepage/{name} = {value}" for name, value in settings.items())
    before = " ".join(host.units) or "multi-user.target"
    return {"name": _file(next(iter(settings))), "writes": writes, "sysfs": sysfs, "before": before}


def _fill(templates: Sequence[str], **words: str) -> Iterator[str]:
    return (filled(text, words) for text in templates)


def _noted(setting: str) -> str:
    return f"~/thp-{_file(setting)}.before"


def _file(setting: str) -> str:
    return setting.replace("/", "-").replace("_", "-")


def _is_sysctl(setting: str) -> bool:
    return setting.startswith(("vm.", "kernel."))
