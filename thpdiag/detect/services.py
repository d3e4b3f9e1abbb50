"""A service's own switch for huge pages: an option in its unit or configuration, in force from a restart on.

    # sed -i 's/-XX:+UseTransparentHugePages/-XX:-UseTransparentHugePages/' /etc/default/tomcat9
    # systemctl restart tomcat9

What a command writes to a file, or shows of one, is remembered; the next restart of that service makes it a switch of
the setting thp.service.NAME. An application that refuses to change the option while it runs changes nothing. So it is
with the boot line (`grubby --update-kernel=ALL --args=transparent_hugepage=never`) and the next reboot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.knowledge.workloads import changes_of, configured_switch
from thpdiag.model import Citation, Event

_WRITES = re.compile(r">|\btee\b|\bsed\b.{0,40}\s-\w*i|\bsystemctl (?:set-property|set-environment|edit)\b|\bcrudini\b")
_REMOVES = re.compile(r"(?:sudo )?(?:rm|systemctl revert)\b")
_COMMENT = re.compile(r"\s*+(?:[\w./-]+:)?(?:\d+:)?\s*[#;]")  # what grep prints before it
_NOT_IN_FORCE = re.compile(r"/usr/share/|/doc/|\.(?:bak|orig|old|example|sample|md|rpmsave|dpkg-\w+)\b")
_SHOWS = re.compile(r"(?:sudo )?(?:cat|[ef]?grep|tail|head|less|systemctl (?:cat|show))\b")
_UNIT = re.compile(
    r"/systemd/system/(?P<a>[\w@.-]+?)\.service\b|\bsystemctl (?:cat|show|edit|revert|set-property) (?:-\S+ )*"
    r"(?P<b>[\w@.-]+)|/etc/(?:default|sysconfig|conf\.d)/(?P<c>[\w-]+)|/etc/(?!systemd/)(?P<d>[\w-]+)/"
)
_BOOT = re.compile(
    r"(?:\bgrubby\b.*--args\b|/etc/default/grub\b|/etc/kernel/cmdline\b|\bkargs\b.*--append).*?"
    r"\btransparent_hugepage=(?P<value>always|madvise|never)|"
    r"\btransparent_hugepage=(?P<other>always|madvise|never).*/etc/(?:default/grub|kernel/cmdline)\b"
)


@dataclass(slots=True)
class Services:
    """What is configured, by service (no name where the file tells none), and on the boot line for enabled."""

    configured: dict[str, str] = field(default_factory=dict)
    boot: str = ""

    def take(self, command: str, output: Sequence[str]) -> None:
        """A command that was run, with what it printed."""
        if (found := _BOOT.search(command)) and "remove-args" not in command and not _SHOWS.match(command):
            self.boot = found["value"] or found["other"]
        in_force = [] if ">" in command or _NOT_IN_FORCE.search(command) else output
        shown = "\n".join(line for line in in_force if not _COMMENT.match(line)) if _SHOWS.match(command) else ""
        value = configured_switch(shown or (command if _WRITES.search(command) else ""))
        unit = _UNIT.search(command)
        name = unit[unit.lastgroup or 0].removesuffix(".service") if unit else ""
        if value or (name in self.configured and _REMOVES.match(command)):
            self.configured[name] = value or "default"

    def restarts(self, cite: Citation, command: str) -> Iterator[Event]:
        """The switches that come with a command that restarts services."""
        for what, service in changes_of(command):
            if what == "reboot" and self.boot:
                fields = {"setting": "thp.enabled", "value": self.boot, "path": "the boot line", "how": "prompt"}
                yield Event("setting_written", cite, fields=fields)
            names = [n for n in self.configured if n.startswith(service) or service.startswith(n)]
            if what == "restart" and service and names:
                fields = {
                    "setting": f"thp.service.{service}",
                    "value": self.configured[max(names, key=len)],
                    "how": "prompt",
                }
                yield Event("setting_written", cite, fields=fields)
