"""Imported by the fork server: what every bundle needs is loaded and compiled once, and shared by all processes."""

from __future__ import annotations

from thpdiag.guard.preloaded import settled
from thpdiag.serve.work.analysis import rules
from thpdiag.warm import warm

warm(rules())
settled()
