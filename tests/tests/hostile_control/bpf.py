"""The bpf system call and what goes with it, without a library: an injector's batch, programs of a few instructions, attaching."""

import ctypes
import mmap
import os
import socket
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
MAP_CREATE, MAP_UPDATE, PROG_LOAD, TEST_RUN, LINK_CREATE = 0, 2, 5, 10, 28
XDP_PASS, DEVMAP, XDP, SKB_MODE, LIVE_FRAMES = 2, 14, 6, 2, 2
FRAME_MAX, SLOT, FIRST_SLOT, SLOTS = 1536, 1600, 576, 256
NEW_USER, NEW_NET = 0x10000000, 0x40000000


def bpf(command, attributes):
    """What it returns; OSError if it says no."""
    block = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = LIBC.syscall(SYS_BPF, command, block, 128)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def address(content):
    return ctypes.addressof(content)


def test_run(program, token, repeat):
    """Runs a program on frames of no meaning that have `token` before them."""
    template = ctypes.create_string_buffer(token + bytes(FRAME_MAX), len(token) + FRAME_MAX)
    context = ctypes.create_string_buffer(struct.pack("=6I", len(token), len(template), 0, 0, 0, 0), 24)
    size = (len(context), 0, address(context), 0) if token else (0, 0, 0, 0)
    head = struct.pack("=4I2Q2I", program, 0, len(template), 0, address(template), 0, repeat, 0)
    return bpf(TEST_RUN, head + struct.pack("=2I2Q3I", *size, LIVE_FRAMES, 0, 64))


def link(program, index):
    """Attaches a program to a device by a link."""
    return bpf(LINK_CREATE, struct.pack("=4I", program, index, 37, SKB_MODE))


class Batch:
    """The batch of an injector that was handed over."""

    def __init__(self, program, batch):
        self.program = program
        length = FIRST_SLOT + SLOT * SLOTS
        self.map = mmap.mmap(batch, (length + 4095) // 4096 * 4096)
        self.key, self.row = self.map[:16], struct.unpack_from("=I", self.map, 16)[0]

    def token(self, row=None, key=None):
        return struct.pack("=II", self.row if row is None else row, 0) + (key or self.key)

    def stage(self, *frames):
        for at, frame in enumerate(frames):
            self.map[FIRST_SLOT + SLOT * at : FIRST_SLOT + SLOT * at + len(frame)] = frame
            struct.pack_into("=H", self.map, 64 + 2 * at, len(frame))
        struct.pack_into("=II", self.map, 20, 0, len(frames))

    def run(self, *frames, token=None):
        self.stage(*frames)
        test_run(self.program, token if token is not None else self.token(), len(frames) + 1)

    def close(self):
        self.map.close()


def instruction(code, to=0, source=0, offset=0, value=0):
    return struct.pack("=BBhi", code, to | source << 4, offset, value)


def load(*instructions):
    """An XDP program."""
    text, licence = ctypes.create_string_buffer(b"".join(instructions)), ctypes.create_string_buffer(b"GPL")
    count = (len(text) - 1) // 8
    return bpf(PROG_LOAD, struct.pack("=2I2Q", XDP, count, address(text), address(licence)))


def copy(to, source):
    return instruction(0xBF, to, source)


def number(to, value):
    return instruction(0xB7, to, value=value)


def wide(to, value, source=0):
    low, high = value & 0xFFFFFFFF, value >> 32
    signed = lambda word: word - (1 << 32) if word >> 31 else word
    return instruction(0x18, to, source, 0, signed(low)) + instruction(0, value=signed(high))


def call(helper):
    return instruction(0x85, value=helper)


EXIT = instruction(0x95)


def peeper(where, length):
    """Writes what is at `where` in whatever process it interrupts behind the frame's Ethernet header."""
    stack = lambda to: copy(to, 10) + instruction(0x07, to, value=-length)
    read = stack(1) + number(2, length) + wide(3, where) + call(112)
    store = copy(1, 6) + number(2, 14) + stack(3) + number(4, length) + call(190)
    return load(copy(6, 1), read, store, number(0, XDP_PASS), EXIT)


def redirector(index):
    """Redirects all it sees to a device of the namespace this is called in."""
    devices = bpf(MAP_CREATE, struct.pack("=5I", DEVMAP, 4, 4, 1, 0))
    key, value = ctypes.create_string_buffer(4), ctypes.create_string_buffer(struct.pack("=I", index))
    bpf(MAP_UPDATE, struct.pack("=2I2Q", devices, 0, address(key), address(value)))
    return load(wide(1, devices, 1), number(2, 0), number(3, 1), call(51), EXIT)


def attach(program, name):
    """Attaches a program to a device by netlink, as who administers the namespace may."""
    attribute = lambda kind, content: struct.pack("=HH", 4 + len(content), kind) + content
    what = attribute(1, struct.pack("=i", program)) + attribute(3, struct.pack("=I", SKB_MODE))
    body = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex(name), 0, 0) + attribute(43 | 0x8000, what)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(body), 19, 5, 1, 0) + body)
        error = struct.unpack_from("=i", netlink.recv(4096), 16)[0]
    if error:
        raise OSError(-error, os.strerror(-error))


def world_of_ones_own():
    """A user and a network namespace in which this process may do all, as anybody can have them."""
    user, group = os.geteuid(), os.getegid()
    # Who has changed its user can't write to its own files in /proc otherwise.
    LIBC.prctl(4, 1, 0, 0, 0)
    if LIBC.unshare(NEW_USER | NEW_NET) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for name, content in [("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)


def packet_socket(name):
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    opened.bind((name, 3))
    opened.settimeout(0.05)
    return opened
