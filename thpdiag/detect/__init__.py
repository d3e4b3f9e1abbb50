"""Detection of known formats in a text, and interpretation of the lines around them: prompts, quoting, times, prose."""

from thpdiag.detect.blocks import Detector
from thpdiag.detect.context import MAIN
from thpdiag.detect.session_clock import TaggedRecord

__all__ = ["MAIN", "Detector", "TaggedRecord"]
