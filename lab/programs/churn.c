/* Threads that map memory, touch each page of it and unmap it, over and over: churn THREADS MIB ADVISE(0|1). */
#include "lab.h"

static size_t size;
static int advice;

static void *churn(void *unused)
{
    for (;;) {
        char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            die("mmap");
        madvise(at, size, advice);
        for (size_t offset = 0; offset < size; offset += PAGE)
            at[offset] = 1;
        munmap(at, size);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    size = number(argc, argv, 2) << 20;
    advice = number(argc, argv, 3) ? MADV_HUGEPAGE : MADV_NORMAL;
    for (unsigned long i = number(argc, argv, 1); i > 0; i--)
        pthread_create(&thread, NULL, churn, NULL);
    pause();
    return 0;
}
