"""Values that are the customer's for where they stand: arguments, passwords, numbers of accounts, people called Jan."""

from __future__ import annotations

# ruff: noqa: E501 (lines of other programs)
import pytest

from thpdiag.redact.allowed import is_program
from thpdiag.redact.names import Names, mapping_text, read
from thpdiag.redact.words import Words


@pytest.mark.parametrize(("line", "gone"), [
    ("password: dirty", "dirty"), ("db.password=swap", "swap"), ("--db-password always", "always"), ("--api-token swap", "swap"), ("token=swap", "swap"),
    ("Enter PIN 4711", "4711"), ("pin: 4711", "4711"), ("Authorization: Bearer 0123456789", "0123456789"),
    ("card: 4111 1111 1111 1111", "1111"), ("tel +49 170 1234567", "1234567"), ('{"acct":"12345678"}', "12345678"),
    ('{"invoice": 12345678}', "12345678"), ("contract: 12345678", "12345678"),
    ("wmeyer 8120 99.0 /usr/bin/pay 4111111111111111", "4111111111111111"), ("GET /orders/778899 HTTP", "778899"),
    ("[jan]$ su jan", "jan"), ("jan 8120 99.0 55.0", "jan"), ("ssh sun", "sun"),
    ("010.077.033.011", "077"), ("\u0661\u0662\u0663\u0664", "\u0661"),
])  # fmt: skip
def test_what_is_private_where_it_stands(line: str, gone: str) -> None:
    """Even words that a list knows and numbers go, if what stands in front says whose they are."""
    assert gone not in Words(Names()).line(line)


@pytest.mark.parametrize("line", [
    "Sun Nov 20 16:00:00 UTC 2026", "Nov 20 12:00:01 kernel: oom_kill", "Jan  2 03:00:00", "nr_foll_pin_acquired 4711",
    "AnonHugePages: 1048576 kB", "node:0 pid:4711 order:9", "01 Mar 2026 12:00", "root 26348 0.0 ? SN 06:16 0:00 [khugepaged]", "[java:18231]",
    "state:D stack: 0 pid: 4711", "vm.swappiness = 1", "numastat: SwapCached not in memory", "[root@localhost /]# echo 100 > /proc/sys/vm/nr_hugepages",
])  # fmt: skip
def test_what_is_not(line: str) -> None:
    """Dates, counters and what is written to the kernel stay."""
    assert Words(Names()).line(line).replace("host1", "localhost") == line


def test_a_number_is_private_only_there() -> None:
    """What an argument held stays a number elsewhere, with the mapping of an earlier report too."""
    names = Names()
    assert Words(names).line("--pin 1") == "--word1 arg1"
    for again in (names, Names(read(mapping_text(names), "map")[0])):
        assert Words(again).line("dirty 1") == "dirty 1"
        assert Words(again).sentence("at least 1 of 4") == "at least 1 of 4"
        assert Words(again).line("--pin 1").endswith(" arg1")


@pytest.mark.parametrize("name", [
    "z_acmecorp", "arc_payroll", "md_bank", "kube-acmecorp", "systemd-acme", "memsqlacme", "scsi_acme", "ata_acme",
    "txg_acme", "ext4-acme", "jbd2/acme-db-8", "xfs-acme/sda1", "xfs_acme/dm-zeus", "kworker/u8:2-acmebus_wq", "irq/45-acmeirq",
])  # fmt: skip
def test_no_program_passes_for_a_kernel_thread(name: str) -> None:
    """A name that only begins as one of the kernel's is the customer's."""
    assert not is_program(name)


@pytest.mark.parametrize("name", [
    "kworker/u8:2-events_unbound", "kworker/0:1H", "kworker/u8:2+flush-253:0", "kworker/0:2-mm_percpu_wq", "jbd2/vda1-8",
    "xfsaild/dm-0", "scsi_eh_0", "md0_raid1", "systemd-journal", "systemd-timesyncd", "z_wr_iss_4", "arc_prune",
])  # fmt: skip
def test_kernel_threads_stay(name: str) -> None:
    """Support needs to see what the kernel itself does."""
    assert is_program(name)
