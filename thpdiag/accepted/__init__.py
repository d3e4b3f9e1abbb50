"""Findings that somebody knows and accepts for a time: suppressions by rule, baselines of what was found once.

Both mark findings of a finished result document (`findings[].suppressed`). Verdict, evidence and order stay as they
are; only gates (`--fail-on`) and lists of problems for programs leave marked findings out.
"""
