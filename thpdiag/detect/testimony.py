"""Testimony: what people write about their own host, as facts named `testimony.*` (knowledge/vocabulary.yaml).

    Surprisingly, the RSS growth went away after disabling THP.
    It took 61 minutes. Then I set enabled to never, and the same job took 58 seconds.

A statement is not a measurement. Only observations of the writer's own host count: not advice, documentation, quotes,
other people's hosts, questions, hypotheses and plans. Text in quotation marks or quoted lines belongs to somebody else.
What did not help becomes `testimony.not_cured`. The effect of an action is searched in the same sentence and the
following ones. The phrases are in knowledge/testimony.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from thpdiag.detect.stated_figures import MAX_CONTRARY_RATIO, MIN_BENEFIT_RATIO, gain_of_sentence, gains
from thpdiag.knowledge.claims import wrong_claims
from thpdiag.knowledge.yaml_nodes import load_shipped
from thpdiag.model import Citation, Fact

MAX_LINES = 4000  # of prose: a longer text is not a description of a host
MAX_SENTENCE_CHARS = 600  # characters of a sentence that are searched
MAX_COMMAND_WORDS = 6  # words of a command that is shown below a colon
MAX_SENTENCE_DISTANCE = 3  # sentences from an action to its effect
MIN_GAIN = 1.5  # ratio of two figures in sentences
MIN_TABLE_GAIN = 1.4  # ratio of two figures in a table; runs of the same job differ by less
MAX_CAPTION_DISTANCE = 12  # lines from a table to the text that may state whose figures it has
MIN_SLOWDOWN = 5  # ratio of the times for the same amount of memory
CLAIM_CHARS = 12  # first characters of a claim, by which its line is found
SLOW = "slow_after_fast"
BLAMED = "blamed"
DENIABLE = frozenset(  # symptoms whose words also occur in denials
    {BLAMED, "khugepaged_busy", "khugepaged_high", "kcompactd_busy", "zfs_thread_busy", "kswapd_busy_beside_free"}
)
TWO_SENTENCE_SYMPTOMS = frozenset({"grows_at_rest", "fork_copies"})  # may begin in the previous sentence
NEGATION_CHARS = 12  # characters before a match that are searched for a negation
Statement = tuple[str, str | float]


class Sentence(NamedTuple):
    """A sentence in lower case, with number and text of the line in which it begins."""

    text: str
    line: int
    quoted: str


class Patterns(Mapping[str, re.Pattern[str]]):
    """Regular expressions that are compiled on first use, because compiling all takes longer than reading a text."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._compiled: dict[str, re.Pattern[str]] = {}

    def __getitem__(self, name: str) -> re.Pattern[str]:
        pattern = self._compiled.get(name)
        if pattern is None:
            pattern = self._compiled[name] = re.compile(self._texts[name])
        return pattern

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
    """Load the phrases, with references to word lists (`@NAME@`) expanded."""
    document = load_shipped("testimony.yaml")
    words: dict[str, str] = {}

    def alternatives(phrases: Sequence[str]) -> str:
        return "|".join(re.sub(r"@(\w+)@", lambda name: words[name[1]], phrase) for phrase in phrases)

    for name, phrases in document["words"].items():
        words[name] = f"(?:{alternatives(phrases)})"
    return Language(
        *(
            Patterns({name: alternatives(phrases) for name, phrases in document[part].items()})
            for part in ("patterns", "symptoms", "effects", "figures")
        )
    )


def testimony(member: str, lines: Sequence[tuple[int, str]]) -> Iterator[Fact]:
    """Yield the statements in lines of prose: number and text, with empty lines between paragraphs."""
    if len(lines) > MAX_LINES or not any(language().has("subject", text.lower()) for _, text in lines):
        return
    sentences = list(_join_shown_commands(_sentences(lines)))
    yield from _repeated_claims(member, lines, sentences)
    is_own_host = (
        any(_NICK.match(text) for _, text in lines)
        or any(language().has("writer", s.text) for s in sentences)
        or not any(_is_for_readers(s.text) for s in sentences)
    )
    seen = set()
    for i, sentence in enumerate(sentences):
        before = [s.text for s in sentences[max(0, i - MAX_SENTENCE_DISTANCE) : i]]
        after = [s.text for s in sentences[i + 1 : i + 1 + MAX_SENTENCE_DISTANCE]]
        for name, value in _statements(sentence.text, before, after):
            is_symptom = (name in language().symptoms and name != BLAMED) or name == SLOW
            if (name, value) not in seen and (is_own_host or is_symptom):
                seen.add((name, value))
                cite = Citation(member, sentence.line, sentence.quoted)
                yield Fact(f"testimony.{name}", value, cite, provenance="prose")
    for line, text, name, value in _statements_of_figures(lines, sentences):
        if (name, value) not in seen:
            seen.add((name, value))
            yield Fact(f"testimony.{name}", value, Citation(member, line, text), provenance="prose")


def _repeated_claims(member: str, lines: Sequence[tuple[int, str]], sentences: Iterable[Sentence]) -> Iterator[Fact]:
    """Yield each wrong claim in the text once, at the line where its words begin."""
    seen = set[str]()
    for sentence in sentences:
        for name, words in wrong_claims(sentence.text):
            if name not in seen:
                seen.add(name)
                first_line = sentence.line, sentence.quoted
                below = (line for line in lines if line[0] >= sentence.line)
                line, text = next((each for each in below if words[:CLAIM_CHARS] in each[1].lower()), first_line)
                yield Fact("claim.repeated", name, Citation(member, line, text), provenance="prose")


def _statements_of_figures(
    lines: Sequence[tuple[int, str]], sentences: Sequence[Sentence]
) -> Iterator[tuple[int, str, str, str | float]]:
    """Yield line, text, name and value of statements by figures for both settings of a switch.

    The text around the figures determines whether they were measured on the writer's host.
    """
    words, switched = language().figures, ""
    for i, sentence in enumerate(sentences):
        before = [s.text for s in sentences[max(0, i - MAX_SENTENCE_DISTANCE) : i]]
        if not _is_no_statement(sentence.text) and (target := _switched_off(sentence.text, before, ())) is not None:
            switched = _setting(target)
    statements = [s for s in sentences if not _is_no_statement(s.text) and not language().has("other_cure", s.text)]
    sentence_gains = (
        gain_of_sentence(s.text, s.line, s.quoted, words)
        or (gain_of_sentence(f"{s.text.rstrip('.')}, {other}", s.line, s.quoted, words) if other else None)
        for s, other in zip(statements, _other_sides(statements), strict=True)
    )
    for gain in (*gains(lines, words, switched), *filter(None, sentence_gains)):
        around = [text.lower() for number, text in lines if abs(number - gain.line) <= MAX_CAPTION_DISTANCE]
        if any(words["documented"].search(text) or words["other_change"].search(text) for text in around):
            continue
        is_measured = any(words["measured"].search(text) for text in around)
        if not is_measured and any(_is_prose(text) for text in around):
            continue
        if gain.min_ratio >= 1 / MAX_CONTRARY_RATIO and gain.max_ratio >= MIN_TABLE_GAIN:
            yield gain.line, gain.text, "cured_by", gain.setting
            yield gain.line, gain.text, "cured", "work"
            if is_measured:
                yield gain.line, gain.text, "gain", round(gain.max_ratio, 1)
        elif (
            gain.max_ratio <= MAX_CONTRARY_RATIO
            and gain.min_ratio <= 1 / MIN_BENEFIT_RATIO
            and gain.setting == "thp.enabled"
        ):
            yield gain.line, gain.text, "huge_pages_help", round(1 / gain.min_ratio, 1)


def _other_sides(sentences: Sequence[Sentence]) -> Iterator[str]:
    """Yield for each sentence the next one if it continues with the other setting (`With never: 3.5 t/s.`), or ""."""
    for following in (sentences[i + 1 : i + 2] for i in range(len(sentences))):
        yield next((s.text for s in following if language().figures["again"].match(s.text)), "")


def _is_for_readers(text: str) -> bool:
    """Whether a sentence gives readers advice, as on a documentation page, and is not about the writer's host."""
    return language().has("for_readers", text) or language().starts("order", text)


def _is_prose(text: str) -> bool:
    """Whether a line is part of a sentence rather than a row of a table."""
    return len(re.findall(r"(?:^|\s)[a-z]{2,}", text)) >= 3 and not re.search(r"[|\d]", text)


# Sentences

_BULLET = re.compile(r"^\s*(?:[-*•+]|\d{1,2}[.)])\s+")
_NICK = re.compile(
    r"^\s*(?:(?:\[?\d\d:\d\d(?::\d\d)?\]?\s*)?<[\w\s@+.-]{1,24}>|\[?\d\d:\d\d(?::\d\d)?\]? [\w.-]{1,24}:)\s*"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"']?\s+(?=[\"'(`]?[a-zA-Z0-9])|(?:(?<!\s)|(?<=;\s))\s+[-–—]{1,2}\s+|;\s")
_QUOTATION = re.compile(r"“[^”]{0,600}”|\"[^\"]{25,600}\"")
_HEADING = re.compile(r"^\s*(?:#{1,6}\s|[A-Z][\w-]*: )")
_FORM = re.compile(r"^\s*(?:\[[ x]?\]|(?:- )?(?:alert|expr|summary|description|runbook|annotations):)")


def _sentences(lines: Sequence[tuple[int, str]]) -> Iterator[Sentence]:
    """Yield the sentences of all paragraphs. Bullets, headings and chat lines begin a sentence; other lines do not."""
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
    text = _QUOTATION.sub(lambda words: " " * len(words[0]), text.replace("’", "'").replace("`", " ").replace("**", ""))
    begin = 0
    for end in (*(match.start() for match in _SENTENCE_END.finditer(text)), len(text)):
        if words := " ".join(text[begin:end].split())[:MAX_SENTENCE_CHARS]:
            _, number, line = [start for start in starts if start[0] <= begin + 1][-1]
            yield Sentence(words.lower(), number, line)
        begin = end


def _join_shown_commands(sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """Yield the sentences, with a command or option on its own line joined to the preceding one that ends with `:`."""
    pending: Sentence | None = None
    for sentence in sentences:
        if pending and len(sentence.text.split()) <= MAX_COMMAND_WORDS:
            sentence = pending._replace(text=f"{pending.text} {sentence.text}"[:MAX_SENTENCE_CHARS])
        elif pending:
            yield pending
        pending = sentence if sentence.text.endswith(":") else None
        if pending is None:
            yield sentence
    if pending:
        yield pending


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
        begins_before = name in TWO_SENTENCE_SYMPTOMS and before and not _is_no_statement(before[-1])
        context = f"{before[-1]} {text}" if begins_before else text
        if not (match := pattern.search(context)) or (name in DENIABLE and _is_denied(context, match)):
            continue
        if name in ("grows_at_rest", "fills_mapping") and (
            language().has("no_growth", context) or language().has("off", context)
        ):
            continue
        if name != "in_rounds" or language().has("blocks", text):
            yield name, "yes"
    if _is_slow_after_fast(text, before, after):
        yield SLOW, "yes"
    if stalls := _counted_stalls(text):
        yield "compact_stalls", stalls


def _is_denied(text: str, match: re.Match[str]) -> bool:
    """Whether a match, or the words before it, contain a negation."""
    return language().has("denied", _text_before(match, text) + match[0])


def _counted_stalls(text: str) -> float:
    """Return the number of stalls that a sentence states for an observed time, or per minute; 0 if there is none."""
    if not (match := language().patterns["stalls_counted"].search(text)) or language().has("denied", match[0]):
        return 0.0
    number = {name: float(digits.replace(",", "")) for name, digits in match.groupdict().items() if digits}
    return number.get("b", 0.0) - number.get("a", 0.0) or number.get("n") or number.get("m") or number["s"] * 60


def _is_slow_after_fast(text: str, before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether memory was allocated quickly up to some size, and very slowly after that."""
    if not language().has("memory", " ".join((*before[-2:], text))) or language().has("off", text):
        return False
    if language().has("slower", text):
        return True
    head, then, tail = text.partition(" then ")
    quick, slow = _seconds(head), _seconds(tail)
    if then and re.search(r"\bfirst\b", head) and quick and slow and min(slow) >= MIN_SLOWDOWN * min(quick):
        return True
    size, took = _bytes(text), _seconds(text)
    for later in after if size and took else ():
        more, slow = _bytes(later), _seconds(later)
        if language().starts("afterwards", later) and slow and more > size:
            return max(slow) / (more - size) >= MIN_SLOWDOWN * min(took) / size
    return False


# Effects of an action


def _effects(text: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Statement]:
    """Yield what was better or worse after a switch or a reboot, from the same sentence or the next ones."""
    phrases = language()
    if phrases.has("with_the_setting", text) and phrases.has("thp_nearby", " ".join((*before, text, *after))):
        yield from (("cured_by", "thp.enabled"), ("cured", "waits"), ("came_back", "yes"))
    elif comparison := list(_comparison(text, before)):
        yield from comparison
    elif (target := _switched_off(text, before, after)) is not None:
        yield from _effects_of_switch(target, text, before, after)
    elif phrases.has("on", text):
        if any(map(_is_back, (phrases.patterns["on"].sub(" ", text), *after[:1]))):
            yield "came_back", "yes"
    elif phrases.has("by_compaction", text):
        if _is_better_by_compaction(phrases.patterns["by_compaction"].sub(" ", text), after):
            yield "helped_by_compaction", "yes"
    elif (
        phrases.has("rebooted", text)
        and (_is_good(text) or phrases.has("quick", text))
        and not phrases.has("not", text)
    ):
        yield "helped_by_reboot", "yes"


def _comparison(text: str, before: Sequence[str]) -> Iterator[Statement]:
    """Yield the result of a sentence that compares both settings."""
    match = language().patterns["better_with"].search(text)
    if match and not _NEGATION.search(_text_before(match, text)):
        yield "not_cured", "yes"
    elif sides := _compared_sides(text, " ".join((*before[-1:], text))):
        yield from (("cured_by", "thp.defrag" if "defrag" in text else "thp.enabled"), ("cured", "work"))
        if times := next((number for number in sides.groupdict().values() if number), ""):
            yield "gain", round(float(times), 1)


def _compared_sides(text: str, near: str) -> re.Match[str] | None:
    """Return the match of a phrase that something was better without huge pages, or worse with them.

    Two values of the setting, such as `madvise` and `never`, identify it without its name.
    """
    phrases = language()
    match = phrases.patterns["better_without"].search(text) or phrases.patterns["worse_with"].search(text)
    if match is None or _NEGATION.search(_text_before(match, text) + match[0]):
        return None
    values = {"never"} < set(re.findall(r"\b(?:always|madvise|never)\b", match[0]))
    return None if phrases.has("other_cure", text) or not (values or phrases.has("huge_pages", near)) else match


def _text_before(match: re.Match[str], text: str) -> str:
    return text[max(0, match.start() - NEGATION_CHARS) : match.start()]


_NEGATION = re.compile(r"\b(?:not|no|neither|nor|hardly|barely)\b|n't\b")  # excludes the setting `never`


def _is_better_by_compaction(text: str, after: Sequence[str]) -> bool:
    """Whether something improved after memory was compacted manually."""
    spans = [span for span in (text, *after[:1]) if not _is_no_statement(span)]
    return any(map(_is_good, spans)) and not any(language().has("not", span) for span in spans)


def _switched_off(text: str, before: Sequence[str], after: Sequence[str]) -> str | None:
    """Return what a sentence describes as switched off, if that is huge pages or a part of them."""
    phrases, near = language(), " ".join((*before, text))
    off = phrases.patterns["off"].search(text)
    if off is None or (
        phrases.has("on", text) and off["assigned"] is None and off["arrow"] is None and not _is_good(text)
    ):
        return None
    target = next((part for part in off.groupdict().values() if part), "")
    antecedents = " ".join((*before[-2:], text))  # to which `it` may refer
    if phrases.has("elsewhere", target):
        return None
    if not (phrases.has("knob_by_name", target) or phrases.has("thp_nearby", antecedents)):
        return None
    # disks and tables are defragmented too
    is_ambiguous = re.fullmatch(r"defrag(?:mentation)?", target) and off["assigned"] is None
    return None if is_ambiguous and not phrases.has("huge_pages", " ".join((near, *after))) else target


def _effects_of_switch(target: str, text: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Statement]:
    """Yield the effects after `target` was switched off."""
    phrases = language()
    if any(phrases.has("in_vain", later) for later in after):
        yield "not_cured", "yes"
        return
    for i, span in enumerate((text, *after)):
        if i and (_is_no_statement(span) or phrases.has("on", span) or (i > 1 and not phrases.starts("links", span))):
            continue
        rest = phrases.patterns["seen_no_more"].sub(" went away ", span)
        if phrases.has("not", rest) and "went away" not in rest:
            yield "not_cured", "yes"
            return
        over_default = None if i else _gain_over_default(text)
        gain = over_default or _gain(rest, before, (text, *after[:i]))
        better = _is_good(rest) or (gain and phrases.has("work_or_wait", rest)) or (i and phrases.starts("since", span))
        better = better or bool(over_default)
        if better and not phrases.has("other_cure", phrases.patterns["off"].sub(" ", rest)):
            yield "cured_by", _setting(target)
            yield from (("cured", kind) for kind in _kinds(rest, (*before, text, *after[:i])))
            if gain is not None:
                yield "gain", round(gain, 1)
            return


def _setting(target: str) -> str:
    """Return the name of the setting that a text describes."""
    if language().has("of_program", target):
        return "an option of the program"
    if "max_ptes_none" in target or "khugepaged" in target:
        return "thp.khugepaged.defrag" if "defrag" in target else "thp.khugepaged.max_ptes_none"
    return "thp.defrag" if "defrag" in target else "thp.enabled"


def _is_good(text: str) -> bool:
    return bool(language().has("gone", text) or language().has("seen_no_more", text))


def _is_back(text: str) -> bool:
    return bool(language().has("back", text)) and not language().has("not", text) and not _is_no_statement(text)


def _kinds(part: str, context: Iterable[str]) -> list[str]:
    """Return what improved, by the words of the sentence or else of the sentences around it."""
    for text in (part, " ".join(other for other in context if not language().has("aside", other))):
        without_paths = _PATH.sub(" ", text)
        if kinds := [name for name, words in language().effects.items() if words.search(without_paths)]:
            return kinds[:2]
    return ["trouble"]


_PATH = re.compile(r"/[\w./-]+")


# Figures

_NUMBER = r"(?P<n>\d+(?:[.,]\d+)?|half an?|an?|one|two|three|ten|twenty|thirty)"
_UNIT_WORDS = "hours?|hrs?|h|minutes?|mins?|min|m|seconds?|secs?|s|milliseconds?|ms|microseconds?|us|days?"
_DURATION = re.compile(
    rf"(?<![\w.])(?:{_NUMBER}\s?(?P<h>h|hours?|hrs?)\s?(?P<m>\d{{1,2}})\s?m(?:in\w*)?"
    rf"|{_NUMBER.replace('<n>', '<n2>')}(?: or \w+)?\s?\+?(?P<u>{_UNIT_WORDS}))(?:\(!\))?(?![\w/])"
)
_SIZE = re.compile(r"(?<![\w.])(?P<n>\d+(?:[.,]\d+)?)\s?(?P<u>[kmgt])i?b?(?:ytes?)?\b")
_TIMES = re.compile(
    r"\b(?P<n>\d+(?:\.\d+)?)(?: ?(?:±|\+/?-) ?\d+(?:\.\d+)?)? ?(?:x|times|-?fold)\b"  # with deviation: 3.2 ± 0.4
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
    """Return the durations in a text."""
    durations = []
    for match in _DURATION.finditer(text):
        if unit := match["u"]:
            factor = next(factor for prefix, factor in _UNITS if unit.startswith(prefix))
            durations.append(_number(match["n2"]) * factor)
        else:
            durations.append(_number(match["n"]) * 3600 + float(match["m"]) * 60)
    return [seconds for seconds in durations if seconds > 0]


def _bytes(text: str) -> float:
    """Return the largest size in a text; 0 if there is none."""
    sizes = (float(m["n"].replace(",", ".")) * 1024.0 ** ("kmgt".index(m["u"]) + 1) for m in _SIZE.finditer(text))
    return max(sizes, default=0.0)


def _gain_over_default(text: str) -> float | None:
    """Return the ratio of the default duration to that with a switch, if one sentence states both.

    `40 s with the default, 12 s with NUMPY_MADVISE_HUGEPAGE=0`
    """
    phrases = language()
    clauses = [(clause, _seconds(clause)) for clause in re.split(r"[,;] ", text)]
    default = [max(took) for clause, took in clauses if took and phrases.has("by_default", clause)]
    switched = [max(took) for clause, took in clauses if took and phrases.has("off", clause)]
    if len(default) != 1 or len(switched) != 1 or default[0] < MIN_GAIN * switched[0]:
        return None
    return default[0] / switched[0]


def _gain(part: str, before: Sequence[str], spans: Sequence[str]) -> float | None:
    """Return the ratio of improvement by the figures in `part` and the text before it; None if there is none."""
    if times := _TIMES.search(part):
        return 2.0 if times["half"] else float(times["n"])
    if change := _FROM_TO.search(part):
        first, last = float(change["a"]), float(change["b"])
        return max(first, last) / min(first, last) if first and last and first > last else None
    earlier = " ".join((*before, *spans[:-1]))
    if language().effects["growth"].search(part) and (size := _bytes(part)) and _bytes(earlier) >= MIN_GAIN * size:
        return _bytes(earlier) / size
    if (new := _seconds(part)) and (old := _seconds(earlier)) and max(old) >= MIN_GAIN * min(new):
        return max(old) / min(new) if language().has("work_or_wait", part) else None
    return None
