"""ICMP and questions for neighbours as weapons: errors about others' flows, pings and questions beyond the rule's peers."""

import json
import os
import socket
import struct
import subprocess

from arena import ATTACKER, PATH, THIRD, VICTIM, row
from card import Queue, Session

KERNEL, KERNEL_LAST = "10.77.0.1", 1
# In the policy of attacks.rs: a user whose rule names the kernel as the only peer.
BOUND, BOUND_LAST = 1010, 60
UNREACHABLE, NEEDS_FRAGMENTS, PORT = 3, 4, 3
IP_MTU = 14


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def packet(source, destination, protocol, payload):
    """An IPv4 packet between addresses of 10.77.0.0/24."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0)
    addresses = bytes([10, 77, 0, source, 10, 77, 0, destination])
    return head[:10] + struct.pack("!H", checksum(head + addresses)) + addresses + payload


def icmp(kind, code, rest, payload):
    message = struct.pack("!BBHI", kind, code, 0, rest) + payload
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


def echo(source, destination, kind=8):
    return packet(source, destination, 1, icmp(kind, 0, 1, b"are you there?"))


def datagram(source, destination, ports=(9, 7)):
    return packet(source, destination, 17, struct.pack("!HHHH", *ports, 12, 0) + b"data")


def error(card, to, quote, code):
    """An error of a card's own address to another: its Ethernet address, and its last byte."""
    mac, last = to
    return mac + card.mac + b"\x08\x00" + packet(card.last, last, 1, icmp(UNREACHABLE, code, 600 if code == NEEDS_FRAGMENTS else 0, quote))


def kernel_end(card):
    """Its Ethernet address, by netlink: /sys may be another namespace's."""
    shown = subprocess.run(["ip", "-j", "link", "show", card.status["interface"]], check=True, capture_output=True)
    return bytes.fromhex(json.loads(shown.stdout)[0]["address"].replace(":", "")), KERNEL_LAST


def speaker(arena, way):
    """Who sends the error, and whose flow it tells of: about its own anybody may."""
    user, subject = {"control": (ATTACKER, ATTACKER), "attack": (ATTACKER, VICTIM), "off": (VICTIM, VICTIM)}[way]
    return arena.card(user), arena.queue(user), arena.card(subject)


def path_mtu(last):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((f"10.77.0.{last}", 9))
        return probe.getsockopt(socket.IPPROTO_IP, IP_MTU)


@row("frames", "the kernel's path to another made narrow by an ICMP error")
def narrow(arena, way):
    """The kernel believes what is said of its echo replies without asking a socket."""
    card, queue, subject = speaker(arena, way)
    before = path_mtu(subject.last)
    queue.send(error(card, kernel_end(card), echo(KERNEL_LAST, subject.last, 0), NEEDS_FRAGMENTS))
    queue.arrivals()
    after = path_mtu(subject.last)
    subprocess.run(["ip", "route", "flush", "cache"], check=True)
    return (before, after) == (1500, 600)


@row("frames", "the kernel's conversation with another ended by an ICMP error")
def refused(arena, way):
    """Whether its socket hears that nobody is there."""
    card, queue, subject = speaker(arena, way)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kernel:
        kernel.connect((f"10.77.0.{subject.last}", 7))
        ports = (kernel.getsockname()[1], 7)
        queue.send(error(card, kernel_end(card), datagram(KERNEL_LAST, subject.last, ports), PORT))
        queue.arrivals()
        return kernel.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def to_third(arena, way, quote, code=PORT, of=None):
    """Whether a third card hears an error about a flow of its own with another's card, or with the speaker's (`of`: "control")."""
    card, queue, subject = speaker(arena, of or way)
    third, heard = arena.card(THIRD), arena.queue(THIRD)
    heard.arrivals()
    sent = error(card, (third.mac, third.last), quote(third, subject), code)
    queue.send(sent)
    return sent in heard.arrivals(expected=way != "attack")


@row("frames", "another card's conversation with a third ended by an ICMP error")
def ended(arena, way):
    return to_third(arena, way, lambda third, subject: datagram(third.last, subject.last))


@row("frames", "another card's path to a third made narrow by an ICMP error")
def narrow_card(arena, way):
    return to_third(arena, way, lambda third, subject: datagram(third.last, subject.last), NEEDS_FRAGMENTS)


@row("frames", "an ICMP error with half a quote")
def half(arena, way):
    length = 24 if way == "attack" else 32
    return to_third(arena, way, lambda third, subject: datagram(third.last, subject.last)[:length], of="control")


@row("frames", "an ICMP error about an ICMP error")
def about_error(arena, way):
    quote = lambda third, subject: packet(third.last, subject.last, 1, icmp(3, 3, 0, datagram(subject.last, third.last)))
    plain = lambda third, subject: echo(third.last, subject.last)
    return to_third(arena, way, quote if way == "attack" else plain, of="control")


def reaches(arena, way, frame):
    """Whether the victim gets a frame of a user who is bound to the kernel as the only peer; `off`: of one who is not."""
    victim, heard = arena.card(VICTIM), arena.queue(VICTIM)
    heard.arrivals()
    if way == "off":
        sent = frame(arena.card(ATTACKER), (victim.mac, victim.last))
        arena.queue(ATTACKER).send(sent)
        return sent in heard.arrivals(expected=1)
    session = Session(PATH, BOUND)
    card = session.create(BOUND_LAST, services=())
    queue = Queue(card)
    try:
        if way == "control":
            # The kernel answers.
            queue.send(frame(card, kernel_end(card)))
            return bool(queue.arrivals(expected=1))
        sent = frame(card, (victim.mac, victim.last))
        queue.send(sent)
        return sent in heard.arrivals()
    finally:
        queue.close()
        card.handle.close()
        session.close()


@row("frames", "a ping to one who is no peer of the rule")
def ping(arena, way):
    return reaches(arena, way, lambda card, to: to[0] + card.mac + b"\x08\x00" + echo(card.last, to[1]))


@row("frames", "a question for the Ethernet address of one who is no peer of the rule")
def question(arena, way):
    def ask(card, to):
        addresses = card.mac + bytes([10, 77, 0, card.last]) + bytes(6) + bytes([10, 77, 0, to[1]])
        return b"\xff" * 6 + card.mac + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x800, 6, 4, 1) + addresses

    return reaches(arena, way, ask)


@row("frames", "an IPv6 packet from an IPv4 address")
def mapped(arena, way):
    """::ffff:a.b.c.d is the IPv4 address in every table, and on no wire. `off`: IPv4 says the same."""
    attacker, victim = arena.card(ATTACKER), arena.card(VICTIM)
    heard = arena.queue(VICTIM)
    heard.arrivals()
    content = os.urandom(8)
    if way == "attack":
        address = lambda card: bytes(10) + b"\xff\xff" + bytes([10, 77, 0, card.last])
        payload = struct.pack("!HHHH", 7, 9, 16, 0xFFFF) + content
        head = struct.pack("!IHBB", 6 << 28, len(payload), 17, 64) + address(attacker) + address(victim)
        frame = victim.mac + attacker.mac + b"\x86\xdd" + head + payload
    else:
        frame = attacker.frame_to(victim, content)
    arena.queue(ATTACKER).send(frame)
    return frame in heard.arrivals(expected=way != "attack")
