"""The Flesch reading ease of user-visible texts (higher is easier; 60 to 70 is plain English).

    python bench/reading_ease.py [CHECKOUT]

For each kind of text of CHECKOUT (this one, or another with the same commands): texts, words, words per sentence,
syllables per word, the figure, and the share of sentences with more than 25 words, which the style guide asks to split.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX_WORDS = 25  # of a sentence


def main() -> None:
    checkout = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    sys.path[:0] = [str(checkout), str(ROOT / "tests/support")]
    import visible_text

    visible_text.ROOT = checkout
    print(f"{'':12}{'texts':>7}{'words':>8}{'a sentence':>12}{'syllables':>11}{'ease':>7}{'long':>8}")
    everything: list[str] = []
    for kind in ("commands", "rules", "knowledge", "pages", "code", "documents"):
        texts = [text.text for text in getattr(visible_text, f"of_{kind}")()]
        everything += texts
        row(kind, texts)
    row("all", everything)


def row(kind: str, texts: list[str]) -> None:
    from visible_text import WORD, reading_ease

    ease, per_sentence, per_word = reading_ease(iter(texts))
    lengths = [len(WORD.findall(one)) for text in texts for one in re.split(r"[.;:!?](?:\s|$)", text)]
    long = sum(length > MAX_WORDS for length in lengths) / max(1, sum(length > 2 for length in lengths))
    words = sum(len(WORD.findall(text)) for text in texts)
    print(f"{kind:12}{len(texts):7,}{words:8,}{per_sentence:12.1f}{per_word:11.2f}{ease:7.1f}{long:8.1%}")


if __name__ == "__main__":
    main()
