"""What is tried with fields that go beside a packet's bytes, and are made use of after it was judged."""

import ctypes
import fcntl
import mmap
import socket
import struct
import subprocess

import bpf
from arena import ATTACKER, allowed, row
from card import AF_XDP, FRAME, SOL_XDP, Ring, XDP_MMAP_OFFSETS

RECEIVE_RING, TRANSMIT_RING, REGISTER, FILL_RING, COMPLETION_RING = 2, 3, 4, 5, 6
SIOCGIFHWADDR = 0x8927
METADATA, METADATA_LENGTH, CHECKSUM = 2, 1 << 2, 1 << 1
AWAY, MARK = [10, 88, 0, 9], b"judged, then changed"


def run(command):
    subprocess.run(command.split(), check=True, capture_output=True)


class Beyond:
    """A host behind this one, to which the kernel forwards: by a device that has no checksums filled in for it."""

    def __enter__(self):
        run("ip link add away0 type veth peer name away1")
        run("ip address add 10.88.0.1/24 dev away0")
        run("ethtool -K away0 tx off")
        for name in ("away0", "away1"):
            run(f"ip link set {name} up")
        run("ip neighbour add 10.88.0.9 lladdr 02:00:00:00:00:09 dev away0 nud permanent")
        with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
            file.write("1")
        self.socket = bpf.packet_socket("away1")
        return self

    def __exit__(self, *_):
        self.socket.close()
        with open("/proc/sys/net/ipv4/ip_forward", "w") as file:
            file.write("0")
        run("ip link delete away0")

    def hears(self, send):
        """What arrives there of ours. A device that has just been made loses the first frames, so they are sent again."""
        frames = []
        for _ in range(20):
            send()
            try:
                frames.append(self.socket.recv(2048))
            except TimeoutError:
                pass
            frames = [frame for frame in frames if MARK in frame]
            if frames:
                break
        return frames


def datagram(to, mac, source, port=7):
    data = struct.pack("!HHHH", port, 9, 16 + len(MARK), 0) + bytes(8) + MARK
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 0, 0, 64, 17, 0) + bytes(source) + bytes(AWAY)
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xFFFF) + head[12:]
    return to + mac + b"\x08\x00" + head + data


def hardware(name):
    """A device's Ethernet address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        return fcntl.ioctl(any_socket, SIOCGIFHWADDR, struct.pack("40s", name.encode()))[18:24]


class Bare:
    """A device without a gate at its other end, and a socket of root's on it that has metadata."""

    def __enter__(self):
        run("ip link add bare0 type veth peer name bare1")
        run("ip address add 10.89.0.1/24 dev bare0")
        for name in ("bare0", "bare1"):
            run(f"ip link set {name} up")
        self.memory = mmap.mmap(-1, 16 * FRAME)
        self.socket = socket.socket(AF_XDP, socket.SOCK_RAW, 0)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        registration = struct.pack("=QQIIII", start, len(self.memory), FRAME, 0, METADATA_LENGTH, 24)
        self.socket.setsockopt(SOL_XDP, REGISTER, registration)
        for option in (FILL_RING, COMPLETION_RING, RECEIVE_RING, TRANSMIT_RING):
            self.socket.setsockopt(SOL_XDP, option, struct.pack("=I", 64))
        where = struct.pack("=HHIII", AF_XDP, 0, socket.if_nametoindex("bare1"), 0, 0)
        block = ctypes.create_string_buffer(where, len(where))
        assert bpf.LIBC.bind(self.socket.fileno(), block, len(where)) == 0, "bind"
        words = struct.unpack("=16Q", self.socket.getsockopt(SOL_XDP, XDP_MMAP_OFFSETS, 128))
        self.transmit = Ring(self.socket.fileno(), "transmit", 64, words[4:8], 16)
        return self

    def send(self, frame, metadata):
        self.memory[256 - 24 : 256 + len(frame)] = metadata + frame
        self.transmit.push(struct.pack("=QII", 256, len(frame), METADATA))
        self.socket.send(b"", socket.MSG_DONTWAIT)

    def __exit__(self, *_):
        self.transmit.map.close()
        self.socket.close()
        run("ip link delete bare0")


def changed_after(arena, way, start, offset, looked_at):
    """Has the kernel write a checksum at a place of the sender's choice when it forwards what was judged."""
    metadata = struct.pack("=QHHIQ", CHECKSUM, start, offset, 0, 0)
    with Beyond() as beyond:
        if way == "off":
            with Bare() as bare:
                frame = datagram(hardware("bare0"), hardware("bare1"), [10, 89, 0, 2])
                arrived = beyond.hears(lambda: bare.send(frame, metadata))
        else:
            queue, card = arena.queue(ATTACKER), arena.card(ATTACKER)
            frame = datagram(hardware(card.status["interface"]), card.mac, [10, 77, 0, card.last])
            address = 200 * FRAME + 256

            def send():
                queue.memory[address - 24 : address + len(frame)] = metadata + frame
                queue.complete()
                queue.describe(address, len(frame), METADATA if way == "attack" else 0)
                queue.kick()

            arrived = beyond.hears(send)
            if way == "control":
                return any(seen[looked_at] == frame[looked_at] for seen in arrived)
        return any(seen[looked_at] != frame[looked_at] for seen in arrived)


row("fields and memory", "a port written as a checksum after the packet was judged", damages=True)(
    lambda arena, way: changed_after(arena, way, 34, 0, slice(34, 36))
)
row("fields and memory", "a payload's bytes written as a checksum after the packet was judged", damages=True)(
    lambda arena, way: changed_after(arena, way, 34, 12, slice(46, 48))
)


@row("fields and memory", "frame memory registered anew, with metadata", damages=True)
def register_again(arena, way):
    """The kernel takes one registration of a socket, and that was the daemon's."""
    if way == "off":
        with Bare():
            return True
    queue = arena.queue(ATTACKER)
    start = ctypes.addressof(ctypes.c_char.from_buffer(queue.memory))
    if way == "control":
        return bool(queue.socket.getsockopt(SOL_XDP, XDP_MMAP_OFFSETS, 128))
    registration = struct.pack("=QQIIII", start, queue.length, FRAME, 0, METADATA_LENGTH, 24)
    return allowed(lambda: queue.socket.setsockopt(SOL_XDP, REGISTER, registration))


