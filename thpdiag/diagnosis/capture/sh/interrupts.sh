interrupts_now() {
    date +%s >>"$dir/loops/interrupts.txt"
    out loops/interrupts.txt 'cat /proc/interrupts' cat /proc/interrupts
    out loops/interrupts.txt 'cat /proc/softirqs' cat /proc/softirqs
}

interrupts_start() {
    interrupts_now
}

interrupts_finish() {
    interrupts_now
}
