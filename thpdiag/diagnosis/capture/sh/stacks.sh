waiting_tasks() { # "pid tid state comm" of tasks that wait in the kernel and of its huge page threads
    if ps -eLo pid,lwp,stat,comm >/dev/null 2>&1; then
        ps -eLo pid,lwp,stat,comm
    else
        for waiting_file in /proc/[0-9]*/stat; do
            read -r waiting_line <"$waiting_file" && echo "$waiting_line"
        done 2>/dev/null | sed -n 's/^\([0-9]*\) (\(.*\)) \([A-Z]\) .*/\1 \1 \3 \2/p'
    fi | awk '$3 ~ /^D/ || $4 ~ /^(khugepaged|kcompactd|kswapd)/' | head -n 100
}

stacks_round() {
    [ "$(id -u)" -eq 0 ] && [ -r "/proc/$$/stack" ] || return 0
    {
        date +%s
        waiting_tasks | while read -r stacks_pid stacks_tid stacks_state stacks_comm; do
            stacks_path=/proc/$stacks_pid/task/$stacks_tid/stack
            [ -r "$stacks_path" ] || continue
            echo "# cat $stacks_path   # $stacks_state $stacks_comm"
            cat "$stacks_path"
        done
    } >>"$dir/task-stacks.txt" 2>>"$log"
}
