/* Sends a datagram to itself over the loopback interface; prints how many microseconds it was on its way. */
#include <arpa/inet.h>
#include <err.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

int main(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	struct timespec sent, received;
	char byte = 0;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *) &address, length) ||
	    getsockname(fd, (struct sockaddr *) &address, &length))
		err(1, "no socket");
	clock_gettime(CLOCK_MONOTONIC, &sent);
	if (sendto(fd, &byte, 1, 0, (struct sockaddr *) &address, length) != 1 || recv(fd, &byte, 1, 0) != 1)
		err(1, "no datagram");
	clock_gettime(CLOCK_MONOTONIC, &received);
	printf("%lld\n", (received.tv_sec - sent.tv_sec) * 1000000LL + (received.tv_nsec - sent.tv_nsec) / 1000);
	return 0;
}
