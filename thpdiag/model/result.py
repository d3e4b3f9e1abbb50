"""The result document: what thpdiag says about a host, as frozen models; its JSON Schema is made of them."""

# Annotations are evaluated where they stand: as strings pydantic would compile each of them at every start.

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer

from thpdiag.model.document import (
    AtLeastOne,
    Checksum,
    Command,
    Count,
    Document,
    Entity,
    Function,
    HostName,
    Metric,
    Module,
    Number,
    Place,
    Positive,
    Public,
    Quoted,
    Release,
    Sentence,
    Share,
    Stack,
    Worded,
    json_schema,
    plain_document,
    read_document,
)  # fmt: skip

SCHEMA: Final = "thpdiag/result/1"
CLOCK = (
    "What times count: seconds since 1970 (utc, or local with an unknown zone), since a midnight of unknown date "
    "(day), since boot, those that the commands of a pasted session name (session), or samples."
)

Severity = Literal["critical", "high", "medium", "low", "info"]
Confidence = Literal["confirmed", "likely", "possible"]
Clock = Literal["utc", "local", "day", "boot", "session", "sample"]
Panel = Literal["cpu", "huge_pages", "memory", "free_blocks", "processes", "call_stacks"]
Role = Literal["root_cause", "contributing", "configuration", "risk", "alternative", "context"]
EvidenceClass = Annotated[
    Literal[
        "stack", "counter", "cpu", "effect", "toggle", "total", "state", "policy", "log", "application", "action",
        "testimony",
    ],
    Field(
        description="A class of evidence: call stacks; the change of a kernel counter; the split of CPU time; "
        "growth, pace or load; an on/off comparison; a total since boot; the state of host and memory; settings; "
        "kernel messages; an application's own logs; what an operator did; reports by people."
    ),
]  # fmt: skip
Fingerprint = Annotated[Public, Field(json_schema_extra={"pattern": "^[0-9a-f]{16}$"})]
Excerpt = Annotated[Quoted, Field(json_schema_extra={"maxLength": 300})]
Bucket = Annotated[list[Number | None], Field(min_length=4, max_length=4)]  # checked: it is taken apart
FoldedStack = Annotated[tuple[Stack, Share], PlainSerializer(list)]


HeatColumn = Annotated[Public, Field(json_schema_extra={"pattern": "^[0-9]{50}$"})]
Heat = Annotated[list[HeatColumn], Field(json_schema_extra={"maxItems": 300})]


class Cited(Document):
    """What stands in a line of the bundle."""

    member: Place | None = Field(None, description="The customer's path inside the bundle.")
    line: Count | None = Field(None, description="The line from 1, or the byte offset where the member has no lines.")


class Quotation(Cited):
    """What stands in a line of the bundle, with what the file says there."""

    excerpt: Annotated[list[Excerpt], Field(json_schema_extra={"maxItems": 12})] = Field(
        [],
        description="The quoted text of the customer's file: the cited line, below the line that "
        "names its columns if the text has one; of a sample of call stacks (kind stack) also its innermost "
        "frames, below it; of a snapshot the rows that name what was measured. Empty if the file has no lines, "
        "is a pipe whose text was not kept, has changed since, or shows the number in no single line.",
    )


class Window(Document):
    """A stretch of time."""

    from_: Number | None = Field(None, alias="from", description="Its beginning on `clock`.")
    to: Number | None = Field(None, description="Its end on `clock`.")
    clock: Clock | None = Field(None, description=CLOCK)
    text: Public | None = Field(None, description="The window for people, with how it was chosen.")


class Verdict(Worded):
    """The answer for one host."""

    status: Literal["found", "not_applicable", "nothing_found", "cannot_tell"] = Field(
        description="Whether a cause was found, and if not, why not."
    )
    rule: Public | None = Field(None, description="The rule of the finding that is the root cause; null unless found.")
    mechanism: Public | None = Field(None, description="The mechanism of that finding; null unless found.")
    severity: Severity | None = Field(None, description="Its severity; null unless found.")
    confidence: Confidence | None = Field(None, description="The confidence in it; null unless found.")
    state: Literal["present", "past", "unknown"] | None = Field(
        None, description="Whether the host is still in the state that hurts; null unless found."
    )
    sentence: Sentence | None = Field(None, description="The answer in one sentence.")
    window: Window | None = Field(None, description="The time that hurt, as asked for or as found.")


class Moment(Document):
    """A moment of a recording."""

    t: Number | None = Field(None, description="The moment on `clock`.")
    clock: Clock | None = Field(None, description=CLOCK)
    text: Public | None = Field(None, description="The moment for people, with the shares.")


class Evidence(Quotation, Worded):
    """What one check measured, with the line that it stands in."""

    check: Public | None = Field(None, description="The name of the check that has the evidence.")
    text: Sentence | None = Field(None, description="What was seen, with its numbers.")
    value: Number | Quoted | None = Field(None, description="The measured value in `unit`.")
    unit: Public | None = Field(
        None, description="The unit of the value: a base unit (bytes, seconds, ratio), 1 for a plain count."
    )
    kind: EvidenceClass | None = Field(
        None,
        description="The class of evidence; stacks, counters, and effects (the CPU split is one) are independent "
        "kinds that raise the confidence.",
    )
    excerpt_line: AtLeastOne | None = Field(
        None,
        description="For rows of a snapshot, the line of the first quoted row; the snapshot is cited by "
        "its own first line.",
    )
    onset: Moment | None = Field(
        None, description="Since when a recording of stacks has shown it, if it began while recording."
    )


class Raise(Worded):
    """Further evidence that would raise the confidence of a finding."""

    to: Confidence | None = Field(description="What the finding would become.")
    classes: list[EvidenceClass] = Field(
        [],
        description="The classes of evidence that are still needed for it; none if only other causes have to be "
        "ruled out.",
    )
    ask_for: list[Command] = Field([], description="What to request from the customer.")


class Acceptance(Document):
    """The file by which a finding is accepted."""

    by: Literal["suppression", "baseline"] | None = Field(None, description="The kind of file that accepts it.")
    reason: Quoted | None = Field(None, description="Why it is accepted.")
    expires: Public | None = Field(None, description="The last day (YYYY-MM-DD) on which it is.")


class Verification(Worded):
    """The measurement that shows whether a remedy helped."""

    metric: Public | None = Field(None, description="The number that must change.")
    expect: Public | None = Field(None, description="By how much it must change.")
    how: Command | None = Field(None, description="The command that measures it.")


class Remedy(Worded):
    """One thing to do on this host."""

    id: Public = Field(description="The name of the remedy in the knowledge.")
    reason: Sentence | None = Field(None, description="What it does and why it helps here.")
    platform: Public | None = Field(None, description="The platform that the commands are written for.")
    now: list[Command] = Field([], description="Commands that take effect at once.")
    persist: list[Command] = Field([], description="Commands that make it last over a reboot.")
    verify: Verification | None = Field(None, description="How to see that it helped.")
    undo: list[Command] = Field(
        [], description="Commands that bring the old values back, at once and for the next boot."
    )
    undo_now: list[Command] = Field([], description="Those of them that take back what `now` changed.")
    cost: Public | None = Field(None, description="What it costs and when not to do it.")
    safety: Public | None = Field(
        None, description="Whether it is safe on a live host, whether data is at risk, and when it starts to count."
    )
    restart: Sentence | bool | None = Field(None, description="Whether something has to be restarted, and what.")


class Finding(Worded):
    """A rule that fired, with its evidence and remedies."""

    rule: Public = Field(description="The rule that fired.")
    fingerprint: Fingerprint | None = Field(
        None,
        description="An identifier that stays the same in later bundles of the same host: of rule, host, and entity, "
        "without lines, times, and values.",
    )
    mechanism: Public | None = Field(None, description="The name of the mechanism in the kernel or outside it.")
    title: Public | None = Field(None, description="The finding in one line.")
    severity: Severity | None = Field(None, description="How much it hurts.")
    confidence: Confidence | None = Field(None, description="How sure it is.")
    role: Role | None = Field(
        None, description="Its place after ranking; what was folded or demoted is never root_cause."
    )
    state: Sentence | None = Field(None, description="The stretch of unchanged settings in which it was found.")
    entity: Entity | None = Field(None, description="The process, zone, cpu or device concerned, if it is about one.")
    window: Window | None = Field(
        None, description="The stretch in which it holds, if it does not hold over all that was recorded."
    )
    means: Public | None = Field(None, description="What the reader must understand, in plain words.")
    evidence: list[Evidence] = Field([], description="Evidence that supports it.")
    against: list[Evidence] = Field([], description="Evidence against it.")
    classes_spoken: list[Public] = Field([], description="Classes of evidence that support it.")
    classes_missing: list[Public] = Field(
        [],
        description="Classes of evidence that the rules about this mechanism ask for and that the bundle does not "
        "have.",
    )
    raises: list[Raise] = Field([], description="Which further evidence would make it surer, the furthest first.")
    raise_confidence: list[Sentence] = Field([], description="What would raise the confidence.")
    consequences: list[Public] = Field([], description="Rules that fired because of this one and are folded under it.")
    attached: list[Public] = Field([], description="Rules about settings and risks that belong to this one.")
    demoted_by: list[Public] = Field([], description="Rules that explain better what this one saw.")
    suppressed: Acceptance | None = Field(
        None, description="By which file this finding is accepted, and why; it then fails no gate."
    )
    remedies: list[Remedy] = Field([], description="What to do on this host, the first to try first.")


class IssueFact(Quotation, Worded):
    """What the input shows of the host that makes a known issue apply."""

    text: Sentence | None = Field(None, description="The fact, such as the kernel's release or a setting.")


class KnownIssue(Document):
    """An entry of the catalogue of known issues that applies to this host, or may; it does not affect the verdict."""

    id: Public = Field(description="The name of the entry.")
    title: Public | None = Field(None, description="What is known, in one line.")
    state: Literal["affected", "fixed-but-workaround-on", "workaround-on", "possible"] = Field(
        description="All conditions hold; the version has the fix and the settings that worked around the defect are "
        "still in force; they are in force and needed; or data is missing to decide it."
    )
    harm: Public | None = Field(
        None,
        description="What it does: data (lost), hang, stall, slow, memory, settings (not taken, or taken back), "
        "crash, figures (wrong or absent), security.",
    )
    defect: Public | None = Field(None, description="What is wrong and when it shows.")
    facts: list[IssueFact] = Field([], description="The lines of the input that it is based on.")
    missing: list[Public] = Field([], description="Names of the vocabulary that would decide it.")
    ask_for: list[Command] = Field([], description="Commands that get them from the customer.")
    fixed: Public | None = Field(None, description="The first versions with the fix; absent if none is known.")
    now: list[Command] = Field([], description="The workaround; none for what is only possible.")
    persist: list[Command] = Field([], description="Commands that make it last over a reboot.")
    undo: list[Command] = Field([], description="Commands that take the workaround back.")
    until: Public | None = Field(None, description="When to take it back.")
    remedy: Public | None = Field(None, description="The remedy of the knowledge that the workaround is.")
    source: Public | None = Field(None, description="Where the issue is described.")
    date: Public | None = Field(None, description="The day of the source (YYYY-MM-DD, or less exact).")
    doubt: Public | None = Field(None, description="What is uncertain about the entry.")


class RuledOut(Worded):
    """An explanation that the measurements rule out."""

    rule: Public = Field(description="The rule that did not fire.")
    title: Public | None = Field(None, description="The explanation that is ruled out.")
    because: Sentence | None = Field(None, description="Why, with the number.")
    evidence: list[Evidence] = Field([], description="The lines with the number.")


class UnknownRule(Worded):
    """A rule that could not be decided."""

    rule: Public = Field(description="The rule that could not be decided.")
    missing: list[Public] = Field([], description="Names of the vocabulary that would decide it.")
    ask_for: list[Command] = Field([], description="Commands that get them from the customer.")
    because: list[Sentence] = Field(
        [],
        description="Why they are not in the input, as reported by its collector: it timed out, left them out, or "
        "does not know them.",
    )


class ConditionTree(Worded):
    """The condition of a rule as evaluated."""

    expr: Public | None = Field(None, description="The expression or check.")
    value: Literal["yes", "no", "unknown"] | None = Field(None, description="Its outcome: yes, no, or unknown.")
    text: Sentence | None = Field(None, description="What was seen.")
    needed: Sentence | Number | None = Field(None, description="What would have been needed for yes.")
    children: list["ConditionTree"] = Field([], description="Its parts.")


class RuleResult(Document):
    """A rule with its outcome."""

    id: Public = Field(description="The rule.")
    outcome: Literal["fires", "silent", "unknown", "excluded"] = Field(
        description="Its outcome; excluded means that another rule took its place."
    )
    title: Public | None = Field(None, description="The title of the rule.")
    role: Role | None = Field(None, description="The role that the rule is written for.")
    mechanism: Public | None = Field(None, description="The mechanism that it looks for.")
    tree: ConditionTree | None = Field(None, description="Its condition as evaluated.")


class ConfiguredSetting(Quotation, Worded):
    """The value that one place of the configuration gives a setting."""

    value: Quoted | Number | None = Field(None, description="The stated value.")
    place: Sentence | None = Field(
        None, description="What sets it: the boot line, the path of a start-up file, a profile of tuned."
    )
    counts: bool | None = Field(None, description="Whether it can affect the running kernel.")
    why: Sentence | None = Field(None, description="Why it cannot, or what that depends on.")


class NextBoot(Quotation, Worded):
    """The value of a setting after the next boot."""

    value: Quoted | Number | None = Field(None, description="The value; null if it is unknown.")
    from_: Sentence | None = Field(None, alias="from", description="What sets it then, or why it is unknown.")
    assumed: bool | None = Field(None, description="Whether it is a default, since nothing in the input sets it.")


class Contradiction(Quotation, Worded):
    """Two places that disagree about a setting."""

    text: Sentence | None = Field(None, description="Statements about it.")
    kind: Literal["overridden", "by_hand", "ineffective", "start_up", "pending", "size", "traces"] | None = Field(
        None,
        description="Overridden later in the boot, changed by hand, a file that cannot work, start-up files that "
        "differ, a boot menu that was not booted yet, a size set by itself, huge pages that should not be.",
    )


class OtherStateSetting(Quotation):
    """A value of a setting at another time."""

    value: Quoted | Number | None = Field(None, description="The value.")


class Setting(Quotation):
    """A setting of the host."""

    value: Quoted | Number | None = Field(
        None, description="The value in force; null if it is unknown and places only configure it."
    )
    provenance: Public | None = Field(
        None,
        description="How it is known: measured (the kernel shows it), written at a prompt, boot line, tuned, rc "
        "file, assumed (a default), unknown.",
    )
    said: list[ConfiguredSetting] = Field(
        [], description="What the kernel command line, start-up files, and profiles configure, in boot order."
    )
    next_boot: NextBoot | None = Field(
        None, description="What it will be after the next boot, as far as the input shows."
    )
    contradictions: list[Contradiction] = Field([], description="Where places disagree, in plain words.")
    other_states: list[OtherStateSetting] = Field(
        [], description="Other values that the kernel showed at other times of the same host."
    )


class Measure(Document):
    """A figure of the host."""

    value: Number | Quoted | None = Field(None, description="The value in `unit`.")
    unit: Public | None = Field(None, description="The unit of the value.")
    window: Public | None = Field(None, description="The time that it was measured over.")
    source: Place | None = Field(None, description="The source that it was taken from.")
    samples: AtLeastOne | None = Field(None, description="How many samples or intervals the level or rate is of.")
    min: Number | None = Field(None, description="The least of them in `unit`.")
    max: Number | None = Field(None, description="The most of them in `unit`.")
    deviation: Positive | None = Field(None, description="Their standard deviation in `unit`.")


class FreeBlocks(Cited):
    """One reading of /proc/buddyinfo for one zone."""

    node: Quoted | None = Field(None, description="The NUMA node.")
    zone: Quoted | None = Field(None, description="The memory zone.")
    counts: list[Count] = Field(
        [], description="Free blocks of order 0, 1, 2 and so on; a block of order n has 2^n pages."
    )
    when: Public | None = Field(None, description="When it was read.")


class Host(Document):
    """The host as far as the bundle describes it."""

    name: HostName | None = Field(None, description="The host's own name.")
    os: Quoted | None = Field(None, description="The distribution and its release.")
    kernel: Release | None = Field(None, description="The release of the running kernel.")
    era: Public | None = Field(None, description="The family of kernels that treat huge pages alike.")
    platform: Public | None = Field(None, description="The platform for which commands are printed.")
    apps: list[Public] = Field([], description="Applications known to react to huge pages that run here.")
    uptime: Number | None = Field(None, description="Seconds since boot.")
    settings: dict[Metric, Setting] = Field({}, description="Settings in force, by their names of the vocabulary.")
    measures: dict[Metric, Measure] = Field({}, description="Figures of the window, by their names of the vocabulary.")
    free_blocks: list[FreeBlocks] = Field(
        [], description="Free memory by block size, the first and the last of each zone."
    )


class TimelineSeries(Document):
    """One metric of one entity over time."""

    metric: Public = Field(description="The name of the vocabulary.")
    panel: Panel | None = Field(None, description="The panel of the chart that it belongs to.")
    means: Public | None = Field(None, description="What it measures, for people.")
    unit: Public | None = Field(None, description="The unit of the values.")
    source: Place | None = Field(None, description="The source of the values.")
    entity: Entity | None = Field(None, description="The process, zone, cpu or device; empty for the whole system.")
    clock: Clock | None = Field(None, description=CLOCK)
    rules: list[Public] = Field([], description="The findings that mention it, by rule, the first finding first.")
    points: list[Bucket] = Field([], description="Buckets of [time, min, max, mean]; null where nothing was measured.")


class Episode(Worded):
    """A stretch of time that a rule found."""

    from_: Number | None = Field(None, alias="from", description="Its beginning on `clock`.")
    to: Number | None = Field(None, description="Its end on `clock`.")
    clock: Clock | None = Field(None, description=CLOCK)
    text: Sentence | None = Field(None, description="What happened.")
    rule: Public | None = Field(None, description="The rule that found it.")


class Action(Cited, Worded):
    """What an operator did."""

    t: Number | None = Field(None, description="When, on `clock`; null if only the order is known.")
    clock: Clock | None = Field(None, description=CLOCK)
    text: Sentence | None = Field(None, description="What was done.")


class BootTime(Document):
    """When the host was booted: it relates times since boot to times of day."""

    t: Number | None = Field(None, description="Second 0 of the boot's clock, on `clock`.")
    clock: Clock | None = Field(None, description=CLOCK)
    within: Positive | None = Field(None, description="By how many seconds it may be wrong.")


class Timeline(Document):
    """What was measured over time."""

    series: list[TimelineSeries] = Field(
        [], description="What was measured, at most 1,500 buckets each and fewer of many."
    )
    episodes: list[Episode] = Field([], description="Stretches that a rule found.")
    actions: list[Action] = Field([], description="What operators did.")
    boot: BootTime | None = Field(None, description="When the host was booted, if that is known.")


class SampleLoss(Worded):
    """What became of the samples of a recording."""

    read: Count | None = Field(None, description="Samples read.")
    kept: Count | None = Field(None, description="Samples kept.")
    without_stack: Count | None = Field(None, description="Samples without a call stack.")
    unknown_symbol: Count | None = Field(None, description="Samples whose function has no name.")
    odd: dict[Sentence, int] = Field({}, description="Samples read but not kept, by reason.")
    lost: int | None = Field(None, description="Samples that the recorder reports as lost.")
    lost_share: Share | None = Field(None, description="The share (0..1) of them in all samples that should be there.")
    truncated: Count | None = Field(None, description="Samples whose stack ends at the depth that was recorded.")
    throttled: Count | None = Field(None, description="How often the kernel slowed sampling down.")
    unlisted: Share | None = Field(None, description="The share (0..1) that a percent table does not list.")


class HeatCell(Document):
    """What the cells of `heat` are, here and in `signatures`."""

    begin: int | None = Field(None, description="The second of the recording's clock at which the first column begins.")
    seconds: AtLeastOne | None = Field(
        None, description="Whole seconds in a column, one on top of the other; 1 up to five minutes."
    )
    samples: AtLeastOne | None = Field(
        None,
        description="How many samples a cell of 1 represents at most; a cell of n at most n times as many, 9 "
        "also for more.",
    )


class StackSignature(Worded):
    """Call stacks that findings rest on, over the time of their recording."""

    what: Sentence | None = Field(None, description="Which functions, called by which.")
    rules: list[Public] = Field([], description="The rules that looked for it and fired.")
    share: Share | None = Field(None, description="Its share (0..1) of the non-idle samples.")
    onset: Moment | None = Field(
        None, description="The first bad moment: the share was low before and stays high; null if there is none."
    )
    worst: Moment | None = Field(None, description="The second with most of it.")
    heat: Heat | None = Field(
        None,
        description="Its samples over time, in cells as those of the recording.",
    )


class Profile(Cited, Worded):
    """A recording of call stacks."""

    event: Quoted | None = Field(None, description="The event that was sampled.")
    samples: Count | None = Field(None, description="Samples kept, or as the source states them.")
    reader: Public | None = Field(None, description="The format it was read from.")
    state: Sentence | None = Field(None, description="The stretch of unchanged settings in which it was recorded.")
    loss: SampleLoss = Field(
        default_factory=SampleLoss.model_construct, description="What became of the samples of the source."
    )
    folded: list[FoldedStack] = Field(
        [],
        description="Pairs of a stack (the task's name or ?, then the functions from the root, joined by ;) and its "
        "own share of the non-idle samples (0..1), the largest first; a path of less than `folded_least` is "
        "counted to its caller.",
    )
    folded_least: Share | None = Field(
        None,
        description="The least share (0..1) of a path with all that it calls that `folded` shows: 0.05 %, or more "
        "where there would be too many.",
    )
    folded_into_callers: Share | None = Field(
        None,
        description="The share (0..1) of samples whose innermost functions `folded` does not show but counts to a "
        "caller.",
    )
    matched: list[Function] = Field(
        [],
        description="Names in `folded` of the functions that the call stacks of findings rest on, those of the "
        "leading finding first; they count where a stack of `matched_stacks` goes through them.",
    )
    matched_stacks: list[Count] = Field(
        [], description="Which entries of `folded` (from 0) are stacks that a finding rests on."
    )
    kernel_entries: list[Function] = Field(
        [],
        description="Names in `folded` of the functions at which stacks enter the kernel: they and all that they "
        "call are the kernel's, or of its modules.",
    )
    modules: dict[Module, list[Function]] = Field(
        {}, description="By kernel module the names in `folded` of its functions."
    )
    first: Number | None = Field(None, description="The time of the first sample on `clock`.")
    last: Number | None = Field(None, description="The time of the last sample on `clock`.")
    clock: Clock | None = Field(None, description=CLOCK)
    when: Sentence | None = Field(
        None,
        description="When it was recorded, in words: the time of day, how sure that is and how it is known, or that "
        "it is not known.",
    )
    symbols: Sentence | None = Field(
        None, description="Where the names of kernel functions come from; empty if the source names them itself."
    )
    heat: Heat | None = Field(
        None,
        description="All non-idle samples over time, for a picture; `heat_cell` describes a cell.",
    )
    heat_cell: HeatCell | None = Field(None, description="What the cells of `heat` are, here and in `signatures`.")
    signatures: list[StackSignature] = Field(
        [], description="What findings saw in it, over its time; only those of findings, and only if it has times."
    )
    families: dict[Metric, Share] = Field({}, description="The share (0..1) of each family of symbols.")


class Gap(Document):
    """A stretch without rows."""

    from_: Public | None = Field(None, alias="from", description="The time of the last row before it.")
    to: Public | None = Field(None, description="The time of the first row after it.")
    seconds: Positive | None = Field(None, description="How long it lasts.")


class InputFile(Document):
    """A member of the bundle."""

    member: Place = Field(
        description="The customer's path inside the bundle; of a row for several a pattern, as shells have them."
    )
    files: AtLeastOne | None = Field(None, description="How many members it represents, if there are very many.")
    reader: Public | None = Field(None, description="The reader that read it; empty if none recognized it.")
    records: Count | None = Field(
        None, description="Samples for recordings of stacks, rows for tables, snapshots for /proc and /sys files."
    )
    first: Public | Number | None = Field(None, description="The time of the first record.")
    last: Public | Number | None = Field(None, description="The time of the last record.")
    sha256: Checksum | None = Field(None, description="The SHA-256 of the member as sent.")
    problems: Count | None = Field(None, description="Problems met while reading it.")
    size: Count | None = Field(None, description="Its bytes, decompressed, if no reader recognized it.")
    first_line: Quoted | None = Field(None, description="How its text begins, if no reader recognized it.")
    period: Positive | None = Field(None, description="The usual seconds from one row to the next.")
    gaps: list[Gap] | None = Field(None, description="The longest stretches without rows, in time.")


class Problem(Cited, Worded):
    """What could not be read, where and why."""

    kind: Literal["damaged", "limit", "refused", "unreadable", "odd", "unrecognised", "disagreement", "bug"] | None = (
        Field(None, description="Why.")
    )
    text: Sentence | None = Field(None, description="What could not be read, in a sentence.")
    reader: Public | None = Field(None, description="The reader that met it.")
    count: AtLeastOne | None = Field(None, description="How many alike are folded into this one.")
    hides: bool | None = Field(None, description="True if evidence may be missing because of it.")


class Note(Cited, Worded):
    """A remark about the input."""

    text: Sentence | None = Field(None, description="The statement.")


class Request(Worded):
    """What to request from the customer."""

    text: Sentence | None = Field(None, description="What to write to the customer.")
    commands: list[Command] = Field(
        [], description="Commands for a root shell, each complete, in the order in which to run them."
    )
    missing: list[Public] = Field(
        [],
        description="Names of the vocabulary that the commands get, and those of what a longer list would have got "
        "too.",
    )


class Pack(Document):
    """A set of rules that is not thpdiag's own."""

    name: Place | None = Field(None, description="The package, or the folder that the user named.")
    version: Public | None = Field(None, description="The version of the package; null of a folder.")
    rules: int | None = Field(None, description="How many rules it has.")
    digest: Public | None = Field(None, description="A digest of its rules.")


class Tool(Document):
    """What made the document."""

    version: Public | None = Field(None, description="The version of thpdiag.")
    rules_digest: Public | None = Field(None, description="A digest of the rules and the knowledge used.")
    packs: list[Pack] = Field([], description="Rules of others that took part, by package (or folder) and version.")
    known_issues: Public | None = Field(
        None, description="The date of the catalogue of known issues and its number of entries, if one is named."
    )
    redacted: bool | None = Field(
        None, description="Whether names of the customer are replaced by pseudonyms; a note lists them."
    )
    names_listed: bool | None = Field(
        None,
        description="True if the customer's names in sentences are listed under `fields`. In documents without "
        "it (of older versions) redaction treats each sentence as a text of the customer.",
    )
    options: dict[Public, Quoted | Number | bool | list[Quoted | Number | bool | None] | None] = Field(
        {}, description="Options of the run that change the analysis, by name."
    )


class Result(Document):
    """The diagnosis of one host, or of several under `cases`.

    Any key but `schema` and `verdict` may be absent, and absent means unknown.
    """

    schema_: Literal["thpdiag/result/1"] = Field(
        alias="schema", description="The version of this schema that the document follows."
    )
    case: HostName | None = Field(
        None, description="The name of the case: the host's name, or that of the bundle when the host is not named."
    )
    verdict: Verdict = Field(description="The answer in one sentence.")
    findings: list[Finding] = Field([], description="Rules that fired, the root cause first.")
    ruled_out: list[RuledOut] = Field([], description="Explanations that the measurements rule out.")
    unknown: list[UnknownRule] = Field([], description="Rules that could not be decided, with what would decide them.")
    rules: list[RuleResult] = Field(
        [], description="Every rule that was asked, with its outcome and the evaluated condition."
    )
    known_issues: list[KnownIssue] = Field(
        [], description="Entries of the catalogue of known issues that apply to this host, or may apply."
    )
    host: Host = Field(default_factory=Host.model_construct, description="The host as far as the bundle describes it.")
    timeline: Timeline = Field(
        default_factory=Timeline.model_construct,
        description="What was measured over time, thinned out for reading.",
    )
    profiles: list[Profile] = Field(
        [], description="Recordings of call stacks, one entry for each event of each recording."
    )
    inputs: list[InputFile] = Field([], description="The members of the bundle and who read them.")
    problems: list[Problem] = Field([], description="What could not be read, where and why.")
    notes: list[Note] = Field(
        [], description="Statements about other hosts or in passing; they do not affect the verdict."
    )
    ask: Request = Field(
        default_factory=Request.model_construct,
        description="The one thing to send to the customer so that what is unknown can be decided.",
    )
    tool: Tool = Field(default_factory=Tool.model_construct, description="What made this document.")
    cases: list["Result"] = Field(
        [],
        description="Several hosts in one input: one whole document each; the keys at the top are those of the worst.",
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of the result document; it changes only with its version."""
    return json_schema(Result, SCHEMA, "thpdiag result")


def as_result(document: Result | Mapping[str, Any]) -> Result:
    """The result of a document as JSON has it; keys that the schema does not know are left out.

    A ValueError says in a sentence why something is no result.
    """
    return document if isinstance(document, Result) else read_document(Result, document)


def as_document(result: Result | Mapping[str, Any]) -> Mapping[str, Any]:
    """A result as JSON has it."""
    return plain_document(result) if isinstance(result, Result) else result


def complete_document(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with every absent key present and empty: lists and maps without items, else None."""
    return as_result(document).model_dump(by_alias=True)
