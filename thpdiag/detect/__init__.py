"""Blocks of known formats in a text, and what stands around them: prompts, quoting, time lines, prose."""

from thpdiag.detect.blocks import MAIN, Detector
from thpdiag.detect.session_clock import TaggedRecord

__all__ = ["MAIN", "Detector", "TaggedRecord"]
