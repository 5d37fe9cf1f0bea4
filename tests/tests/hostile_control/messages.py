"""What is tried by way of messages, and of taking all there is."""

import json
import os
import time

from arena import ATTACKER, PATH, VICTIM, allowed, row
from card import PATIENCE, VERSION, Card, Queue, Refused, Session
from handles import stays

STATUS = json.dumps({"version": VERSION, "body": "status"}).encode()
OLDER = json.dumps({"version": VERSION - 1, "body": "status"}).encode()
NEWER = json.dumps({"version": VERSION + 1, "body": "status"}).encode()
NONSENSE = {
    "zeros": (b"\0" * 64, 0),
    "all ones": (b"\xff" * 64, 0),
    "half a message": (STATUS[: len(STATUS) // 2], 0),
    "two messages in one": (STATUS * 2, 0),
    "an oversized message": (STATUS + b" " * 40_000, 0),
    "a message of an older version": (OLDER, 0),
    "a message of a newer version": (NEWER, 0),
    "an unknown request": (STATUS.replace(b"status", b"format"), 0),
    "a very deep message": (STATUS[: STATUS.index(b'"status"')] + b"[" * 20_000, 0),
    "an empty message": (b"", 0),
    "more descriptors than are taken": (STATUS, 16),
}
for name, (text, count) in NONSENSE.items():

    def nonsense(arena, way, text=text, count=count):
        """Whether the victim's conversation breaks."""
        victim = Session(PATH, VICTIM)
        target = victim if way == "off" else Session(PATH, ATTACKER)
        if way == "control":
            return allowed(lambda: target.ask("status")) and allowed(lambda: victim.ask("status"))
        null = os.open("/dev/null", os.O_RDONLY)
        allowed(lambda: target.ask(None, [null] * count, text))
        os.close(null)
        broken = not allowed(lambda: victim.ask("status"))
        victim.close()
        target.close()
        return broken

    row("descriptors" if count else "fields and memory", f"said to the daemon: {name}")(nonsense)


@row("time and cost", "a flood of requests whose answers nobody reads")
def flood(arena, way):
    victim = Session(PATH, VICTIM)
    if way == "control":
        return allowed(lambda: victim.ask("status"))
    target = victim if way == "off" else Session(PATH, ATTACKER)
    target.socket.setblocking(False)
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        try:
            target.socket.send(STATUS)
        except BlockingIOError:
            continue
        except OSError:
            break
    target.socket.settimeout(PATIENCE)
    # The victim hears one answer to one question, or does not.
    heard = []

    def listen():
        while True:
            heard.append(victim.ask("status"))
            if way != "off" or len(heard) > 100_000:
                return

    return not allowed(listen)


# Exhaustion.


def exhaust(name, take, want):
    """Whether the victim can't have what it wants, once a user has all he can get."""

    def attack(arena, way):
        arena.card(VICTIM)
        if way == "control":
            return allowed(lambda: want(arena))
        held, before = [], set(arena.names())
        try:
            for number in range(1_100):
                held.append(take(arena, VICTIM if way == "off" else ATTACKER, number))
        except (Refused, OSError):
            pass
        try:
            return not allowed(lambda: want(arena))
        finally:
            for thing in held:
                thing.close()
            # Whoever has made others wait is waited for himself.
            deadline = time.monotonic() + 30
            while set(arena.names()) - before and time.monotonic() < deadline:
                time.sleep(0.01)

    row("time and cost", name)(attack)


class Given:
    """A card with a queue."""

    def __init__(self, arena, user, number):
        self.card = arena.session(user).create(100 + number % 100)
        try:
            self.queue = Queue(self.card)
        except Refused:
            self.card.handle.close()
            raise

    def close(self):
        self.queue.close()
        self.card.handle.close()


def connect(arena, user, number):
    session = Session(PATH, user)
    try:
        session.ask("limits")
    except Refused:
        session.close()
        raise
    return session


def open_again(arena, user, number):
    return Card(*arena.session(user).ask({"open-vnic": {"vnic": arena.card(user).number}})).handle


def create(arena, user, number):
    return arena.session(user).create(100 + number % 100).handle


exhaust("all connections", connect, lambda arena: connect(arena, VICTIM, 0).close())
exhaust("all handles", open_again, lambda arena: open_again(arena, VICTIM, 0).close())
exhaust("all cards", create, lambda arena: arena.session(VICTIM).create(99).handle.close())
exhaust("all frame memory", Given, lambda arena: Given(arena, VICTIM, 99).close())


@row("time and cost", "more memory than one may have, by sockets of cards given up")
def ghosts(arena, way):
    """The rule allows 2 MiB; each queue has half of one."""
    held = []
    try:
        for number in range(6):
            user = ATTACKER if way != "off" else 1_100 + number
            session = Session(PATH, user)
            card = session.create(70)
            try:
                queue = Queue(card)
            finally:
                card.handle.close()
                stays(arena, "card 70")
                session.close()
            held.append(queue)
            if way == "control":
                held.pop().close()
        return True
    except Refused:
        return False
    finally:
        for queue in held:
            queue.close()


@row("descriptors", "descriptors left with the daemon beside refused requests")
def left_descriptors(arena, way):
    session = arena.session(ATTACKER)
    count = lambda: len(os.listdir(f"/proc/{session.daemon()}/fd"))
    if way == "control":
        return allowed(lambda: session.ask("limits"))
    null, before, held = os.open("/dev/null", os.O_RDONLY), count(), []
    for number in range(200):
        if way == "off":
            held.append(open_again(arena, ATTACKER, number))
        else:
            allowed(lambda: session.ask({"delete-vnic": {"vnic": 99}}, [null] * 5))
    grown = count() - before
    os.close(null)
    for handle in held:
        handle.close()
    return grown > 100


@row("identity and names", "the address of another's card", damages=True)
def take_address(arena, way):
    victim = arena.card(VICTIM)
    last = {"control": 55, "attack": victim.last, "off": victim.last}[way]
    if way == "off":
        victim.handle.close()
        stays(arena, victim.status["name"])
        del arena.cards[VICTIM]
    return allowed(lambda: arena.session(ATTACKER).create(last, name="thief").handle.close())
