"""How sure a finding is, in words: which classes of evidence speak, which are missing, what would make it surer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# In the order in which they weigh; plural ones say so.
CLASSES = {
    "toggle": "an on/off comparison",
    "stack": "call stacks",
    "counter": "kernel counters that moved",
    "cpu": "the split of CPU time",
    "effect": "the growth or pace that was measured",
    "total": "totals since boot",
    "log": "the kernel log",
    "application": "what the application says of itself",
    "action": "what an operator did",
    "state": "the state of the host",
    "policy": "the settings",
}
_LACKING = {
    "counter": "kernel counters read twice or more", "cpu": "the split of CPU time",
    "effect": "growth or pace over time",
}  # fmt: skip
_PLURAL = frozenset({"stack", "counter", "total", "policy"})


def why(finding: Mapping[str, Any]) -> str:
    """One or two sentences: which classes of evidence speak, and which the bundle has nothing of."""
    spoken = _ordered(finding["classes_spoken"])
    told = _listed([CLASSES.get(name, name) for name in spoken])
    verb = "speak" if len(spoken) > 1 or set(spoken) & _PLURAL else "speaks"
    parts = [f"{told[0].upper()}{told[1:]} {verb} for it."] if told else []
    missing = _lacking(finding["classes_missing"])
    if missing and finding["confidence"] != "confirmed":
        parts.append(f"Not in the bundle: {missing}.")
    return " ".join(parts)


def surer(finding: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """What would make it surer, with the commands to ask the customer for; only steps that somebody can take."""
    return [
        (_step(step, finding["classes_spoken"]), list(step["ask_for"])) for step in finding["raises"] if step["ask_for"]
    ]


def _step(step: Mapping[str, Any], spoken: Sequence[str]) -> str:
    to, classes = step["to"], _lacking(step["classes"])
    if not classes:
        return f"It would become {to} if this rules other causes out:"
    clearly = "more clearly " if set(step["classes"]) <= set(spoken) else ""
    return f"It would become {to} if it shows {clearly}in {classes}:"


def _lacking(classes: Sequence[str]) -> str:
    return _listed([_LACKING.get(name, CLASSES.get(name, name)) for name in _ordered(classes)])


def _ordered(classes: Sequence[str]) -> list[str]:
    order = list(CLASSES)
    return sorted(classes, key=lambda name: order.index(name) if name in order else len(order))


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else "".join(words)
