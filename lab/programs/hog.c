/* Takes memory, PACE_MIB a second up to MIB, and then goes over it again and again: hog MIB PACE_MIB RETOUCH(0|1).
 * With RETOUCH 0 it only keeps it, as a leak does. */
#include "lab.h"

int main(int argc, char **argv)
{
    size_t size = number(argc, argv, 1) << 20, tenth = (number(argc, argv, 2) << 20) / 10, next = tenth;
    char *at = malloc(size);
    if (!at)
        die("malloc");
    for (size_t offset = 0; offset < size; offset += PAGE) {
        memset(at + offset, (int)(offset >> 12) + 1, PAGE);
        for (; offset >= next; next += tenth)
            rest(100);
    }
    if (!number(argc, argv, 3))
        pause();
    for (;;)
        for (size_t offset = 0; offset < size; offset += PAGE)
            at[offset]++;
}
