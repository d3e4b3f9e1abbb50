"""Imported by the fork server of a triage: what every bundle needs is loaded and compiled once, and shared.

A run with rules of its own warms each of its workers instead, since a fork server is told nothing of a run.
"""

from __future__ import annotations

from thpdiag.fleet.work import preload

preload((), ())
