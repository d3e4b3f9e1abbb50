"""Lints of everything in a rule but its checks: relations, remedies, patterns, references, texts, form, cases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

import re2

from thpdiag.engine.check_result import check_class
from thpdiag.engine.lint.issue import Cases, LintIssue, RuleSet, lint, parse_allows
from thpdiag.engine.load import Rule, Where, builtin_rules
from thpdiag.engine.schema import Check, EventCheck, FactCheck, ProcessCheck, ProfileCheck, RuleCheck, RuleFile, as_list
from thpdiag.knowledge.mechanisms import cures, look_alikes, mechanisms, remedies
from thpdiag.knowledge.vocabulary import event, names, term
from thpdiag.knowledge.yaml_nodes import suggestion
from thpdiag.model import Verdict3
from thpdiag.model.facts import OPERATOR_KINDS

# Other rules, role and mechanism

LISTS = ("excluded_by", "demoted_by", "raised_by", "explains")
KINDS = {"root_cause": ("thp",), "alternative": ("alternative", "none")}


@lint("a rule in one of its own lists")
def refers_to_itself(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for key in LISTS:
        if rule.id in getattr(rule.file, key):
            yield LintIssue(f"a rule cannot name itself in {key}; take it out", (key,), rule.id)


@lint("one rule in two lists that contradict each other")
def excluded_and_demoted(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    file = rule.file
    for first, second in (("excluded_by", "demoted_by"), ("excluded_by", "raised_by"), ("demoted_by", "raised_by")):
        for name in dict.fromkeys(getattr(file, first)):
            if name in getattr(file, second):
                yield LintIssue(f"{name} is also in {first}; keep one of the two", (second,), name)


@lint("a duplicate entry in a list")
def listed_twice(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for key in (*LISTS, "remedies", "references", "examples", "false_positives"):
        seen: set[str] = set()
        for i, word in enumerate(getattr(rule.file, key)):
            if word in seen:
                yield LintIssue(f"'{word}' is twice in {key}; take one out", (key, i))
            seen.add(word)


@lint("two rules that explain each other")
def explain_each_other(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    for name in rule.file.explains:
        other = rule_set.rules.get(name)
        decided = other and (name in rule.file.demoted_by or rule.id in other.file.demoted_by)
        if other and rule.id in other.file.explains and name != rule.id and not decided:
            message = f"{name} explains {rule.id} too; let one of them be demoted_by the other"
            yield LintIssue(message, ("explains",), name)


@lint("a rule that both follows from this one and excludes it")
def explains_its_excluder(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    file = rule.file
    for name in file.explains:
        if name in file.excluded_by:
            message = f"{name} cannot follow from this rule and exclude it; keep one of explains and excluded_by"
            yield LintIssue(message, ("explains",), name)


@lint("a check for a rule that excludes anyway")
def excluder_checked_too(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """`excluded_by` and a check of the same rule are redundant."""
    for name, check in rule.checks.items():
        if isinstance(check, RuleCheck) and check.is_ == "silent" and check.rule in rule.file.excluded_by:
            message = f"excluded_by names {check.rule} already; take the check or the entry out"
            yield LintIssue(message, ("checks", name), check.rule)


@lint("a cause without a way to distinguish its look-alikes")
def look_alikes_not_faced(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """A cause must name its look-alikes, by a rule that excludes or demotes it or in words."""
    file = rule.file
    known = look_alikes(file.mechanism)
    if file.role != "root_cause" or not known or file.excluded_by or file.demoted_by or file.false_positives:
        return
    message = (
        f"{', '.join(known)} can look like {file.mechanism}; add excluded_by or demoted_by with a rule of these, or "
    )
    yield LintIssue(message + "explain in false_positives how to distinguish them", ("role",))


@lint("a root cause without huge pages, or an alternative with them")
def role_against_mechanism(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    known = mechanisms().get(rule.file.mechanism)
    wanted = KINDS.get(rule.file.role)
    if known and wanted and known.kind not in wanted:
        message = f"{known.name} is of kind {known.kind}, which no {rule.file.role} has (mechanisms.yaml); mend one"
        yield LintIssue(message, ("role",))


# Remedies: they exist, cure the mechanism, and have a verification

_VAGUE = re.compile(
    r"\b(?:problems?|issues?|troubles?|it|everything|things?) (?:is|are|was|has|have|should be)? ?"
    r"(?:gone|solved|resolved|fixed|better|fine|improved|normal)\b|\bworks? again\b|\bas expected\b",
    re.IGNORECASE,
)


@lint("a remedy that remedies.yaml does not have")
def unknown_remedy(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    known = remedies()
    for i, word in enumerate(rule.file.remedies):
        if word not in known:
            yield LintIssue(f"unknown remedy '{word}'{suggestion(word, known)}", ("remedies", i))


@lint("a remedy that does not cure the mechanism")
def remedy_does_not_cure(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    known, mechanism = remedies(), rule.file.mechanism
    for i, word in enumerate(rule.file.remedies):
        if word in known and mechanism in mechanisms() and not cures(known[word], mechanism):
            others = [n for n, r in known.items() if r["cures"] != "any" and cures(r, mechanism)][:4]
            hint = f"; {', '.join(others)} would" if others else ""
            yield LintIssue(f"'{word}' does not cure {mechanism} (remedies.yaml, cures){hint}", ("remedies", i))


@lint("a cause without a remedy")
def cause_without_remedy(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    if rule.file.role in ("root_cause", "alternative") and not rule.file.remedies:
        yield LintIssue("a cause has a remedy, if only `not-thp` or `collect-more`", ("role",))


@lint("a cure without a word on how it is verified")
def cure_without_verification(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    if rule.file.role == "root_cause" and not rule.file.verify:
        yield LintIssue("a root cause needs a way to verify its cure (verify:)", ("role",))
    elif rule.file.remedies and not rule.file.verify and rule.file.role != "context":
        yield LintIssue("remedies without verify: name the number that must change", ("remedies",))


@lint("a verification that cannot be measured")
def vague_verification(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    if match := _VAGUE.search(rule.file.verify):
        message = f"'{match[0]}' cannot be measured; name the number, its change, and where to read it"
        yield LintIssue(message, ("verify",), match[0].split()[0])


# Regular expressions: RE2 accepts them, and they are selective

NO_NAME = "\x01 no name \x02"  # matched only by patterns that match everything


def _patterns(rule: Rule) -> Iterator[tuple[Where, str]]:
    """The key and text of each pattern. Those of commands must match the whole text, those of facts a part of it."""
    for name, check in rule.checks.items():
        match check:
            case FactCheck() if check.matches is not None:
                yield ("checks", name, "matches"), check.matches
            case ProcessCheck():
                for key in ("comm", "args"):
                    if pattern := getattr(check.process, key):
                        yield ("checks", name, "process", key), pattern
            case ProfileCheck() if check.profile.comm is not None:
                yield ("checks", name, "profile", "comm"), check.profile.comm


@lint("a regular expression that RE2 does not take")
def bad_pattern(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for where, pattern in _patterns(rule):
        if mistake := _pattern_error(pattern):
            message = f"'{pattern}' is not an RE2 regular expression: {mistake}"
            yield LintIssue(f"{message} (it has no look-around and no back-references)", where)


def _pattern_error(pattern: str) -> str:
    quiet = re2.Options()
    quiet.log_errors = False  # RE2 would write to stderr
    try:
        re2.compile(pattern, quiet)
    except re2.error as error:
        return str(error)
    return ""


@lint("a regular expression that matches everything")
def pattern_of_everything(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for where, pattern in _patterns(rule):
        if _pattern_error(pattern):
            continue
        is_match = re2.search(pattern, NO_NAME) if where[-1] == "matches" else re2.fullmatch(pattern, NO_NAME)
        if is_match:
            message = f"'{pattern}' matches everything; write what is looked for, or `present: true`"
            yield LintIssue(message if where[-1] == "matches" else message.partition(", or")[0], where)


@lint("^ or $ in a pattern that is matched whole")
def needless_anchor(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for where, pattern in _patterns(rule):
        if where[-1] == "comm" and (pattern.startswith("^") or pattern.endswith("$")):
            message = f"'{pattern}' is matched whole anyway; write it without ^ and $"
            yield LintIssue(message, where)


# References can be looked up, and examples exist

KERNEL = (
    "Documentation", "arch", "block", "crypto", "drivers", "fs", "include", "init", "io_uring", "ipc", "kernel", "lib",
    "mm", "net", "samples", "scripts", "security", "sound", "tools", "virt",
)  # fmt: skip
_SOURCE = re.compile(r"(?<![\w./-])(?P<top>[\w-]+)/[\w./-]*[\w-]+\.(?:c|h|S|rst|txt)\b")
_REFERENCE_FORM = re.compile(
    r"https?://|[\w.-]+/[\w.-]+#\d+|\w+\(\d\w?\)|[\w-]+/[\w./-]+|\b(?:CVE|RHSA|JDK|MDEV|LU|KB)-?\d+|"
    r"(?:\S+\s+){3,}\S+"  # an observation takes a sentence
)
_LOCAL = re.compile(r"(?<![\w.])/(?:root|home|tmp|work|Users)/|\blocalhost\b")


@lint("a reference that cannot be looked up")
def reference_form(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for i, text in enumerate(rule.file.references):
        if _LOCAL.search(text):
            yield LintIssue("others cannot look this up; name a public source", ("references", i))
        elif not _REFERENCE_FORM.search(text):
            message = "name a file of the kernel, a manual page, a URL, project#number, or describe what was seen"
            yield LintIssue(message, ("references", i))


@lint("a path that is not in the kernel's source")
def reference_folder(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for i, text in enumerate(rule.file.references):
        for match in _SOURCE.finditer(text):
            if "://" in text[: match.start()]:
                break
            if match["top"] not in KERNEL and not match["top"].lower().startswith(("hotspot", "src", "zfs")):
                hint = suggestion(match["top"], KERNEL)
                message = f"'{match['top']}/' is not a folder of the kernel's source{hint}"
                yield LintIssue(message, ("references", i), match["top"])


@lint("an example that is not a fixture")
def missing_example(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    folder = fixtures()
    for i, example in enumerate(rule.file.examples if folder else ()):
        if folder and not folder.joinpath(*example.split("/")).is_dir():
            known = [f"{f.parent.name}/{f.name}" for f in folder.glob("*/*")]
            yield LintIssue(f"no fixture '{example}'{suggestion(example, known)}", ("examples", i))


def fixtures() -> Path | None:
    """Return the fixtures of a checkout; None for an installed package."""
    rules = builtin_rules()
    folder = rules.parent / "fixtures" if isinstance(rules, Path) else None
    return folder if folder is not None and folder.is_dir() else None


# Texts: a title is a state, the reader is not blamed, explanations give no advice

MAX_CHARS = 360  # of a rule file
ORDERS = (
    "Add", "Adjust", "Avoid", "Change", "Check", "Configure", "Decrease", "Disable", "Do", "Enable", "Ensure",
    "Increase", "Lower", "Make", "Raise", "Reduce", "Remove", "Set", "Stop", "Switch", "Tune", "Turn", "Try", "Update",
    "Upgrade", "Use", "Verify",
)  # fmt: skip
_BLAME = re.compile(
    r"\b(?:user error|operator error|your (?:fault|mistake)|misconfigur\w+|careless\w*|foolish\w*|stupid\w*|"
    r"(?:wrong|bad)ly (?:configured|tuned|sized|written)|obviously|of course|simply|should have known|forgot\w*)\b",
    re.IGNORECASE,
)
_DISABLE = re.compile(
    r"(?:(?:^|[.;:] )(?:please )?(?:disable|turn off|switch off)|(?:must|should|please|better|has to|have to) "
    r"(?:be )?(?:disabled?|(?:turn(?:ed)?|switch(?:ed)?) (?:it |them |THP |huge pages )?off))\b",
    re.IGNORECASE,
)
_TODO = re.compile(r"\b(?:TODO|FIXME|XXX|TBD)\b")
_SENTENCE = re.compile(r"[.!?)]\"?$")


def _texts(rule: Rule) -> Iterator[tuple[Where, str]]:
    """The texts that readers of reports and of the catalogue see."""
    file = rule.file
    yield ("title",), file.title
    yield ("means",), file.means
    yield ("verify",), file.verify
    yield from ((("false_positives", i), text) for i, text in enumerate(file.false_positives))
    yield from ((("references", i), text) for i, text in enumerate(file.references))
    yield from ((("params", name, "means"), param.means) for name, param in file.params.items())


@lint("a title that is an order instead of a state")
def title_is_an_order(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    first = rule.file.title.split()[0]
    if first in ORDERS:
        yield LintIssue(f"the title gives an order ('{first}'); describe the state", ("title",), first)


@lint("a title with a full stop, or in capitals")
def title_ending(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    title = rule.file.title
    if title.endswith("."):
        yield LintIssue("a title has no full stop", ("title",))
    elif title.endswith(("!", "?")):
        yield LintIssue(f"a title ends without '{title[-1]}'; describe the state", ("title",))
    elif title.isupper():
        yield LintIssue("a title in capitals shouts; write it as a sentence", ("title",))


@lint("an explanation that does not end as a sentence")
def no_sentence(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for key, text in (("means", rule.file.means), ("verify", rule.file.verify)):
        if text and not _SENTENCE.search(text.strip()):
            yield LintIssue(f"{key} ends without a full stop; write whole sentences", (key,))


@lint("an explanation that only repeats the title")
def means_repeats_title(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    means, title = (" ".join(text.lower().split()) for text in (rule.file.means, rule.file.title))
    if title in means and len(means) < 3 * len(title):
        yield LintIssue("means repeats the title; explain the mechanism and why it hurts", ("means",))


@lint("words that blame the reader")
def blaming_word(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for where, text in _texts(rule):
        if match := _BLAME.search(text):
            word = match[0].split()[0]
            message = f"'{match[0]}' blames the reader; describe what is set and its effect"
            yield LintIssue(message, where, word)


@lint("an advice to disable huge pages outside the remedies")
def advice_in_text(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for where, text in _texts(rule):
        if where[0] in ("means", "verify") and (match := _DISABLE.search(text)):
            words = match[0].strip(" .;:")
            message = f"'{words}' is an advice; remedies give it, with command, cost and undo"
            yield LintIssue(message, where, words.split()[0])


@lint("something that is left to write")
def todo(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for where, text in _texts(rule):
        if match := _TODO.search(text):
            yield LintIssue(f"{text.strip()[:80]}", where, match[0])


@lint("a line too long to read")
def long_line(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    for number, row in enumerate(rule.source.text.splitlines(), 1):
        if len(row) > MAX_CHARS:
            message = f"line {number} has {len(row)} characters; fold it (>-) or break it at a comma, below {MAX_CHARS}"
            yield LintIssue(message, rule.source.key_at(number))


# Form: unique title and condition, the usual order of keys, a matching file name and id

ORDER = tuple(RuleFile.model_fields)
ROLES = {"ALT": ("alternative",), "CTX": ("context",)}  # roles of thpdiag's own prefixes; packs define theirs
_FILE_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\.yaml")
STOP_WORDS = frozenset(
    ("a", "an", "the", "of", "on", "in", "at", "by", "for", "and", "or", "not", "no", "to", "with", "without")
)


def condition_key(rule: Rule) -> str:
    """Return a key that is equal for rules with the same checks and condition, regardless of their names."""
    names = {name: f"c{i}" for i, name in enumerate(rule.checks)}
    checks = ";".join(f"{type(check).__name__}({check})" for check in rule.checks.values())
    when = re.sub(r"[A-Za-z_][\w-]*", lambda match: names.get(match[0], match[0]), str(rule.when))
    return f"{rule.file.for_each}|{checks}|{when}"


@lint("two rules with one title")
def duplicate_title(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    first = rule_set.titles.get(rule.file.title.lower(), rule)
    if first.id != rule.id:
        yield LintIssue(f"{first.id} has this title ({first.source.path}); describe the difference", ("title",))


@lint("two rules with the same checks and condition")
def duplicate_condition(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    first = rule_set.conditions.get(condition_key(rule), rule)
    if first.id != rule.id:
        message = (
            f"{first.id} has the same checks and condition ({first.source.path}); keep one, or describe the difference"
        )
        yield LintIssue(message, ("when",))


@lint("keys in another order than in the other rules")
def key_order(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    keys = [str(where[0]) for where in rule.source.places if len(where) == 1]
    last = -1
    for key in keys:
        if key in ORDER and ORDER.index(key) < last:
            after = [k for k in keys if k in ORDER and ORDER.index(k) < ORDER.index(key)]
            message = f"'{key}' belongs further up, after '{after[-1]}'" if after else f"'{key}' must be first"
            yield LintIssue(message, (key,))
        elif key in ORDER:
            last = ORDER.index(key)


@lint("a file name that does not fit the rule")
def file_name(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    name = PurePath(rule.source.path).name
    if not _FILE_NAME.fullmatch(name):
        small = re.sub(r"[^a-z0-9]+", "-", name.removesuffix(".yaml").lower()).strip("-")
        yield LintIssue(f"the file's name is small words with hyphens; call it {small or 'name'}.yaml", ("id",))
        return
    text = _all_words(rule)
    words = [w for w in name.removesuffix(".yaml").split("-") if w not in STOP_WORDS]
    if not any((word if len(word) < 5 else word[: max(4, len(word) - 3)]) in text for word in words):
        message = f"the file is called {name}, which has no words of the rule; call it {rule.file.mechanism}.yaml"
        yield LintIssue(f"{message} or after the title", ("title",))


def _all_words(rule: Rule) -> str:
    file = rule.file
    words = (file.id, file.title, file.mechanism, file.means, str(file.checks), *file.checks, *file.remedies)
    return " ".join(words).lower()


@lint("an id whose prefix does not fit the role")
def id_prefix(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    prefix, role = rule.id.partition("-")[0], rule.file.role
    wanted = ROLES.get(prefix)
    if wanted and role not in wanted:
        yield LintIssue(f"an id with {prefix} is of role {wanted[0]}, not {role}; choose another prefix", ("id",))
    elif prefix == "THP" and role == "context":
        yield LintIssue("an id with THP is a finding; context begins with CTX", ("id",))


@lint("`# lint: allow NAME` without a reason")
def allow_without_reason(rule: Rule, _: RuleSet) -> Iterator[LintIssue]:
    """An allow comment must have a reason and name a lint."""
    for comment in parse_allows(rule.source.text):
        if comment.name and len(comment.reason.split()) < 2:
            message = f"give a reason: # lint: allow {comment.name} REASON"
            yield LintIssue(message, rule.source.key_at(comment.line))


# Cases: every kind is present, look-alikes are included, and names exist

OUTCOMES = ("fires", "silent", "unknown")
MIN_LOOK_ALIKES = 2


def _outcomes(cases: Cases) -> list[str]:
    return [str(row.get("outcome", "")) for row in cases.rows]


@lint("a rule without cases", of_cases=True)
def no_cases(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    if rule.id not in rule_set.cases:
        name = rule.source.path.removesuffix(".yaml")
        yield LintIssue(f"no cases; write {name}.cases.yaml (thpdiag rules new shows the form)", ("id",))


@lint("no case that fires, is silent, is unknown, or is excluded", of_cases=True)
def case_kinds(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    cases = rule_set.cases.get(rule.id)
    if cases is not None and (missing := missing_kinds(rule, cases)):
        yield LintIssue(f"no case with outcome {', '.join(missing)}; add one each", (), source=cases.source)


def missing_kinds(rule: Rule, cases: Cases | None) -> tuple[str, ...]:
    """Return the outcomes that at least one case of the rule should have and none has."""
    outcomes = _outcomes(cases) if cases else []
    required = (*OUTCOMES, "excluded") if rule.file.excluded_by else OUTCOMES
    optional = {"silent"} if "excluded" in outcomes or not _can_be_silent(rule) else set()
    if all(check_class(check) == "testimony" for check in rule.checks.values()):  # the absence of testimony is known
        optional.add("unknown")
    return tuple(kind for kind in required if kind not in outcomes and kind not in optional)


def _can_be_silent(rule: Rule) -> bool:
    """Whether the condition can be no. No input can deny that something is present or was done."""
    answers = {name: Verdict3.UNKNOWN if _is_undeniable(check) else Verdict3.NO for name, check in rule.checks.items()}
    return rule.when.value(lambda name: answers[name]) is Verdict3.NO


def _is_undeniable(check: Check) -> bool:
    if isinstance(check, EventCheck):
        return set(as_list(check.event)) <= OPERATOR_KINDS
    return isinstance(check, FactCheck) and check.present is True


@lint("fewer than two silent cases", of_cases=True)
def few_look_alikes(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    """Silent cases are hosts that resemble the problem and do not have it."""
    if (cases := rule_set.cases.get(rule.id)) is None or rule.file.role == "context":
        return
    count = sum(outcome in ("silent", "excluded") for outcome in _outcomes(cases))
    if 0 < count < MIN_LOOK_ALIKES:
        message = "only one case is silent; add a host that looks alike and has something else"
        yield LintIssue(message, _last_with_outcome(cases, "silent"), source=cases.source)


def _last_with_outcome(cases: Cases, outcome: str) -> tuple[int, ...]:
    indices = [i for i, row in enumerate(cases.rows) if row.get("outcome") == outcome]
    return (indices[-1],) if indices else ()


@lint("a confidence level that no case states", of_cases=True)
def level_without_case(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    if (cases := rule_set.cases.get(rule.id)) is None:
        return
    stated = {str(row.get("confidence")) for row in cases.rows}
    for level in rule.confidence:
        if level not in stated:
            yield LintIssue(
                f"no case expects the rule to be {level}; add one with confidence: {level}", (), source=cases.source
            )


@lint("two cases of one name", of_cases=True)
def case_name_twice(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    if (cases := rule_set.cases.get(rule.id)) is None:
        return
    seen: set[str] = set()
    for i, row in enumerate(cases.rows):
        if (name := str(row.get("name", ""))) in seen:
            yield LintIssue(f"two cases are called '{name}'; describe the difference", (i, "name"), source=cases.source)
        seen.add(name)


@lint("an unknown fact, metric, or event in a case", of_cases=True)
def unknown_name_in_case(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    """A misspelled name makes a host without that value, whose silent case proves nothing."""
    if (cases := rule_set.cases.get(rule.id)) is None:
        return
    for i, row in enumerate(cases.rows):
        yield from _unknown_names((i,), row, cases)
        states = row.get("states")
        for j, state in enumerate(states if isinstance(states, list) else ()):
            yield from _unknown_names((i, "states", j), state, cases)


def _unknown_names(parent: tuple[str | int, ...], row: object, cases: Cases) -> Iterator[LintIssue]:
    if not isinstance(row, Mapping):
        return
    for key in ("facts", "series"):
        entries = row.get(key)
        for key_text in entries if isinstance(entries, Mapping) else ():
            name = re.sub(r"\{.*", "", str(key_text))
            if term(name) is None:
                message = f"'{name}' is not in the vocabulary{suggestion(name, names())}"
                yield LintIssue(message, (*parent, key, key_text), source=cases.source)
    events = row.get("events")
    for j, item in enumerate(events if isinstance(events, list) else ()):
        kind = str(item.get("kind", "")) if isinstance(item, Mapping) else ""
        if event(kind) is None:
            message = f"unknown event '{kind}'{suggestion(kind, names())}"
            yield LintIssue(message, (*parent, "events", j), kind, source=cases.source)


@lint("a case that fires on an empty host", of_cases=True)
def empty_case(rule: Rule, rule_set: RuleSet) -> Iterator[LintIssue]:
    """A case must have data to fire."""
    if (cases := rule_set.cases.get(rule.id)) is None:
        return
    data_keys = ("facts", "series", "stacks", "flat", "off_cpu", "calls", "events", "processes", "states", "read")
    for i, row in enumerate(cases.rows):
        if row.get("outcome") in ("fires", "excluded") and not any(row.get(key) for key in data_keys):
            yield LintIssue("an empty host cannot fire; add facts, series or stacks", (i,), source=cases.source)
