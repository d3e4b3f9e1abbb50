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

copy_values() { # copy_values PATH...: files of one line; without a process for each, which a sick host has no time for
    for values_path; do
        if [ ! -f "$values_path" ] || [ ! -r "$values_path" ]; then
            continue
        fi
        [ -d "$dir${values_path%/*}" ] || mkdir -p "$dir${values_path%/*}"
        while read -r values_line; do
            echo "$values_line"
        done <"$values_path" >"$dir$values_path"
    done 2>>"$log"
}

settings_start() {
    copy_values "$thp"/* "$thp"/khugepaged/* "$thp"/hugepages-*/* "$thp"/hugepages-*/stats/* /sys/kernel/mm/ksm/*
    have sysctl && out sysctl.txt 'sysctl -a' vm_settings
    run settings.txt ls -d "$thp"
    out settings.txt "grep -E 'HUGEPAGE|COMPACTION' /boot/config-$(uname -r)" build_options
}
