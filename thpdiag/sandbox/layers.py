"""Which layers of the guard this machine has: they are tried, in a child."""

from __future__ import annotations

import json
import os

from thpdiag.sandbox.confine import Layer, confine, landlock_version
from thpdiag.sandbox.outcome import Allowed, Answer, Limits, Status
from thpdiag.sandbox.preload import run_in_child_of_worker

_SINCE = {1: "files", 4: "TCP", 5: "ioctl", 6: "signals"}  # what each version of Landlock restricts besides


def layers_in_force() -> dict[Layer, str]:
    """Of each layer what it is here, empty where it is not."""
    ended = run_in_child_of_worker(try_layers, Limits(), Allowed())
    if ended.status is not Status.OK:
        raise RuntimeError(ended.sentence)
    return parse_layers(ended.content)


def parse_layers(content: bytes) -> dict[Layer, str]:
    """The same from what a child answered."""
    version, names = json.loads(content)
    found = {layer: "yes" if layer.value in names else "" for layer in Layer}
    if found[Layer.FILES]:
        restricts = ", ".join(what for since, what in _SINCE.items() if since <= version)
        found[Layer.FILES] = f"yes, version {version}: {restricts}"
    return found


def try_layers() -> Answer:
    """What can be had: the child is confined already, and can be a second time if it could the first."""
    return Answer(json.dumps([landlock_version(), confine(Limits(), Allowed(), os.getppid())]).encode())
