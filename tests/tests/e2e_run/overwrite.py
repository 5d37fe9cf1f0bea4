"""A master as root with a listener on the card, and a worker that writes over all that the two share: as nobody (`attack`), as root
still (`off`), or not at all (`control`). The master says what came of its calls."""

import array
import ctypes
import os
import random
import select
import signal
import socket
import sys

mode, seed = sys.argv[1], int(sys.argv[2])
listener = socket.create_server(("10.77.0.2", 7000))


def shared():
    """Where the world is that this process shares with others: addresses and lengths, as far as there is anything."""
    files = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            if "qanat-world" in os.readlink(f"/proc/self/fd/{name}"):
                fd = int(name)
                files[os.fstat(fd).st_ino] = fd
        except OSError:
            pass
    extents = []
    for line in open("/proc/self/maps"):
        words = line.split()
        inode = int(words[4])
        if inode in files and words[1].startswith("rw-s"):
            start, end = (int(word, 16) for word in words[0].split("-"))
            at = 0
            while True:
                try:
                    first = os.lseek(files[inode], at, os.SEEK_DATA)
                except OSError:
                    break
                at = os.lseek(files[inode], first, os.SEEK_HOLE)
                extents.append((start + first, min(at, end - start) - first))
    assert extents, "there is a world"
    return extents


def overwrite(extents):
    """Each word that may be a pointer leads elsewhere; or all words are anything; or one kind of word."""
    draw = random.Random(seed)
    for start, length in extents:
        view = (ctypes.c_char * length).from_address(start)
        words = array.array("Q", bytes(view))
        kind = seed % 3
        for at, word in enumerate(words):
            if kind == 0 and word >> 32:
                words[at] = draw.choice((0x4141414141414141, start + draw.randrange(length), 0x7FFF00000000 + draw.randrange(1 << 30)))
            elif kind == 1 and draw.random() < 0.2:
                words[at] = draw.getrandbits(64)
            elif kind == 2:
                words[at] = 0xFFFFFFFF if at % 2 else 0x8000000000000001
        ctypes.memmove(start, words.tobytes(), length)


def drop():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def end_what_is_left():
    """What keeps a world that was written over by one who may may do anything: it is in this test's network namespace alone."""
    here = os.readlink("/proc/self/ns/net")
    for process in filter(str.isdecimal, os.listdir("/proc")):
        try:
            name = open(f"/proc/{process}/comm").read().strip()
            if name in ("qanat-keeper", "qanat-mourner") and os.readlink(f"/proc/{process}/ns/net") == here:
                os.kill(int(process), signal.SIGKILL)
        except OSError:
            pass


extents = shared()
(told, tell), (go, start) = os.pipe(), os.pipe()
if os.fork() == 0:
    os.close(start)
    # Who waits for what the master says is not to wait for this one.
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    if mode != "off":
        drop()
    os.write(tell, b"!")
    os.read(go, 1)
    if mode != "control":
        overwrite(extents)
    os.write(tell, b"!")
    # Until the master has ended.
    os.read(go, 1)
    if mode == "off":
        end_what_is_left()
    os._exit(0)

os.close(go)
outcomes = []


def tried(name, call):
    try:
        call()
        outcomes.append(f"{name} well")
    except OSError as error:
        outcomes.append(f"{name} {error.errno}")


def one_more(port):
    made = socket.create_server(("10.77.0.2", port))
    assert made.getsockname() == ("10.77.0.2", port)
    made.close()


def child():
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)


# Who loses the card is asked to end. This one says first how it fares.
signal.signal(signal.SIGTERM, lambda *_: None)
os.read(told, 1)
tried("before", lambda: one_more(7001))
os.write(start, b"!")
os.read(told, 1)
for round in range(3):
    tried("name", listener.getsockname)
    tried("option", lambda: listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    tried("poll", lambda: select.select([listener], [], [], 0.01))
    tried("more", lambda: one_more(7002))
    tried("copy", lambda: listener.dup().close())
    tried("fork", child)
tried("close", listener.close)
print(" ".join(outcomes), flush=True)
print("the master ends well", flush=True)
