/* Touches one page in every STEP_KIB of MIB, within SECONDS, then sleeps: sparse MIB STEP_KIB SECONDS.
 * What it uses is MIB / STEP_KIB pages; what it gets depends on huge pages. */
#include "lab.h"

int main(int argc, char **argv)
{
    size_t size = number(argc, argv, 1) << 20, step = number(argc, argv, 2) << 10, seconds = number(argc, argv, 3);
    size_t slice = seconds ? size / (seconds * 10) : size;
    char *at = map(size, MADV_NORMAL);
    for (size_t offset = 0, next = slice; offset < size; offset += step) {
        at[offset] = 1;
        for (; offset >= next; next += slice)
            rest(100);
    }
    pause();
    return 0;
}
