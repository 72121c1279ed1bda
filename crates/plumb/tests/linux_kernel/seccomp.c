/*
 * A child under a seccomp filter, and its tracer. The filter hands one system call to the tracer, fails a second
 * one, and lets the others pass; the tracer answers the first time in the kernel's stead, then lets it pass.
 * Prints what the child saw: the two answers, and the error.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK 7
#define ANSWER 424242

static void child(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | MARK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpriority, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EXDEV),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof(steps) / sizeof(*steps), steps };
	long first, second, refused;

	if (ptrace(PTRACE_TRACEME, 0, 0, 0) || raise(SIGSTOP))
		err(1, "cannot be traced");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
		err(1, "no filter");
	first = syscall(SYS_getppid);
	second = syscall(SYS_getppid);
	errno = 0;
	refused = syscall(SYS_getpriority, 0, 0);
	printf("%ld %d %ld %s\n", first, second == getppid(), refused, errno == EXDEV ? "EXDEV" : "another error");
	fflush(stdout);
	_exit(0);
}

int main(void)
{
	int status, events = 0;
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0)
		child();
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		errx(1, "the child did not stop");
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL))
		err(1, "PTRACE_O_TRACESECCOMP");
	for (;;) {
		unsigned long mark = 0;
		struct user_regs_struct registers;

		if (ptrace(PTRACE_CONT, pid, 0, 0) || waitpid(pid, &status, 0) != pid)
			err(1, "lost the child");
		if (WIFEXITED(status))
			break;
		if (WIFSIGNALED(status))
			errx(1, "the child died of signal %d", WTERMSIG(status));
		if (status >> 8 != (SIGTRAP | PTRACE_EVENT_SECCOMP << 8))
			errx(1, "another stop: %x", status);
		if (ptrace(PTRACE_GETEVENTMSG, pid, 0, &mark) || ptrace(PTRACE_GETREGS, pid, 0, &registers))
			err(1, "cannot look at the child");
		if (mark != MARK || registers.orig_rax != SYS_getppid)
			errx(1, "mark %lu, call %llu", mark, registers.orig_rax);
		if (events++ == 0) {
			registers.orig_rax = -1;
			registers.rax = ANSWER;
			if (ptrace(PTRACE_SETREGS, pid, 0, &registers))
				err(1, "PTRACE_SETREGS");
		}
	}
	/* The third is the one in the child's printf. */
	printf("%d stops, status %d\n", events, WEXITSTATUS(status));
	return 0;
}
