"""What is tried by asking for much, for what is expensive, or for nothing at all: is anybody else served later for it?"""

import json
import os
import resource
import select
import signal
import socket
import threading

from arena import ATTACKER, PATH, VICTIM, allowed, row
from card import CONTROL_GROUP, FRAME, PATIENCE, VERSION, Queue, Refused, Session, ask, memory_file
from closing import OPEN_QUEUE, is_served, told

# Connections of one user at most.
SESSIONS_MAX = 32
RATE = {"set-rate": {"vnic": None, "direction": "transmit", "rate": {"bits_per_s": 0, "packets_per_s": 0}}}


def become(user):
    """For good: of a child alone."""
    os.setgroups([])
    os.setresgid(CONTROL_GROUP, CONTROL_GROUP, CONTROL_GROUP)
    os.setresuid(user, user, user)


class Busy:
    """Threads that ask for one thing after the other, each by its own means; how much has been done is counted."""

    def __init__(self, count, make):
        self.done, self.over, self.threads = 0, False, []
        for number in range(count):
            self.threads.append(threading.Thread(target=self.work, args=(make(number),)))
        for thread in self.threads:
            thread.start()

    def work(self, once):
        while not self.over:
            try:
                once()
            except (Refused, OSError):
                pass
            self.done += 1

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def make_cards(number):
    session = Session(PATH, ATTACKER)

    def once():
        session.create(150 + number, name="short-lived").handle.close()
        # The card's end is over.
        session.ask("limits")

    return once


@row("time and cost", "cards made and ended all the time: another's questions wait for one at most")
def storm_of_cards(arena, way):
    """How many cards are made for each answer to another user, or, unprotected, to another program of the same user."""
    if way == "control":
        return is_served(arena.session(VICTIM))
    busy = Busy(6, make_cards)
    session = Session(PATH, ATTACKER if way == "off" else VICTIM)
    try:
        before = busy.done
        while busy.done < before + 6:
            assert allowed(lambda: session.ask("limits"))
        # Each question is asked while all the cards wait. On a busy machine they may not: then it is tried again where it must happen.
        for _ in range(10 if way == "off" else 1):
            answers, start = 0, busy.done
            while busy.done < start + 60:
                assert allowed(lambda: session.ask("limits"))
                answers += 1
            if (busy.done - start) / answers > 3:
                return True
        return False
    finally:
        busy.end()
        session.close()


def wait_with(arena, way, weapon):
    """Whether somebody else is not served while `weapon(session)` is used on all connections that a user can have. Unprotected:
    another program of that user."""
    victim = Session(PATH, VICTIM)
    if way == "control":
        served = is_served(victim)
        victim.close()
        return served
    held = []
    try:
        for _ in range(SESSIONS_MAX + 1):
            session = Session(PATH, ATTACKER)
            held.append(session)
            if not allowed(lambda: session.ask("limits")):
                break
            weapon(session)
        if way == "attack":
            return not is_served(victim)
        # A further one is too many, or those that there are have been cut off.
        held.append(Session(PATH, ATTACKER))
        return not all(is_served(session) for session in held)
    except (Refused, OSError):
        return way == "off"
    finally:
        victim.close()
        for session in held:
            session.close()


def flood_of(body):
    def flood(session):
        session.socket.setblocking(False)
        try:
            for _ in range(500):
                session.socket.send(json.dumps({"version": VERSION, "body": body}).encode())
        except OSError:
            pass

    return flood


def flood_with(fds):
    def flood(session):
        session.socket.setblocking(False)
        for _ in range(100):
            told(session.socket, "reclaim", fds())

    return flood


WIDE = {"name": "x" * 60, "addresses": [[f"10.77.0.{last}", 24] for last in range(30, 46)], "queues": 9, "mtu": 0}
for name, weapon in {
    "connections of which nothing is heard": lambda session: None,
    "questions whose answers nobody reads": flood_of("status"),
    "what the policy allows, asked all the time": flood_of("limits"),
    "requests that are refused": flood_of({"create-vnic": {**WIDE, "services": ["udp/7"], "persistent": False}}),
    "requests for what is not there": flood_of({"open-vnic": {"vnic": 7_777}}),
    "long messages that say nothing": flood_of("x" * 30_000),
    "descriptors that are no handles": flood_with(lambda: [0]),
    "messages with as many descriptors as there can be": flood_with(lambda: [0] * 253),
}.items():
    row("time and cost", f"{name}, on all connections of a user", damages=True)(
        lambda arena, way, weapon=weapon: wait_with(arena, way, weapon)
    )


def on_handles(name, request, fds=lambda: []):
    """The same on handles, of which a user can have more than connections."""

    def attack(arena, way):
        card = arena.card(ATTACKER)
        if way == "control":
            return is_served(arena.session(VICTIM))
        files = fds()
        handles, held = [], []
        try:
            for _ in range(100):
                _, (fd,) = arena.session(ATTACKER).ask({"open-vnic": {"vnic": card.number}})
                handles.append(socket.socket(fileno=fd))
            for _ in range(5):
                for handle in handles:
                    handle.setblocking(False)
                    told(handle, request, files)
            if way == "attack":
                return not is_served(arena.session(VICTIM))
            # Another program of the same user can't have what is limited for all of them.
            for _ in range(1_100):
                held += arena.session(ATTACKER).ask({"open-vnic": {"vnic": card.number}})[1]
            return False
        except Refused:
            return way == "off"
        finally:
            for fd in [*files, *held]:
                os.close(fd)
            for handle in handles:
                handle.close()

    row("time and cost", name, damages=True)(attack)


on_handles("rates set on a hundred handles at once", RATE)
on_handles("queues that are refused, on a hundred handles at once", {"open-queue": OPEN_QUEUE}, lambda: [memory_file(FRAME)])
on_handles(
    "queues that are refused last, on a hundred handles at once",
    {"open-queue": {**OPEN_QUEUE, "frame_size": 1_024}},
    lambda: [memory_file(256 * 1_024)],
)


@row("time and cost", "a queue opened again while it is open", damages=True)
def opened_twice(arena, way):
    """The second is refused, and costs the first nothing."""
    if way == "control":
        return arena.queue(ATTACKER) is not None
    user = VICTIM if way == "off" else ATTACKER
    arena.queue(user)
    if way == "off":
        # Given up first, it may be had.
        arena.drop(user)
        return allowed(lambda: arena.queue(user))
    file = memory_file(256 * FRAME)
    try:
        return any(allowed(lambda: ask(arena.card(user).handle, {"open-queue": OPEN_QUEUE}, [file])) for _ in range(40))
    finally:
        os.close(file)


@row("time and cost", "no descriptor left for the daemon")
def no_descriptors(arena, way):
    """A client that is let in already is served; one that knocks is let in later."""
    victim = Session(PATH, VICTIM)
    daemon = arena.root().daemon()
    before = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    knocking = []
    try:
        served = is_served(victim)
        if way == "control":
            return served
        # All below are taken.
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, (3, before[1]))
        for _ in range(8):
            knocking.append(Session(PATH, ATTACKER))
        if way == "off":
            knocking[0].socket.settimeout(0.3)
            return not allowed(lambda: knocking[0].ask("limits"))
        served = all(is_served(victim) for _ in range(50))
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, before)
        return not (served and all(is_served(session) for session in knocking))
    finally:
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, before)
        victim.close()
        for session in knocking:
            session.close()


@row("time and cost", "people who come and go all the time")
def coming_and_going(arena, way):
    """Processes of a user that connect and hang up, one after the other; a byte for each that came."""
    session = Session(PATH, VICTIM)
    if way == "control":
        served = is_served(session)
        session.close()
        return served
    reader, writer = os.pipe()
    children = []
    for _ in range(4):
        children.append(os.fork())
        if children[-1] == 0:
            try:
                become(ATTACKER)
                while True:
                    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as endpoint:
                        endpoint.connect(PATH)
                    os.write(writer, b"x")
            finally:
                os._exit(0)
    try:
        came, served = 0, True
        while came < 400:
            came += len(os.read(reader, 100))
            served = served and is_served(session)
        # Unprotected: as one of those who come and go, who are too many at times.
        return not served if way == "attack" else came >= 400
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
        session.close()


@row("time and cost", "a connection that is stopped in the middle", damages=True)
def stopped(arena, way):
    """Its queue is full, and so is the one back: nobody waits for it."""
    victim = Session(PATH, VICTIM)
    if way == "control":
        served = is_served(victim)
        victim.close()
        return served
    session = Session(PATH, ATTACKER)
    try:
        session.socket.setblocking(False)
        sent = 0
        try:
            while sent < 100_000:
                try:
                    session.socket.send(json.dumps({"version": VERSION, "body": "status"}).encode())
                    sent += 1
                except BlockingIOError:
                    # Not read yet. It is stopped when the answers have no room either: then it is hung up on.
                    if not select.select([], [session.socket], [], PATIENCE)[1]:
                        break
        except OSError:
            pass
        if way == "attack":
            return not is_served(victim)
        session.socket.settimeout(PATIENCE)
        return not all(allowed(lambda: session.ask("status")) for _ in range(sent + 1_000))
    finally:
        session.close()
        victim.close()
