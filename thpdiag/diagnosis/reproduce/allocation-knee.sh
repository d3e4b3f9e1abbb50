#!/bin/sh
# Reproduces the allocation knee: free memory is broken into small pieces but for some GiB, then a program fills memory. As
# long as whole blocks of 2 MiB are left it gets GiB a second; then the kernel compacts in vain for each further one, and
# threads of the program compete for what there is.
# For TEST hosts only, best a virtual machine of 8 GiB or more: no program of the host gets huge pages while it runs. What
# others took meanwhile stays in pieces for a while; dropping the page cache mends most of that.
#
# mechanism: allocation-knee (rule THP-020)
# memory: two thirds of the available memory and 8 GiB at most for the program, and 17 pages in every 2 MiB of the other
#   free memory; 6 GiB must be available
# time: 40 s (-s SECONDS) after at most 90 s (-w SECONDS) for breaking up the free memory
# knobs: /sys/kernel/mm/transparent_hugepage/enabled, /sys/kernel/mm/transparent_hugepage/defrag; put back at the end,
#   also when interrupted
# watch: the resident memory of the program, which grows more than ten times as fast before the bend as after it;
#   compact_stall of /proc/vmstat begins to rise there
# expect: allocation-knee, confirmed
# remedy: -r sets defrag to never, as the advice says for memory that asks for huge pages itself; compact_stall stands still,
#   the program continues in small pages, and the rule is silent
#
# usage: sh THIS [-s SECONDS] [-w SECONDS] [-c CAPTURE.SH] [-r]
#   -c  records it with this script, which `thpdiag capture-script` has printed
seconds=40
@frame.sh@
need_root
need_memory 6000
build -pthread <<'PROGRAM'
@riddle.c@
#define MIB (1UL << 20)
#define PIECE (32 * MIB)
#define SCRATCH (8 * MIB)
#define WORKERS 6

/* SIGUSR1 from another process, which is returned; 0 after so many seconds. */
static pid_t wait_for_signal(unsigned seconds)
{
    const struct timespec limit = {seconds, 0};
    siginfo_t from = {0};
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    return sigtimedwait(&one, &from, &limit) > 0 ? from.si_pid : 0;
}

/* Takes each free block of 2 MiB as a huge page. The first `leave` bytes of them are given back whole, a piece at each
 * SIGUSR1. Of all others it pins the first page, keeps every 32nd, which compaction moves in vain, and gives the rest back:
 * that memory is as useless for huge pages as after months. All is free again when the program ends. */
static void riddle(size_t room, size_t leave, double limit)
{
    const struct rlimit many = {65536, 65536};
    char *at = map(room);
    int pages = open("/proc/self/pagemap", O_RDONLY);
    double begin = now(), latest = begin;
    size_t offset = 0;
    setrlimit(RLIMIT_NOFILE, &many);
    while (offset + HUGE <= room && now() - latest < 3 && now() - begin < limit) {
        char *block = at + offset;
        if (!touch_huge(block, pages))
            continue;
        latest = now();
        if (offset >= leave) {
            pin(block);
            for (size_t page = 0; page < HUGE; page += 32 * 4096)
                madvise(block + page + 4096, 31 * 4096, MADV_DONTNEED);
        }
        offset += HUGE;
    }
    fprintf(stderr, "thp-demo: broke up %ld MiB in %.1f s\n", (long)(offset / MIB) - (long)(leave / MIB), now() - begin);
    printf(now() - begin < limit ? "ready\n" : "late\n");
    fflush(stdout);
    for (offset = 0; offset < leave; offset += PIECE) {
        pid_t from = wait_for_signal(600);
        madvise(at + offset, PIECE, MADV_DONTNEED);
        if (from != 0)
            kill(from, SIGUSR1);
    }
    pause();
}

static sem_t bend;

/* Uses scratch memory and gives it back, over and over, once the whole blocks have run out. */
static void *work(void *scratch)
{
    sem_wait(&bend);
    for (;;) {
        for (size_t offset = 0; offset < SCRATCH; offset += 4096)
            ((char *)scratch)[offset] = 1;
        madvise(scratch, SCRATCH, MADV_DONTNEED);
    }
    return NULL;
}

/* Fills `size` bytes as fast as it gets them, from the moment at which the recording has begun. Each piece of whole blocks
 * is freed just before it is taken: a virtual machine's host may take back what is free for longer, and is slow to give it
 * again. At the end of them the workers begin, so that threads compete for what compaction finds, as those of a server do. */
static void fill(size_t size, size_t leave, pid_t riddle, double limit)
{
    char *at = map(size), *scratch = map(WORKERS * SCRATCH);
    size_t offset = 0;
    pthread_t thread;
    sem_init(&bend, 0, 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&thread, NULL, work, scratch + i * SCRATCH);
    wait_for_signal(60);
    double begin = now(), slow = begin;
    for (; offset < size && now() - begin < limit; offset += HUGE) {
        if (offset < leave && offset % PIECE == 0 && kill(riddle, SIGUSR1) == 0)
            wait_for_signal(1);
        if (offset == leave) {
            slow = now();
            for (int i = 0; i < WORKERS; i++)
                sem_post(&bend);
        }
        for (size_t page = 0; page < HUGE; page += 4096)
            at[offset + page] = 1;
    }
    printf("thp-demo: %zu MiB in %.1f s, then %ld MiB in %.1f s\n", leave / MIB, slow - begin,
           (long)(offset / MIB) - (long)(leave / MIB), now() - slow);
    fflush(stdout);
    sleep(limit);
}

int main(int argc, char **argv)
{
    sigset_t one;
    if (argc < 5)
        return 2;
    char **number = argv + argc - 4;
    size_t size = strtoul(number[0], NULL, 10) * MIB, leave = strtoul(number[1], NULL, 10) * MIB;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, NULL);
    alarm((unsigned)atoi(number[3]));
    if (strcmp(argv[1], "fill") == 0)
        fill(size, leave, atoi(number[2]), atoi(number[3]) - 60);
    else
        riddle(size, leave, atof(number[2]));
    return 0;
}
PROGRAM
whole=$(($(available_mib) / 3 / 256 * 256))
[ "$whole" -le 4096 ] || whole=4096
set_knob /sys/kernel/mm/transparent_hugepage/enabled madvise
set_knob /sys/kernel/mm/transparent_hugepage/defrag always
start_riddle "$((2 * $(total_mib)))" "$whole" "$limit" "$((seconds + limit + 60))"
riddle=$!
[ -z "$remedy" ] || set_knob /sys/kernel/mm/transparent_hugepage/defrag never
start /dev/stdout $((2 * whole + 1024)) fill $((2 * whole)) "$whole" "$riddle" $((seconds + 60))
program=$!
record "$program"
await_recording
kill -USR1 "$program" || true
finish "$program"
