unit_files() { # what runs at boot, of what may set huge pages
    timeout 20 systemctl list-unit-files --type=service --no-pager 2>/dev/null |
        grep -iE '^UNIT FILE|thp|huge|tuned|ktune|rc-local|sysfs|saptune'
}

startup_start() {
    run startup.txt tuned-adm active
    have rpm && run startup.txt rpm -q tuned
    if have systemctl && have timeout; then
        out startup.txt 'systemctl list-unit-files --type=service' unit_files
    fi
    for startup_path in /etc/rc.d/rc.local /etc/rc.local; do
        [ ! -f "$startup_path" ] || run startup.txt ls -l "$startup_path"
    done
    set --
    for startup_path in /etc/rc.d /etc/rc.local /etc/init.d /etc/grub.conf /etc/default/grub /etc/sysfs.conf /etc/sysfs.d \
        /etc/systemd /etc/tmpfiles.d /etc/tuned /etc/tune-profiles /etc/cron.d /etc/crontab /etc/udev/rules.d; do
        [ ! -e "$startup_path" ] || set -- "$@" "$startup_path"
    done
    [ $# -eq 0 ] || out startup.txt "grep -rs transparent_hugepage $*" grep -rs transparent_hugepage "$@" /dev/null
}
