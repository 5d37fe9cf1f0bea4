"""Cards that are TAP devices: what their holder says beside a packet, and does with the descriptor."""

import fcntl
import os
import socket
import struct
import subprocess
import time

from arena import ATTACKER, VICTIM, row
from card import PATIENCE, ask, in_child
from quotes import checksum, icmp

TUNSETIFF, TUNSETPERSIST, TUNSETOFFLOAD, TUNSETVNETHDRSZ = 0x400454CA, 0x400454CB, 0x400454D0, 0x400454D8
TUNSETQUEUE, TUNSETOWNER, TUNSETLINK, TUNGETDEVNETNS, SIOCSIFHWADDR = 0x400454D9, 0x400454CC, 0x400454CD, 0x54E3, 0x8924
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE, IFF_ATTACH_QUEUE = 2, 0x1000, 0x4000, 0x100, 0x200
NEEDS_CSUM, TCP4, UDP_L4 = 1, 1, 5
LAST = 90
BEYOND = bytes([192, 0, 2, 9])
UDP_PLACE = {"start": 34, "offset": 6}


def ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def mac_of(interface):
    return bytes.fromhex(ip("-o", "link", "show", interface).split("link/ether ")[1].split()[0].replace(":", ""))


def beside(flags=0, gso=0, header=0, size=0, start=0, offset=0, more=b""):
    """What is said beside a packet (virtio's header)."""
    return struct.pack("=BBHHHH", flags, gso, header, size, start, offset) + more


def packet(source, destination, protocol, payload, place=0, total=None):
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload) if total is None else total, 7, place, 64, protocol, 0)
    return head[:10] + struct.pack("!H", checksum(head + source + destination)) + source + destination + payload


def pseudo(source, destination, protocol, length):
    """What the sender leaves in the place of a checksum: the sum of what is in no packet."""
    return ~checksum(source + destination + struct.pack("!HH", protocol, length)) & 0xFFFF


def udp(source, destination, content, port=7):
    length = 8 + len(content)
    return packet(source, destination, 17, struct.pack("!HHHH", port, 9, length, pseudo(source, destination, 17, length)) + content)


def tcp(source, destination, content, port=7):
    head = struct.pack("!HHIIBBHHH", port, 9, 1, 1, 0x50, 0x10, 1000, pseudo(source, destination, 6, 20 + len(content)), 0)
    return packet(source, destination, 6, head + content)


class Tap:
    """A TAP device by its descriptor: a card's, or one that root has made with nothing around it."""

    def __init__(self, fd, interface, mac, last, card=None):
        self.fd, self.interface, self.mac, self.card = fd, interface, mac, card
        self.own = bytes([10, 77, 0, last])
        self.kernel = mac_of(interface)

    @classmethod
    def of_card(cls, arena, user, last=LAST, **more):
        card = arena.session(user).create(last, ("udp/7", "tcp/7"), provider="tap", **more)
        nothing = {"frame_size": 0, "receive_frames": 0, "transmit_frames": 0, "prepared_frames": 0}
        _, fds = ask(card.handle, {"open-queue": {"queue": 0, **nothing}})
        return cls(fds[0], card.status["interface"], card.mac, last, card)

    @classmethod
    def bare(cls, name="bare0", last=LAST):
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
        ip("link", "set", name, "up")
        ip("route", "replace", f"10.77.0.{last}", "dev", name)
        return cls(fd, name, b"\x02\0\0\0\0\x09", last)

    def send(self, packet, said=None, to=None, kind=b"\x08\x00"):
        said = beside(NEEDS_CSUM, **UDP_PLACE) if said is None else said
        os.write(self.fd, said + (to or self.kernel) + self.mac + kind + packet)

    def marker(self):
        """An honest packet to beyond this machine, and how it is known there."""
        word = b"marker" + os.urandom(8)
        self.send(udp(self.own, BEYOND, word))
        return word

    def arrivals(self, until):
        """Frames that arrive at the device's holder, up to one with this word."""
        return collect(lambda: os.read(self.fd, 70000)[10:], until)

    def close(self):
        os.close(self.fd)
        if self.card:
            self.card.handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def collect(read, until):
    """What is read, up to what has this word in it."""
    frames, begun = [], time.monotonic()
    while time.monotonic() - begun < PATIENCE:
        try:
            frames.append(read())
        except BlockingIOError:
            time.sleep(0.001)
            continue
        if until in frames[-1]:
            return frames[:-1]
    raise RuntimeError("the marker has not come")


class Beyond:
    """A network that the kernel forwards to, by a device that has checksums completed before it."""

    def __enter__(self):
        ip("link", "add", "far0", "type", "veth", "peer", "name", "far1")
        subprocess.run(["ethtool", "-K", "far0", "tx", "off"], check=True, capture_output=True)
        for end in ("far0", "far1"):
            ip("link", "set", end, "up")
        ip("address", "add", "192.0.2.1/24", "dev", "far0")
        ip("neigh", "replace", "192.0.2.9", "lladdr", "02:00:00:00:00:19", "dev", "far0", "nud", "permanent")
        self.set("1")
        self.seen = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.seen.bind(("far1", 3))
        self.seen.setblocking(False)
        return self

    @staticmethod
    def set(forward):
        for name, value in (("ip_forward", forward), ("conf/all/rp_filter", "0"), ("conf/default/rp_filter", "0")):
            with open(f"/proc/sys/net/ipv4/{name}", "w", encoding="ascii") as setting:
                setting.write(value)

    def arrivals(self, until):
        return collect(lambda: self.seen.recv(70000), until)

    def __exit__(self, *_):
        self.seen.close()
        ip("link", "del", "far0")
        self.set("0")


def device(arena, way, **more):
    return Tap.bare() if way == "off" else Tap.of_card(arena, ATTACKER, **more)


def goes_beyond(arena, way, honest, hostile, happened, prepare=None):
    """Sends one packet towards the network beyond; whether what arrives there is what the attack is for."""
    with Beyond() as beyond, device(arena, way) as tap:
        word = b"word" + os.urandom(8)
        if prepare and way != "control":
            prepare(tap)
        (honest if way == "control" else hostile)(tap, word)
        if prepare and way != "control":
            fcntl.ioctl(tap.fd, TUNSETVNETHDRSZ, struct.pack("=i", 10))
        frames = [frame for frame in beyond.arrivals(tap.marker()) if word in frame]
        if way == "control":
            return any(frame[26:30] == tap.own for frame in frames)
        return any(happened(tap, frame) for frame in frames)


def say_udp(tap, word):
    tap.send(udp(tap.own, BEYOND, word))


def place(start, offset):
    return lambda tap, word: tap.send(udp(tap.own, BEYOND, word), beside(NEEDS_CSUM, start=start, offset=offset))


@row("frames", "a checksum that a TAP card's holder has the kernel write over the source address")
def over_source(arena, way):
    return goes_beyond(arena, way, say_udp, place(20, 6), lambda tap, frame: frame[26:30] != tap.own)


@row("frames", "a checksum that a TAP card's holder has the kernel write over the destination's address")
def over_destination(arena, way):
    return goes_beyond(arena, way, say_udp, place(20, 10), lambda tap, frame: frame[30:34] != BEYOND)


@row("frames", "a checksum that a TAP card's holder has the kernel write over the ports")
def over_ports(arena, way):
    return goes_beyond(arena, way, say_udp, place(34, 0), lambda tap, frame: frame[34:36] != b"\0\x07")


@row("frames", "a checksum over the source address, said in a longer header than the daemon has set for the TAP card")
def over_source_longer(arena, way):
    def prepare(tap):
        fcntl.ioctl(tap.fd, TUNSETVNETHDRSZ, struct.pack("=i", 12))

    def hostile(tap, word):
        tap.send(udp(tap.own, BEYOND, word), beside(NEEDS_CSUM, start=20, offset=6, more=b"\0\0"))

    return goes_beyond(arena, way, say_udp, hostile, lambda tap, frame: frame[26:30] != tap.own, prepare)


@row("frames", "a checksum over the source address of a ping that a TAP card sends beyond this machine")
def over_ping(arena, way):
    def hostile(tap, word):
        tap.send(packet(tap.own, BEYOND, 1, icmp(8, 0, 1, word)), beside(NEEDS_CSUM, start=20, offset=6))

    return goes_beyond(arena, way, say_udp, hostile, lambda tap, frame: frame[26:30] != tap.own)


@row("frames", "a checksum over the source address of a fragment that a TAP card sends beyond this machine")
def over_fragment(arena, way):
    def hostile(tap, word):
        content = struct.pack("!HHHH", 7, 9, 64, 0) + word.ljust(16, b".")
        tap.send(packet(tap.own, BEYOND, 17, content, 0x2000), beside(NEEDS_CSUM, start=20, offset=6))

    return goes_beyond(arena, way, say_udp, hostile, lambda tap, frame: frame[26:30] != tap.own)


@row("frames", "a checksum over the source address of a datagram to another's TAP card, whose holder has them completed")
def over_source_to_card(arena, way):
    with Beyond(), Tap.of_card(arena, VICTIM, LAST + 1) as victim, device(arena, way) as tap:
        fcntl.ioctl(victim.fd, TUNSETOFFLOAD, 0)
        mac = ":".join(f"{byte:02x}" for byte in victim.mac)
        to = f"10.77.0.{LAST + 1}"
        ip("neigh", "replace", to, "lladdr", mac, "dev", victim.interface, "nud", "permanent")
        # Unprotected, the kernel forwards what the gate has not seen.
        at = tap.kernel if way == "off" else victim.mac
        word, marker = b"word" + os.urandom(8), b"marker" + os.urandom(8)
        said = None if way == "control" else beside(NEEDS_CSUM, start=20, offset=6)
        tap.send(udp(tap.own, victim.own, word), said, at)
        tap.send(udp(tap.own, victim.own, marker), None, at)
        frames = [frame for frame in victim.arrivals(marker) if word in frame]
        return any((frame[26:30] == tap.own) == (way == "control") for frame in frames)


@row("frames", "a train of datagrams, which nobody has judged as what it becomes, by a TAP card")
def over_train(arena, way):
    def honest(tap, word):
        tap.send(tcp(tap.own, BEYOND, word * 200), beside(NEEDS_CSUM, TCP4, 54, 600, 34, 16))

    def hostile(tap, word):
        tap.send(udp(tap.own, BEYOND, word * 200), beside(NEEDS_CSUM, UDP_L4, 42, 600, 34, 6))

    return goes_beyond(arena, way, honest, hostile, lambda tap, frame: len(frame) < 1000)


@row("frames", "packets from another's address, by a TAP card")
def others_source(arena, way):
    other = bytes([10, 77, 0, VICTIM - 1000 + 1])

    def hostile(tap, word):
        tap.send(udp(other, BEYOND, word))

    return goes_beyond(arena, way, say_udp, hostile, lambda tap, frame: frame[26:30] == other)


@row("frames", "packets from another's port, by a TAP card")
def others_port(arena, way):
    def hostile(tap, word):
        tap.send(udp(tap.own, BEYOND, word, 53))

    return goes_beyond(arena, way, say_udp, hostile, lambda tap, frame: frame[34:36] == b"\0\x35")


@row("frames", "what the kernel sends to others, read by a TAP card's holder")
def others_packets(arena, way):
    stranger = "10.77.0.99"
    with device(arena, way) as tap:
        to = f"10.77.0.{LAST}" if way == "control" else stranger
        mac = ":".join(f"{byte:02x}" for byte in tap.mac)
        for address in (to, f"10.77.0.{LAST}"):
            ip("route", "replace", address, "dev", tap.interface)
            ip("neigh", "replace", address, "lladdr", mac, "dev", tap.interface, "nud", "permanent")
        word, marker = b"word" + os.urandom(8), b"marker" + os.urandom(8)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(word, (to, 9))
            sender.sendto(marker, (f"10.77.0.{LAST}", 9))
        return any(word in frame for frame in tap.arrivals(marker))


@row("time and cost", "a train that is counted as one frame")
def counted(arena, way):
    with Beyond() as beyond, device(arena, way) as tap:
        word = b"word" + os.urandom(8)
        segments = 1 if way == "control" else 40
        size = len(word) * 50
        tap.send(tcp(tap.own, BEYOND, word * 50 * segments), beside(NEEDS_CSUM, TCP4 if segments > 1 else 0, 54, size, 34, 16))
        frames = [frame for frame in beyond.arrivals(tap.marker()) if word in frame]
        if way == "off":
            shown = ip("-s", "-o", "link", "show", tap.interface).split("RX:")[1].split("\\")[1].split()
            return len(frames) == segments and int(shown[1]) < segments
        counts = arena.session(ATTACKER).ask("status")[0]["status"]["vnics"]
        counts = [vnic for vnic in counts if vnic["vnic"] == tap.card.number][0]["transmit"]["counts"]
        passed = sum(count["frames"] for count in counts if count["cause"] == "passed_to_kernel")
        # With the marker.
        return len(frames) == segments and passed <= 2


def request(name=b"", flags=IFF_TAP | IFF_NO_PI):
    return struct.pack("16sH22x", name, flags)


def succeeds(work):
    try:
        work()
        return True
    except OSError:
        return False


@row("privilege", "another device, or another queue, by the descriptor of a TAP card")
def another_device(arena, way):
    if way != "attack":
        fd = os.open("/dev/net/tun", os.O_RDWR)
        try:
            return succeeds(lambda: fcntl.ioctl(fd, TUNSETIFF, request(b"other0")))
        finally:
            os.close(fd)
    with device(arena, way) as tap:
        tries = [
            (TUNSETIFF, request(b"other0")), (TUNSETIFF, request(tap.interface.encode(), IFF_TAP | IFF_MULTI_QUEUE)),
            (TUNSETQUEUE, request(flags=IFF_ATTACH_QUEUE)), (TUNSETLINK, 772),
        ]
        return in_child(ATTACKER, lambda: any(succeeds(lambda: fcntl.ioctl(tap.fd, *words)) for words in tries))


@row("privilege", "the namespace of the machine, by the descriptor of a TAP card")
def namespace(arena, way):
    with device(arena, way) as tap:
        user = ATTACKER if way == "attack" else 0
        return in_child(user, lambda: succeeds(lambda: os.close(fcntl.ioctl(tap.fd, TUNGETDEVNETNS))))


@row("privilege", "a TAP card's device kept, and given to another user, beyond the end of the card")
def kept(arena, way):
    tap = device(arena, way)

    def keep():
        fcntl.ioctl(tap.fd, TUNSETOWNER, ATTACKER)
        fcntl.ioctl(tap.fd, TUNSETPERSIST, 1)

    if way == "control":
        with tap:
            return succeeds(keep)
    keep()
    tap.close()
    # The daemon has ended the card when it answers that there is none.
    begun = time.monotonic()
    while tap.card and any(vnic["vnic"] == tap.card.number for vnic in arena.root().ask("status")[0]["status"]["vnics"]):
        assert time.monotonic() - begun < PATIENCE, "the card has not ended"
        time.sleep(0.01)
    is_there = succeeds(lambda: socket.if_nametoindex(tap.interface))
    if is_there:
        ip("link", "del", tap.interface)
    return is_there


@row("identity and names", "a neighbour's Ethernet address for the kernel's end, by the descriptor of a TAP card")
def others_mac(arena, way):
    victim = arena.card(VICTIM)
    with device(arena, way) as tap:
        new = victim.mac if way != "control" else b"\x02\0\0\0\0\x77"
        fcntl.ioctl(tap.fd, SIOCSIFHWADDR, struct.pack("16sH6s16x", tap.interface.encode(), 1, new))
        if way == "control":
            return mac_of(tap.interface) == new
        if way == "off":
            return mac_of(tap.interface) == victim.mac
        return arena.disturbed()


@row("time and cost", "the kernel's end of a TAP card changed without end, by its descriptor")
def changed(arena, way):
    with device(arena, way) as tap:
        before = waits(arena)
        for number in range(1 if way == "control" else 3000):
            new = b"\x02\0\0\0" + struct.pack("!H", number)
            fcntl.ioctl(tap.fd, SIOCSIFHWADDR, struct.pack("16sH6s16x", tap.interface.encode(), 1, new))
        if way == "control":
            return mac_of(tap.interface) == new
        if way == "off":
            return mac_of(tap.interface) == new
        # The daemon has looked at the last of them when it is asked.
        return arena.disturbed() or waits(arena) - before > 300


def waits(arena):
    """How often the daemon has waited for something to do. It looks at links no oftener than twenty times a second."""
    with open(f"/proc/{arena.root().daemon()}/status", encoding="ascii") as status:
        return int(next(line for line in status if line.startswith("voluntary_ctxt_switches")).split()[1])
