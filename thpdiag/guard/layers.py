"""Which layers of the guard this machine has: they are tried, in a child."""

from __future__ import annotations

import json
import os

from thpdiag.guard import landlock
from thpdiag.guard.confine import Layer, confine
from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.outcome import Answer, Status
from thpdiag.guard.preloaded import Preloaded

_SINCE = {1: "files", 4: "TCP", 5: "ioctl", 6: "signals"}  # what each version of Landlock restricts besides


def in_force() -> dict[Layer, str]:
    """Of each layer what it is here, empty where it is not."""
    with Preloaded() as process:
        ended = process.submit(tried).result()
    if ended.status is not Status.OK:
        raise RuntimeError(ended.sentence)
    return told(ended.content)


def told(content: bytes) -> dict[Layer, str]:
    """The same from what a child answered."""
    version, names = json.loads(content)
    found = {layer: "yes" if layer.value in names else "" for layer in Layer}
    if found[Layer.FILES]:
        restricts = ", ".join(what for since, what in _SINCE.items() if since <= version)
        found[Layer.FILES] = f"yes, version {version}: {restricts}"
    return found


def tried() -> Answer:
    """What can be had: the child is confined already, and can be a second time if it could the first."""
    return Answer(json.dumps([landlock.version(), confine(Limits(), Cell(), os.getppid())]).encode())
