/* Threads that look for work and find none, as parallel collectors of garbage do: spin THREADS. */
#include "lab.h"
#include <sched.h>

static _Atomic long work;

static void *spin(void *unused)
{
    for (;;) {
        for (int i = 0; i < 100000 && !work; i++)
            ;
        sched_yield();
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    for (unsigned long i = number(argc, argv, 1); i > 0; i--)
        pthread_create(&thread, NULL, spin, NULL);
    pause();
    return 0;
}
