"""A client of the control plane that shares no code with ours: it writes rings, memory and messages itself, as it pleases."""

import array
import fcntl
import json
import mmap
import os
import socket
import struct
import subprocess
import time

SOL_XDP, XDP_MMAP_OFFSETS, XDP_STATISTICS = 283, 1, 7
AF_XDP = 44
PAGES = {"receive": 0, "transmit": 0x80000000, "fill": 0x100000000, "completion": 0x180000000}
F_ADD_SEALS, SEAL_SHRINK, SEAL_GROW = 1033, 2, 4
FRAME = 2048
VERSION = 3  # of the protocol
# How long an answer may take, in seconds. A daemon that is kept waiting is kept waiting for an
# hour; one that is only slow, on a busy machine, answers sooner.
PATIENCE = 60
CONTROL_GROUP = 65534


class Refused(Exception):
    """The daemon said no, or hung up."""


def as_user(user, work):
    """Does something with another user's credentials."""
    os.setegid(CONTROL_GROUP)
    os.seteuid(user)
    try:
        return work()
    finally:
        os.seteuid(0)
        os.setegid(0)


def become(user):
    """For good: a process of that user without privileges."""
    os.setgroups([])
    os.setresgid(CONTROL_GROUP, CONTROL_GROUP, CONTROL_GROUP)
    os.setresuid(user, user, user)


def in_child(user, work):
    """What `work` says (true or false) in a process of `user` without privileges; 0: of ours."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if user:
                become(user)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def start(command, socket, user, *words, **more):
    """The `qanat` command as a user, who may not be able to reach the directory it is in."""
    file = os.open(command, os.O_RDONLY)
    whose = {"user": user, "group": CONTROL_GROUP, "extra_groups": []} if user else {}
    environment = {"PATH": os.environ["PATH"], "QANAT_SOCKET": socket}
    try:
        return subprocess.Popen(
            ["qanat", *words], executable=f"/proc/self/fd/{file}", pass_fds=[file], env=environment, cwd="/",
            stdin=subprocess.DEVNULL, **whose, **more,
        )
    finally:
        os.close(file)


def ask(endpoint, body, descriptors=(), raw=None):
    """Asks one thing; returns the answer and the descriptors beside it."""
    text = raw if raw is not None else json.dumps({"version": VERSION, "body": body}).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    try:
        endpoint.sendmsg([text], rights)
        data, beside, _, _ = endpoint.recvmsg(1 << 19, socket.CMSG_SPACE(4 * 16))
    except OSError as error:
        raise Refused(str(error)) from error
    given = array.array("i")
    for level, kind, content in beside:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            given.frombytes(content[: len(content) - len(content) % 4])
    if not data:
        raise Refused("closed")
    answer = json.loads(data)["body"]
    if isinstance(answer, dict) and "refused" in answer:
        refused = answer["refused"]
        # Of no particular cause: a text alone.
        raise Refused(refused["text"] if isinstance(refused, dict) else refused)
    return answer, list(given)


def wish(last, services=("udp/7",), **more):
    name = more.pop("name", f"card {last}")
    base = {"name": name, "addresses": [[f"10.77.0.{last}", 24]], "queues": 1, "mtu": 0}
    return {**base, "services": list(services), "persistent": False, **more}


class Ring:
    """One of the four, as raw words."""

    def __init__(self, fd, name, size, offsets, entry):
        self.size, self.entry = size, entry
        self.producer, self.consumer, self.entries = offsets[:3]
        self.map = mmap.mmap(fd, self.entries + size * entry, offset=PAGES[name])

    def word(self, offset):
        return struct.unpack_from("=I", self.map, offset)[0]

    def set_word(self, offset, value):
        struct.pack_into("=I", self.map, offset, value & 0xFFFFFFFF)

    def put(self, position, content):
        at = self.entries + (position % self.size) * self.entry
        self.map[at : at + self.entry] = content

    def get(self, position):
        at = self.entries + (position % self.size) * self.entry
        return self.map[at : at + self.entry]

    def push(self, content):
        position = self.word(self.producer)
        self.put(position, content)
        self.set_word(self.producer, position + 1)


def memory_file(length, seals=SEAL_SHRINK | SEAL_GROW):
    file = os.memfd_create("hostile", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(file, length)
    os.posix_fallocate(file, 0, length)
    fcntl.fcntl(file, F_ADD_SEALS, seals)
    return file


class Queue:
    """A queue: memory, socket, rings."""

    def __init__(self, card, frames=256):
        self.half = frames // 2
        self.length = frames * FRAME
        self.file = memory_file(self.length)
        self.memory = mmap.mmap(self.file, self.length)
        sizes = {"frame_size": FRAME, "receive_frames": self.half, "transmit_frames": self.half, "prepared_frames": 0}
        answer, beside = ask(card.handle, {"open-queue": {"queue": 0, **sizes}}, [self.file])
        self.socket = socket.socket(AF_XDP, socket.SOCK_RAW, 0, beside[0])
        self.others = beside[1:]
        self.sizes = answer["queue"]
        self.map_rings()
        for frame in range(self.half):
            self.fill.push(struct.pack("=Q", frame * FRAME))
        self.seen = 0
        self.next = self.half

    def map_rings(self):
        words = struct.unpack("=16Q", self.socket.getsockopt(SOL_XDP, XDP_MMAP_OFFSETS, 128))
        fd = self.socket.fileno()
        self.receive = Ring(fd, "receive", self.sizes["receive"], words[0:4], 16)
        self.transmit = Ring(fd, "transmit", self.sizes["transmit"], words[4:8], 16)
        self.fill = Ring(fd, "fill", self.sizes["fill"], words[8:12], 8)
        self.completion = Ring(fd, "completion", self.sizes["completion"], words[12:16], 8)

    def kick(self):
        for _ in range(8):
            try:
                self.socket.send(b"", socket.MSG_DONTWAIT)
                return
            except OSError:
                self.complete()

    def complete(self):
        self.completion.set_word(self.completion.consumer, self.completion.word(self.completion.producer))

    def describe(self, address, length, options=0):
        self.transmit.push(struct.pack("=QII", address & (1 << 64) - 1, length & 0xFFFFFFFF, options))

    def send(self, frame):
        self.complete()
        address = self.next * FRAME + 256
        self.next = self.half + (self.next + 1 - self.half) % self.half
        self.memory[address : address + len(frame)] = frame
        self.describe(address, len(frame))
        self.kick()

    def arrivals(self, patience=0.02, expected=0):
        """Frames that arrive until nothing has for a while; those expected are waited for. Their buffers go back."""
        frames, last = [], time.monotonic()
        while time.monotonic() - last < (patience if len(frames) >= expected else 1):
            produced = self.receive.word(self.receive.producer)
            while self.seen != produced:
                address, length, _ = struct.unpack("=QII", self.receive.get(self.seen))
                frames.append(bytes(self.memory[address : address + length]))
                self.seen = (self.seen + 1) & 0xFFFFFFFF
                self.receive.set_word(self.receive.consumer, self.seen)
                self.fill.push(struct.pack("=Q", address - address % FRAME))
                last = time.monotonic()
            time.sleep(0.001)
        return frames

    def invalid(self):
        """Descriptors the kernel refused, of the transmit ring and of the fill ring."""
        words = struct.unpack("=6Q", self.socket.getsockopt(SOL_XDP, XDP_STATISTICS, 48))
        return words[1], words[2]

    def close(self):
        for ring in (self.receive, self.transmit, self.fill, self.completion):
            ring.map.close()
        self.socket.close()
        for fd in self.others:
            os.close(fd)
        self.memory.close()
        os.close(self.file)


class Card:
    """A VNIC by its handle."""

    def __init__(self, answer, beside):
        self.status = answer["vnic"]
        self.number = self.status["vnic"]
        self.handle = socket.socket(fileno=beside[0])
        self.mac = bytes(self.status["mac"])
        self.last = int(self.status["addresses"][0][0].split(".")[3])

    def frame_to(self, other, content, port=7):
        """An Ethernet frame with a datagram to another card."""
        datagram = struct.pack("!HHHH", port, 9, 8 + len(content), 0) + content
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(datagram), 0, 0, 64, 17, 0)
        head += bytes([10, 77, 0, self.last, 10, 77, 0, other.last])
        total = sum(struct.unpack("!10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
        return other.mac + self.mac + b"\x08\x00" + head + datagram


class Session:
    """A connection of a user's."""

    def __init__(self, path, user, connect=False):
        """`connect`: as who this process is, whoever that is."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # If many knock, a socket waits for its turn only as long as it blocks.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", PATIENCE, 0))
        if connect:
            self.socket.connect(path)
        else:
            as_user(user, lambda: self.socket.connect(path))
        self.socket.settimeout(PATIENCE)

    def ask(self, body, descriptors=(), raw=None):
        return ask(self.socket, body, descriptors, raw)

    def create(self, last, services=("udp/7",), **more):
        return Card(*self.ask({"create-vnic": wish(last, services, **more)}))

    def daemon(self):
        """The daemon's process id."""
        return struct.unpack("=iII", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]

    def close(self):
        self.socket.close()
