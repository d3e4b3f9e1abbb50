"""Analysis options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thpdiag.bundle import Limits
from thpdiag.host.clock.window import Window


@dataclass(frozen=True, slots=True)
class Options:
    """What changes the analysis. `process` keeps one process (pid or name); `case` names the case in the report.

    `told` are the options as the user wrote them, for the document. `every_input` asks for a row per member in it.
    """

    window: Window | None = None
    case: str = ""
    process: str = ""
    limits: Limits = field(default_factory=Limits)
    strict: bool = False
    every_input: bool = False
    told: Mapping[str, str] = field(default_factory=dict)
