"""The names in a picture: of functions, of objects where a function has none, and of who stands at the root.

As stackcollapse-perf.pl writes them, so that its viewers and filters fit: `[libjvm.so]` for a function without a name
in that object, `_[k]` behind a kernel function on request, `java-1234/1240` for a thread. What folded text cannot
carry is replaced: `;` by `:`, control characters by their escapes.
"""

from __future__ import annotations

from thpdiag.flame.counted import By, Group
from thpdiag.knowledge.symbols import unresolved
from thpdiag.model import Frame
from thpdiag.reports.visible import visible

KERNEL = "[kernel.kallsyms]"
UNKNOWN = "[unknown]"
UNLISTED = "[unlisted]"  # what a table of percentages leaves out


def safe(name: str) -> str:
    """The name on one line and without a `;`."""
    return visible(name).replace(";", ":").strip()


def label(frame: Frame, kernel_mark: str = "") -> str:
    """The function's name, else the object that it is in."""
    name = safe(_object(frame) if unresolved(frame.name) else frame.name) or UNKNOWN
    return name + kernel_mark if frame.kernel else name


def _object(frame: Frame) -> str:
    if not frame.dso or frame.dso == UNKNOWN:
        return KERNEL if frame.kernel else frame.name
    if frame.dso.startswith("[") and frame.dso.endswith("]"):
        return frame.dso
    return f"[{frame.dso.rpartition('/')[2] or frame.dso}]"


def root(group: Group, by: By) -> str:
    """What stands before the first function; nothing for `By.NONE`."""
    task = group.task
    if by is By.NONE:
        return ""
    if by is By.CPU:
        return f"cpu{'?' if group.cpu is None else group.cpu}"
    name = safe(task.comm) or "?"
    if by is By.COMM:
        return name
    thread = f"/{task.tid}" if by is By.TID and task.tid is not None else ""
    return f"{name}-{'?' if task.pid is None else task.pid}{thread}"
