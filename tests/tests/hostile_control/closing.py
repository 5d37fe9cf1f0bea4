"""Closing as an attack: descriptors that keep whoever closes them waiting, sent wherever something can be sent."""

import json
import os
import socket

from arena import ATTACKER, PATH, VICTIM, allowed, row
from card import FRAME, PATIENCE, VERSION, Queue, Refused, Session, ask, memory_file
from weapons import Fuse, Lingering, Naive

# Said before a descriptor is sent.
AHEAD = 40
STATUS = json.dumps({"version": VERSION, "body": "status"}).encode()
OPEN_QUEUE = {"queue": 0, "frame_size": FRAME, "receive_frames": 128, "transmit_frames": 128, "prepared_frames": 0}


def told(endpoint, body, fds, raw=None, ahead=0):
    """Says something, and does not wait for what becomes of it. `ahead`: so many other things first, so that whoever receives
    the descriptors does it when the sender has closed its own."""
    text = raw if raw is not None else json.dumps({"version": VERSION, "body": body}).encode()
    try:
        for _ in range(ahead):
            endpoint.send(STATUS)
        socket.send_fds(endpoint, [text], fds)
    except OSError:
        # It takes none, or has hung up: just as good.
        pass


def is_served(session, times=1):
    """Whether the daemon answers this one."""
    session.socket.settimeout(PATIENCE)
    return all(allowed(lambda: session.ask("status")) for _ in range(times))


def filter_wish():
    volume = {"local": "any", "peer": "any", "service": "udp/7", "peer_ports": "any"}
    return {"create-filter": {"direction": "transmit", "filters": [volume]}}


class Sender:
    """An attacker's connection, card and filter of its own, and what it says with a descriptor beside it."""

    def __init__(self, arena):
        self.session = Session(PATH, ATTACKER)
        self.card = arena.card(ATTACKER)

    def close(self):
        self.session.close()

    def beside_a_question(self, fd):
        told(self.session.socket, "status", [fd], ahead=AHEAD)

    def beside_a_change(self, fd):
        told(self.card.handle, {"set-rate": {"vnic": None, "direction": "transmit", "rate": {"bits_per_s": 0, "packets_per_s": 0}}}, [fd], ahead=AHEAD)

    def as_frame_memory(self, fd):
        told(self.card.handle, {"open-queue": OPEN_QUEUE}, [fd], ahead=AHEAD)

    def beside_frame_memory(self, fd):
        file = memory_file(256 * FRAME)
        told(self.card.handle, {"open-queue": OPEN_QUEUE}, [file, fd], ahead=AHEAD)
        os.close(file)

    def as_third_memory(self, fd):
        file = memory_file(256 * FRAME)
        told(self.card.handle, {"open-queue": OPEN_QUEUE}, [file, file, fd], ahead=AHEAD)
        os.close(file)

    def as_a_filter(self, fd):
        told(self.card.handle, {"assign": {"queue": None}}, [fd], ahead=AHEAD)

    def as_an_old_handle(self, fd):
        told(self.session.socket, "reclaim", [fd], ahead=AHEAD)

    def on_a_filter(self, fd):
        try:
            _, (handle,) = self.session.ask(filter_wish())
        except Refused:
            return
        endpoint = socket.socket(fileno=handle)
        told(endpoint, "status", [fd])
        endpoint.close()

    def many_at_once(self, fd):
        told(self.session.socket, "status", [fd] * 253, ahead=AHEAD)

    def with_another_version(self, fd):
        told(self.session.socket, None, [fd], STATUS.replace(b"2", b"1", 1), ahead=AHEAD)

    def with_too_long_a_message(self, fd):
        told(self.session.socket, None, [fd], STATUS + b" " * 40_000, ahead=AHEAD)

    def with_nonsense(self, fd):
        told(self.session.socket, None, [fd], b"\xff" * 64, ahead=AHEAD)

    def without_a_byte(self, fd):
        told(self.session.socket, None, [fd], b"", ahead=AHEAD)

    def behind_other_messages(self, fd):
        """Cut off for the first, it has more in the queue."""
        told(self.session.socket, None, [], b"{", ahead=AHEAD)
        for _ in range(8):
            told(self.session.socket, "status", [fd])

    def and_hangs_up(self, fd):
        told(self.session.socket, "status", [fd], ahead=AHEAD)
        self.session.close()

    def before_it_is_let_in(self, fd):
        """One too many of its user's: it is turned away with what it has sent already."""
        held = []
        try:
            for _ in range(34):
                held.append(Session(PATH, ATTACKER))
                told(held[-1].socket, "status", [fd])
        except (Refused, OSError):
            pass
        finally:
            for session in held:
                session.close()


def closing(weapon, kind, way_of_sending, text):
    def attack(arena, way):
        """Whether somebody else is kept waiting."""
        arena.card(ATTACKER)
        victim = Session(PATH, VICTIM)
        if way == "control":
            served = is_served(victim)
            victim.close()
            return served
        # Before there is a weapon, of which it would have a copy.
        naive = Naive() if way == "off" else None
        made, sender = weapon(), None
        try:
            if naive:
                naive.stop()
                told(naive.attacker, "status", [made.fileno()])
            else:
                sender = Sender(arena)
                getattr(sender, way_of_sending)(made.fileno())
            made.let_go()
            if naive:
                naive.go_on()
                return not naive.serves_victim(0.3)
            # Until all that was said before it has had its turn, and longer.
            return not is_served(victim, 4 * AHEAD)
        finally:
            made.end()
            victim.close()
            if naive:
                naive.end()
            if sender:
                sender.close()

    row("descriptors", f"{kind}, sent {text}", damages=True)(attack)


WAYS = {
    "beside_a_question": "beside a question that takes none",
    "beside_a_change": "on a card's handle beside a change",
    "as_frame_memory": "as frame memory",
    "beside_frame_memory": "as the second file of frame memory",
    "as_third_memory": "as a third file of frame memory",
    "as_a_filter": "as a filter's handle",
    "as_an_old_handle": "as an earlier daemon's handle",
    "on_a_filter": "on a filter's handle, which is closed",
    "many_at_once": "253 times in one message",
    "with_another_version": "with another version's message",
    "with_too_long_a_message": "with a message that is too long",
    "with_nonsense": "with nonsense",
    "without_a_byte": "without a byte of text",
    "behind_other_messages": "behind a message that has its sender cut off",
    "and_hangs_up": "and its sender hangs up",
    "before_it_is_let_in": "by one who is not let in",
}
for way, text in WAYS.items():
    closing(Lingering, "a socket that lingers", way, text)
for way in ("beside_a_question", "as_frame_memory", "as_a_filter", "behind_other_messages", "and_hangs_up"):
    closing(Fuse, "a file whose server is silent", way, WAYS[way])


@row("descriptors", "another's queue while one's own descriptors can't be closed", damages=True)
def others_are_received(arena, way):
    """Descriptors of one user are received while another's are stuck."""
    made = []
    try:
        if way == "attack":
            for _ in range(3):
                made.append(Lingering())
                session = Session(PATH, ATTACKER)
                told(session.socket, "status", [made[-1].fileno()], ahead=AHEAD)
                made[-1].let_go()
                session.close()
        card = arena.session(VICTIM).create(77)
        card.handle.settimeout(PATIENCE)
        if way == "off":
            # Nobody is there who would open it.
            card.handle.shutdown(socket.SHUT_RDWR)
        try:
            Queue(card).close()
            return False or way == "control"
        except (Refused, OSError):
            return way != "control"
        finally:
            card.handle.close()
    finally:
        for weapon in made:
            weapon.end()


@row("descriptors", "as many as the daemon can have", damages=True)
def conserved(arena, way):
    """Descriptors of all kinds, sent in all ways; how many the daemon is left with."""
    count = lambda: len(os.listdir(f"/proc/{arena.root().daemon()}/fd"))
    session = Session(PATH, ATTACKER)
    if way == "control":
        answered = allowed(lambda: session.ask("status"))
        session.close()
        return answered
    read, write = os.pipe()
    kinds = [read, write, os.open("/", os.O_PATH), os.pidfd_open(os.getpid()), os.eventfd(0), os.memfd_create("x")]
    before, kept = count(), []
    for number in range(120):
        fd = kinds[number % len(kinds)]
        if way == "off":
            kept.append(Session(PATH, 1_200 + number // 30))
            kept[-1].ask("limits")
        else:
            for body in ("status", "reclaim"):
                allowed(lambda: session.ask(body, [fd] * (1 + number)))
            allowed(lambda: ask(arena.card(ATTACKER).handle, {"open-queue": OPEN_QUEUE}, [fd] * (1 + number % 5)))
    is_served(session)
    grown = count() - before
    for fd in kinds:
        os.close(fd)
    for other in [session, *kept]:
        other.close()
    return grown > 20
