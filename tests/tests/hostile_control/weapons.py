"""Descriptors that make whoever closes them wait, for as long as their owner likes; and a server that is not on its guard.

As a program: weapons.py knock SOCKET    sends one to a socket's listener, and says what came of it
              weapons.py fuse            serves a file that can't be closed, says where, and ends with its standard input
              weapons.py hang FILE       closes its standard input, and then such a file: it can't be killed
"""

import ctypes
import errno
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2


class Lingering:
    """A TCP socket with something to send, whose peer takes nothing."""

    def __init__(self):
        self.closing = None
        listener = socket.create_server(("127.0.0.1", 0))
        self.socket = socket.create_connection(listener.getsockname())
        self.peer, _ = listener.accept()
        listener.close()
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.send(b"x" * 65_536)
        except BlockingIOError:
            pass
        # Who closes a description that does not wait does not wait either.
        self.socket.setblocking(True)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3_600))

    def fileno(self):
        return self.socket.fileno()

    def let_go(self):
        """Others have it alone from now on. If nobody has taken it, it is the own thread that waits."""
        self.closing = threading.Thread(target=self.socket.close)
        self.closing.start()
        self.closing.join(0.3)

    def end(self):
        """Nobody has to wait any more: the peer resets the connection."""
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.close()
        if self.closing:
            self.closing.join()


# Requests of FUSE, and the sizes of what answers them.
LOOKUP, FORGET, GETATTR, OPEN, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 18, 25, 26
HEAD = struct.Struct("=IIQQIIIHH")


def attributes(node, mode):
    return struct.pack("=6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class Fuse:
    """A file of a file system whose server does not answer when others than this process close the file."""

    def __init__(self):
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.place = tempfile.mkdtemp()
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if LIBC.mount(b"qanat-test", self.place.encode(), b"fuse", 0, options):
            raise OSError(ctypes.get_errno(), "mount")
        self.held, self.over = [], False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        self.file = os.open(f"{self.place}/file", os.O_RDWR)

    def fileno(self):
        return self.file

    def serve(self):
        own = os.getpid()
        while not self.over:
            try:
                if not select.select([self.device], [], [], 0.05)[0]:
                    continue
                data = os.read(self.device, 1 << 17)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return
            _, what, unique, node, _, _, process, _, _ = HEAD.unpack_from(data)
            is_own = os.path.exists(f"/proc/{own}/task/{process}")
            if what == FLUSH and not is_own:
                self.held.append(unique)
            elif what != FORGET:
                self.answer(unique, *self.reply(what, node))

    def reply(self, what, node):
        directory, file = attributes(1, 0o40755), attributes(2, 0o100666)
        if what == INIT:
            return 0, struct.pack("=4I2H2I2H8I", 7, 31, 0, 0, 16, 12, 65_536, 1, 16, 0, *[0] * 8)
        if what == LOOKUP:
            return 0, struct.pack("=4Q2I", 2, 0, 60, 60, 0, 0) + file
        if what == GETATTR:
            return 0, struct.pack("=Q2I", 60, 0, 0) + (directory if node == 1 else file)
        if what == OPEN:
            return 0, struct.pack("=Q2I", 1, 0, 0)
        return (0, b"") if what in (RELEASE, FLUSH) else (-errno.ENOSYS, b"")

    def answer(self, unique, error, body):
        try:
            os.write(self.device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
        except OSError:
            # Whoever asked waits no more.
            pass

    def let_go(self):
        os.close(self.file)

    def end(self):
        """With its server the file system ends, and whoever waits goes on."""
        LIBC.umount2(self.place.encode(), MNT_DETACH)
        self.over = True
        self.thread.join()
        os.close(self.device)
        os.rmdir(self.place)


class Naive:
    """A process with one thread that answers two clients and closes what they send: what a server does that thinks nothing of it."""

    def __init__(self):
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        self.attacker, self.victim = pairs[0][0], pairs[1][0]
        self.process = os.fork()
        if self.process == 0:
            try:
                self.attacker.close()
                self.victim.close()
                self.serve([its for _, its in pairs])
            finally:
                os._exit(0)
        for _, its in pairs:
            its.close()

    @staticmethod
    def serve(clients):
        while True:
            for client in select.select(clients, [], [])[0]:
                text, fds, _, _ = socket.recv_fds(client, 65_536, 253)
                for fd in fds:
                    os.close(fd)
                if not text:
                    return
                client.send(b"yes")

    def serves_victim(self, patience):
        self.victim.settimeout(patience)
        try:
            self.victim.send(b"are you there?")
            return self.victim.recv(16) == b"yes"
        except OSError:
            return False

    def stop(self):
        os.kill(self.process, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.process, signal.SIGCONT)

    def end(self):
        for client in (self.attacker, self.victim):
            client.close()
        deadline = time.monotonic() + 10
        while os.waitpid(self.process, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.005)


def knock(path):
    weapon = Lingering()
    endpoint = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    endpoint.connect(path)
    try:
        socket.send_fds(endpoint, [b"{}"], [weapon.fileno()])
        outcome = "sent"
    except OSError as error:
        outcome = f"refused: {error}"
    weapon.let_go()
    endpoint.settimeout(20)
    print(outcome, endpoint.recv(65_536).decode(), flush=True)
    # Whoever has it keeps it until this ends.
    sys.stdin.read()


def main():
    what, *where = sys.argv[1:]
    if what == "knock":
        knock(*where)
    elif what == "fuse":
        weapon = Fuse()
        print(f"{weapon.place}/file", flush=True)
        sys.stdin.read()
        weapon.let_go()
        weapon.end()
    elif what == "hang":
        file = os.open(where[0], os.O_RDWR)
        os.close(0)
        os.close(file)


if __name__ == "__main__":
    main()
