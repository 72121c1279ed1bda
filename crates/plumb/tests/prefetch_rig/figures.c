/* Reads a file backward, slowly enough for whoever loads ahead of it: all of it ("all"); while what was loaded is taken out of memory
 * again ("evicted"); or going elsewhere whenever something was loaded ("elsewhere"). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 16384, PIECES = 1024, RUN = 24 };

int main(int count, char **words) {
    static char piece[PIECE];
    int fd = count == 3 ? open(words[2], O_RDONLY) : -1;
    if (fd < 0) return 1;
    for (int index = 0; index < PIECES; index++) {
        long at = PIECES - 1 - index;
        if (!strcmp(words[1], "elsewhere")) {
            /* Runs of the same length, far from one another, none of which comes to what is ahead of another. */
            long run = index / RUN;
            at = PIECES - 1 - run * 389 % PIECES - index % RUN;
            at = (at + PIECES) % PIECES;
        }
        if (!strcmp(words[1], "evicted") && index % 16 == 15 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) return 1;
        if (pread(fd, piece, PIECE, at * PIECE) != PIECE) return 1;
        usleep(500);
    }
    return 0;
}
