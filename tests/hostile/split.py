#!/usr/bin/env python3
"""A service of the split placement, written without the project's code, that does what it must not with what it is given.

split.py SOCKET VERSION LAYOUT ADDRESS ATTACK...      SOCKET: a path, or @name

It attaches to a net core for the card at ADDRESS, then does each ATTACK in turn. An attack that works says so and the exit code
is 0; one that is refused ends it with exit code 3, or the kernel ends it with a signal.

  write:FILE    writes to mapped memory, having tried to have it mapped, or remapped, writable
  reopen:FILE   opens the memory anew for writing, through /proc, and writes
  pwrite:FILE   writes by a system call
  truncate:FILE, grow:FILE, punch:FILE, unseal:FILE
  find:FILE:TEXT  looks for TEXT in it, for a while
  stay          reads and writes nothing more, and lives on
  exec          becomes another program, which knows nothing of it, and keeps its descriptors
  linger        rings the bell with a descriptor beside it that makes whoever closes it last wait

FILE: control, received, small, large.
"""
import array
import ctypes
import fcntl
import json
import mmap
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/hostile_control"))
sys.dont_write_bytecode = True
from weapons import Lingering

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
FAILED = ctypes.c_void_p(-1).value
READ, WRITE, SHARED = mmap.PROT_READ, mmap.PROT_WRITE, mmap.MAP_SHARED


def attach(path, version, layout, address):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.connect("\0" + path[1:] if path.startswith("@") else path)
    wish = {"version": version, "layout": layout, "name": "attacker", "address": address, "connections": 64}
    peer.send(json.dumps({"version": 3, "body": {"Attach": wish}}).encode())
    text, ancillary, _, _ = peer.recvmsg(16384, socket.CMSG_LEN(20))
    files = array.array("i")
    for _, _, data in ancillary:
        files.frombytes(data)
    answer = json.loads(text)["body"]
    if "Attached" not in answer:
        sys.exit(f"not attached: {answer}")
    return peer, dict(zip(["control", "received", "small", "large", "copies"], files)), answer["Attached"]


def refused(why):
    print(f"refused: {why}")
    sys.exit(3)


def pages(fd):
    length = os.fstat(fd).st_size
    address = LIBC.mmap(None, length, READ | WRITE, SHARED, fd, 0)
    if address == FAILED:
        address = LIBC.mmap(None, length, READ, SHARED, fd, 0)
        if address == FAILED:
            refused("not even readable")
        if LIBC.mprotect(address, length, READ | WRITE) != 0:
            print("not writable, and not to be made so: tried nevertheless", flush=True)
    return address, length


def change(fd, call):
    try:
        call(fd)
    except OSError as error:
        refused(error)


def punch(fd):
    if LIBC.fallocate(fd, 3, 0, 4096) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def attack(peer, files, name, *arguments):
    fd = files[arguments[0]] if arguments else None
    if name == "write":
        address, _ = pages(fd)
        ctypes.memset(address + 4096, 0x55, 1)
    elif name == "reopen":
        try:
            again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
        except OSError as error:
            refused(error)
        change(again, lambda file: os.pwrite(file, b"x", 4096))
    elif name == "pwrite":
        change(fd, lambda file: os.pwrite(file, b"x", 4096))
    elif name == "truncate":
        change(fd, lambda file: os.ftruncate(file, 0))
    elif name == "grow":
        change(fd, lambda file: os.ftruncate(file, os.fstat(file).st_size * 2))
    elif name == "punch":
        change(fd, punch)
    elif name == "unseal":
        change(fd, lambda file: fcntl.fcntl(file, 1033, 0x0002))
    elif name == "find":
        memory = mmap.mmap(fd, os.fstat(fd).st_size, SHARED, READ)
        deadline = time.monotonic() + float(arguments[2])
        while memory.find(arguments[1].encode()) < 0:
            if time.monotonic() > deadline:
                refused(f"{arguments[1]} is not there")
            time.sleep(0.01)
    elif name == "linger":
        weapon = Lingering()
        try:
            socket.send_fds(peer, [b"x"], [weapon.fileno()])
        except OSError as error:
            # It would be this process that waits.
            weapon.end()
            refused(error)
        weapon.let_go()
        time.sleep(3600)
    elif name == "stay":
        print("stays", flush=True)
        time.sleep(3600)
    elif name == "exec":
        os.set_inheritable(peer.fileno(), True)
        for file in files.values():
            os.set_inheritable(file, True)
        print("becomes another", flush=True)
        os.execv("/bin/sleep", ["sleep", "3600"])
    print(f"done: {name}", flush=True)


def main():
    path, version, layout, address, *attacks = sys.argv[1:]
    peer, files, _ = attach(path, int(version), layout, None if address == "any" else address)
    print("attached", flush=True)
    for one in attacks:
        attack(peer, files, *one.split(":"))


main()
