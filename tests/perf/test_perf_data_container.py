"""perf.data from bytes to columns: files, pipes, compressed and damaged ones, of either byte order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import perf_files as perf
from perf_files import Event, File, Taken, Writer
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.perf import stream
from thpdiag.perf import stream as packed
from thpdiag.perf.container import Recording
from thpdiag.perf.records import Window

LITTLE = Writer()
PLAIN = Event()
THREE = (Taken(time=5), Taken(time=6, chain=()), Taken(time=7, chain=(perf.CONTEXT_USER, 0x402000), tid=12, cpu=0))
ORDERS = pytest.mark.parametrize("order", ["<", ">"])


def told(event: Event, *taken: Taken, order: str = "<") -> bytes:
    return b"".join(Writer(order).sample(event, one) for one in taken)


def read(raw: bytes, step: int = 1 << 20) -> tuple[Recording, list[Window]]:
    recording = Recording((raw[at : at + step] for at in range(0, len(raw), step)), len(raw), Citation("perf.data"))
    return recording, list(recording.windows())


def rows(windows: list[Window]) -> list[Taken]:
    """The samples as they were given to the writer."""
    found = []
    for window in windows:
        s = window.samples
        columns = s.time, s.pid, s.tid, s.cpu, s.period, s.misc, s.starts[:-1], s.starts[1:]
        for time, pid, tid, cpu, period, misc, begin, end in zip(*(c.tolist() for c in columns), strict=True):
            chain = tuple(s.chain[begin:end].tolist())
            found.append(Taken(time, chain, pid, tid, cpu, period, misc=misc))
    return found


def problems(windows: list[Window]) -> list[Problem]:
    return [problem for window in windows for problem in window.problems]


def odd(windows: list[Window]) -> dict[str, int]:
    return {reason: count for window in windows for reason, count in window.odd.items()}


@ORDERS
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_a_file_gives_back_what_was_recorded(order: str, step: int) -> None:
    """Each field of each sample, in either byte order, wherever the chunks of the stream end."""
    recording, windows = read(File(told(PLAIN, *THREE, order=order), order=order).written(), step)
    assert rows(windows) == list(THREE)
    assert problems(windows) == []
    assert [(e.name, e.frequency, e.period) for e in recording.events] == [("cpu-clock:HG", 1000, None)]
    assert windows[0].samples.timed.all()
    assert all(column.dtype.isnative for column in (windows[0].samples.time, windows[0].samples.chain))


@ORDERS
def test_a_pipe_gives_back_what_was_recorded(order: str) -> None:
    """Events come as records; features too."""
    write = Writer(order)
    host = write.record(perf.FEATURE, write.pack("Q", 3) + write.text("box"))
    name = write.record(perf.UPDATE, write.pack("QQ", 2, 77) + b"clock\0\0\0")
    raw = perf.pipe(host + name + told(PLAIN, *THREE, order=order), [replace(PLAIN, ids=(77,))], order)
    recording, windows = read(raw)
    assert rows(windows) == list(THREE)
    assert (recording.features.hostname, recording.events[0].name) == ("box", "clock")


def test_windows_cut_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that two windows share is read once, and offsets stay those of the file."""
    monkeypatch.setattr(stream, "WINDOW_BYTES", 1000)
    taken = [Taken(time=number) for number in range(1000)]
    raw = File(told(PLAIN, *taken)).written()
    windows = read(raw)[1]
    assert rows(windows) == taken
    assert len(windows) > 50
    offsets = np.concatenate([window.samples.offset for window in windows]).tolist()
    size = len(told(PLAIN, taken[0]))
    assert offsets == list(range(raw.index(told(PLAIN, taken[0])), len(raw), size))


def test_each_field_of_a_sample_has_its_place() -> None:
    """Fields that are not columns are stepped over; what stands behind the chain is not looked at."""
    event = Event(sample_type=(1 << 11) - 1 | perf.IDENTIFIER, read_format=perf.ENABLED | perf.WITH_ID)
    _, windows = read(File(told(event, replace(THREE[0], read=(1, 2, 3)), THREE[2]), [event]).written())
    assert rows(windows)[0] == THREE[0]
    assert odd(windows) == {"the call chain is longer than the record": 1}  # the second has no numbers to read


@pytest.mark.parametrize("members", [0, 1, 5])
def test_groups_that_are_read_with_a_sample(members: int) -> None:
    """PERF_FORMAT_GROUP: how many numbers stand before the chain is said by the sample."""
    form = perf.GROUP | perf.ENABLED | perf.RUNNING | perf.WITH_ID
    event = Event(sample_type=perf.USUAL | perf.READ, read_format=form)
    taken = replace(THREE[0], read=(members, 100, 100, *range(2 * members)))
    after = replace(THREE[2], read=(1, 1, 1, 1, 1))
    assert rows(read(File(told(event, taken, after), [event]).written())[1]) == [THREE[0], THREE[2]]


def test_a_group_that_claims_too_many_members_is_odd() -> None:
    """The number is the file's; nothing outside the record is taken for the chain."""
    event = Event(sample_type=perf.USUAL | perf.READ, read_format=perf.GROUP)
    raw = File(told(event, replace(THREE[0], read=(2**63,)), replace(THREE[0], read=(1, 1))), [event]).written()
    windows = read(raw)[1]
    assert rows(windows) == [THREE[0]]
    assert odd(windows) == {"the record is shorter than its event declares": 1}


def test_what_an_event_does_not_record_is_unknown() -> None:
    """-1 for tasks and CPUs, 0 for times and addresses, 1 for periods."""
    event = Event(sample_type=perf.CALLCHAIN)
    windows = read(File(told(event, THREE[0]), [event]).written())[1]
    assert rows(windows) == [Taken(0, THREE[0].chain, -1, -1, -1, 1)]
    assert not windows[0].samples.timed.any()
    assert windows[0].samples.ip.tolist() == [0]


@pytest.mark.parametrize("place", [perf.IDENTIFIER, perf.ID])
@pytest.mark.parametrize("far", [1, 1 << 40], ids=["near", "far"])
def test_samples_find_their_events(place: int, far: int) -> None:
    """By id, with a layout for each event, in the order of the file."""
    first = Event(place | perf.USUAL, ids=(5, 6 * far))
    second = Event(place | perf.IP | perf.TID | perf.TIME, ids=(7 * far,), config=2)
    marked = (replace(THREE[0], ident=5), replace(THREE[1], ident=7 * far), replace(THREE[2], ident=6 * far))
    strange = replace(THREE[0], ident=9)
    events = (first, second, first, first)
    raw = b"".join(told(e, one) for e, one in zip(events, (*marked, strange), strict=True))
    recording, windows = read(File(raw, [first, second]).written())
    assert windows[0].samples.event.tolist() == [0, 1, 0]
    assert rows(windows) == [THREE[0], Taken(6, (), 10, 11, -1, 1), THREE[2]]
    assert odd(windows) == {"of an event that the recording does not describe": 1}
    assert [event.name for event in recording.events] == ["cpu-clock:HG", "page-faults:HG"]


def test_features_name_host_and_events() -> None:
    """What stands behind the records; names of events reach those that were read before."""
    named = Event(kind=2, config=317, ids=(3,))
    kernel_id = (
        LITTLE.pack("IHHi", 0, 1 << 15, 56, -1) + bytes(range(20)) + b"\x14\0\0\0" + b"[kernel]".ljust(20, b"\0")
    )
    features = {
        2: kernel_id,
        3: LITTLE.text("box"),
        4: LITTLE.text("5.14.0"),
        7: LITTLE.pack("II", 8, 4),
        8: b"",
        10: LITTLE.pack("Q", 1 << 20),
        11: LITTLE.pack("I", 2) + LITTLE.text("perf") + LITTLE.text("record"),
        12: LITTLE.names([("sched:sched_switch", named)]),
        21: LITTLE.pack("QQ", 5, 7),
        29: LITTLE.pack("IIQQ", 1, 1, 1_700_000_000_000_000_000, 4),
    }
    recording, windows = read(File(told(named, *THREE), [named], features).written())
    known = recording.features
    assert recording.events[0].name == "sched:sched_switch"
    assert (known.hostname, known.release, known.cpus_online) == ("box", "5.14.0", 4)
    assert (known.total_memory_kb, known.command_line) == (1 << 20, ("perf", "record"))
    assert known.clock_data == (1, 1_700_000_000_000_000_000, 4)
    assert known.build_ids == {"[kernel]": bytes(range(20)).hex()}
    assert problems(windows) == []


def test_tasks_maps_and_losses() -> None:
    """Records that are no samples, with the time of their sample_id."""
    body = LITTLE.pack("iiQQQ", -1, 0, 0xFFFFFFFF81000000, 0x1000, 0xFFFFFFFF81000000) + b"[kernel.kallsyms]_text\0\0"
    ident = LITTLE.pack("iiQQQ", 10, 11, 0x400000, 0x1000, 0) + b"\x14\0\0\0" + bytes(20) + bytes(8) + b"/bin/a\0\0"
    raw = (
        LITTLE.comm("worker", 3, 1 << 13)
        + LITTLE.record(perf.FORK, LITTLE.pack("4IQ", 20, 10, 20, 11, 4) + LITTLE.trailer(4))
        + LITTLE.record(perf.EXIT, LITTLE.pack("4IQ", 20, 10, 20, 10, 9) + LITTLE.trailer(9))
        + LITTLE.record(perf.MMAP, body + LITTLE.trailer(0), perf.KERNEL)
        + LITTLE.record(perf.MMAP2, ident + LITTLE.trailer(8), 1 << 14 | perf.USER)
        + LITTLE.record(perf.LOST, LITTLE.pack("QQ", 0, 30) + LITTLE.trailer(5))
        + LITTLE.record(perf.THROTTLE, LITTLE.pack("QQQ", 6, 0, 0) + LITTLE.trailer(6))
        + LITTLE.record(perf.ROUND)
        + LITTLE.record(14, LITTLE.trailer(7))
        + LITTLE.record(200, bytes(8))
    )
    (one,) = read(File(raw + told(PLAIN, THREE[0])).written())[1]
    assert [(c.time, c.tid, c.name, c.exec) for c in one.comms] == [(3, 11, "worker", True)]
    assert [(f.time, f.pid, f.parent_tid, f.exit) for f in one.forks] == [(4, 20, 11, False), (9, 20, 10, True)]
    assert [(m.time, m.pid, m.name, m.build_id) for m in one.maps] == [
        (0, -1, "[kernel.kallsyms]_text", ""),
        (8, 10, "/bin/a", "00" * 20),
    ]
    assert (one.lost, one.throttled, one.rounds) == (30, 1, 1)
    assert len(one.samples) == 1


@pytest.mark.parametrize("kind", [perf.COMPRESSED, perf.COMPRESSED2])
@pytest.mark.parametrize("cut", [perf.flushed, perf.framed])
def test_compressed_records_go_on_from_one_to_the_next(kind: int, cut: Callable[[bytes, int], list[bytes]]) -> None:
    """Pieces end inside records and inside frames; plain records stand between."""
    taken = [Taken(time=number) for number in range(200)]
    raw = perf.packed(cut(told(PLAIN, *taken), 5), kind) + LITTLE.record(perf.ROUND)
    _, windows = read(File(raw).written())
    assert rows(windows) == taken
    assert sum(window.rounds for window in windows) == 1
    assert problems(windows) == []
    places = np.concatenate([window.samples.offset for window in windows])
    assert len(set(places.tolist())) == 5
    assert (np.diff(places) >= 0).all()


def test_a_bomb_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that unpack to far more than they should be are left, with a Problem."""
    monkeypatch.setattr(packed, "RATIO_AFTER_BYTES", 1 << 20)
    rounds = LITTLE.record(perf.ROUND, bytes(8184)) * 8192
    windows = read(File(perf.packed(perf.flushed(rounds, 64))).written())[1]
    assert [problem.kind for problem in problems(windows)] == [ProblemKind.LIMIT]
    assert 0 < sum(window.rounds for window in windows) < 8192


def test_damaged_zstd_is_told() -> None:
    """What was unpacked before stays."""
    raw = perf.packed(perf.flushed(told(PLAIN, *THREE), 1)) + LITTLE.record(perf.COMPRESSED, b"no zstd at all")
    windows = read(File(raw).written())[1]
    assert rows(windows) == list(THREE)
    assert [(p.kind, p.count) for p in problems(windows)] == [(ProblemKind.DAMAGED, 1)]


def test_payloads_behind_records_are_stepped_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace data in a pipe follows its record, which does not count it; it may be longer than a window."""
    monkeypatch.setattr(stream, "WINDOW_BYTES", 1000)
    decoy = told(PLAIN, *THREE) * 40
    raw = LITTLE.record(perf.TRACING_DATA, LITTLE.pack("I", len(decoy) - 3)) + decoy
    raw += LITTLE.record(perf.AUXTRACE, LITTLE.pack("Q", len(decoy)) + bytes(32)) + decoy
    _, windows = read(perf.pipe(raw + told(PLAIN, *THREE)))
    assert rows(windows) == list(THREE)
    assert problems(windows) == []


def test_attributes_behind_the_records() -> None:
    """As perf inject of later versions writes them."""
    event = replace(PLAIN, ids=(3, 4))
    recording, windows = read(File(told(event, *THREE), [event], {3: LITTLE.text("box")}, behind=True).written())
    assert rows(windows) == list(THREE)
    assert recording.events[0].ids == (3, 4)
    assert recording.features.hostname == "box"


@pytest.mark.parametrize("size", [64, 72, 112, 136, 200])
def test_attributes_of_any_size(size: int) -> None:
    """Older and newer than those of today."""
    event = Event(size=size)
    assert rows(read(File(told(event, *THREE), [event]).written())[1]) == list(THREE)


def test_a_recording_that_was_not_closed_is_read_to_its_end() -> None:
    """Its header gives no size; perf refuses it."""
    windows = read(File(told(PLAIN, *THREE), closed=False).written())[1]
    assert rows(windows) == list(THREE)
    (problem,) = problems(windows)
    assert "not closed" in problem.text


def test_a_cut_file_says_what_is_missing() -> None:
    """Samples before the cut are read."""
    raw = File(told(PLAIN, *THREE)).written()
    windows = read(raw[:-20])[1]
    assert rows(windows) == list(THREE[:2])
    assert [problem.text for problem in problems(windows)] == ["is cut: 20 bytes of records are missing"]


@pytest.mark.parametrize("size", [0, 7])
def test_a_size_that_cannot_be_ends_the_reading(size: int) -> None:
    """Where the next record begins is not known; how much was left is said."""
    broken = LITTLE.record(perf.ROUND, size=size)
    windows = read(File(told(PLAIN, *THREE[:2]) + broken + told(PLAIN, THREE[2])).written())[1]
    assert rows(windows) == list(THREE[:2])
    (problem,) = problems(windows)
    assert problem.kind is ProblemKind.DAMAGED
    assert f"{len(broken + told(PLAIN, THREE[2]))} bytes" in problem.text


@pytest.mark.parametrize("more", [1, 1000, 2**32, 2**64 - 8])
def test_a_chain_longer_than_its_record_is_odd(more: int) -> None:
    """The sample is counted, the others are read."""
    bad = replace(THREE[0], more=more)
    windows = read(File(told(PLAIN, THREE[0], bad, THREE[2])).written())[1]
    assert rows(windows) == [THREE[0], THREE[2]]
    assert odd(windows) == {"the call chain is longer than the record": 1}


def test_a_sample_too_short_for_its_fields_is_odd() -> None:
    """At the very end of a file too."""
    short = LITTLE.record(perf.SAMPLE, bytes(16))
    windows = read(File(short + told(PLAIN, THREE[0]) + short).written())[1]
    assert rows(windows) == [THREE[0]]
    assert odd(windows) == {"the record is shorter than its event declares": 2}


@pytest.mark.parametrize("raw", [b"", b"PERF", b"PERFILE2", b"\x7fELF" * 40, b"PERFILE2" + LITTLE.pack("Q", 104)])
def test_what_is_no_recording_is_a_problem(raw: bytes) -> None:
    """No exception, one Problem, no samples."""
    recording, windows = read(raw)
    assert rows(windows) == []
    assert len(problems(windows)) == 1
    assert list(recording.events) == []


def test_events_that_share_their_ids_take_no_more_memory_than_the_file() -> None:
    """A thousand events of which each claims all that stands in front of the records as its ids."""
    raw = bytearray(File(told(PLAIN, *THREE), [PLAIN] * 1000).written())
    size = 104 + 1000 * (PLAIN.size + 16)
    for entry in range(104, size, PLAIN.size + 16):
        raw[entry + PLAIN.size : entry + PLAIN.size + 16] = LITTLE.pack("QQ", 104, size - 104)
    recording, _ = read(bytes(raw))
    assert len(recording.events) == 1000
    assert sum(len(event.ids) for event in recording.events) <= size // 8


def test_numbers_that_look_like_headers_are_not_taken_for_them() -> None:
    """Words inside of call chains that read like a sample of plausible size."""
    decoy = perf.SAMPLE | 1 << 32 | 64 << 48
    taken = [Taken(time=number, chain=(decoy,) * (number % 5)) for number in range(500)]
    assert rows(read(File(told(PLAIN, *taken)).written())[1]) == taken
