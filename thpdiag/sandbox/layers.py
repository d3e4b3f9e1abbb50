"""Which layers of the guard this machine has: they are tried, in a child."""

from __future__ import annotations

import json

from thpdiag.errors import SandboxError
from thpdiag.sandbox.confine import landlock_version
from thpdiag.sandbox.outcome import Allowed, Answer, Layer, Limits, Outcome, Status
from thpdiag.sandbox.preload import run_in_child_of_worker

_SINCE = {1: "files", 4: "TCP", 5: "ioctl", 6: "signals"}  # what each version of Landlock restricts besides


def layers_in_force() -> dict[Layer, str]:
    """Of each layer what it is here, empty where it is not."""
    ended = run_in_child_of_worker(try_layers, Limits(), Allowed())
    if ended.status is not Status.OK:
        raise RuntimeError(ended.sentence)
    return describe_layers(ended)


def check_layers() -> None:
    """SandboxError if this machine lacks a layer."""
    ended = run_in_child_of_worker(try_layers, Limits(every_layer=True), Allowed())
    if ended.status is not Status.OK:
        raise SandboxError(ended.sentence)


def describe_layers(ended: Outcome) -> dict[Layer, str]:
    """The same from what a child answered."""
    version = json.loads(ended.content)
    found = {layer: "" if layer in ended.missing else "yes" for layer in Layer}
    if found[Layer.FILES]:
        restricts = ", ".join(what for since, what in _SINCE.items() if since <= version)
        found[Layer.FILES] = f"yes, version {version}: {restricts}"
    return found


def try_layers() -> Answer:
    """The version of Landlock; the layers in force are told with every answer."""
    return Answer(json.dumps(landlock_version()).encode())
