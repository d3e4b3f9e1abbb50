"""What people write of their own host: statements, each a fact of the kind `testimony` (knowledge/vocabulary.yaml).

    Surprisingly, the RSS growth went away after disabling THP.
    It took 61 minutes. Then I set enabled to never, and the same job took 58 seconds.

A statement is somebody's word and no measurement. Only what was seen counts, of the writer's own host. Advice,
documentation, quotes, other people's hosts, questions, hypotheses and plans are none, nor is what did not help
(`testimony.not_cured`). What stands in quotation marks or in quoted lines is somebody else's. An effect is looked for
in the sentence of the action and in those that follow. The ways to say it stand in knowledge/testimony.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from thpdiag.detect.stated_figures import HELPS, WORSE, gain_of_sentence, gains
from thpdiag.knowledge.claims import wrong_claims
from thpdiag.knowledge.yaml_nodes import load_shipped
from thpdiag.model import Citation, Fact

MAX_LINES = 4000  # of prose: a longer text is no account of a host
MAX_SENTENCE = 600  # characters that are looked at
MAX_SHOWN_WORDS = 6  # of a command below a colon
NEAR = 3  # sentences from an action to its effect
GAIN = 1.5  # times: a figure that got better by less is none
STATED_GAIN = 1.4  # times: the same in a table; runs of one and the same job differ by less
CAPTION = 12  # lines from a table to what may say whose it is
FAST_AND_SLOW = 5  # times as long for the same amount of memory
CLAIM_BEGIN = 12  # characters by which the line of a claim is looked up
SLOW = "slow_after_fast"
BLAMED = "blamed"
DENIABLE = frozenset(
    {BLAMED, "khugepaged_busy", "khugepaged_high", "kcompactd_busy", "zfs_thread_busy", "kswapd_busy_beside_free"}
)
IN_TWO_SENTENCES = frozenset({"grows_at_rest", "fork_copies"})  # symptoms that may begin in the sentence before
BEFORE_CHARS = 12  # in which a `no` stands
Statement = tuple[str, str | float]


class Sentence(NamedTuple):
    """In lower case, with the line that it begins in."""

    text: str
    line: int
    quoted: str


class Patterns(Mapping[str, re.Pattern[str]]):
    """Each is compiled when it is first used, since that takes longer than to read a text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str) -> re.Pattern[str]:
        known = self._compiled.get(name)
        if known is None:
            known = self._compiled[name] = re.compile(self._texts[name])
        return known

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class Language(NamedTuple):
    """The patterns of knowledge/testimony.yaml."""

    patterns: Mapping[str, re.Pattern[str]]
    symptoms: Mapping[str, re.Pattern[str]]
    effects: Mapping[str, re.Pattern[str]]
    figures: Mapping[str, re.Pattern[str]]

    def has(self, pattern: str, text: str) -> bool:
        return self.patterns[pattern].search(text) is not None

    def starts(self, pattern: str, text: str) -> bool:
        return self.patterns[pattern].match(text) is not None


@cache
def language() -> Language:
    """The ways to say it."""
    known = load_shipped("testimony.yaml")
    words: dict[str, str] = {}
    for name, ways in known["words"].items():
        words[name] = f"(?:{'|'.join(_with_words(way, words) for way in ways)})"
    return Language(
        *(
            Patterns({n: "|".join(_with_words(way, words) for way in ways) for n, ways in known[part].items()})
            for part in ("patterns", "symptoms", "effects", "figures")
        )
    )


def _with_words(way: str, words: Mapping[str, str]) -> str:
    return re.sub(r"@(\w+)@", lambda name: words[name[1]], way)


def testimony(member: str, lines: Sequence[tuple[int, str]]) -> Iterator[Fact]:
    """The statements in lines of prose: number and text, empty ones between paragraphs."""
    if len(lines) > MAX_LINES or not any(language().has("subject", text.lower()) for _, text in lines):
        return
    sentences = list(_with_what_is_shown(_sentences(lines)))
    yield from _repeated_claims(member, lines, sentences)
    own = (
        any(_NICK.match(text) for _, text in lines)
        or any(language().has("writer", s.text) for s in sentences)
        or not any(_is_for_readers(s.text) for s in sentences)
    )
    seen = set()
    for at, sentence in enumerate(sentences):
        around = sentences[max(0, at - NEAR) : at], sentences[at + 1 : at + 1 + NEAR]
        for name, value in _statements(sentence.text, *([s.text for s in part] for part in around)):
            if (name, value) not in seen and (own or (name in language().symptoms and name != BLAMED) or name == SLOW):
                seen.add((name, value))
                cite = Citation(member, sentence.line, sentence.quoted)
                yield Fact(f"testimony.{name}", value, cite, provenance="prose")
    for line, text, name, value in _statements_of_figures(lines, sentences):
        if (name, value) not in seen:
            seen.add((name, value))
            yield Fact(f"testimony.{name}", value, Citation(member, line, text), provenance="prose")


def _repeated_claims(member: str, lines: Sequence[tuple[int, str]], sentences: Iterable[Sentence]) -> Iterator[Fact]:
    """What is said here, by whomever, and is not so: each claim once, at the line where its words begin."""
    seen = set[str]()
    for sentence in sentences:
        for name, words in wrong_claims(sentence.text):
            if name not in seen:
                seen.add(name)
                place = sentence.line, sentence.quoted
                below = (one for one in lines if one[0] >= sentence.line)
                line, text = next((one for one in below if words[:CLAIM_BEGIN] in one[1].lower()), place)
                yield Fact("claim.repeated", name, Citation(member, line, text), provenance="prose")


def _statements_of_figures(
    lines: Sequence[tuple[int, str]], sentences: Sequence[Sentence]
) -> Iterator[tuple[int, str, str, str | float]]:
    """What figures for both sides of a switch say: line and text, statement. Whose they are the text around tells."""
    words, switched = language().figures, ""
    for at, sentence in enumerate(sentences):
        before = [one.text for one in sentences[max(0, at - NEAR) : at]]
        if not _is_no_statement(sentence.text) and (what := _switched_off(sentence.text, before, ())) is not None:
            switched = _setting(what)
    own_words = [
        one for one in sentences if not _is_no_statement(one.text) and not language().has("other_cure", one.text)
    ]
    in_words = (
        gain_of_sentence(one.text, one.line, one.quoted, words)
        or (gain_of_sentence(f"{one.text.rstrip('.')}, {other}", one.line, one.quoted, words) if other else None)
        for one, other in zip(own_words, _other_sides(own_words), strict=True)
    )
    for gain in (*gains(lines, words, switched), *filter(None, in_words)):
        around = [text.lower() for number, text in lines if abs(number - gain.line) <= CAPTION]
        if any(words["documented"].search(text) or words["other_change"].search(text) for text in around):
            continue
        own = any(words["measured"].search(text) for text in around)
        prose = any(_is_prose(text) for text in around)
        if prose and not own:
            continue
        if gain.least >= 1 / WORSE and gain.most >= STATED_GAIN:
            yield gain.line, gain.text, "cured_by", gain.setting
            yield gain.line, gain.text, "cured", "work"
            if own:
                yield gain.line, gain.text, "gain", round(gain.most, 1)
        elif gain.most <= WORSE and gain.least <= 1 / HELPS and gain.setting == "thp.enabled":
            yield gain.line, gain.text, "huge_pages_help", round(1 / gain.least, 1)


def _other_sides(sentences: Sequence[Sentence]) -> Iterator[str]:
    """For each sentence the next one if that goes on with the other side: `With never: 3.5 t/s.`"""
    for following in (sentences[at + 1 : at + 2] for at in range(len(sentences))):
        yield next((one.text for one in following if language().figures["again"].match(one.text)), "")


def _is_for_readers(text: str) -> bool:
    """Whether a sentence is of a page that tells others what to do, or what they see; then nobody's own host is it."""
    return language().has("for_readers", text) or language().starts("order", text)


def _is_prose(text: str) -> bool:
    """Whether a line is of a sentence, and no row of a table."""
    return len(re.findall(r"(?:^|\s)[a-z]{2,}", text)) >= 3 and not re.search(r"[|\d]", text)


# Sentences

_BULLET = re.compile(r"^\s*(?:[-*•+]|\d{1,2}[.)])\s+")
_NICK = re.compile(
    r"^\s*(?:(?:\[?\d\d:\d\d(?::\d\d)?\]?\s*)?<[\w\s@+.-]{1,24}>|\[?\d\d:\d\d(?::\d\d)?\]? [\w.-]{1,24}:)\s*"
)
_END = re.compile(r"(?<=[.!?])[)\"']?\s+(?=[\"'(`]?[a-zA-Z0-9])|(?:(?<!\s)|(?<=;\s))\s+[-–—]{1,2}\s+|;\s")
_SAID = re.compile(r"“[^”]{0,600}”|\"[^\"]{25,600}\"")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|[A-Z][\w-]*: )")
_FORM = re.compile(r"^\s*(?:\[[ x]?\]|(?:- )?(?:alert|expr|summary|description|runbook|annotations):)")


def _sentences(lines: Sequence[tuple[int, str]]) -> Iterator[Sentence]:
    """Of each paragraph. A bullet, a heading and a line of a chat begin a sentence; a line that goes on does not."""
    paragraph: list[tuple[int, str]] = []
    for number, text in (*lines, (0, "")):
        begins = _BULLET.match(text) or _NICK.match(text) or _HEADING.match(text)
        if paragraph and (not text.strip() or begins):
            yield from _sentences_of_paragraph(paragraph)
            paragraph = []
        if text.strip() and not _FORM.match(text):
            paragraph.append((number, text))


def _sentences_of_paragraph(lines: Sequence[tuple[int, str]]) -> Iterator[Sentence]:
    starts, text = [], ""
    for number, line in lines:
        starts.append((len(text), number, line))
        text += _BULLET.sub("", _NICK.sub("", line)).strip() + " "
    text = _SAID.sub(lambda said: " " * len(said[0]), text.replace("’", "'").replace("`", " ").replace("**", ""))
    begin = 0
    for end in (*(found.start() for found in _END.finditer(text)), len(text)):
        if words := " ".join(text[begin:end].split())[:MAX_SENTENCE]:
            _, number, line = [start for start in starts if start[0] <= begin + 1][-1]
            yield Sentence(words.lower(), number, line)
        begin = end


def _with_what_is_shown(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """The sentences; one that ends with a colon goes on in a command or option that stands in lines of its own."""
    shown: Sentence | None = None
    for one in sentences:
        if shown and len(one.text.split()) <= MAX_SHOWN_WORDS:
            one = shown._replace(text=f"{shown.text} {one.text}"[:MAX_SENTENCE])
        elif shown:
            yield shown
        shown = one if one.text.endswith(":") else None
        if shown is None:
            yield one
    if shown:
        yield shown


# Statements


def _is_no_statement(text: str) -> bool:
    return bool(
        language().has("no_statement", text) or language().starts("order", text) or language().starts("of_any", text)
    )


def _statements(text: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Statement]:
    if any(language().starts("suppose", other) for other in before):
        return
    if _is_no_statement(text):
        for clause in re.split(r",? \b(?:so|but|because|while|although)\b", text):
            if clause != text and not _is_no_statement(clause.strip(" ,")):
                yield from _symptoms(clause, before, ())
        return
    yield from _symptoms(text, before, after)
    yield from _effects(text, before, after)


# Symptoms


def _symptoms(text: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Statement]:
    for name, pattern in language().symptoms.items():
        begins_before = name in IN_TWO_SENTENCES and before and not _is_no_statement(before[-1])
        told = f"{before[-1]} {text}" if begins_before else text
        if not (said := pattern.search(told)) or (name in DENIABLE and _is_denied(told, said)):
            continue
        if name in ("grows_at_rest", "fills_mapping") and (
            language().has("no_growth", told) or language().has("off", told)
        ):
            continue
        if name != "in_rounds" or language().has("blocks", text):
            yield name, "yes"
    if _is_slow_after_fast(text, before, after):
        yield SLOW, "yes"
    if stalls := _counted_stalls(text):
        yield "compact_stalls", stalls


def _is_denied(text: str, said: re.Match[str]) -> bool:
    """Whether what was matched, or the words before it, say that it is not so."""
    return language().has("denied", text[max(0, said.start() - BEFORE_CHARS) : said.end()])


def _counted_stalls(text: str) -> float:
    """How many stalls a sentence counts in a time that was watched, or in a minute; 0 if it counts none."""
    if not (said := language().patterns["stalls_counted"].search(text)) or language().has("denied", said[0]):
        return 0.0
    number = {name: float(digits.replace(",", "")) for name, digits in said.groupdict().items() if digits}
    return number.get("b", 0.0) - number.get("a", 0.0) or number.get("n") or number.get("m") or number["s"] * 60


def _is_slow_after_fast(text: str, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether memory came quickly up to some size, and very slowly after that."""
    if not language().has("memory", " ".join((*before[-2:], text))) or language().has("off", text):
        return False
    if language().has("slower", text):
        return True
    head, then, tail = text.partition(" then ")
    quick, slow = _seconds(head), _seconds(tail)
    if then and re.search(r"\bfirst\b", head) and quick and slow and min(slow) >= FAST_AND_SLOW * min(quick):
        return True
    size, took = _bytes(text), _seconds(text)
    for later in after if size and took else ():
        more, slow = _bytes(later), _seconds(later)
        if language().starts("afterwards", later) and slow and more > size:
            return max(slow) / (more - size) >= FAST_AND_SLOW * min(took) / size
    return False


# What an action did


def _effects(text: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Statement]:
    """What was better or worse after a switch or a reboot, in the same sentence or in the next ones."""
    say = language()
    if say.has("with_the_setting", text) and say.has("thp_nearby", " ".join((*before, text, *after))):
        yield from (("cured_by", "thp.enabled"), ("cured", "waits"), ("came_back", "yes"))
    elif comparison := list(_comparison(text, before)):
        yield from comparison
    elif (what := _switched_off(text, before, after)) is not None:
        yield from _after_the_switch(what, text, before, after)
    elif say.has("on", text):
        if any(map(_is_back, (say.patterns["on"].sub(" ", text), *after[:1]))):
            yield "came_back", "yes"
    elif say.has("by_compaction", text):
        if _is_better_by_hand(say.patterns["by_compaction"].sub(" ", text), after):
            yield "helped_by_compaction", "yes"
    elif say.has("rebooted", text) and (_is_good(text) or say.has("quick", text)) and not say.has("not", text):
        yield "helped_by_reboot", "yes"


def _comparison(text: str, before: Sequence[str]) -> Iterator[Statement]:
    """One side of the switch against the other, in one sentence."""
    if (than := language().patterns["better_with"].search(text)) and not _NOT.search(_text_before(than, text)):
        yield "not_cured", "yes"
    elif sides := _compared_sides(text, " ".join((*before[-1:], text))):
        yield from (("cured_by", "thp.defrag" if "defrag" in text else "thp.enabled"), ("cured", "work"))
        if times := next((number for number in sides.groupdict().values() if number), ""):
            yield "gain", round(float(times), 1)


def _compared_sides(text: str, near: str) -> re.Match[str] | None:
    """Where the text says how much better it was without huge pages than with them, or worse with them.

    Two values of the setting, `madvise` and `never`, name it by themselves.
    """
    say = language()
    found = say.patterns["better_without"].search(text) or say.patterns["worse_with"].search(text)
    if found is None or _NOT.search(_text_before(found, text) + found[0]):
        return None
    values = {"never"} < set(re.findall(r"\b(?:always|madvise|never)\b", found[0]))
    return None if say.has("other_cure", text) or not (values or say.has("huge_pages", near)) else found


def _text_before(found: re.Match[str], text: str) -> str:
    return text[max(0, found.start() - BEFORE_CHARS) : found.start()]


_NOT = re.compile(r"\b(?:not|no|neither|nor|hardly|barely)\b|n't\b")  # and not the setting `never`


def _is_better_by_hand(text: str, after: Sequence[str]) -> bool:
    """Whether something was good after memory was compacted by hand."""
    say = language()
    spans = [one for one in (text, *after[:1]) if not _is_no_statement(one)]
    return any(_is_good(one) for one in spans) and not any(say.has("not", one) for one in spans)


def _switched_off(text: str, before: Sequence[str], after: Sequence[str]) -> str | None:
    """What the sentence says was switched off, if that was huge pages or a part of them."""
    say, near = language(), " ".join((*before, text))
    off = say.patterns["off"].search(text)
    if off is None or (say.has("on", text) and off["assigned"] is None and off["arrow"] is None and not _is_good(text)):
        return None
    what = next((part for part in off.groupdict().values() if part), "")
    last = " ".join((*before[-2:], text))  # what `it` stands for
    if say.has("elsewhere", what) or not (say.has("knob_by_name", what) or say.has("thp_nearby", last)):
        return None
    defragmented = re.fullmatch(r"defrag(?:mentation)?", what) and off["assigned"] is None  # disks and tables are, too
    return None if defragmented and not say.has("huge_pages", " ".join((near, *after))) else what


def _after_the_switch(what: str, text: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Statement]:
    say = language()
    if any(say.has("in_vain", later) for later in after):
        yield "not_cured", "yes"
        return
    for at, span in enumerate((text, *after)):
        if at and (_is_no_statement(span) or say.has("on", span) or (at > 1 and not say.starts("links", span))):
            continue
        rest = say.patterns["seen_no_more"].sub(" went away ", span)
        if say.has("not", rest) and "went away" not in rest:
            yield "not_cured", "yes"
            return
        over_default = None if at else _gain_over_default(text)
        gain = over_default or _gain(rest, before, (text, *after[:at]))
        better = _is_good(rest) or (gain and say.has("work_or_wait", rest)) or (at and say.starts("since", span))
        better = better or bool(over_default)
        if better and not say.has("other_cure", say.patterns["off"].sub(" ", rest)):
            yield "cured_by", _setting(what)
            yield from (("cured", kind) for kind in _kinds(rest, (*before, text, *after[:at])))
            if gain is not None:
                yield "gain", round(gain, 1)
            return


def _setting(what: str) -> str:
    if language().has("of_program", what):
        return "an option of the program"
    if "max_ptes_none" in what or "khugepaged" in what:
        return "thp.khugepaged.defrag" if "defrag" in what else "thp.khugepaged.max_ptes_none"
    return "thp.defrag" if "defrag" in what else "thp.enabled"


def _is_good(text: str) -> bool:
    return bool(language().has("gone", text) or language().has("seen_no_more", text))


def _is_back(text: str) -> bool:
    return bool(language().has("back", text)) and not language().has("not", text) and not _is_no_statement(text)


def _kinds(part: str, told: Iterable[str]) -> list[str]:
    """What got better: by the words of the sentence, else of those before it."""
    for text in (part, " ".join(one for one in told if not language().has("aside", one))):
        words_of_text = _PATH.sub(" ", text)
        if kinds := [name for name, words in language().effects.items() if words.search(words_of_text)]:
            return kinds[:2]
    return ["trouble"]


_PATH = re.compile(r"/[\w./-]+")  # its parts are no words


# Figures

_NUMBER = r"(?P<n>\d+(?:[.,]\d+)?|half an?|an?|one|two|three|ten|twenty|thirty)"
_UNIT_WORDS = "hours?|hrs?|h|minutes?|mins?|min|m|seconds?|secs?|s|milliseconds?|ms|microseconds?|us|days?"
_DURATION = re.compile(
    rf"(?<![\w.])(?:{_NUMBER}\s?(?P<h>h|hours?|hrs?)\s?(?P<m>\d{{1,2}})\s?m(?:in\w*)?"
    rf"|{_NUMBER.replace('<n>', '<n2>')}(?: or \w+)?\s?\+?(?P<u>{_UNIT_WORDS}))(?:\(!\))?(?![\w/])"
)
_SIZE = re.compile(r"(?<![\w.])(?P<n>\d+(?:[.,]\d+)?)\s?(?P<u>[kmgt])i?b?(?:ytes?)?\b")
_TIMES = re.compile(
    r"\b(?P<n>\d+(?:\.\d+)?)(?: ?(?:±|\+/?-) ?\d+(?:\.\d+)?)? ?(?:x|times|-?fold)\b"  # with its spread
    r"|(?P<half>\bhalved\b|\b(?:by|in) half\b|\bdoubled\b|\bhalf (?:of )?the time\b)"
)
_FROM_TO = re.compile(
    r"\bfrom (?:about |around |over |~ ?)?(?P<a>\d+(?:\.\d+)?) ?\S{0,8} (?:down )?"
    r"to (?:about |around |under |below |~ ?|less than )?(?P<b>\d+(?:\.\d+)?)"
)
_WORDS = {"a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "ten": 10.0, "twenty": 20.0, "thirty": 30.0}
_UNITS = (
    ("us", 1e-6),
    ("mic", 1e-6),
    ("ms", 0.001),
    ("mil", 0.001),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86400.0),
)


def _number(word: str) -> float:
    if word.startswith("half"):
        return 0.5
    return _WORDS.get(word) or float(word.replace(",", "."))


def _seconds(text: str) -> list[float]:
    """The durations in a text."""
    found = []
    for one in _DURATION.finditer(text):
        if one["u"]:
            found.append(_number(one["n2"]) * next(factor for unit, factor in _UNITS if one["u"].startswith(unit)))
        else:
            found.append(_number(one["n"]) * 3600 + float(one["m"]) * 60)
    return [seconds for seconds in found if seconds > 0]


def _bytes(text: str) -> float:
    """The largest size in a text; 0 if there is none."""
    found = (float(m["n"].replace(",", ".")) * 1024.0 ** ("kmgt".index(m["u"]) + 1) for m in _SIZE.finditer(text))
    return max(found, default=0.0)


def _gain_over_default(text: str) -> float | None:
    """How many times shorter work was with a switch than by default, where one sentence tells both.

    `40 s with the default, 12 s with NUMPY_MADVISE_HUGEPAGE=0`
    """
    say = language()
    clauses = [(clause, _seconds(clause)) for clause in re.split(r"[,;] ", text)]
    default = [max(took) for clause, took in clauses if took and say.has("by_default", clause)]
    switched = [max(took) for clause, took in clauses if took and say.has("off", clause)]
    if len(default) != 1 or len(switched) != 1 or default[0] < GAIN * switched[0]:
        return None
    return default[0] / switched[0]


def _gain(part: str, before: Sequence[str], own: Sequence[str]) -> float | None:
    """By how many times it got better, by the figures of the text; None if it has none that say so."""
    if times := _TIMES.search(part):
        return 2.0 if times["half"] else float(times["n"])
    if change := _FROM_TO.search(part):
        first, last = float(change["a"]), float(change["b"])
        return max(first, last) / min(first, last) if first and last and first > last else None
    earlier = " ".join((*before, *own[:-1]))
    if language().effects["growth"].search(part) and (left := _bytes(part)) and _bytes(earlier) >= GAIN * left:
        return _bytes(earlier) / left
    if (after := _seconds(part)) and (long := _seconds(earlier)) and max(long) >= GAIN * min(after):
        return max(long) / min(after) if language().has("work_or_wait", part) else None
    return None
