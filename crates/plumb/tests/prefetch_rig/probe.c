/* Reads a file in the way that its first argument names, and prints what it read as a sum. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* What a program has not freed when it ends is no error here, nor is a library that comes before the sanitizer's. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "detect_leaks=0:verify_asan_link_order=0"; }
#endif

#ifdef __SANITIZE_THREAD__
/* What rustc has instrumented calls these, which gcc's sanitizer has only by the names of the C library. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes); }
void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }
void *__tsan_memset(void *to, int byte, size_t bytes);
void *__tsan_memset(void *to, int byte, size_t bytes) { return memset(to, byte, bytes); }
#endif

enum { PIECE = 16384 };

static const char *path;
static long size;
static unsigned long sum;

static int need(long result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return (int)result;
}

static int opened(void) { return need(open(path, O_RDONLY), "open"); }

/* Adds what is read at a place; a short read counts as what it gave. */
static unsigned long piece(int fd, long offset) {
    unsigned char buffer[PIECE];
    long count;
    unsigned long total = 0;
    do count = pread(fd, buffer, PIECE, offset);
    while (count < 0 && errno == EINTR);
    for (long at = 0; at < count; at += 64) total = total * 31 + buffer[at];
    return total + (unsigned long)count;
}

static void forward(int fd, long step) {
    for (long at = 0; at + PIECE <= size; at += step) sum = sum * 3 + piece(fd, at);
}

static void *thread(void *argument) {
    int fd = *(int *)argument;
    unsigned long *total = malloc(sizeof *total);
    *total = 0;
    for (long at = 0; at + PIECE <= size; at += 16 * PIECE) *total += piece(fd, at);
    return total;
}

static void *blocked(void *argument) {
    char byte;
    return (void *)read(*(int *)argument, &byte, 1);
}

static volatile int ticks;
static int signal_fd;
static void tick(int signal) {
    (void)signal;
    char byte;
    int saved = errno;
    if (pread(signal_fd, &byte, 1, (ticks * 4096L) % size) == 1) ticks++;
    errno = saved;
}

static void nudge(int signal) {
    char byte;
    int saved = errno;
    (void)!pread(signal_fd, &byte, 1, 4096L * signal);
    errno = saved;
}

struct work {
    int number, rounds;
    unsigned long sum;
};

/* One of several threads that do all of this at once; what others do changes nothing in its sum. */
static void *stress(void *argument) {
    struct work *work = argument;
    char own[4096];
    snprintf(own, sizeof own, "%s.%d", path, work->number);
    for (int round = 0; round < work->rounds; round++) {
        unsigned long total = 0;
        int fd = opened(), copy = need(dup(fd), "dup");
        int out = need(open(own, O_CREAT | O_RDWR | O_TRUNC, 0600), "open");
        need(ftruncate(out, size), "ftruncate");
        for (long at = work->number * PIECE; at + PIECE <= size; at += 8 * PIECE)
            total = total * 3 + piece(at & 8 * PIECE ? fd : copy, at);
        need(close(fd), "close"); /* The number is another thread's soon. */
        for (long at = size - PIECE; at >= size / 2; at -= PIECE) total = total * 3 + piece(copy, at);
        for (long at = 0; at + PIECE <= size; at += PIECE) {
            total = total * 3 + piece(out, at);
            if (at == size / 4 / PIECE * PIECE) need(ftruncate(out, size / 2), "ftruncate");
            if (at % (16 * PIECE) == 0) need(kill(getpid(), SIGUSR1), "kill");
        }
        if (round % 4 == work->number % 4) {
            pid_t child = need(fork(), "fork");
            if (child == 0) {
                for (long at = 0; at + PIECE <= size; at += 4 * PIECE) total = total * 3 + piece(copy, at);
                _exit((int)(total & 0x7f));
            }
            int how;
            while (waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
            total = total * 3 + (unsigned long)how;
        }
        need(dup2(copy, out), "dup2");
        need(close(copy), "close");
        for (long at = 0; at + PIECE <= size / 4; at += PIECE) total = total * 3 + piece(out, at);
        need(close(out), "close");
        work->sum = work->sum * 3 + total;
    }
    need(unlink(own), "unlink");
    return NULL;
}

static void again(const char *program, const char *pattern) {
    execl(program, program, pattern, path, (char *)NULL);
    _exit(127);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const char *pattern = words[1];
    path = words[2];
    int fd = opened();
    struct stat status;
    need(fstat(fd, &status), "fstat");
    size = status.st_size;
    if (!strcmp(pattern, "stride")) {
        forward(fd, 4 * PIECE);
    } else if (!strcmp(pattern, "reverse")) {
        for (long at = size - PIECE; at >= 0; at -= PIECE) sum = sum * 3 + piece(fd, at);
    } else if (!strcmp(pattern, "readback")) { /* lseek and read, and stdio */
        unsigned char buffer[PIECE];
        for (long at = size - PIECE; at >= size / 2; at -= PIECE) {
            need(lseek(fd, at, SEEK_SET), "lseek");
            need(read(fd, buffer, PIECE), "read");
            sum = sum * 3 + buffer[5];
        }
        FILE *stream = fopen(path, "r");
        for (long at = size / 2 - PIECE; at >= 0; at -= PIECE) {
            need(fseek(stream, at, SEEK_SET), "fseek");
            if (fread(buffer, 1, PIECE, stream) != PIECE) return 1;
            sum = sum * 3 + buffer[5];
        }
        fclose(stream);
    } else if (!strcmp(pattern, "turn")) { /* another way just when this one is known */
        for (long turn = 0; turn < 60; turn++) {
            long begin = turn * 7919 * 4096 % (size / 2), step = (turn % 5 - 2) * 2 * PIECE;
            for (long at = 0; at < 5; at++) {
                long place = begin + size / 4 + at * step;
                sum = sum * 3 + piece(fd, place < 0 ? 0 : place);
            }
        }
    } else if (!strcmp(pattern, "short")) { /* a thousand files */
        char name[4096];
        for (int index = 0; index < 1000; index++) {
            snprintf(name, sizeof name, "%s.%d", path, index);
            int out = need(open(name, O_CREAT | O_RDWR | O_TRUNC, 0600), "creat");
            need(write(out, name, strlen(name)), "write");
            need(lseek(out, 0, SEEK_SET), "lseek");
            char back[4096];
            long got = need(read(out, back, sizeof back), "read");
            sum = sum * 3 + (unsigned long)got;
            need(close(out), "close");
            need(unlink(name), "unlink");
        }
    } else if (!strcmp(pattern, "truncate")) {
        for (long at = 0; at + PIECE <= size; at += PIECE) {
            sum = sum * 3 + piece(fd, at);
            if (at == size / 4 / PIECE * PIECE) need(truncate(path, size / 2), "truncate");
        }
    } else if (!strcmp(pattern, "punch")) {
        int out = need(open(path, O_RDWR), "open");
        for (long at = 0; at + PIECE <= size; at += PIECE) {
            sum = sum * 3 + piece(fd, at);
            /* Just ahead, where somebody may be loading. */
            if (at % (16 * PIECE) == 0 && at + 10 * PIECE < size)
                (void)!fallocate(out, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at + 8 * PIECE, PIECE);
        }
    } else if (!strcmp(pattern, "rename")) {
        char name[4096];
        snprintf(name, sizeof name, "%s.new", path);
        int out = need(open(name, O_CREAT | O_RDWR | O_TRUNC, 0600), "creat");
        need(ftruncate(out, size), "ftruncate");
        for (long at = 0; at + PIECE <= size; at += PIECE) {
            sum = sum * 3 + piece(fd, at);
            if (at == 32 * PIECE) need(rename(name, path), "rename");
        }
    } else if (!strcmp(pattern, "reuse")) { /* the same number, now a file, now a pipe */
        need(close(fd), "close");
        for (int turn = 0; turn < 200; turn++) {
            int now = opened();
            for (long at = 0; at < 6; at++) sum = sum * 3 + piece(now, at * 4 * PIECE % (size - PIECE));
            need(close(now), "close");
            int ends[2];
            need(pipe(ends), "pipe");
            need(write(ends[1], "x", 1), "write");
            char byte;
            sum += (unsigned long)need(read(ends[0], &byte, 1), "read");
            need(close(ends[0]), "close");
            need(close(ends[1]), "close");
        }
    } else if (!strcmp(pattern, "fork")) {
        for (long at = 0; at + PIECE <= size / 4; at += PIECE) sum = sum * 3 + piece(fd, at);
        for (int child = 0; child < 4; child++) {
            if (need(fork(), "fork") == 0) {
                for (long at = size / 4; at + PIECE <= size; at += PIECE) sum = sum * 3 + piece(fd, at);
                _exit((int)(sum & 0x7f));
            }
        }
        for (long at = size / 4; at + PIECE <= size; at += PIECE) sum = sum * 3 + piece(fd, at);
        for (int child = 0; child < 4; child++) {
            int how;
            need(wait(&how), "wait");
            if (WEXITSTATUS(how) != (int)(sum & 0x7f)) return 1;
        }
    } else if (!strcmp(pattern, "vfork")) {
        for (int child = 0; child < 4; child++) {
            forward(fd, 8 * PIECE);
            pid_t process = vfork();
            if (process == 0) again(words[0], "none");
            int how;
            need(waitpid(process, &how, 0), "wait");
            sum = sum * 3 + (unsigned long)WEXITSTATUS(how);
        }
    } else if (!strcmp(pattern, "threads")) {
        int number = count > 3 ? atoi(words[3]) : 200;
        pthread_t *all = calloc((size_t)number, sizeof *all);
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 65536 + PIECE);
        for (int index = 0; index < number; index++) {
            int failed = pthread_create(&all[index], &attributes, thread, &fd);
            if (failed) return 1;
        }
        for (int index = 0; index < number; index++) {
            void *total;
            pthread_join(all[index], &total);
            sum += *(unsigned long *)total;
        }
        /* One that is cancelled inside of a read. */
        int ends[2];
        need(pipe(ends), "pipe");
        pthread_t last;
        pthread_create(&last, NULL, blocked, &ends[0]);
        usleep(10000);
        pthread_cancel(last);
        void *how;
        pthread_join(last, &how);
        if (how != PTHREAD_CANCELED) return 1;
    } else if (!strcmp(pattern, "range")) {
        for (int turn = 0; turn < 20; turn++) {
            for (long at = 0; at < 8; at++) sum = sum * 3 + piece(fd, at * 4 * PIECE);
            int copy = need(dup(fd), "dup"), high = need(fcntl(fd, F_DUPFD_CLOEXEC, 100), "fcntl");
            for (long at = 8; at < 16; at++) sum = sum * 3 + piece(at % 2 ? copy : high, at * 4 * PIECE);
            need(dup2(fd, copy), "dup2");
            need(close_range((unsigned)copy, ~0U, 0), "close_range");
            char byte;
            if (read(high, &byte, 1) != -1 || errno != EBADF) return 1;
            closefrom(50);
        }
    } else if (!strcmp(pattern, "seccomp")) { /* whatever a prefetcher might call ends the program */
        forward(fd, 16 * PIECE);
        int strict = fork();
        if (strict == 0) {
            need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), "prctl");
            unsigned char buffer[PIECE];
            while (read(fd, buffer, PIECE) == PIECE) sum = sum * 3 + buffer[1];
            syscall(SYS_exit, (int)(sum & 0x7f));
        }
        int how;
        need(waitpid(strict, &how, 0), "wait");
        printf("strict %d\n", how);
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 4, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_lseek, 3, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 2, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 1, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl");
        need(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
        forward(fd, PIECE);
        if (fork() == 0) again(words[0], "stride");
        need(wait(&how), "wait");
        printf("filtered %d\n", how);
    } else if (!strcmp(pattern, "unshare")) { /* refused to a process of several threads */
        for (long at = 0; at + PIECE <= size / 2; at += 2 * PIECE) sum = sum * 3 + piece(fd, at);
        printf("unshare %d\n", unshare(CLONE_NEWUSER));
        for (long at = size / 2; at + PIECE <= size; at += 2 * PIECE) sum = sum * 3 + piece(fd, at);
    } else if (!strcmp(pattern, "signals")) { /* handlers that read, too */
        signal_fd = fd;
        struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
        struct itimerval timer = {{0, 300}, {0, 300}};
        setitimer(ITIMER_REAL, &timer, NULL);
        for (int turn = 0; turn < 3; turn++) forward(fd, 2 * PIECE);
        memset(&timer, 0, sizeof timer);
        setitimer(ITIMER_REAL, &timer, NULL);
    } else if (!strcmp(pattern, "stress")) {
        enum { WORKERS = 6 };
        signal_fd = fd;
        struct sigaction action = {.sa_handler = nudge, .sa_flags = SA_RESTART};
        sigaction(SIGUSR1, &action, NULL);
        pthread_t all[WORKERS];
        struct work work[WORKERS];
        for (int index = 0; index < WORKERS; index++) {
            work[index] = (struct work){.number = index, .rounds = count > 3 ? atoi(words[3]) : 4};
            if (pthread_create(&all[index], NULL, stress, &work[index])) return 1;
        }
        for (int index = 0; index < WORKERS; index++) {
            pthread_join(all[index], NULL);
            sum = sum * 3 + work[index].sum;
        }
    } else if (!strcmp(pattern, "map")) {
        unsigned char *all = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (all == MAP_FAILED) return 1;
        need(close(fd), "close");
        /* With a third word: until somebody else has loaded the last page, for half a minute at most. */
        unsigned char there = 0;
        for (int turn = 0; count > 3 && !(there & 1) && turn < 3000; turn++) {
            need(mincore(all + (size - 1) / 4096 * 4096, 1, &there), "mincore");
            usleep(10000);
        }
        for (long at = 0; at < size; at += 4096) sum = sum * 31 + all[at];
    } else if (!strcmp(pattern, "slow")) { /* says when it begins and ends, in a file */
        int out = need(open(words[3], O_CREAT | O_WRONLY | O_APPEND, 0600), "open");
        need(write(out, "begun\n", 6), "write");
        for (int turn = 0; turn < 8; turn++) {
            forward(fd, 2 * PIECE);
            usleep(20000);
        }
        need(write(out, "done\n", 5), "write");
    }
    errno = 77;
    sum = sum * 3 + piece(fd, 0);
    if (errno != 77 && fcntl(fd, F_GETFD) >= 0) return 1;
    printf("%s %lx\n", pattern, sum);
    return 0;
}
