"""The rules of this server: a searchable list, and a page of each rule.

The content is that of `thpdiag rules docs` for the rules and thresholds of this server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from thpdiag.authoring.catalogue import RELATION_TITLES, ROLES, check_words, remedies_of, subject_prefix
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import EventCheck, as_list
from thpdiag.engine.wording import term_meaning
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.vocabulary import event, term
from thpdiag.model.finding import SEVERITIES
from thpdiag.report.escaping import prose
from thpdiag.serve.pages.render import not_found, render_page
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import CaseFilter

MAX_QUERY_CHARS: Final = 255
PROFILE, LOG = "profile", "kernel_log"


@dataclass(frozen=True, slots=True)
class Need:
    """Data that a check needs: its name and meaning, and the command that collects it, if there is one."""

    name: str
    means: str
    ask_for: str = ""


def rule_list(request: Request, server: Server) -> Response:
    words = request.query_params.get("q", "").strip()[:MAX_QUERY_CHARS]
    severity = request.query_params.get("severity", "")
    severity = severity if severity in SEVERITIES else ""
    rules = [rule for rule in server.rules if severity in ("", rule.file.severity) and matches(rule, words)]
    return render_page(
        request, server, "rules.html", title="Rules",
        groups=group_by_role(rules), found=len(rules), all=len(server.rules), words=words, severity=severity,
        severities=SEVERITIES[::-1], digest=server.analysis.rules_digest,
    )  # fmt: skip


def rule_page(request: Request, server: Server) -> Response:
    by_id = {rule.id: rule for rule in server.rules}
    rule = by_id.get(request.path_params["id"])
    if rule is None:
        raise not_found("This server has no rule of that name.")
    return render_page(
        request, server, "rule.html", title=f"{rule.id}: {rule.file.title}",
        rule=rule, mechanism=mechanisms().get(rule.file.mechanism), origin=rule_origin(rule), whom=subject_prefix(rule),
        checks={name: mark_code(check_words(check)) for name, check in rule.checks.items()},
        needs=list(needs_of_rule(rule)),
        related=related_rules(rule, by_id), remedies=[(name, mark_code(reason)) for name, reason in remedies_of(rule)],
        marked=mark_code, cases=server.storage.cases.count(CaseFilter(rule=rule.id)),
    )  # fmt: skip


def matches(rule: Rule, words: str) -> bool:
    """Whether all words are in the texts of a rule."""
    file, mechanism = rule.file, mechanisms().get(rule.file.mechanism)
    title = mechanism.title if mechanism else ""
    needs = (name for check in rule.checks.values() for name in check.needs)
    texts = (file.id, file.title, file.mechanism, title, file.means, file.severity, file.status, ROLES[file.role])
    text = " ".join((*texts, *needs, *file.remedies)).lower()
    return all(word in text for word in words.lower().split())


def group_by_role(rules: Sequence[Rule]) -> list[tuple[str, list[Rule]]]:
    """Group rules by role, in the order of the catalogue, and sort them by id."""
    ordered = sorted(rules, key=lambda rule: rule.id)
    groups = ((heading, [rule for rule in ordered if rule.file.role == role]) for role, heading in ROLES.items())
    return [(heading, group) for heading, group in groups if group]


def needs_of_rule(rule: Rule) -> Iterator[Need]:
    """Yield the data that the checks of a rule need, each once."""
    names = dict.fromkeys(name for check in rule.checks.values() for name in check.needs)
    for name in names:
        if name == PROFILE:
            means = "where the time goes: stacks or functions by their share of the samples"
            yield Need(name, means, "perf record -a -g -F 99 -- sleep 30")
        elif name == LOG:
            kinds = [
                kind for check in rule.checks.values() if isinstance(check, EventCheck) for kind in as_list(check.event)
            ]
            commands = dict.fromkeys(known.ask_for for kind in kinds if (known := event(kind)))
            yield Need(name, "messages of the kernel", ", ".join(commands))
        else:
            known = term(name) or event(name)
            means = term_meaning(name) if term(name) else known.means.partition(" (")[0] if known else ""
            yield Need(name, means, known.ask_for if known else "")


def related_rules(rule: Rule, rules: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return lists of rules that interact with this one, each with its title; empty for a rule that is not loaded."""
    lists = ((words, getattr(rule.file, key)) for key, words in RELATION_TITLES)
    return [(words, [(n, rules[n].file.title if n in rules else "") for n in names]) for words, names in lists if names]


def rule_origin(rule: Rule) -> str:
    """Return the rule pack with its version; paths of this server are not shown."""
    pack = rule.source.pack
    return f"{pack.name} {pack.version}" if pack and pack.version else "a folder of this server"


def mark_code(text: str) -> Markup:
    """Escape a text of a rule and format what is between backticks as code."""
    pieces = enumerate(prose(text).split("`"))
    return Markup().join(Markup("<code>{}</code>").format(piece) if i % 2 else escape(piece) for i, piece in pieces)
