"""What profiles are made of the columns of a recording: who ran, in which objects, what was lost."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from perf_columns import (
    CALLCHAINS,
    CLOCK,
    GARBAGE,
    KERNEL,
    TEXT,
    USER,
    ByHand,
    K,
    U,
    comm,
    fork,
    mapped,
    sample,
    samples,
)
from thpdiag.model import Citation, Clock, Frame, Module, Moment, Problem, Profile, Stacks, Task
from thpdiag.perf import profile as gather
from thpdiag.perf.machine import UNMAPPED, AddressSpaces
from thpdiag.perf.profile import profiles, read_windows
from thpdiag.perf.records import EventInfo, Features, Map, Window

CITE = Citation("perf.data")


def read(recording: ByHand) -> tuple[list[Profile], list[Problem]]:
    found, problems = read_windows(recording)
    made = list(profiles(recording, found, CITE))
    return [p for p in made if isinstance(p, Profile)], problems + [p for p in made if isinstance(p, Problem)]


def one(*given: dict[str, Any], event: EventInfo = CLOCK, features: Features | None = None, **records: Any) -> Profile:
    """The only profile of a recording of one window."""
    window = Window(samples(*given), **records)
    (profile,), _ = read(ByHand([window], [event], features or Features()))
    return profile


def comms(profile: Profile) -> list[str]:
    """The name of the task of each row."""
    return [profile.tasks[i].comm for i in profile.rows.task]


def stacks(profile: Profile) -> list[list[str]]:
    """For each row its objects, leaf first; kernel frames by address."""
    return [
        [hex(f.address) if f.address else f.dso for f in (profile.frames[i] for i in profile.chains[chain])]
        for chain in profile.rows.chain
    ]


def program(ms: float, address: int = U, pid: int = 10, **given: Any) -> dict[str, Any]:
    """A sample of a program."""
    return sample([USER, address], ms=ms, pid=pid, tid=given.pop("tid", pid), **given)


def test_a_sample_is_a_row() -> None:
    """Chain, task, CPU, time and period come through; kernel frames wait for their names."""
    profile = one(
        sample([KERNEL, K + 1, K + 2, USER, U], pid=10, tid=11, cpu=3, ms=1005, period=250),
        sample([KERNEL, K + 1, K + 2, USER, U], pid=10, tid=11, cpu=2, ms=1035, period=50),
        comms=[comm(0, 11, "worker 5", pid=10)],
        maps=[TEXT, mapped(0, 10, U, 0x1000, "/usr/bin/x")],
    )
    assert profile.tasks == (Task("worker 5", 10, 11),)
    rows = profile.rows
    assert (rows.cpu.tolist(), rows.bin.tolist(), rows.weight.tolist()) == ([3, 2], [0, 3], [250.0, 50.0])
    assert (rows.samples.tolist(), rows.chain.tolist()) == ([1, 1], [0, 0])
    assert [profile.frames[i] for i in profile.chains[0]] == [
        Frame("[unknown]", "[kernel.kallsyms]", kernel=True, address=K + 1),
        Frame("[unknown]", "[kernel.kallsyms]", kernel=True, address=K + 2),
        Frame("[unknown]", "/usr/bin/x", kernel=False),
    ]
    assert profile.stacks is Stacks.FULL
    assert (profile.start, profile.end) == (Moment(1.0, Clock.BOOT), Moment(1.035, Clock.BOOT))
    assert profile.has_time
    assert (profile.ledger.read, profile.ledger.kept, profile.ledger.lost, profile.total_samples) == (2, 2, 0, 2)


def test_a_name_counts_from_its_record_on() -> None:
    """Before the first record a thread is known by its number, and each record changes the name."""
    given = [program(ms) for ms in (5, 10, 15, 20, 25)]
    assert comms(one(*given, comms=[comm(20, 10, "b"), comm(10, 10, "a")])) == [":10", "a", "a", "b", "b"]


def test_a_fork_has_its_parents_name_of_that_moment() -> None:
    """Renaming the parent later does not rename the child; exec does."""
    profile = one(
        program(15, pid=11), program(25, pid=11), program(35, pid=11),
        comms=[comm(0, 10, "sh"), comm(20, 10, "bash"), comm(30, 11, "gcc", exec=True)],
        forks=[fork(12, 11, 10)],
    )  # fmt: skip
    assert comms(profile) == ["sh", "sh", "gcc"]


def test_a_reused_number_is_another_thread() -> None:
    """A fork with the number of a thread that ended begins anew, even if nobody knows the parent's name."""
    profile = one(
        program(5, pid=11), program(15, pid=11), program(25, pid=11),
        comms=[comm(0, 10, "sh"), comm(1, 11, "old")],
        forks=[fork(10, 11, 10), fork(20, 11, 99)],
    )  # fmt: skip
    assert comms(profile) == ["old", "sh", ":11"]


def test_nameless_tasks_are_named_as_perf_does() -> None:
    """Thread 0 is the idle task; -1 is a task whose number is gone; a thread that was not recorded has no name."""
    profile = one(*(program(5, pid=pid) for pid in (0, -1, 7)))
    assert [(t.comm, t.pid, t.tid) for t in profile.tasks] == [("swapper", 0, 0), (":-1", None, None), (":7", 7, 7)]
    without = one(program(5, pid=-1), event=EventInfo("x", (1,), CALLCHAINS & ~2))
    assert without.tasks == (Task("", None, None),)


def test_records_behind_younger_samples_count_by_their_time() -> None:
    """perf drains one CPU after another: a name may stand in a later window than samples that have it already."""
    windows = [Window(samples(program(50))), Window(samples(program(40)), comms=[comm(45, 10, "late")])]
    (profile,), _ = read(ByHand(windows))
    assert comms(profile) == ["late", ":10"]


def test_records_without_time_count_from_where_they_stand() -> None:
    """Before sample_id_all only samples had times."""
    windows = [
        Window(samples(program(50)), comms=[comm(0, 10, "a")]),
        Window(samples(program(60)), comms=[comm(0, 10, "b")]),
    ]
    (profile,), _ = read(ByHand(windows))
    assert comms(profile) == ["a", "b"]


def test_samples_without_time_have_the_last_name_and_no_bin() -> None:
    """What is not known is not zero."""
    profile = one(program(0, timed=False), comms=[comm(10, 10, "a"), comm(20, 10, "b")])
    assert (comms(profile), profile.rows.bin.tolist(), profile.has_time) == (["b"], [-1], False)
    assert (profile.start, profile.end, profile.facts.get("first_sample")) == (None, None, None)


def test_maps_count_from_their_record_on_and_the_later_wins() -> None:
    """Also where it covers the middle of another."""
    profile = one(
        program(5), program(15), program(15, U + 0x2000), program(25), program(25, U + 0x2000), program(25, U + 0x9000),
        maps=[mapped(10, 10, U, 0x5000, "old"), mapped(20, 10, U + 0x2000, 0x1000, "new")],
    )  # fmt: skip
    assert stacks(profile) == [["[unknown]"], ["old"], ["old"], ["old"], ["new"], ["[unknown]"]]


def test_a_fork_copies_the_maps_of_that_moment() -> None:
    """Through several generations; what the parent maps later is not the child's, nor the other way round."""
    profile = one(
        program(50, pid=12), program(50, U + 0x1000, pid=12),
        program(50, U + 0x2000, pid=12), program(50, U + 0x3000, pid=12),
        program(50, U + 0x3000, pid=11), program(50, U + 0x1000, pid=11), program(50, U + 0x3000, pid=10),
        maps=[
            mapped(1, 10, U, 0x1000, "first"), mapped(11, 11, U + 0x1000, 0x1000, "second"),
            mapped(21, 12, U + 0x2000, 0x1000, "third"), mapped(30, 10, U + 0x3000, 0x1000, "late"),
        ],
        forks=[fork(10, 11, 10), fork(20, 12, 11)],
    )  # fmt: skip
    expected = ["first", "second", "third", "[unknown]", "[unknown]", "second", "late"]
    assert stacks(profile) == [[name] for name in expected]


def test_a_thread_shares_the_maps_of_its_process() -> None:
    """A fork within a process begins no address space."""
    profile = one(
        program(50, tid=11), maps=[mapped(1, 10, U, 0x1000, "a")], forks=[fork(10, 11, 10, pid=10, parent_pid=10)]
    )
    assert stacks(profile) == [["a"]]


def test_maps_stay_through_an_exec_until_they_are_covered() -> None:
    """The kernel unwinds to the caller of execve in the old program."""
    profile = one(
        program(15), program(25), comms=[comm(10, 10, "new", exec=True)],
        maps=[mapped(1, 10, U, 0x1000, "old"), mapped(20, 10, U, 0x1000, "new")],
    )  # fmt: skip
    assert stacks(profile) == [["old"], ["new"]]


def test_maps_that_do_not_begin_at_a_page_are_exact() -> None:
    """perf inject --jit writes one map for each function."""
    maps = [mapped(1, 10, U, 0x40, "one"), mapped(1, 10, U + 0x40, 0x40, "two")]
    assert stacks(one(program(5, U + 0x3F), program(5, U + 0x40), maps=maps)) == [["one"], ["two"]]


def test_frames_of_one_object_in_a_row_are_one() -> None:
    """The functions have no names, only the object counts."""
    chain = [USER, U, U + 8, U + 0x1000, U + 0x1008, U + 4]
    profile = one(sample(chain), maps=[mapped(1, 10, U, 0x1000, "exe"), mapped(1, 10, U + 0x1000, 0x1000, "libc")])
    assert stacks(profile) == [["exe", "libc", "exe"]]


def test_lookup_agrees_with_a_loop_over_all_maps() -> None:
    """Random maps and forks: for each process, time and address the same map as by going through the records."""
    dice = random.Random(5)
    spaces, maps, forks, pids = AddressSpaces(), [], [], [10]
    for ms in range(1, 120):
        if dice.random() < 0.1:
            pids.append(len(pids) + 10)
            forks.append(fork(ms, pids[-1], dice.choice(pids[:-1])))
        else:
            start, length = dice.randrange(50) * 0x1000, dice.randrange(1, 9) * 0x1000
            maps.append(mapped(ms, dice.choice(pids), start, length, str(ms)))
    spaces.learn(maps, forks)
    asked = [(dice.choice(pids), dice.randrange(130), dice.randrange(60) * 0x1000 + 5) for _ in range(3000)]
    owners, times, addresses = (np.array(column) for column in zip(*asked, strict=True))
    epochs = spaces.epochs(owners.astype(np.int32), (times * 1_000_000).astype(np.uint64))
    found = spaces.lookup().maps_at(epochs, addresses.astype(np.uint64))
    names = [None if m == UNMAPPED else spaces.maps[m].name for m in found]
    assert names == [slowly(maps, forks, *question) for question in asked]


def slowly(maps: list[Map], forks: list[Any], pid: int, ms: int, address: int) -> str | None:
    """The name of the map, by going back in time."""
    for at in range(ms, 0, -1):
        for one in maps:
            if one.time == at * 1_000_000 and one.pid == pid and one.start <= address < one.start + one.length:
                return one.name
        for begun in forks:
            if begun.time == at * 1_000_000 and begun.pid == pid:
                pid = begun.parent_pid
    return None


def test_a_stray_marker_costs_what_follows_it() -> None:
    """The kernel's part stays, and a problem says how many samples it was."""
    chain = [KERNEL, K, USER, GARBAGE]
    (profile,), (problem,) = read(ByHand([Window(samples(sample(chain), sample(chain), sample([KERNEL, K + 1])))]))
    assert (problem.count, stacks(profile)) == (2, [[hex(K)], [hex(K)], [hex(K + 1)]])
    assert profile.chains.cut is not None
    assert profile.chains.cut.tolist() == [True, False]


@pytest.mark.parametrize(
    ("frames", "most", "truncated", "cut"),
    [
        pytest.param([KERNEL, *[K] * 126], 0, 1, [True], id="default-counts-markers"),
        pytest.param([KERNEL, *[K] * 125], 0, 0, None, id="default-one-less"),
        pytest.param([KERNEL, *[K] * 16], 16, 1, [True], id="set"),
        pytest.param([KERNEL, *[K] * 15], 16, 0, None, id="set-one-less"),
        pytest.param([KERNEL, *[K] * 8, USER, *[U] * 8], 16, 1, None, id="only-the-program-is-cut"),
    ],
)
def test_chains_that_reach_the_depth_are_cut(
    frames: list[int], most: int, truncated: int, cut: list[bool] | None
) -> None:
    """Functions of the kernel may be missing, unless a program's frame follows them."""
    profile = one(sample(frames), event=EventInfo("cycles", (1,), CALLCHAINS, max_frames=most))
    assert profile.ledger.truncated == truncated
    assert (None if profile.chains.cut is None else profile.chains.cut.tolist()) == cut


def test_without_chains_there_is_the_address_only() -> None:
    """Its CPU mode says where it was."""
    given = [sample(ip=K, mode=1), sample(ip=U, mode=2)]
    profile = one(*given, event=EventInfo("cycles", (1,), CALLCHAINS & ~(1 << 5)))
    assert (stacks(profile), profile.stacks) == ([[hex(K)], ["[unknown]"]], Stacks.NONE)
    assert (profile.ledger.without_stack, profile.chains.cut) == (0, None)


def test_an_empty_chain_is_counted() -> None:
    """Where chains were recorded, a sample without one has its address, and callers that nobody knows."""
    profile = one(sample(ip=K, mode=1), sample([KERNEL, K, K]))
    assert (profile.ledger.without_stack, stacks(profile)[0]) == (1, [hex(K)])
    assert profile.chains.cut is not None
    assert profile.chains.cut[profile.rows.chain].tolist() == [True, False]


def test_programs_stacks_that_were_recorded_raw_are_not_missing() -> None:
    """With --call-graph dwarf a sample of a program has no chain."""
    dwarf = EventInfo("cycles", (1,), CALLCHAINS | 1 << 13)
    assert one(sample(ip=U, mode=2), event=dwarf).ledger.without_stack == 0
    assert one(sample(ip=K, mode=1), event=dwarf).ledger.without_stack == 1


def test_events_are_profiles_of_their_own() -> None:
    """Never added; frames and chains are those of the event, losses are shared out and add up."""
    events = [CLOCK, EventInfo("none", (2,), CALLCHAINS), EventInfo("faults", (3,), CALLCHAINS)]
    given = [sample([KERNEL, K + i], event=0 if i < 3 else 2) for i in range(4)]
    window = Window(samples(*given), lost=9, throttled=2, odd={"too short": 4})
    (first, second), _ = read(ByHand([window], events))
    assert [(p.event, len(p.rows), len(p.chains), len(p.frames)) for p in (first, second)] == [
        ("cpu-clock", 3, 3, 3), ("faults", 1, 1, 1),
    ]  # fmt: skip
    assert (first.ledger.lost, second.ledger.lost) == (6, 3)
    assert (first.ledger.odd, second.ledger.odd, first.ledger.throttled) == ({"too short": 4}, {}, 2)
    assert (first.ledger.read, first.ledger.kept) == (7, 3)


def test_a_fixed_period_is_the_weight_where_none_was_recorded() -> None:
    """perf record -c 1000."""
    event = EventInfo("faults", (1,), CALLCHAINS & ~(1 << 8), period=1000)
    assert one(sample([KERNEL, K]), event=event).rows.weight.tolist() == [1000.0]


def test_the_kernel_is_told_by_its_map() -> None:
    """Its address, its build id and its modules, whose frames bear their names."""
    module = Map(0, -1, 0, K + 0x3000000, 0x1000, 0, "/lib/modules/6.1.0/kernel/net/nf-conntrack.ko.xz", 1)
    features = Features(release="6.1.0", build_ids={"[kernel.kallsyms]": "ab12", module.name: "cd34"})
    profile = one(sample([KERNEL, K + 0x3000010, K + 5]), maps=[TEXT, module], features=features)
    assert profile.kernel is not None
    assert (profile.kernel.release, profile.kernel.build_id, profile.kernel.address) == ("6.1.0", "ab12", K)
    assert profile.kernel.modules == (Module("nf_conntrack", module.start, module.start + 0x1000, "cd34"),)
    assert {f.dso for f in profile.frames} == {"[nf_conntrack]", "[kernel.kallsyms]"}


def test_the_header_is_told_under_perfs_own_names() -> None:
    """As in the comment header of perf report, and the clock beside."""
    features = Features("db1", "6.1.0", "6.1.2", "x86_64", 4, "a CPU", 1024, ("perf", "record"), clock_data=(1, 5, 7))
    facts = one(
        sample([KERNEL, K], ms=1500), event=EventInfo("c", (1,), CALLCHAINS, frequency=99, clock=1), features=features
    ).facts
    assert facts == {
        "hostname": "db1", "release": "6.1.0", "perf_version": "6.1.2", "arch": "x86_64", "cpus": "4", "cpu": "a CPU",
        "memory": "1024 kB", "cmdline": "perf record", "clock": "monotonic", "first_sample": "1.500000",
        "last_sample": "1.500000", "clock_data_wall_ns": "5", "clock_data_clock_ns": "7", "frequency": "99",
    }  # fmt: skip


def test_realtime_is_the_wall_clock() -> None:
    """perf record -k CLOCK_REALTIME."""
    start = one(sample([KERNEL, K], ms=1500), event=EventInfo("c", (1,), CALLCHAINS, clock=0)).start
    assert start is not None
    assert (start.seconds, start.clock) == (1.5, Clock.UTC)


def windows(count: int) -> list[Window]:
    """Samples every 10 ms, a new name for the thread in every fifth window, a round in each."""
    times = itertools.count(0, 10)
    return [
        Window(
            samples(*(program(next(times), U + i % 3, cpu=i % 2) for i in range(40))),
            comms=[comm(400 * n + 1, 10, f"n{n}")] if n % 5 == 0 else [],
            rounds=1,
        )
        for n in range(count)
    ]


def weights(profile: Profile) -> dict[tuple[str, int, int], float]:
    """Weight by name, CPU and tenth of a second."""
    sums: dict[tuple[str, int, int], float] = {}
    rows = profile.rows
    for task, cpu, at, weight in zip(rows.task, rows.cpu, rows.bin, rows.weight, strict=True):
        key = (profile.tasks[task].comm, int(cpu), int(at) // 10)
        sums[key] = sums.get(key, 0) + weight
    return sums


def test_many_samples_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of rows those of one chain, task, CPU and 100 ms are one; nothing is lost but the last digit."""
    (exact,), _ = read(ByHand(windows(30)))
    monkeypatch.setattr(gather, "MAX_HELD_SAMPLES", 200)
    monkeypatch.setattr(gather, "MAX_ROWS", 300)
    (added,), _ = read(ByHand(windows(30)))
    assert len(added.rows) < len(exact.rows) == 1200
    assert weights(added) == weights(exact)
    assert added.rows.samples.sum() == added.ledger.kept == 1200


def test_an_empty_recording_has_no_profile() -> None:
    """Nor does it fail."""
    assert read(ByHand([])) == ([], [])
    assert read(ByHand([Window(samples())], [])) == ([], [])
