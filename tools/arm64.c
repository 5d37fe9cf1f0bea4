/* What the library of `qanat run` has in assembly, called as C programs call it (tools/arm64). */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tell(const char *what, long answer) {
	printf("%s: %ld %s\n", what, answer, answer < 0 ? strerror(errno) : "");
	fflush(stdout);
}

int main(void) {
	/* More than there are registers for, of both kinds. */
	dprintf(1, "%d %s %.2f %ld %c %.1f %d %d %d %d %d %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.3f %s\n", 1, "two", 3.25, 4L, '5', 6.5,
		7, 8, 9, 10, 11, 1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7, 8.8, "end");
	tell("getpid", syscall(SYS_getpid) == getpid());
	tell("close", syscall(SYS_close, -1));
	tell("openat", syscall(SYS_openat, -1, "/nowhere/x", 0, 0));
	tell("io_uring_setup", syscall(SYS_io_uring_setup, 1, 0));
	tell("sendmmsg", syscall(SYS_sendmmsg, -1, 0, 0, 0));
	tell("recvmmsg", syscall(SYS_recvmmsg, -1, 0, 0, 0, 0));
	tell("setuid", syscall(SYS_setuid, getuid()));
	tell("execl", execl("/nowhere/x", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", (char *)0));
	puts("end of it");
	return 0;
}
