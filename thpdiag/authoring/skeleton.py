"""`rules new`: templates for a rule and its cases.

They load and their cases pass; lint only complains about the parts marked TODO. Each line has a comment on its use.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from thpdiag.authoring.formatting import format_rules
from thpdiag.engine.lint.rule_file import ROLES
from thpdiag.engine.load import Rule
from thpdiag.errors import UsageError
from thpdiag.knowledge.mechanisms import Mechanism, cures, look_alikes, mechanisms, remedies, verifications
from thpdiag.knowledge.yaml_nodes import suggestion

KIND_ROLES = {"thp": "root_cause", "alternative": "alternative", "none": "context"}
PREFIXES = {"root_cause": "THP", "alternative": "ALT", "context": "CTX"}
MAX_REMEDIES = 3


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The content of two files: `name`.yaml and `name`.cases.yaml."""

    name: str
    rule: str
    cases: str


def skeleton(subject: str, rules: Sequence[Rule], mechanism: str = "") -> Skeleton:
    """Return templates for an id (ACME-01), or for a mechanism (memory-leak) with the next free id."""
    all_mechanisms = mechanisms()
    if subject.lower() in all_mechanisms:
        selected = all_mechanisms[subject.lower()]
        identity = _next_id(PREFIXES[KIND_ROLES[selected.kind]], rules)
    elif "-" in subject and subject.rpartition("-")[2].isdigit():
        identity = subject.upper()
        if any(rule.id == identity for rule in rules):
            raise UsageError(f"there is a rule {identity} already (thpdiag rules show {identity})")
        selected = _mechanism(identity, rules, mechanism)
    else:
        raise UsageError(
            f"'{subject}' is neither an id such as ACME-01 nor a mechanism{suggestion(subject, all_mechanisms)}"
        )
    return Skeleton(selected.name, format_rules(_rule(identity, selected)), format_rules(_cases()))


def _next_id(prefix: str, rules: Sequence[Rule]) -> str:
    taken = [int(rule.id.partition("-")[2]) for rule in rules if rule.id.startswith(f"{prefix}-")]
    number = max(taken, default=0) + 1
    return f"{prefix}-{number:03}" if prefix == "THP" else f"{prefix}-{number:02}"


def _mechanism(identity: str, rules: Sequence[Rule], name: str) -> Mechanism:
    """The named mechanism, or else one that fits the prefix, if possible without a rule."""
    known = mechanisms()
    if name:
        if name not in known:
            raise UsageError(f"no mechanism '{name}'{suggestion(name, known)}")
        return known[name]
    roles = ROLES.get(identity.partition("-")[0], ("root_cause",))
    fitting = [m for m in known.values() if KIND_ROLES[m.kind] in roles]
    used = {rule.file.mechanism for rule in rules}
    return next((m for m in fitting if m.name not in used), fitting[0])


def _rule(identity: str, mechanism: Mechanism) -> str:
    role = KIND_ROLES[mechanism.kind]
    parts = [
        _header(identity, mechanism, role),
        CHECKS,
        _folded("means", f"{mechanism.sentence} TODO: how it comes about, why it hurts, and what it is not."),
    ]
    if role != "context":
        parts.append(_cure(mechanism))
    look = look_alikes(mechanism.name) or ("something else",)
    parts.append("false_positives:   # look-alikes, and how to distinguish them")
    parts += [f'  - "TODO what distinguishes {name} from it."' for name in look]
    parts.append(
        "references:   # a file of the kernel, a manual page, a URL, project#number, or what was measured where"
    )
    parts.append('  - "TODO where this can be looked up: mm/compaction.c, a report, a recording"')
    return "\n".join(parts) + "\n"


def _header(identity: str, mechanism: Mechanism, role: str) -> str:
    title = mechanism.title[:1].lower() + mechanism.title[1:]
    return textwrap.dedent(f"""\
        # `thpdiag rules lint FOLDER` says what is left to do,
        # `thpdiag rules test {identity} --rules FOLDER` runs the cases.
        id: {identity}
        title: "TODO say as a state: {title[:80]}"
        status: draft   # draft | test | stable | deprecated
        severity: medium   # critical | high | medium | low | info
        mechanism: {mechanism.name}
        role: {role}   # root_cause | contributing | configuration | risk | alternative | context
        # for_each: process   # if all checks must hold of one and the same process (or zone, cpu, device)""")


CHECKS = """\
params:   # every number has a reason: what less would mean, what a healthy host shows, who measured it
  share: {default: 10 %, means: TODO why this share; below it other work dominates}
  rate: {default: 2 /s, means: TODO why this rate; a healthy host shows less than that}
checks:   # `thpdiag rules schema` has all forms; names of facts and metrics are those of the vocabulary
  sampled: {profile: {anywhere: compaction, at_least: $share}}
  rising: {series: node_vmstat_compact_stall, as: rate, above: $rate, for: 30 % of samples}
when: sampled or rising
confidence:   # likely takes a stack, a counter's change or an effect; confirmed takes two of them, or a toggle
  likely: sampled or rising
  confirmed: sampled and rising
# excluded_by: [ALT-02]   # not given where this one fires
# demoted_by: [ALT-14]   # steps back behind this one
# explains: [THP-022]   # what follows from it"""


def _cure(mechanism: Mechanism) -> str:
    known = remedies()
    fitting = [name for name, row in known.items() if row["cures"] != "any" and cures(row, mechanism.name)]
    fitting.sort(key=lambda name: known[name].get("order", 99))
    first = verifications(mechanism.name)[0]
    names = ", ".join(fitting[:MAX_REMEDIES]) or "collect-more"
    verify = _folded("verify", f"TODO check this: {first['metric']}: {first['expect']}.")
    return f"remedies: [{names}]   # least invasive first, only what cures this mechanism\n{verify}"


def _folded(key: str, text: str) -> str:
    lines = textwrap.wrap(text, 130, initial_indent="  ", subsequent_indent="  ")
    return "\n".join([f"{key}: >-", *lines])


def _cases() -> str:
    return """\
# Small hosts and what the rule must say of them.
# Every check must be noticed by a case when it is turned round.
- name: the stacks alone
  stacks: ["isolate_migratepages_block < compact_zone < try_to_compact_pages 18 [java]", "main 82 [java]"]
  outcome: fires
  confidence: likely
- name: the counter alone
  series: {node_vmstat_compact_stall: "1000+30x12 @10s"}
  outcome: fires
  confidence: likely
- name: stacks and counter
  stacks: ["isolate_migratepages_block < compact_zone < try_to_compact_pages 18 [java]", "main 82 [java]"]
  series: {node_vmstat_compact_stall: "1000+30x12 @10s"}
  outcome: fires
  confidence: confirmed
- name: just below both marks
  stacks: ["isolate_migratepages_block < compact_zone < try_to_compact_pages 9 [java]", "main 91 [java]"]
  series: {node_vmstat_compact_stall: "1000+19x12 @10s"}
  outcome: silent
- name: a look-alike, a host short of memory
  stacks: ["shrink_inactive_list < shrink_lruvec < try_to_free_pages < __alloc_pages 40 [java]", "main 60 [java]"]
  series: {node_vmstat_compact_stall: "1000+0x12 @10s"}
  outcome: silent
- name: nothing known
  outcome: unknown
"""
