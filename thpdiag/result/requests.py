"""The command that gets a customer's data of a name, and that which lets a capture run again."""

from __future__ import annotations

from thpdiag.knowledge.vocabulary import event, term

PROFILE_REQUEST = (
    "perf record -a -g -F 99 -o thp.data -- sleep 30; "
    "perf script --no-inline -i thp.data > thp.script || perf script -i thp.data > thp.script"
)
LONGER = 600  # seconds
AGAIN = f"sh thp-capture.sh -d {LONGER}"


def request(name: str) -> str:
    """The command that gets a vocabulary name from a customer."""
    if name == "profile":
        return PROFILE_REQUEST
    known = term(name) or event(name)
    return known.ask_for if known else ""
