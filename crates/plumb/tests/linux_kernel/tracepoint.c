/*
 * tracepoint FILE: a BPF program on the tracepoint of page-cache adds counts the pages of FILE that are added
 * while FILE is read, twice. Prints the count after each reading, and how many pages mincore finds then.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TRACEPOINT "/sys/kernel/tracing/events/filemap/mm_filemap_add_to_page_cache/"

static char log_text[16384];

static int bpf(int command, union bpf_attr *attributes)
{
	int result = syscall(SYS_bpf, command, attributes, sizeof(*attributes));

	if (result < 0)
		err(1, "bpf %d: %s", command, log_text);
	return result;
}

static void read_text(const char *path, char *text, size_t size)
{
	int file = open(path, O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, text, size - 1);

	if (length < 0)
		err(1, "%s", path);
	text[length] = 0;
	close(file);
}

/* Where the tracepoint's record holds the inode's number. */
static int offset_of_inode(void)
{
	char text[4096], *field;
	int offset;

	read_text(TRACEPOINT "format", text, sizeof(text));
	field = strstr(text, "i_ino;");
	if (!field || sscanf(field, "i_ino;\toffset:%d", &offset) != 1)
		errx(1, "no i_ino in %s", text);
	return offset;
}

static int load(int map, int inode_offset, int inode)
{
	struct bpf_insn program[] = {
		/* if the record's inode is another: out */
		{ .code = BPF_LDX | BPF_DW | BPF_MEM, .dst_reg = 2, .src_reg = 1, .off = inode_offset },
		{ .code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 2, .imm = inode, .off = 9 },
		/* r0 = address of element 0 */
		{ .code = BPF_ST | BPF_W | BPF_MEM, .dst_reg = 10, .off = -4, .imm = 0 },
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem },
		{ .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 0, .imm = 0, .off = 2 },
		/* one more */
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 1 },
		{ .code = BPF_STX | BPF_DW | BPF_ATOMIC, .dst_reg = 0, .src_reg = 1, .imm = BPF_ADD },
		/* out: nothing for the perf event itself */
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attributes = {
		.prog_type = BPF_PROG_TYPE_TRACEPOINT,
		.insns = (uintptr_t) program,
		.insn_cnt = sizeof(program) / sizeof(*program),
		.license = (uintptr_t) "GPL",
		.log_buf = (uintptr_t) log_text,
		.log_size = sizeof(log_text),
		.log_level = 1,
	};

	return bpf(BPF_PROG_LOAD, &attributes);
}

static void attach(int program)
{
	struct perf_event_attr event = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(event), .sample_period = 1 };
	char text[32];
	int fd;

	read_text(TRACEPOINT "id", text, sizeof(text));
	event.config = strtoul(text, NULL, 10);
	fd = syscall(SYS_perf_event_open, &event, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		err(1, "perf_event_open");
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		err(1, "cannot attach");
}

/* Pages of the file that are in memory. */
static unsigned long long resident(int file, size_t size)
{
	size_t pages = (size + getpagesize() - 1) / getpagesize();
	unsigned char *present = calloc(pages, 1);
	void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
	unsigned long long count = 0;

	if (!present || mapped == MAP_FAILED || mincore(mapped, size, present))
		err(1, "mincore");
	for (size_t page = 0; page < pages; page++)
		count += present[page] & 1;
	munmap(mapped, size);
	free(present);
	return count;
}

int main(int count, char **words)
{
	union bpf_attr map_attributes = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = 4,
		.value_size = 8,
		.max_entries = 1,
		.map_flags = BPF_F_MMAPABLE,
	};
	static char buffer[1 << 16];
	volatile uint64_t *counted;
	struct stat about;
	int map, file;

	if (count != 2)
		errx(2, "usage: tracepoint FILE");
	file = open(words[1], O_RDONLY);
	if (file < 0 || fstat(file, &about))
		err(1, "%s", words[1]);
	map = bpf(BPF_MAP_CREATE, &map_attributes);
	counted = mmap(NULL, getpagesize(), PROT_READ, MAP_SHARED, map, 0);
	if (counted == MAP_FAILED)
		err(1, "mmap of the map");
	attach(load(map, offset_of_inode(), about.st_ino));
	for (int reading = 0; reading < 2; reading++) {
		if (lseek(file, 0, SEEK_SET))
			err(1, "lseek");
		while (read(file, buffer, sizeof(buffer)) > 0)
			;
		printf("%llu %llu\n", (unsigned long long) *counted, resident(file, about.st_size));
	}
	return 0;
}
