/* A store that forks to save itself and writes on meanwhile, as Redis does: saver MIB PAUSE_MS. */
#include "lab.h"

int main(int argc, char **argv)
{
    size_t size = number(argc, argv, 1) << 20, wait = number(argc, argv, 2);
    char *at = map(size, MADV_NORMAL);
    unsigned long place = 1;
    memset(at, 1, size);
    for (;;) {
        pid_t child = fork();
        if (child == 0) {
            rest(wait);
            _exit(0);
        }
        while (waitpid(child, NULL, WNOHANG) == 0) {
            place = place * 6364136223846793005UL + 1442695040888963407UL;
            at[(place >> 20) % (size / PAGE) * PAGE]++;
            if ((place >> 40) % 16 == 0)
                rest(1);
        }
    }
}
