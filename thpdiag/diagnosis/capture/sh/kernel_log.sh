log_tail() { # log_tail FILE: its last kernel lines
    tail -n 50000 "$1" | grep -a ' kernel: ' | tail -n 3000
}

kernel_log_finish() {
    if dmesg >/dev/null 2>&1; then
        run dmesg.txt dmesg
    else
        run dmesg.txt journalctl -k -n 5000 --no-pager
    fi
    for kernel_log_file in /var/log/messages /var/log/kern.log /var/log/syslog; do
        if [ -s "$kernel_log_file" ] && [ -r "$kernel_log_file" ]; then
            mkdir -p "$dir/var/log"
            log_tail "$kernel_log_file" >"$dir$kernel_log_file" 2>>"$log"
            break
        fi
    done
}
