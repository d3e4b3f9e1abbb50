"""A name of a finding that a second bundle of the same host gives again, for baselines and CI.

No line, time or value goes into it, and of a process its name without its pid.
"""

from __future__ import annotations

import re
from hashlib import sha256

_PID = re.compile(r" \(\d+\)")


def fingerprint(rule: str, host: str, entity: str) -> str:
    """16 hex digits of the rule, the host and what on the host the finding is about."""
    return sha256("\0".join((rule, host, _PID.sub("", entity))).encode("utf-8", "replace")).hexdigest()[:16]
