"""Lines that are passed over at once: the ones that are left are those that hold a word, with their own numbers."""

from __future__ import annotations

import random

import pytest

from thpdiag.bundle.member import LineDamage, NumberedLines, line_blocks
from thpdiag.detect.transcript import WholeText, clean_lines
from thpdiag.model import Fact
from thpdiag.model.parser import Passable, Source
from thpdiag.parsers.kernel_log.log import MIN_COUNTED_LINES, kernel_log_records

WORDS = ("stall", "BUG", "*4kB")
PIECES = (
    *(b"plain words and a number 17 " * 3, b"a stall", b"BUG", b"0*4kB", b"> quoted BUG", b"\t  ", b"", b" "),
    *(b"B\x1b[1mUG", b"B\xe2\x80\x8bUG", "Größe".encode(), b"st\xffall", b"B\x07UG", b"10\r20\rBUG", b"\0", b"<br>"),
)
LIMIT = 4096


def text_of(data: bytes, size: int) -> NumberedLines:
    """A text that comes in chunks of so many bytes, cut at line ends as those of a member are."""
    chunks, held = [], b""
    for at in range(0, len(data), size):
        held += data[at : at + size]
        end = held.rfind(b"\n") + 1
        chunks += [held[:end]] if end else []
        held = held[end:]
    return NumberedLines(line_blocks(data[:65536], iter([*chunks, held]), LIMIT, LineDamage()))


def made(seed: int) -> bytes:
    """A text of a few hundred lines; the odd pieces are rarer in some texts than in others."""
    choice = random.Random(seed)
    weights = [8] + [choice.choice((0, 0, 1)) for _ in PIECES[1:]]
    lines = [b"".join(choice.choices(PIECES, weights, k=2)) for _ in range(300)]
    return b"\n".join(lines) + choice.choice((b"", b"\n", b"\n\n"))


@pytest.mark.parametrize("markup", [False, True])
def test_no_line_with_a_word_is_passed_over(markup: bool) -> None:
    """Whatever cleaning makes of a line, it is given if it holds a word then, and none is counted twice or lost."""
    for seed in range(60):
        size = (50, 997, 65536)[seed % 3]
        every = [(n, t) for n, t, *_ in clean_lines(text_of(made(seed), size), markup=markup)]
        text = WholeText(text_of(made(seed), size), markup=markup)
        given, passed = [], 0
        for line in text:
            given.append(line)
            passed += text.pass_over(WORDS)
        assert passed + len(given) == len(every), seed
        telling = [line for line in every if any(word in line[1] for word in WORDS)]
        assert [line for line in given if any(word in line[1] for word in WORDS)] == telling, seed
        assert set(given) <= set(every), seed


def test_without_passing_over_every_line_is_given() -> None:
    """A reader that looks at each line gets what the walk over a transcript gives; the number is the next line's."""
    for seed in range(12):
        text = WholeText(text_of(made(seed), 997), markup=False)
        first = text.number
        lines = list(text)
        assert lines == [(n, t) for n, t, *_ in clean_lines(text_of(made(seed), 997), markup=False)], seed
        assert first == lines[0][0]
        assert text.number is None


def test_a_plain_text_is_passed_over_at_once() -> None:
    """Of ordinary lines none is made."""
    text = WholeText(text_of(b"an ordinary line\n" * 50_000 + b"a stall\n", 65536), markup=False)
    assert next(text) == (1, "an ordinary line")
    assert text.pass_over(WORDS) == 49_999
    assert list(text) == [(50_001, "a stall")]


def test_lines_that_are_no_whole_text_can_be_read() -> None:
    """Numbered lines of any origin, of which none can be passed over."""
    text = WholeText([(7, "one "), (9, "two")], markup=False)
    assert isinstance(text, Passable)
    assert (text.number, text.pass_over(WORDS)) == (7, 0)
    assert list(text) == [(7, "one"), (9, "two")]


def test_a_log_counts_the_lines_that_are_passed_over() -> None:
    """How many lines a kernel log has does not depend on how many were looked at."""
    line = b"Nov 20 03:35:43 host kernel: usb 1-1: new device\n"
    for count in (MIN_COUNTED_LINES, 399, 400, 401, 30_000):
        text = WholeText(text_of(line * count, 65536), markup=False)
        told = [r for r in kernel_log_records(Source("var/log/messages"), "kernel_log", text) if isinstance(r, Fact)]
        assert [fact.value for fact in told if fact.name == "log.read"] == (
            [count] if count > MIN_COUNTED_LINES else []
        )
