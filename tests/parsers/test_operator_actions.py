"""What operators type: every way to write a setting, what only looks like one, and what was refused."""

from __future__ import annotations

import pytest

from pasted_sessions import DEFRAG, ENABLED, RHEL6, THP, case, essence, session, told

TYPED = {
    f"echo never > {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo never >{THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo never>{THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo never >> {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo 'never' > {THP}/enabled": [(ENABLED, "never", "prompt")],
    f'echo "never" > "{THP}/enabled"': [(ENABLED, "never", "prompt")],
    f"echo \u201cnever\u201d > {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo -n never > {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"/bin/echo never > {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"printf never > {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"printf '%s\\n' never > {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo defer+madvise > {THP}/defrag": [(DEFRAG, "defer+madvise", "prompt")],
    f"sudo echo never > {THP}/enabled": [(ENABLED, "never", "sudo-redirect")],
    f"sudo -n echo never > {THP}/enabled": [(ENABLED, "never", "sudo-redirect")],
    f'sudo sh -c "echo never > {THP}/enabled"': [(ENABLED, "never", "prompt")],
    f"sudo bash -c 'echo never > {THP}/enabled'": [(ENABLED, "never", "prompt")],
    f"su -c 'echo never > {THP}/enabled'": [(ENABLED, "never", "prompt")],
    f"ssh db1 'echo never > {THP}/enabled'": [(ENABLED, "never", "prompt")],
    f"echo never | sudo tee {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo never | tee -a {THP}/enabled": [(ENABLED, "never", "prompt")],
    f"echo never | sudo tee {THP}/enabled > /dev/null": [(ENABLED, "never", "prompt")],
    f"echo never | sudo tee {THP}/enabled {THP}/defrag": [(ENABLED, "never", "prompt"), (DEFRAG, "never", "prompt")],
    f"echo never | sudo tee {THP}/{{enabled,defrag}}": [(ENABLED, "never", "prompt"), (DEFRAG, "never", "prompt")],
    f"sudo tee {THP}/enabled <<< never": [(ENABLED, "never", "prompt")],
    f"for f in enabled defrag; do echo never > {THP}/$f; done": [(ENABLED, "never", "prompt"), (DEFRAG, "never",
    "prompt")],
    f"for f in {THP}/enabled {THP}/defrag; do echo never > $f; done": [(ENABLED, "never", "prompt"), (DEFRAG, "never",
    "prompt")],
    f"echo never > {THP}/enabled; echo never > {THP}/defrag": [(ENABLED, "never", "prompt"), (DEFRAG, "never",
    "prompt")],
    f"if test -f {THP}/enabled; then echo never > {THP}/enabled; fi": [(ENABLED, "never", "prompt")],
    f"echo 0 > {THP}/khugepaged/defrag": [("thp.khugepaged.defrag", "0", "prompt")],
    f"echo no > {RHEL6}/khugepaged/defrag": [("thp.khugepaged.defrag", "no", "prompt")],
    f"cd {RHEL6} && echo never > enabled": [(ENABLED, "never", "prompt")],
    "sysctl -w vm.compact_memory=1": [("sysctl.vm.compact_memory", "1", "prompt")],
    "sudo sysctl vm.drop_caches=3": [("sysctl.vm.drop_caches", "3", "prompt")],
    "sysctl -w vm.swappiness = 10": [("sysctl.vm.swappiness", "10", "prompt")],
    "echo 1 > /proc/sys/vm/compact_memory": [("sysctl.vm.compact_memory", "1", "prompt")],
    "echo 3 | sudo tee /proc/sys/vm/drop_caches": [("sysctl.vm.drop_caches", "3", "prompt")],
    "sync; echo 3 > /proc/sys/vm/drop_caches": [("sysctl.vm.drop_caches", "3", "prompt")],
    "sudo echo 3 > /proc/sys/vm/drop_caches": [("sysctl.vm.drop_caches", "3", "sudo-redirect")],
    f"# echo never > {THP}/enabled": [],
    f"grep -r 'echo never > {THP}/enabled' /etc": [],
    f"cat {THP}/enabled > /tmp/enabled": [],
    f"echo never > /mnt/backup{THP}/enabled": [],
    f"echo {THP}/enabled": [],
    "grubby --update-kernel=ALL --args=transparent_hugepage=never": [],
    f'echo "echo never > {THP}/enabled" >> /etc/rc.local': [],
    f"printf 'echo never > {THP}/enabled\\n' > /etc/init.d/thp": [],
    f"sed -i '$a echo never > {THP}/enabled' /etc/rc.local": [],
    f"alias off='echo never > {THP}/enabled'": [],
    f"at 23:00 <<< 'echo never > {THP}/enabled'": [],
    f"ansible db2 -m shell -a 'echo never > {THP}/enabled'": [],
    f"su - root -c 'echo never > {THP}/enabled'": [(ENABLED, "never", "prompt")],
    f'eval "echo never > {THP}/enabled"': [(ENABLED, "never", "prompt")],
}  # fmt: skip


@pytest.mark.parametrize("command", TYPED)
def test_what_was_typed(command: str) -> None:
    """Every way to write a setting, and commands that write none."""
    assert told(f"[jo@db1 ~]$ {command}\n[jo@db1 ~]$ \n") == TYPED[command]


@pytest.mark.parametrize(
    "answer",
    [
        f"-bash: {THP}/enabled: Permission denied", "bash: echo: write error: Invalid argument",
        f"tee: {THP}/enabled: Permission denied",
        f"bash: {THP}/enabled: Read-only file system", "-bash: echo: write error: Operation not permitted",
        f"bash: {THP}/enabled: No such file or directory",
        "sysctl: permission denied on key 'vm.compact_memory'", "sudo: a password is required",
        "root is not in the sudoers file.  This incident will be reported.",
        "Password: \nsu: Authentication failure", "sudo: no tty present and no askpass program specified",
        "[sudo] password for jo: \nSorry, try again.\n[sudo] password for jo: \nsudo: 3 incorrect password attempts",
        "sudo: sorry, you must have a tty to run sudo", f"-bash: {THP}/enabled: Keine Berechtigung",
        "Sorry, user jo is not allowed to execute '/bin/sh -c echo never' as root on db1.",
        f"bash: line 1: {THP}/enabled: Permiso denegado", f"-rbash: {THP}/enabled: restricted: cannot redirect output",
        f"fish: An error occurred while redirecting file '{THP}/enabled'",
    ],
)  # fmt: skip
def test_a_refused_write_changes_nothing(answer: str) -> None:
    """The shell's complaint right below the command."""
    text = session().replace(f"echo never > {THP}/enabled\n", f"echo never > {THP}/enabled\n{answer}\n", 1)
    assert (ENABLED, "never", "failed") in told(text)


def test_a_write_without_effect_is_seen_by_the_next_reading() -> None:
    """The value that is read afterwards is another one: the states do not change."""
    text = session().replace("always madvise [never]", "[always] madvise never")
    assert {s.settings.get(ENABLED) for s in case(text).states if s.samples} == {"always"}


def test_a_write_in_a_later_session_of_the_same_shell() -> None:
    """`cd` to the folder first, relative names afterwards."""
    there = "[root@db1 redhat_transparent_hugepage]#"
    text = f"[root@db1 ~]# cd {RHEL6}\n{there} cat defrag\n[always] never\n"
    text += f"{there} echo never > defrag\n{there} cat defrag\nalways [never]\n"
    assert essence(text) == [(DEFRAG, "always", ""), (DEFRAG, "never", "prompt"), (DEFRAG, "never", "")]


def test_root_may_redirect_behind_sudo() -> None:
    """At root's prompt the shell that opens the file is root's: `sudo echo` works there."""
    assert told(f"[root@db1 ~]# sudo echo never > {THP}/enabled") == [(ENABLED, "never", "prompt")]
