thp=/sys/kernel/mm/transparent_hugepage
[ -d "$thp" ] || thp=/sys/kernel/mm/redhat_transparent_hugepage # RHEL 6

vm_settings() {
    sysctl -a 2>/dev/null | grep -E '^(vm\.|kernel\.numa_balancing)'
}

build_options() {
    if [ -r "/boot/config-$(uname -r)" ]; then
        grep -E 'HUGEPAGE|COMPACTION' "/boot/config-$(uname -r)"
    else
        gzip -dc /proc/config.gz 2>/dev/null | grep -E 'HUGEPAGE|COMPACTION'
    fi
}

settings_start() {
    for settings_dir in /sys/kernel/mm/transparent_hugepage /sys/kernel/mm/redhat_transparent_hugepage; do
        [ -d "$settings_dir" ] || continue
        find "$settings_dir" -type f | while read -r settings_file; do
            copy "$settings_file"
        done
    done
    have sysctl && out sysctl.txt 'sysctl -a' vm_settings
    run settings.txt ls -d "$thp"
    out settings.txt "grep -E 'HUGEPAGE|COMPACTION' /boot/config-$(uname -r)" build_options
}
