"""Three small rules for insights-core, as a user would write them to find the same problems.

`sosreport.py` runs them; thpdiag itself needs neither them nor insights-core.
"""

from insights import make_fail, make_info, make_pass, rule
from insights.parsers.buddyinfo import BuddyInfo
from insights.parsers.cmdline import CmdLine
from insights.parsers.meminfo import MemInfo
from insights.parsers.transparent_hugepage import ThpEnabled

HUGE_ORDER = 9  # 2 MiB of 4 KiB pages
MIN_HUGE_SHARE = 0.5  # of the anonymous memory


@rule(ThpEnabled, CmdLine)
def overridden(enabled: ThpEnabled, cmdline: CmdLine) -> object:
    """The kernel has another setting than the boot line."""
    booted = cmdline.get("transparent_hugepage", [enabled.active_option])
    if booted[-1] != enabled.active_option:
        return make_fail("OVERRIDDEN", boot=booted[-1], now=enabled.active_option)
    return make_pass("AS_BOOTED", now=enabled.active_option)


@rule(ThpEnabled, MemInfo)
def many_huge_pages(enabled: ThpEnabled, memory: MemInfo) -> object:
    """Most anonymous memory is in huge pages."""
    share = memory.huge_pages.anon / memory.anon.pages if memory.anon.pages else 0.0
    if share > MIN_HUGE_SHARE and enabled.active_option == "always":
        return make_fail("MANY_HUGE_PAGES", share=round(share, 2))
    return make_pass("FEW_HUGE_PAGES", share=round(share, 2))


@rule(BuddyInfo)
def no_block_left(zones: BuddyInfo) -> object:
    """No zone has a free block of the size of a huge page."""
    return make_info("FREE_BLOCKS", blocks=sum(sum(zone["counter"][HUGE_ORDER:]) for zone in zones))
