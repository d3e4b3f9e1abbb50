"""Blocks of known formats in a text, and what stands around them: prompts, quoting, time lines, prose."""

from thpdiag.detect.blocks import Detector
from thpdiag.detect.context import MAIN
from thpdiag.detect.session_clock import TaggedRecord

__all__ = ["MAIN", "Detector", "TaggedRecord"]
