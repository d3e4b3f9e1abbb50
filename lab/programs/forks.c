/* A script's way of working: processes that are started, touch a little and end: forks. */
#include "lab.h"

int main(void)
{
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            char *at = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (size_t page = 0; at != MAP_FAILED && page < 64; page++)
                at[page * PAGE] = 1;
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}
