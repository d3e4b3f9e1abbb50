"""Shares of an idle host say nothing: what little runs is not what anybody waits for."""

from __future__ import annotations

import pytest

from analyze_bytes import document, found


@pytest.mark.parametrize(("rate", "fires"), [(16096, True), (30, False)])
def test_perf_top_of_an_idle_host_proves_nothing(rate: int, fires: object) -> None:
    """The same shares of 16 CPUs that are busy, and of 16 CPUs that sleep."""
    text = f"""[root@db1 ~]# uname -r
2.6.32-220.el6.x86_64
[root@db1 ~]# perf top
   PerfTop:   {rate} irqs/sec  kernel:92.6%  exact:  0.0% [1000Hz cycles],  (all, 16 CPUs)
-------------------------------------------------------------------------------
             samples  pcnt function                  DSO
             _______ _____ _________________________ ____________________
            30000.00 80.0% _spin_lock_irq            [kernel.kallsyms]
             1000.00  3.0% compaction_alloc          [kernel.kallsyms]
"""
    assert ("THP-001" in found(document(text.encode()))) == fires
