"""A bundle with every kind of file and private names in all places where a customer's names can be."""

from __future__ import annotations

# ruff: noqa: E501 (lines of other programs)
import shutil
from pathlib import Path

from command_line import ROOT

CAPTURE = ROOT / "fixtures" / "captures" / "storm-always" / "bundle"
TICKET = ROOT / "fixtures" / "stories" / "redis-shop-ubuntu" / "bundle"
# None of these may be left anywhere, in any capitalisation or as part of a word
SECRETS = (
    "zeusprod", "acmecorp", "10.77.33.11", "10-77-33-11", "fd12:3456", "02:42:ac:99", "wmeyer", "walter", "payroll", "hunter2", "swordfish",
    "99887766", "acmedata", "acmebilling", "ledgerpost", "libledger", "zurichdc", "kundendaten", "müllerbank",
)  # fmt: skip
HOST = "zeusprod01.acmecorp.internal"

KERNEL_LOG = """\
[ 1000.100000] payrolld: page allocation failure: order:9, mode:0x10c0d0(GFP_KERNEL|__GFP_COMP), nodemask=(null),cpuset=acmebilling.slice,mems_allowed=0
[ 1000.100001] CPU: 3 PID: 8120 Comm: payrolld Tainted: G           OE     6.18.44-1.acmecorp.zurichdc #1 SMP
[ 1000.100002] Hardware name: Acmecorp ZeusProd-Server/X1, BIOS 1.2
[ 1000.100003] Call Trace:
[ 1000.100004]  __alloc_pages_slowpath+0x2a/0x300
[ 1001.200000] INFO: task payrolld:8120 blocked for more than 120 seconds.
[ 1001.200001]       Not tainted 6.18.44-1.acmecorp.zurichdc #1
[ 1002.300000] payrolld invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 1002.300001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=acmebilling,mems_allowed=0,oom_memcg=/acmebilling.slice,task_memcg=/acmebilling.slice/payroll,task=payrolld,pid=8120,uid=1000
[ 1002.300002] Memory cgroup out of memory: Killed process 8120 (payrolld) total-vm:5000000kB, anon-rss:4000000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:9000kB oom_score_adj:0
[ 1003.000000] nfs: server 10.77.33.11 not responding, mount /mnt/acmedata
[ 1003.000001] e1000 0000:00:03.0 eth0: 02:42:ac:99:88:77 ip-10-77-33-11 fd12:3456:789a::42
"""
JOURNAL = """\
Nov 20 12:00:01 zeusprod01 kernel: payrolld: page allocation failure: order:9, mode:0x10c0d0
Nov 20 12:00:02 ZeusProd01 CRON[4711]: (wmeyer) CMD (/home/wmeyer/bin/payroll-run --password=Hunter2Swordfish -p 99887766)
Nov 20 12:00:03 zeusprod01 sshd[4712]: Accepted publickey for wmeyer from 10.77.33.11 port 51022 ssh2 (walter.meyer@acmecorp.internal)
Nov 20 12:00:04 zeusprod01 postfix[1]: to=<walter.meyer@acmecorp.internal>, url=http%3A%2F%2Facmecorp.internal%2Fpayroll%3Fpin=99887766
"""
SESSION = """\
[wmeyer@zeusprod01 ~]$ ssh root@10.77.33.11 # walter.meyer@acmecorp.internal
Linux zeusprod01.acmecorp.internal 6.18.44-1.acmecorp.zurichdc #1 SMP x86_64 GNU/Linux
[root@zeusprod01 /home/wmeyer/kundendaten]# echo never > /sys/kernel/mm/transparent_hugepage/enabled
[root@zeusprod01 /mnt/acmedata]# cat /sys/kernel/mm/transparent_hugepage/enabled
always madvise [never]
[root@zeusprod01 /mnt/acmedata]# /opt/acmecorp/bin/payroll --password=Hunter2Swordfish --pin 99887766 müllerbank
[root@zeusprod01 /mnt/acmedata]# ps aux
USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
wmeyer    8120 99.0 55.0 5000000 4000000 ?     Ssl  10:00  20:00 /home/wmeyer/bin/payrolld --db /mnt/acmedata/kundendaten.db --password Hunter2Swordfish 99887766
redis     1202 61.0  4.1 3145728 2097152 ?     Ssl  Mar10 812:11 /usr/bin/redis-server 10.77.33.11:6379
[root@zeusprod01 /mnt/acmedata]# crontab -l -u wmeyer
*/5 * * * * /home/wmeyer/bin/payroll-backup zeusprod01 echo never > /sys/kernel/mm/transparent_hugepage/defrag
"""
START_UP = """\
#!/bin/sh
# wmeyer for müllerbank, ask walter.meyer@acmecorp.internal (zurichdc), pw Hunter2Swordfish
echo always > /sys/kernel/mm/transparent_hugepage/enabled # zeusprod01 kundendaten
/opt/acmecorp/bin/payrolld --pin=99887766 &
"""
SYSCTL = """\
# wmeyer: zeusprod01 needs this for kundendaten (walter.meyer@acmecorp.internal)
vm.swappiness = 10 # müllerbank
vm.zone_reclaim_mode = 1
kernel.core_pattern = |/opt/acmecorp/bin/coredump-payroll
kernel.hostname = zeusprod01.acmecorp.internal
"""
NMON = """\
AAA,progname,nmon
AAA,command,/home/wmeyer/nmon -f --password Hunter2Swordfish
AAA,host,zeusprod01.acmecorp.internal
AAA,user,wmeyer
AAA,date,20-NOV-2026
AAA,time,12:00.01
AAA,interval,10
AAA,snapshots,3
CPU_ALL,CPU Total zeusprod01,User%,Sys%,Wait%,Idle%,Busy,CPUs
ZZZZ,T0001,12:00:01,20-NOV-2026
CPU_ALL,T0001,10.0,80.0,0.0,10.0,,2
ZZZZ,T0002,12:00:11,20-NOV-2026
CPU_ALL,T0002,10.0,81.0,0.0,9.0,,2
"""
COLLECTED = """\
top - 12:00:01 up 1 day,  1:00,  2 users,  load average: 9.00, 9.00, 9.00
Tasks: 200 total,   3 running, 197 sleeping,   0 stopped,   0 zombie
%Cpu(s): 10.0 us, 80.0 sy,  0.0 ni, 10.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st
MiB Mem :  16000.0 total,    200.0 free,  15000.0 used,    800.0 buff/cache

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   8120 wmeyer    20   0 5000000   3.9g   1000 R  99.0  25.0  20:00.00 payrolld
"""


def bundle(folder: Path) -> Path:
    """Return a folder as customers send it, with a private name too."""
    root = folder / "Acmecorp-sosreport-zeusprod01-2026-11-20-abcdefg"
    shutil.copytree(CAPTURE, root)
    for file in [f for f in root.rglob("*") if f.is_file()]:
        text = file.read_text(encoding="utf-8")
        for old, new in (
            ("churn", "payrolld"),
            ("/opt/demo", "/opt/acmecorp"),
            ("demo", HOST),
            ("[unknown]", "LedgerPost::entry"),
        ):
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
    for name, text in {
        "var/log/messages": JOURNAL,
        "sos_commands/kernel/dmesg": KERNEL_LOG,
        "hostname": HOST + "\n",
        "proc/cmdline": "BOOT_IMAGE=/vmlinuz-6.18.44-1.acmecorp.zurichdc root=/dev/mapper/acmedata-root ro transparent_hugepage=always payroll.pin=99887766\n",
        "etc/rc.local": START_UP,
        "etc/sysctl.conf": SYSCTL,
        "sos_commands/kernel/sysctl_-a": SYSCTL,
        "session-wmeyer.txt": SESSION,
        "zeusprod01/kundendaten/nmon-Payroll.nmon": NMON,
        "zeusprod01/top-payroll.txt": COLLECTED,
        "kundendaten.bin": "müllerbank \x01 wmeyer Hunter2Swordfish\n",
        "notes-Walter.txt": "Walter says müllerbank's payroll on zeusprod01 (10.77.33.11) hangs; %2Fhome%2Fwmeyer fills /mnt/acmedata\n",
        "proc/version": "Linux version 6.18.44-1.acmecorp.zurichdc (wmeyer@zeusprod01) (gcc (GCC) 15.3.0) #1 SMP PREEMPT_DYNAMIC\n",
    }.items():  # fmt: skip
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    stack = root / "perf-script.txt"
    recorded = stack.read_text(encoding="utf-8").replace("/opt/acmecorp/payrolld", "/opt/acmecorp/lib/libledger.so.3")
    stack.write_text(recorded, encoding="utf-8")
    return root
