/*
 * Waits, without sleeping, for a coarse clock to move and for another process that sleeps. Prints how often it read each clock, which
 * it gives up after a million times.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void)
{
	clockid_t clocks[] = { CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME_COARSE };
	volatile int *flag = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 2; i++) {
		long long before = now(clocks[i]);
		int reads = 1;

		while (now(clocks[i]) == before && reads < 1000000)
			reads++;
		printf("%d\n", reads);
	}
	fflush(stdout);
	if (fork() == 0) {
		usleep(20000);
		*flag = 1;
		_exit(0);
	}
	while (!*flag)
		sched_yield();
	puts("done");
	return 0;
}
