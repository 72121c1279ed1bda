/*
 * passthrough FOLDER FILE: a FUSE server of one file, "file", whose contents are those of FILE by passthrough.
 * It answers no read itself. Prints what reading FOLDER/file gives, and how many reads the server got.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Newer than the headers of some distributions. */
#define INIT_PASSTHROUGH (1ULL << 37)
#define INIT_EXTENDED (1ULL << 30)
#define OPENED_PASSTHROUGH (1 << 7)

struct backing { int32_t fd; uint32_t flags; uint64_t padding; };
#define BACKING_OPEN _IOW(229, 1, struct backing)

struct init_answer {
	uint32_t major, minor, max_readahead, flags;
	uint16_t max_background, congestion_threshold;
	uint32_t max_write, time_gran;
	uint16_t max_pages, map_alignment;
	uint32_t flags2, max_stack_depth, unused[6];
};

struct opened { uint64_t handle; uint32_t flags; int32_t backing; };

static void answer(int fuse, const struct fuse_in_header *request, int error, const void *body, size_t length)
{
	struct fuse_out_header header = { .len = sizeof(header) + length, .error = error, .unique = request->unique };
	struct iovec parts[] = { { &header, sizeof(header) }, { (void *) body, length } };

	if (writev(fuse, parts, 2) < 0 && errno != ENOENT)
		err(1, "cannot answer request %u", request->opcode);
}

static void describe(struct fuse_attr *about, uint64_t node, uint64_t size)
{
	about->ino = node;
	about->mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644;
	about->nlink = 1;
	about->size = size;
}

static void serve(int fuse, int file, uint64_t size, int *reads)
{
	static char buffer[1 << 20] __attribute__((aligned(8)));
	const struct fuse_in_header *request = (const void *) buffer;

	while (read(fuse, buffer, sizeof(buffer)) > 0) {
		switch (request->opcode) {
		case FUSE_INIT: {
			const struct fuse_init_in *asked = (const void *) (request + 1);
			uint64_t offered = asked->flags | (uint64_t) asked->flags2 << 32;
			struct init_answer init = {
				.major = 7,
				.minor = 40,
				.flags = (uint32_t) INIT_EXTENDED,
				.flags2 = INIT_PASSTHROUGH >> 32,
				.max_write = 4096,
				.max_stack_depth = 1,
			};

			if (!(offered & INIT_PASSTHROUGH))
				errx(1, "the kernel offers no passthrough");
			answer(fuse, request, 0, &init, sizeof(init));
			break;
		}
		case FUSE_LOOKUP: {
			struct fuse_entry_out entry = { .nodeid = 2, .attr_valid = 1000, .entry_valid = 1000 };

			describe(&entry.attr, 2, size);
			answer(fuse, request, 0, &entry, sizeof(entry));
			break;
		}
		case FUSE_GETATTR: {
			struct fuse_attr_out about = { .attr_valid = 1000 };

			describe(&about.attr, request->nodeid, size);
			answer(fuse, request, 0, &about, sizeof(about));
			break;
		}
		case FUSE_OPEN: {
			struct backing backing = { .fd = file };
			struct opened opened = { .flags = OPENED_PASSTHROUGH };

			opened.backing = ioctl(fuse, BACKING_OPEN, &backing);
			if (opened.backing <= 0)
				err(1, "no passthrough of the file");
			answer(fuse, request, 0, &opened, sizeof(opened));
			break;
		}
		case FUSE_READ:
			++*reads;
			answer(fuse, request, -EIO, NULL, 0);
			break;
		case FUSE_RELEASE:
			answer(fuse, request, 0, NULL, 0);
			return;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			answer(fuse, request, -ENOSYS, NULL, 0);
		}
	}
}

static int read_through(const char *path)
{
	char text[64];
	int file = open(path, O_RDONLY);
	ssize_t length = file < 0 ? -1 : read(file, text, sizeof(text));

	if (length < 0)
		err(1, "%s", path);
	printf("%.*s\n", (int) length, text);
	fflush(stdout);
	return 0;
}

int main(int count, char **words)
{
	char options[96], path[4096];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC), file, status, reads = 0;
	struct stat about;
	pid_t reader;

	if (count != 3)
		errx(2, "usage: passthrough FOLDER FILE");
	file = open(words[2], O_RDONLY);
	if (fuse < 0 || file < 0 || fstat(file, &about))
		err(1, "cannot open");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	if (mount("plumb-test", words[1], "fuse.test", 0, options))
		err(1, "mount");
	snprintf(path, sizeof(path), "%s/file", words[1]);
	reader = fork();
	if (reader == 0)
		_exit(read_through(path));
	serve(fuse, file, about.st_size, &reads);
	if (waitpid(reader, &status, 0) != reader || status)
		errx(1, "the reader failed");
	printf("%d reads\n", reads);
	return umount2(words[1], MNT_DETACH) ? 1 : 0;
}
