"""What is tried with descriptors that were handed out: used elsewhere, in namespaces and tables of one's own."""

import ctypes
import fcntl
import mmap
import os
import socket
import subprocess
import threading
import time

import bpf
from arena import ATTACKER, SECRET, THIRD, VICTIM, allowed, row
from card import Queue
from memory import in_child

SIOCGSKNS = 0x894C


class Sender:
    """A card of root's, who is handed an injector with it. What it is used for here is done by who got it from him."""

    def __init__(self, arena, last):
        self.card = arena.root().create(last)
        self.queue = Queue(self.card)
        self.program, batch = self.queue.others
        self.batch = bpf.Batch(self.program, batch)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.batch.close()
        self.queue.close()
        self.card.handle.close()

    def frame(self, arena, content):
        return self.card.frame_to(arena.card(THIRD), content)


def heard(arena, secret):
    """Whether it is in what the third receives."""
    return any(secret in frame for frame in arena.queue(THIRD).arrivals(0.1))


def handed(arena):
    """All descriptors an ordinary user has of the daemon."""
    queue = arena.queue(ATTACKER)
    return [queue.socket.fileno(), arena.card(ATTACKER).handle.fileno(), *queue.others]


@row("descriptors", "a program put on a device of the machine, without a capability")
def attach_here(arena, way):
    """The kernel asks who attaches an XDP program by a link for no capability at all."""
    loopback = socket.if_nametoindex("lo")
    attaches = lambda fd: allowed(lambda: os.close(bpf.link(fd, loopback)))
    if way == "attack":
        held = handed(arena)
        return in_child(ATTACKER, lambda: any(attaches(fd) for fd in held))
    with Sender(arena, 60) as sender:
        return attaches(sender.program) if way == "control" else in_child(ATTACKER, lambda: attaches(sender.program))


def through_own_device(program, frame, sends=20):
    """Sends a frame through a veth device of this process' own that has the program at its other end; what comes out there."""
    subprocess.run(["ip", "link", "add", "in0", "type", "veth", "peer", "name", "out0"], check=True)
    bpf.attach(program, "out0")
    for name in ("in0", "out0"):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    arrived = []
    with bpf.packet_socket("in0") as sender, bpf.packet_socket("out0") as receiver:
        for _ in range(sends):
            sender.send(frame)
            try:
                arrived.append(receiver.recv(2048))
            except TimeoutError:
                pass
    return arrived


@row("descriptors", "a program on a device of one's own reads who is interrupted")
def peep(arena, way):
    """The frame is sent by a process that has the secret in its memory, and no program but the attacker's to do with."""
    secret = ctypes.create_string_buffer(SECRET[:16], 16)
    frame = b"\xff" * 12 + b"\x88\xb5" + bytes(64)
    with Sender(arena, 60) as sender:
        arena.quiet()
        sender.batch.stage(*[sender.frame(arena, b"staged")] * 64)
        program = bpf.peeper(ctypes.addressof(secret), 16) if way == "off" else sender.program

        def act():
            bpf.world_of_ones_own()
            sent = frame[:14] + SECRET[:16] + frame[30:] if way == "control" else frame
            return any(SECRET[:16] in seen for seen in through_own_device(program, sent))

        # A program of the attacker's own making is root's: nobody else can load one.
        seen = in_child(0 if way == "off" else ATTACKER, act)
        return seen or heard(arena, b"staged")


def enter_cards_namespace(arena, name):
    """Enters the namespace that the daemon alone has, as root may, and returns the index of a device there."""
    daemon = arena.root().daemon()
    for number in os.listdir(f"/proc/{daemon}/fd"):
        path = f"/proc/{daemon}/fd/{number}"
        try:
            if not os.readlink(path).startswith("net:["):
                continue
            with open(path) as ends:
                assert bpf.LIBC.setns(ends.fileno(), bpf.NEW_NET) == 0
        except OSError:
            continue
        indexes = [index for index, there in socket.if_nameindex() if there == name]
        if indexes:
            return indexes[0]
    raise LookupError(f"the daemon has no namespace with {name} in it")


@row("descriptors", "a program on a device of one's own sends by the card")
def send_elsewhere(arena, way):
    """What comes that way has other things beside its bytes: a checksum to be filled in where its sender says."""
    secret = SECRET + os.urandom(8)
    with Sender(arena, 60) as sender:
        arena.quiet()
        frame = sender.frame(arena, secret)
        if way == "control":
            sender.batch.run(frame)
            return heard(arena, secret)
        program = sender.program
        if way == "off":
            # A program that redirects all to the card's end, which only root can make: it can enter the cards' namespace.
            reader, writer = socket.socketpair()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    index = enter_cards_namespace(arena, f"vnic{sender.card.number}")
                    socket.send_fds(writer, [b"x"], [bpf.redirector(index)])
                    code = 0
                finally:
                    os._exit(code)
            os.waitpid(child, 0)
            # Without it nothing comes if the child has failed.
            writer.close()
            program = socket.recv_fds(reader, 1, 1)[1][0]
            reader.close()
        else:
            sender.batch.stage(*[frame] * 64)

        def act():
            bpf.world_of_ones_own()
            through_own_device(program, frame)
            return True

        assert in_child(0 if way == "off" else ATTACKER, act), "the frames were not sent"
        return heard(arena, secret)


@row("descriptors", "another's batch sent by a row that isn't one's own")
def others_row(arena, way):
    secret = SECRET + os.urandom(8)
    with Sender(arena, 60) as own, Sender(arena, 61) as other:
        arena.quiet()
        other.batch.stage(other.frame(arena, secret))
        if way == "control":
            own.batch.run(own.frame(arena, secret))
            return heard(arena, secret)
        keys = [other.batch.key] if way == "off" else [own.batch.key, bytes(16), os.urandom(16)]
        for key in keys:
            bpf.test_run(own.program, own.batch.token(other.batch.row, key), 2)
        # Nor without a token.
        bpf.test_run(own.program, b"", 2)
        return heard(arena, secret)


@row("fields and memory", "a staged frame changed while it is judged")
def staged_meanwhile(arena, way):
    with Sender(arena, 60) as sender:
        arena.quiet()
        batch, honest = sender.batch, sender.frame(arena, b"mine")
        forged = honest[:26] + bytes([10, 77, 0, arena.card(VICTIM).last]) + honest[30:]
        stop, place = threading.Event(), bpf.FIRST_SLOT + 26

        def flip():
            while not stop.is_set():
                batch.map[place : place + 4] = forged[26:30]
                batch.map[place : place + 4] = honest[26:30]

        thread = threading.Thread(target=flip)
        if way == "attack":
            thread.start()
        seen = []
        for _ in range(10):
            for _ in range(20):
                batch.run(honest)
            if way == "off":
                # The victim itself may send from its address.
                arena.queue(VICTIM).send(arena.card(VICTIM).frame_to(arena.card(THIRD), b"mine"))
            seen += arena.queue(THIRD).arrivals()
        stop.set()
        if way == "attack":
            thread.join()
        wanted = honest[26:30] if way == "control" else forged[26:30]
        return any(frame[26:30] == wanted for frame in seen)


@row("descriptors", "frames sent for a card that is gone")
def after_the_end(arena, way):
    secret = SECRET + os.urandom(8)
    with Sender(arena, 60) as sender:
        arena.quiet()
        frame = sender.frame(arena, secret)
        if way == "attack":
            sender.card.handle.close()
            while any(name == "card 60" for name in arena.names()):
                time.sleep(0.01)
            with Sender(arena, 60):
                # Its address is another card's now.
                sender.batch.run(frame)
                return heard(arena, secret)
        sender.batch.run(frame)
        return heard(arena, secret)


@row("descriptors", "the cards' namespace entered")
def enter_namespace(arena, way):
    def enters(fd):
        if bpf.LIBC.setns(fd, 0) == 0:
            return True
        return allowed(lambda: os.close(fcntl.ioctl(fd, SIOCGSKNS)))

    if way == "control":
        return in_child(0, lambda: enters(os.open("/proc/self/ns/net", os.O_RDONLY)))
    held = handed(arena)
    if way == "off":
        return in_child(0, lambda: enters(held[0]))

    def attack():
        found = any(enters(fd) for fd in held)
        bpf.world_of_ones_own()
        return found or any(enters(fd) for fd in held)

    return in_child(ATTACKER, attack)


@row("side channels", "others' devices looked at through the socket of one's own card")
def look_through_socket(arena, way):
    """Names, Ethernet addresses, counters: what `ifconfig` and `ethtool` ask a socket for."""
    victim = f"vnic{arena.card(VICTIM).number}".encode()
    held = [arena.queue(ATTACKER).socket.fileno(), *arena.queue(ATTACKER).others]

    def looks(fd, device):
        content = ctypes.create_string_buffer(b"\x03", 4096)
        where = ctypes.addressof(content).to_bytes(8, "little")
        name = device.ljust(16, b"\0")
        # ETHTOOL_GDRVINFO; Ethernet address, flags, MTU; private requests; names by number.
        wishes = [(0x8946, name + where), *((request, name) for request in [0x8927, 0x8913, 0x8921, *range(0x89F0, 0x8A00)])]
        wishes += [(0x8910, bytes(16) + index.to_bytes(4, "little")) for index in range(1, 64)]
        if any(bpf.LIBC.ioctl(fd, request, ctypes.create_string_buffer(wish, 64)) >= 0 for request, wish in wishes):
            return True
        # All that have IPv4 addresses: SIOCGIFCONF.
        every = ctypes.create_string_buffer((4096).to_bytes(8, "little") + where, 16)
        return bpf.LIBC.ioctl(fd, 0x8912, every) >= 0 and every.raw[:4] != bytes(4)

    if way == "control":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            return looks(own.fileno(), b"lo")
    if way == "attack":
        return in_child(ATTACKER, lambda: any(looks(fd, victim) for fd in held))

    def inside():
        assert bpf.LIBC.setns(fcntl.ioctl(held[0], SIOCGSKNS), bpf.NEW_NET) == 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
            return looks(there.fileno(), victim)

    return in_child(0, inside)


@row("privilege", "packets of one's card marked for the host's rules")
def mark(arena, way):
    fd = arena.queue(ATTACKER).socket
    sets = lambda option: allowed(lambda: fd.setsockopt(socket.SOL_SOCKET, option, 3))
    if way == "off":
        return sets(socket.SO_MARK)
    return in_child(ATTACKER, lambda: sets(socket.SO_PRIORITY if way == "control" else socket.SO_MARK))


@row("time and cost", "an injector's memory kept, and not paid for")
def keep_batch(arena, way):
    """The kernel's memory is there as long as anybody has a descriptor, a mapping or a program that uses it."""

    def charged():
        return arena.root().ask("limits")[0]["limits"]["memory_bytes"][1]

    before = charged()
    with Sender(arena, 60) as sender:
        size, open_costs = len(sender.batch.map), charged() - before
        if way == "control":
            return open_costs == sender.queue.length + size
        kept = os.dup(sender.queue.others[1]) if way == "attack" else None
    is_free = charged() == before
    if kept is not None:
        with mmap.mmap(kept, size):
            os.close(kept)
            is_free = is_free or charged() == before
        assert charged() == before, "it is free when nobody has it"
    return is_free
