host_start() {
    run host.txt uname -a
    run host.txt date
    run host.txt date +%s
    run host.txt uptime
    run host.txt nproc
    run host.txt getconf PAGESIZE
    run host.txt lscpu
    run host.txt systemd-detect-virt
    copy /etc/*release /proc/cmdline /proc/version /proc/uptime /proc/loadavg
}
