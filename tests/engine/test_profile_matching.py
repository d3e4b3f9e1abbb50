"""Questions about call chains: the fast answers over whole arrays against slow ones (`slow_matching`)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from profile_oracle import Question, answer, bounds, samples
from thpdiag.engine.check_result import CheckResult
from thpdiag.engine.checks import judge
from thpdiag.engine.compiled_profile import ChainMatches, CompiledProfile
from thpdiag.engine.schema import Profile as Check
from thpdiag.engine.schema import ProfileCheck
from thpdiag.engine.stacks import Place
from thpdiag.engine.state_view import StateView
from thpdiag.host.catalogue import Catalogue
from thpdiag.model import Case, Citation, Frame, Ledger, Profile, StackCounts, Stacks, State, Task, Verdict3

CITE = Citation("perf.script", 1, "")
KERNEL = ("_raw_spin_lock", "compact_zone", "try_to_compact_pages", "do_huge_pmd_anonymous_page", "handle_mm_fault",
          "khugepaged", "clear_page_erms", "do_idle", "native_safe_halt")  # fmt: skip
FRAMES = (
    *(Frame(name, "[kernel.kallsyms]", True) for name in KERNEL),
    Frame("main", "/bin/java", False),
    Frame("SpinPause", "/usr/lib/libjvm.so", False),
    Frame("compact_zone"),
    Frame("[unknown]", "[kernel.kallsyms]", True),
    Frame("[unknown]", "[kernel.kallsyms]", True, 0xFFFFFFFF81000010),
    Frame("[unknown]", "/bin/java", False),
    Frame("[unknown]", "/usr/lib/libjvm.so", False),
    Frame("[unknown]"),
)
TASKS = (Task("java", 1, 1), Task("java", 1, 2), Task("cc", 3, 3), Task("swapper/0", 0, 0), Task())
FAMILIES = ("spin_lock", "compaction", "direct_compact", "thp_fault", "page_fault", "khugepaged", "gc_user",
            "=main")  # fmt: skip
NUMBER = {frame: number for number, frame in enumerate(FRAMES)}
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])

chain = st.lists(st.sampled_from(FRAMES), max_size=6)
choice = st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=2, unique=True).map(tuple)
row = st.tuples(chain, st.sampled_from(TASKS), st.integers(1, 9), st.sampled_from([0, 1, None]), st.booleans())


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Families that do not name the same function twice: what is the function itself is no caller of it."""
    names = draw(st.permutations(FAMILIES))
    first, second, third = (draw(st.integers(*span)) for span in ((1, 2), (0, 2), (0, 2)))
    parts = names[:first], names[first : first + second], names[first + second : first + second + third]
    where, under, never = (tuple(part) for part in parts)
    return Question(where, draw(st.booleans()), under, never)


def profile(*rows: tuple[list[Frame], Task, float, int | None, bool], **more: Any) -> Profile:
    """A profile of rows: chain (leaf first), task, weight, CPU, whether the chain is cut."""
    counts = StackCounts()
    for frames, task, weight, cpu, cut in rows:
        number = counts.add([NUMBER[f] for f in frames], float(weight), int(weight), CITE, task, cpu)
        if cut:
            counts.cut(number)
    told = {"stacks": Stacks.FULL, **more}
    return Profile("test", "cycles", FRAMES, counts.chains(), counts.tasks(), counts.rows(), cite=CITE, **told)


def named(*names: str) -> list[Frame]:
    """Frames by name, leaf first; `?` is a kernel function without a name."""
    by_name = {frame.name: frame for frame in reversed(FRAMES)} | {"?": FRAMES[12]}
    return [by_name[name] for name in names]


def one(*names: str, **more: Any) -> Profile:
    return profile((named(*names), TASKS[0], 100, 0, False), **more)


def found(source: Profile, question: Question) -> ChainMatches:
    place = Place.SELF if question.leaf else Place.ANYWHERE
    return CompiledProfile(source).find(
        question.where, place, under=[(name,) for name in question.under], never=question.never
    )


def told(source: Profile, question: Question) -> tuple[bool, bool]:
    """Sure and possible, of the first chain."""
    seen = found(source, question)
    return bool(seen.sure[0]), bool(seen.possible[0])


def scene(source: Profile) -> StateView:
    state = State("all", {}, 0, profiles=(source,))
    return StateView(Case("host", (), (state,)), state, Catalogue(()))


def judged(source: Profile, **check: Any) -> CheckResult:
    return judge(
        ProfileCheck(profile=Check.model_validate({"min_samples": 1, "at_least": "50 %", **check})), scene(source)
    )


@SLOW
@given(row, questions(), st.sampled_from(list(Stacks)))
def test_a_chain_fits_in_all_worlds_in_some_or_in_none(
    given_row: tuple[list[Frame], Task, int, int | None, bool], question: Question, stacks: Stacks
) -> None:
    """Order with gaps, excluded callers, functions without names, ends that were cut off: as when all is tried."""
    source = profile((given_row[0], TASKS[0], 1, 0, given_row[4]), stacks=stacks)
    rows = samples(source)
    assume(rows)
    slow = answer(rows[0].chain, question, open_end=rows[0].open_end)
    fast = found(source, question)

    assert (bool(fast.sure[0]), bool(fast.possible[0])) == (slow.sure, slow.possible)
    assert bool(fast.astray[0]) == ((True, False) in slow.outcomes)
    assert bool(fast.held[0]) == (all(there for there, _ in slow.outcomes) or slow.possible)


@pytest.mark.parametrize(
    ("question", "names", "answer"),
    [
        (Question(("spin_lock",), True), ["_raw_spin_lock", "main"], (True, True)),
        (Question(("spin_lock",), True), ["clear_page_erms", "_raw_spin_lock"], (False, False)),
        (Question(("spin_lock",), False), ["clear_page_erms", "_raw_spin_lock"], (True, True)),
        (Question(("spin_lock",), True), ["?", "main"], (False, True)),
        (Question(("=main",), False), ["clear_page_erms", "main"], (True, True)),
    ],
    ids=["leaf", "no-leaf", "anywhere", "nameless-leaf", "one-function"],
)
def test_where_a_function_stands(question: Question, names: list[str], answer: tuple[bool, bool]) -> None:
    """As the running function, anywhere, or perhaps."""
    assert told(one(*names), question) == answer


@pytest.mark.parametrize(
    ("names", "answer"),
    [
        (["_raw_spin_lock", "compact_zone", "main", "do_huge_pmd_anonymous_page"], (True, True)),
        (["_raw_spin_lock", "do_huge_pmd_anonymous_page", "compact_zone"], (False, False)),
        (["compact_zone", "_raw_spin_lock", "do_huge_pmd_anonymous_page"], (False, False)),
        (["_raw_spin_lock", "?", "do_huge_pmd_anonymous_page"], (False, True)),
        (["_raw_spin_lock", "do_huge_pmd_anonymous_page", "?"], (False, False)),
        (["_raw_spin_lock", "compact_zone", "khugepaged", "do_huge_pmd_anonymous_page"], (False, False)),
        (["_raw_spin_lock", "compact_zone", "do_huge_pmd_anonymous_page", "?"], (False, True)),
        (["?", "compact_zone", "_raw_spin_lock", "do_huge_pmd_anonymous_page"], (False, True)),
        (["?", "khugepaged", "_raw_spin_lock", "compact_zone", "do_huge_pmd_anonymous_page"], (False, True)),
    ],
)
def test_callers_stand_in_order(names: list[str], answer: tuple[bool, bool]) -> None:
    """Gaps are allowed, another order is not, what is excluded may not be there, and what has no name may be it."""
    question = Question(("spin_lock",), False, ("compaction", "thp_fault"), ("khugepaged",))

    assert told(one(*names), question) == answer


@pytest.mark.parametrize(
    ("names", "more", "possible"),
    [
        (["_raw_spin_lock"], {"stacks": Stacks.NONE}, True),
        (["_raw_spin_lock"], {"stacks": Stacks.PARTIAL}, True),
        (["_raw_spin_lock", "clear_page_erms"], {"stacks": Stacks.PARTIAL}, False),
        (["_raw_spin_lock"], {}, False),
        (["clear_page_erms"], {"stacks": Stacks.NONE}, False),
        ([], {}, True),
    ],
    ids=["flat", "partial", "partial-with-callers", "full", "flat-other", "no-stack"],
)
def test_callers_that_a_source_does_not_show_are_open(names: list[str], more: dict[str, Any], possible: bool) -> None:
    """Yes and no only where the source can tell."""
    assert told(one(*names, **more), Question(("spin_lock",), True, ("compaction",))) == (False, possible)


@pytest.mark.parametrize(("last", "possible"), [("handle_mm_fault", True), ("?", True), ("main", False)])
def test_a_chain_that_was_cut_in_the_program_hides_nothing_of_the_kernel(last: str, possible: bool) -> None:
    """The depth that was recorded ends somewhere in the program in most cases."""
    source = profile((named("_raw_spin_lock", last), TASKS[0], 1, 0, True))
    question = Question(("spin_lock",), True, ("compaction",))

    assert told(source, question)[1] is possible


@SLOW
@given(
    st.lists(row, min_size=1, max_size=5),
    questions(),
    st.sampled_from(["all", "comm", "thread", "cpu", "symbol"]),
    st.sampled_from(list(Stacks)),
    st.sampled_from([None, 0, 3, 60]),
    st.sampled_from([0.0, 7.0]),
    st.sampled_from([None, "java|cc"]),
    st.sampled_from([10, 25, 50, 75, 100]),
)
def test_a_share_is_reached_if_it_surely_is(
    rows: list[Any], question: Question, of: str, stacks: Stacks, lost: int | None, unlisted: float,
    comm: str | None, bound: int,
) -> None:  # fmt: skip
    """Yes where the smallest possible share reaches the bound, no where the largest does not, else unknown."""
    source = profile(*rows, stacks=stacks, ledger=Ledger(read=20, kept=20, lost=lost, unlisted=unlisted))
    assume(samples(source))
    where = {"self": list(question.where)} if question.leaf else {"anywhere": list(question.where)}
    answer = judged(
        source, **where, under=list(question.under) or None, not_under=list(question.never) or None, of=of, comm=comm,
        at_least=f"{bound} %",
    )  # fmt: skip
    spans = bounds(source, question, of, lambda name: comm is None or re.fullmatch(comm, name) is not None)
    low, high = (max(getattr(s, side) for s in spans) if spans else None for side in ("low", "high"))
    if any(abs(value - bound / 100) < 1e-9 for value in (low, high) if value is not None):
        assume(of != "symbol")  # sums in another order

    assert answer.value is _three(low, high, bound / 100)
    assert answer.weak is (lost == 60 or lost == 3)


def _three(low: float | None, high: float | None, bound: float) -> Verdict3:
    if low is None or high is None:
        return Verdict3.UNKNOWN
    return Verdict3.YES if low >= bound else Verdict3.NO if high < bound else Verdict3.UNKNOWN


SPIN = (named("_raw_spin_lock", "compact_zone"), TASKS[0], 60, 0, False)
OTHER = (named("clear_page_erms"), TASKS[2], 40, 1, False)


@pytest.mark.parametrize(
    ("lost", "bound", "value", "weak"),
    [
        (None, "60 %", Verdict3.YES, False),
        (0, "61 %", Verdict3.NO, False),
        (4, "60 %", Verdict3.UNKNOWN, False),
        (4, "61 %", Verdict3.UNKNOWN, False),
        (4, "62 %", Verdict3.NO, False),
        (25, "48 %", Verdict3.YES, True),
        (25, "67 %", Verdict3.UNKNOWN, True),
    ],
)
def test_lost_samples_are_open(lost: int | None, bound: str, value: Verdict3, weak: bool) -> None:
    """They may be all of the kind or none of it; more than a twentieth makes weak evidence, whatever it says."""
    source = profile(SPIN, OTHER, ledger=Ledger(read=100, kept=100, lost=lost))
    answer = judged(source, **{"self": "spin_lock"}, at_least=bound)

    assert (answer.value, answer.weak) == (value, weak)
    assert bool(answer.surer) is weak


@pytest.mark.parametrize(("of", "share"), [("all", 0.6), ("comm", 1.0), ("thread", 1.0), ("cpu", 1.0), ("symbol", 1.0)])
def test_the_share_is_of_what_the_rule_names(of: str, share: float) -> None:
    """All samples, the command, thread or CPU with the largest share, or the samples of the function itself."""
    assert judged(profile(SPIN, OTHER), **{"self": "spin_lock"}, of=of).measured == pytest.approx(share)


def test_one_group_may_be_larger_than_the_one_that_surely_is_the_largest() -> None:
    """No is only said if it holds for every group."""
    hidden = (named("?"), TASKS[2], 90, 0, False)
    part = [SPIN, (named("clear_page_erms"), TASKS[0], 90, 0, False)]

    assert judged(profile(*part), **{"self": "spin_lock"}, of="comm").value is Verdict3.NO
    assert judged(profile(*part, hidden), **{"self": "spin_lock"}, of="comm").value is Verdict3.UNKNOWN


def test_a_small_group_is_no_subject() -> None:
    """One sample of a command that hardly ran is no share of anything."""
    tiny = (named("_raw_spin_lock"), TASKS[2], 1, 1, False)
    busy = (named("clear_page_erms"), TASKS[0], 99, 0, False)

    assert judged(profile(busy, tiny), **{"self": "spin_lock"}, of="comm").value is Verdict3.NO


def test_an_unknown_cpu_leaves_shares_of_cpus_open() -> None:
    """It may be any of them."""
    unplaced = (named("clear_page_erms"), TASKS[0], 1, None, False)

    assert judged(profile(SPIN, unplaced), **{"self": "spin_lock"}, of="cpu").value is Verdict3.UNKNOWN


def test_purity_counts_what_holds_the_function_only() -> None:
    """A tenth of the samples may be nearly all of a function."""
    source = profile(SPIN, (named("_raw_spin_lock", "main"), TASKS[0], 20, 0, False), OTHER)
    check = {"self": "spin_lock", "under": "compaction", "of": "symbol"}

    assert judged(source, **check, at_least="75 %").value is Verdict3.YES
    assert judged(source, **check, at_least="76 %").value is Verdict3.NO


def test_idle_samples_are_in_no_share() -> None:
    """Halting is idling in an idle task only."""
    halt = named("native_safe_halt", "_raw_spin_lock")
    source = profile(SPIN, OTHER, (named("do_idle"), TASKS[3], 900, 0, False), (halt, TASKS[3], 900, 0, False))

    assert judged(source, **{"self": "spin_lock"}).measured == pytest.approx(0.6)
    assert judged(profile(SPIN, (halt, TASKS[0], 60, 0, False)), **{"self": "spin_lock"}).measured == 0.5


def test_few_samples_decide_nothing() -> None:
    """Nor does a source without samples."""
    assert judged(profile(SPIN), **{"self": "spin_lock"}, min_samples=61).value is Verdict3.UNKNOWN
    assert judged(profile((named("do_idle"), TASKS[3], 9, 0, False)), **{"self": "spin_lock"}).value is Verdict3.UNKNOWN


@pytest.mark.parametrize(("bound", "value"), [("61 %", Verdict3.YES), ("60 %", Verdict3.NO)])
def test_below_is_the_opposite_of_at_least(bound: str, value: Verdict3) -> None:
    """And as open where callers are missing."""
    assert judged(profile(SPIN, OTHER), **{"self": "spin_lock"}, at_least=None, below=bound).value is value
