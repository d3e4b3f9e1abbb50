startup_start() {
    run startup.txt tuned-adm active
    have rpm && run startup.txt rpm -q tuned
    set --
    for startup_path in /etc/rc.d /etc/rc.local /etc/init.d /etc/grub.conf /etc/default/grub /etc/sysfs.conf /etc/sysfs.d \
        /etc/systemd /etc/tmpfiles.d /etc/tuned /etc/tune-profiles /etc/cron.d /etc/crontab /etc/udev/rules.d; do
        [ ! -e "$startup_path" ] || set -- "$@" "$startup_path"
    done
    [ $# -eq 0 ] || out startup.txt "grep -rs transparent_hugepage $*" grep -rs transparent_hugepage "$@" /dev/null
}
