"""A folder that stands for the root of a host, with fakes of the programs that commands of remedies call.

The files are those of a host; the fakes write below the folder what the real programs write (the kernel command line,
sysctls, enabled units), so that a complete remedy can be run, repeated and undone, and the folder compared.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

SHELLS = {"sh": ["sh"], "dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
# Absolute paths in a command that are redirected below the folder
_PATHS = re.compile(r"(?<![\w.@/-])/(?=(?:sys|etc|boot|proc|run|usr/local/bin|cgroup)(?:/|\b))")
_WORDS = {
    "enabled": "[always] madvise never", "defrag": "[always] madvise never", "shmem_enabled": "[always] never",
    "khugepaged/max_ptes_none": "511", "khugepaged/max_ptes_swap": "64", "khugepaged/pages_to_scan": "8192",
    "khugepaged/scan_sleep_millisecs": "100", "khugepaged/alloc_sleep_millisecs": "100",
    "hugepages-64kB/enabled": "[always] inherit madvise never", "hugepages-2048kB/enabled": "always [inherit] never",
}  # fmt: skip
_SYSCTLS = {
    "vm/min_free_kbytes": "67584", "vm/nr_hugepages": "100", "vm/zone_reclaim_mode": "1", "kernel/numa_balancing": "1",
    "vm/compaction_proactiveness": "20", "vm/watermark_boost_factor": "15000", "vm/extfrag_threshold": "500",
    "vm/drop_caches": "0", "vm/compact_memory": "0", "vm/watermark_scale_factor": "10", "vm/dirty_bytes": "0",
    "vm/dirty_background_bytes": "0", "dev/raid/speed_limit_max": "200000",
}  # fmt: skip
_FILES = {
    "etc/default/grub": 'GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX="rhgb quiet"\nGRUB_CMDLINE_LINUX_DEFAULT="splash"\n',
    "etc/sysctl.conf": "# mine\nvm.swappiness = 10\n", "etc/sysfs.conf": "# mine\n", "boot/line": "quiet\n",
    "boot/grub/menu.lst": "title one\n    kernel /vmlinuz root=/dev/sda1 quiet\n",
    "etc/fstab": "tmpfs /x tmpfs huge=always 0 0\n",
    "etc/rc.d/rc.local": "#!/bin/sh\ntouch /var/lock/subsys/local\n", "etc/rc.local": "#!/bin/sh\nexit 0\n",
    "etc/init.d/boot.local": "#! /bin/sh\n#\n",
    "etc/tune-profiles/throughput/ktune.sh": "echo always > transparent_hugepage\n",
    "proc/meminfo": "MemTotal: 196000000 kB\nHugePages_Total: 100\nHugePages_Free: 60\nHugePages_Rsvd: 10\n",
    "proc/mounts": "tmpfs /dev/shm tmpfs rw,huge=always 0 0\ntmpfs /run tmpfs rw 0 0\n", "proc/cmdline": "quiet\n",
    "sys/kernel/debug/split_huge_pages": "0\n", "tuned": "balanced\n", "units": "", "mounted": "always /dev/shm\n",
    "boot/grub2/grub.cfg": "", "daemonset": "", "labels": "", "systemd": "252\n",
}  # fmt: skip
_PROGRAMS = {
    # puts the last written word of a setting in brackets, which the kernel does and a file does not
    "grubby": """for a; do case $a in
--remove-args=*) w=${a#*=}; sed -i "s/ $w=[a-z]*//" "$R/boot/line";;
--args=*) w=${a#*=}; sed -i -e "s/ ${w%%=*}=[a-z]*//" -e "s/$/ $w/" "$R/boot/line";;
--info=*) cat "$R/boot/line";; esac; done""",
    "sysctl": """f() { echo "$R/proc/sys/$(echo "$1" | tr . /)"; }
case $1 in -w) echo "${2#*=}" > "$(f "${2%%=*}")";;
-p) while read -r n _ v; do echo "$v" > "$(f "$n")"; done < "$2";;
*) [ -e "$(f "$1")" ] && echo "$1 = $(cat "$(f "$1")")";; esac""",
    "systemctl": """case $1 in enable) [ -s "$R/etc/systemd/system/$2" ] && echo "$2" > "$R/units";;
disable) [ -e "$R/etc/systemd/system/$2" ] && : > "$R/units";; daemon-reload) :;;
cat) [ "$2" = redis-server.service ] && echo "[Service]";;
show) echo "ExecStart={ path=/usr/bin/redis-server ; argv[]=/usr/bin/redis-server /etc/redis.conf --port 1 ; \
ignore_errors=no ; start_time=[n/a] ; status=0/0 }";;
--version) echo "systemd $(cat "$R/systemd") ($(cat "$R/systemd").4-1)";; *) exit 1;; esac""",
    "tuned-adm": """case $1 in active) echo "Current active profile: $(cat "$R/tuned")";;
profile) shift; echo "$*" > "$R/tuned";; esac""",
    "mount": """echo "$2 $3" | sed 's/.*huge=//' > "$R/mounted" """,
    "sudo": 'exec "$@"',
    "kubectl": """case $1 in apply) cat > "$R/daemonset";; label) shift 3; case $1 in *=*) echo "$1" > "$R/labels";;
*-) : > "$R/labels";; esac;; -n) [ "$3" = delete ] && : > "$R/daemonset";; *) exit 1;; esac""",
    "ps": "echo 4711 1 java",
    "sleep": ":",
    "pgrep": ":", "sync": ":", "rpm": "echo tuned-2.8-1", "saptune": ":", "update-grub": ":", "grub2-mkconfig": ":",
    "apt-get": ":", "redis-cli": "echo disable-thp; echo yes",
}  # fmt: skip


class CommandRoot:
    """The folder of one host; `run` raises if a command fails."""

    def __init__(self, folder: Path, directory: str, shell: str) -> None:
        self.folder, self._shell = folder, SHELLS[shell]
        self.settings = folder / "sys/kernel/mm" / directory
        yes = {"khugepaged/defrag": "[yes] no" if directory.startswith("redhat") else "1"}
        for name, text in {**_WORDS, **yes}.items():
            _write(self.settings / name, f"{text}\n")
        for name, text in _SYSCTLS.items():
            _write(folder / "proc/sys" / name, f"{text}\n")
        for name, text in _FILES.items():
            _write(folder / name, text)
        for path in ("etc/systemd/system", "etc/sysctl.d", "etc/tuned", "usr/local/bin", "root", "run/systemd/system"):
            (folder / path).mkdir(parents=True, exist_ok=True)
        for name, text in _PROGRAMS.items():
            _write(folder / "bin" / name, f"#!/bin/sh\nR='{folder}'\n{text}\n").chmod(0o755)

    def run(self, commands: Sequence[str]) -> str:
        """Run commands and return their output; comments are for people."""
        # shell functions, since busybox prefers its own sysctl to those in PATH, and would write to the kernel
        own = [f"{name}() {{ '{self.folder}/bin/{name}' \"$@\"; }}" for name in _PROGRAMS if name.isidentifier()]
        script = "\n".join([*own, *(self._moved(command) for command in commands)])
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        done = subprocess.run(
            [*self._shell, "-e", "-c", script], capture_output=True, text=True, check=False, cwd=self.folder,
            env={"PATH": path, "HOME": f"{self.folder}/root", "LC_ALL": "C"},
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stderr}"
        assert "not found" not in done.stderr, done.stderr
        return done.stdout

    def state(self) -> dict[str, str]:
        """Return all files except notes in the home folder; of a setting the active word."""
        found: dict[str, str] = {}
        for path in sorted(self.folder.rglob("*")):
            inside = path.relative_to(self.folder)
            if path.is_file() and inside.parts[0] not in ("root", "bin"):
                text = path.read_text(encoding="utf-8")
                word = re.search(r"\[([^]]*)\]", text) if inside.parts[0] == "sys" else None
                found[str(inside)] = f"{word[1]}\n" if word else text
        return found

    def _moved(self, command: str) -> str:
        return _PATHS.sub(f"{self.folder}/", command)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
