"""What is tried by way of memory, descriptors and rings."""

import os
import signal
import socket
import struct
import threading
import time

from arena import ATTACKER, SECRET, THIRD, VICTIM, allowed, row
from card import AF_XDP, FRAME, Ring, in_child, memory_file


@row("fields and memory", "another's frames read in one's own memory and rings")
def read_memory(arena, way):
    attacker, victim, secret = arena.queue(ATTACKER), arena.queue(VICTIM), SECRET + os.urandom(8)
    to = ATTACKER if way == "control" else VICTIM
    arena.queue(THIRD).send(arena.card(THIRD).frame_to(arena.card(to), secret))
    time.sleep(0.02)
    areas = [victim.memory] if way == "off" else [attacker.memory, attacker.receive.map, attacker.completion.map]
    return any(area[:].find(secret) >= 0 for area in areas)


@row("fields and memory", "another's frames overwritten", damages=True)
def write_memory(arena, way):
    attacker, victim = arena.queue(ATTACKER), arena.queue(VICTIM)
    if way == "control":
        attacker.memory[:] = b"x" * attacker.length
        return attacker.memory[FRAME : FRAME + 4] == b"xxxx"
    arena.queue(THIRD).send(arena.card(THIRD).frame_to(arena.card(VICTIM), SECRET))
    time.sleep(0.02)
    target = victim if way == "off" else attacker
    target.memory[:] = b"x" * target.length
    return victim.memory[:].find(SECRET) < 0


SPARE = 200 * FRAME + 256
BEYOND = 256 * FRAME + 64 * FRAME + 256


def describe_secret(arena, way, address, length, options=0):
    """Whether what lies in the victim's memory at BEYOND is sent."""
    arena.quiet()
    secret = SECRET + os.urandom(8)
    victim, attacker, third = arena.queue(VICTIM), arena.queue(ATTACKER), arena.card(THIRD)
    source = ATTACKER if way == "control" else VICTIM
    frame = arena.card(source).frame_to(third, secret)
    victim.memory[BEYOND : BEYOND + len(frame)] = frame
    if way == "control":
        attacker.send(frame)
    elif way == "off":
        victim.describe(BEYOND, len(frame))
        victim.kick()
    else:
        attacker.describe(address, length if length is not None else len(frame), options)
        attacker.kick()
        # What is sent after it arrives after it.
        attacker.send(arena.card(ATTACKER).frame_to(third, b"that was all"))
    return any(secret in frame for frame in arena.queue(THIRD).arrivals(expected=1))


for label, address, length in [
    ("behind one's memory", BEYOND, None),
    ("across the end of one's memory", 256 * FRAME - 64, 128 * FRAME),
    ("of 4 GiB", 0, 0xFFFFFFFF),
    ("behind one's memory, of no length", BEYOND, 0),
    ("longer than a frame", 200 * FRAME, 130 * FRAME),
    ("with the top bit set", 1 << 63 | BEYOND, None),
    ("before one's memory", -FRAME, None),
    ("with an offset in the upper bits", 64 << 48 | 255 * FRAME, None),
]:
    row("fields and memory", f"a transmit descriptor {label}")(
        lambda arena, way, address=address, length=length: describe_secret(arena, way, address, length)
    )


@row("fields and memory", "a fill descriptor behind one's memory", damages=True)
def fill_beyond(arena, way):
    arena.quiet()
    user, secret = VICTIM if way == "off" else ATTACKER, SECRET + os.urandom(8)
    queue, victim = arena.queue(user), arena.queue(VICTIM)
    start = queue.fill.word(queue.fill.consumer)
    address = 16 * FRAME if way == "control" else BEYOND
    for position in range(queue.half):
        queue.fill.put(start + position, struct.pack("=Q", address))
    arena.queue(THIRD).send(arena.card(THIRD).frame_to(arena.card(user), secret))
    time.sleep(0.03)
    area = queue if way == "control" else victim
    start = address - address % FRAME
    return secret in bytes(area.memory[start : start + FRAME])


@row("fields and memory", "a descriptor continued by one behind one's memory")
def continued(arena, way):
    """XDP_PKT_CONTD: the rest of the packet is in the next."""
    return describe_secret(arena, way, BEYOND, None, 1)


@row("fields and memory", "a frame changed while it is judged")
def changed_meanwhile(arena, way):
    arena.quiet()
    user = VICTIM if way == "off" else ATTACKER
    queue, third = arena.queue(user), arena.card(THIRD)
    honest = arena.card(user).frame_to(third, b"mine")
    forged = honest[:26] + bytes([10, 77, 0, arena.card(VICTIM).last]) + honest[30:]
    address, stop = SPARE, threading.Event()
    queue.memory[address : address + len(honest)] = honest

    def flip():
        while not stop.is_set():
            queue.memory[address + 26 : address + 30] = forged[26:30]
            queue.memory[address + 26 : address + 30] = honest[26:30]

    thread = threading.Thread(target=flip)
    if way != "control":
        thread.start()
    for _ in range(300):
        queue.complete()
        queue.describe(address, len(honest))
        queue.kick()
    stop.set()
    if way != "control":
        thread.join()
    wanted = honest[26:30] if way == "control" else forged[26:30]
    return any(frame[26:30] == wanted for frame in arena.queue(THIRD).arrivals(expected=1))


@row("fields and memory", "a ring mapped beyond its end")
def map_beyond(arena, way):
    attacker, victim = arena.queue(ATTACKER), arena.queue(VICTIM)
    if way == "off":
        victim.map_rings()
        return True
    entries = attacker.sizes["receive"] * (1 if way == "control" else 4_096)
    words = struct.unpack("=16Q", attacker.socket.getsockopt(283, 1, 128))
    return allowed(lambda: Ring(attacker.socket.fileno(), "receive", entries, words[0:4], 16))


@row("fields and memory", "another's memory file opened by way of /proc")
def open_by_proc(arena, way):
    """The victim is a process of its own user."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(VICTIM, VICTIM, VICTIM)
        file = memory_file(4_096)
        os.write(writer, b"%d" % file)
        time.sleep(30)
        os._exit(0)
    path = f"/proc/{child}/fd/{int(os.read(reader, 16))}"

    def opens(path):
        os.close(os.open(path, os.O_RDWR))
        return True

    try:
        if way == "off":
            return opens(path)
        own = f"/proc/self/fd/{os.memfd_create('own')}"
        return in_child(ATTACKER, lambda: allowed(lambda: opens(own if way == "control" else path)))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


@row("privilege", "a socket of one's own opened on the cards' device")
def open_socket(arena, way):
    queue = arena.queue(ATTACKER)
    if way == "control":
        # What was handed over is of use without any privilege.
        return in_child(ATTACKER, lambda: queue.socket.send(b"", socket.MSG_DONTWAIT) == 0)
    opens = lambda: socket.socket(AF_XDP, socket.SOCK_RAW, 0).close()
    return allowed(opens) if way == "off" else in_child(ATTACKER, lambda: allowed(opens))


def resize(arena, way, length):
    if way == "control":
        return arena.queue(ATTACKER).memory[0:1] is not None and not arena.disturbed()
    file = memory_file(64 * FRAME, 0) if way == "off" else arena.queue(ATTACKER).file
    return allowed(lambda: os.ftruncate(file, length))


row("fields and memory", "registered memory truncated")(lambda arena, way: resize(arena, way, 0))
row("fields and memory", "registered memory grown")(lambda arena, way: resize(arena, way, 1 << 24))


@row("fields and memory", "the size's seals taken off")
def unseal(arena, way):
    attacker = arena.queue(ATTACKER)
    if way == "control":
        return not arena.disturbed()
    # No call takes seals off; a new file in place of the old one is none of the kernel's.
    if way == "off":
        return allowed(lambda: os.ftruncate(memory_file(FRAME, 0), 0))
    path = f"/proc/self/fd/{attacker.file}"
    return allowed(lambda: os.truncate(path, 0))


@row("fields and memory", "memory unmapped and closed while the kernel uses it", damages=True)
def unmap_in_use(arena, way):
    arena.quiet()
    if way == "control":
        return not arena.disturbed()
    queue = arena.queue(VICTIM if way == "off" else ATTACKER)
    for _ in range(64):
        queue.describe(SPARE, 60)
    queue.memory.close() if way == "attack" else queue.socket.close()
    os.close(queue.file)
    queue.file = os.open("/dev/null", os.O_RDWR)
    if way == "attack":
        queue.kick()
        arena.queue(THIRD).send(arena.card(THIRD).frame_to(arena.card(ATTACKER), SECRET))
    return allowed(arena.quiet) is False or (way == "off" and allowed(arena.disturbed) is False) or arena.disturbed()


# Rings.


def scribble(name, change):
    def attack(arena, way):
        if way == "control":
            return not arena.disturbed()
        arena.quiet()
        user = VICTIM if way == "off" else ATTACKER
        queue = arena.queue(user)
        # Every entry has held something valid.
        for _ in range(queue.sizes["transmit"]):
            queue.send(arena.card(user).frame_to(arena.card(THIRD), b"old"))
            if queue.next % 32 == 0:
                arena.queue(THIRD).arrivals(0.002)
        arena.queue(THIRD).arrivals()
        change(queue)
        queue.kick()
        queue.kick()
        if way == "attack":
            arena.queue(THIRD).arrivals()
        return arena.disturbed()

    row("fields and memory", name, damages=True)(attack)


def jump(ring, side, distance):
    def change(queue):
        target = getattr(queue, ring)
        offset = getattr(target, side)
        target.set_word(offset, target.word(offset) + distance)

    return change


def wrong_fill(queue):
    start = queue.fill.word(queue.fill.consumer)
    for position in range(queue.sizes["fill"]):
        queue.fill.put(start + position, struct.pack("=Q", 1 << 62))


def same_buffer(queue):
    address = 200 * FRAME + 256 if queue.half <= 128 else 400 * FRAME + 256
    frame = bytes(queue.memory[queue.half * FRAME + 256 : queue.half * FRAME + 316])
    queue.memory[address : address + len(frame)] = frame
    queue.complete()
    for _ in range(32):
        queue.describe(address, len(frame))


def freed_buffer(queue):
    """A buffer that is lent for receiving is sent."""
    source = bytes(queue.memory[queue.half * FRAME + 256 : queue.half * FRAME + 316])
    queue.complete()
    for frame in range(16):
        queue.memory[frame * FRAME + 256 : frame * FRAME + 316] = source
        queue.describe(frame * FRAME + 256, len(source))


scribble("the transmit ring's producer jumps a whole ring", lambda queue: jump("transmit", "producer", queue.transmit.size)(queue))
scribble("the transmit ring's producer jumps 2^31", jump("transmit", "producer", 1 << 31))
scribble("the transmit ring's producer goes back", jump("transmit", "producer", -32))
scribble("the fill ring is full of nonsense", wrong_fill)
scribble("one buffer is sent many times at once", same_buffer)
scribble("buffers are sent that are lent for receiving", freed_buffer)
