/* Reads pieces at equal distances by the call that its first argument names, and prints what it read as a sum. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECE = 16384 };

int main(int count, char **words) {
    if (count < 3) return 2;
    const char *call = words[1];
    int is_direct = !strcmp(call, "direct");
    int fd = open(words[2], O_RDONLY | (is_direct ? O_DIRECT : 0));
    if (fd < 0) return 3;
    off_t size = lseek(fd, 0, SEEK_END);
    unsigned char *buffer;
    if (posix_memalign((void **)&buffer, 4096, PIECE)) return 1;
    char name[4096];
    snprintf(name, sizeof name, "%s.out", words[2]);
    int out = open(name, O_CREAT | O_RDWR | O_TRUNC, 0600), zero = open("/dev/zero", O_RDONLY), ends[2];
    FILE *stream = fopen(words[2], "r");
    if (out < 0 || zero < 0 || !stream || pipe(ends)) return 1;
    unsigned long sum = 0;
    for (off_t at = 0; at + PIECE <= size; at += 4 * PIECE) {
        struct iovec parts[2] = {{buffer, PIECE / 2}, {buffer + PIECE / 2, PIECE / 2}};
        ssize_t got = -1;
        if (!strcmp(call, "pread") || is_direct) got = pread(fd, buffer, PIECE, at);
        if (!strcmp(call, "preadv")) got = preadv(fd, parts, 2, at);
        if (!strcmp(call, "preadv2")) got = preadv2(fd, parts, 2, at, 0);
        if (!strcmp(call, "read") && lseek(fd, at, SEEK_SET) == at) got = read(fd, buffer, PIECE);
        if (!strcmp(call, "readv") && lseek(fd, at, SEEK_SET) == at) got = readv(fd, parts, 2);
        if (!strcmp(call, "fread") && !fseeko(stream, at, SEEK_SET)) got = (ssize_t)fread(buffer, 1, PIECE, stream);
        if (!strcmp(call, "sendfile") || !strcmp(call, "copy_file_range")) {
            off_t from = at, to = 0;
            if (lseek(out, 0, SEEK_SET)) return 1;
            got = *call == 's' ? sendfile(out, fd, &from, PIECE) : copy_file_range(fd, &from, out, &to, PIECE, 0);
            if (pread(out, buffer, PIECE, 0) != PIECE) return 1;
        }
        if (!strcmp(call, "device")) got = read(zero, buffer, PIECE);
        if (!strcmp(call, "pipe") && write(ends[1], buffer, PIECE) == PIECE) got = read(ends[0], buffer, PIECE);
        if (got != PIECE) return 1;
        for (int byte = 0; byte < PIECE; byte += 64) sum = sum * 31 + buffer[byte];
    }
    printf("%lx\n", sum);
    return unlink(name) != 0;
}
