"""What is tried by way of handles, and by clients that die or are stopped."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

from arena import ATTACKER, PATH, VICTIM, allowed, row
from card import FRAME, PATIENCE, VERSION, Card, Queue, Refused, Session, ask, memory_file, wish


def by_number(name, request):
    def attack(arena, way):
        victim, attacker = arena.card(VICTIM), arena.card(ATTACKER)
        number = attacker.number if way == "control" else victim.number
        return allowed(lambda: arena.session(0 if way == "off" else ATTACKER).ask(request(number)))

    row("identity and names", name, damages=True)(attack)


EVERYTHING = {
    "local": "any", "peer": "any", "service": "udp/7", "peer_ports": "any",
}
by_number("another's card opened by its number", lambda number: {"open-vnic": {"vnic": number}})
by_number(
    "another's card limited by its number",
    lambda number: {"set-rate": {"vnic": number, "direction": "transmit", "rate": {"bits_per_s": 1000, "packets_per_s": 1}}},
)
by_number("another's card deleted by its number", lambda number: {"delete-vnic": {"vnic": number}})


@row("side channels", "another's card seen in listings")
def list_others(arena, way):
    arena.card(VICTIM)
    arena.card(ATTACKER)
    user = {"control": ATTACKER, "attack": ATTACKER, "off": 0}[way]
    names = [vnic["name"] for vnic in arena.session(user).ask("status")[0]["status"]["vnics"]]
    return arena.card(ATTACKER if way == "control" else VICTIM).status["name"] in names


def rate(handle):
    return ask(handle, {"set-rate": {"vnic": None, "direction": "transmit", "rate": {"bits_per_s": 0, "packets_per_s": 0}}})


@row("descriptors", "a handle used after its card was revoked")
def revoked(arena, way):
    card = arena.session(ATTACKER).create(40)
    if way == "attack":
        arena.root().ask({"delete-vnic": {"vnic": card.number}})
    try:
        return allowed(lambda: rate(card.handle))
    finally:
        card.handle.close()


@row("descriptors", "a revoked handle used on the card that has its number now")
def number_again(arena, way):
    deadline = time.monotonic() + PATIENCE
    while True:
        card = arena.session(ATTACKER).create(40)
        arena.root().ask({"delete-vnic": {"vnic": card.number}})
        heir = arena.session(VICTIM).create(41)
        if heir.number == card.number:
            break
        # A lower one was given back meanwhile, by a card of the test before.
        arena.root().ask({"delete-vnic": {"vnic": heir.number}})
        card.handle.close()
        heir.handle.close()
        assert time.monotonic() < deadline, "no card is given a number again"
        time.sleep(0.1)
    handle = card.handle if way == "attack" else heir.handle
    try:
        return allowed(lambda: rate(handle))
    finally:
        card.handle.close()
        heir.handle.close()


@row("descriptors", "a handle guessed: other descriptors shown as an old one")
def guessed(arena, way):
    card = arena.card(ATTACKER)
    if way != "attack":
        return allowed(lambda: rate(card.handle))
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    session = arena.session(ATTACKER)
    wrong = [pair[0].fileno(), card.handle.fileno(), session.socket.fileno(), sys.stderr.fileno()]
    return any(allowed(lambda fd=fd: session.ask("reclaim", [fd])) for fd in wrong)


@row("identity and names", "a request replayed")
def replayed(arena, way):
    """What was taken on the first time is not taken on again."""
    session, last = arena.session(ATTACKER), 50
    cards = [session.create(last)]
    try:
        cards.append(session.create(last if way == "attack" else last + 1))
        return True
    except Refused:
        return False
    finally:
        for card in cards:
            card.handle.close()
        session.ask("status")


@row("privilege", "what only root may ask, asked by a user")
def only_root(arena, way):
    body = "limits" if way == "control" else "metrics"
    return allowed(lambda: arena.session(0 if way == "off" else ATTACKER).ask(body))


@row("administration", "the daemon ended by a user")
def end_daemon(arena, way):
    if way != "attack":
        # The same message by who may would end all tests: another that is root's alone stands for it.
        return allowed(lambda: arena.root().ask("metrics"))
    asked = [allowed(lambda body=body: arena.session(ATTACKER).ask(body)) for body in ("stop", "leave")]
    return any(asked) or not allowed(lambda: arena.root().ask("status"))


@row("descriptors", "a handle inherited by a program that is executed", damages=True)
def inherited(arena, way):
    handle = arena.card(ATTACKER).handle
    if way == "control":
        return allowed(lambda: rate(handle))
    os.set_inheritable(handle.fileno(), way == "off")
    text = f"import socket; socket.socket(fileno={handle.fileno()}).send(b'x')"
    # Not cut off for it: the test needs the handle no more.
    return subprocess.run([sys.executable, "-c", text], close_fds=False, stderr=subprocess.DEVNULL).returncode == 0


def holder(user, last, stop=False, queue=False):
    """A process that has a card, and nobody else has."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            card = Session(PATH, user).create(last)
            held = Queue(card) if queue else None
            os.write(writer, b"y")
            if stop:
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(60)
            del held
        finally:
            os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    return child


def end(child):
    os.kill(child, signal.SIGKILL)
    try:
        os.waitpid(child, 0)
    except ChildProcessError:
        # A grandchild: whoever adopts it reaps it.
        pass


def stays(arena, name, patience=1.0):
    """Whether a card is still there after a while."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if name not in arena.names():
            return False
        time.sleep(0.005)
    return True


def kept_by(name, hold):
    """A card whose client was killed is there no more; `hold`: what the client had."""

    def attack(arena, way):
        child = hold()
        try:
            if way == "control":
                return "card 60" in arena.names()
            if way == "attack":
                end(child)
                child = None
            return stays(arena, "card 60", 1.0 if way == "attack" else 0.2)
        finally:
            if child:
                end(child)
            stays(arena, "card 60")

    row("descriptors", name)(attack)


def with_child():
    """The client has forked; the child goes on with the handle when the client is gone."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        card = Session(PATH, ATTACKER).create(60)
        if os.fork() == 0:
            os.write(writer, b"%d\n" % os.getpid())
            time.sleep(60)
            os._exit(0)
        os._exit(0 if card else 1)
    os.waitpid(child, 0)
    grandchild = int(os.read(reader, 16))
    os.close(reader)
    os.close(writer)
    # Reaped by init, or by us as its subreaper.
    return grandchild


def in_flight():
    """The handle is in a socket's queue, and that socket in its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        card = Session(PATH, ATTACKER).create(60)
        one, other = socket.socketpair()
        socket.send_fds(one, [b"x"], [card.handle.fileno(), one.fileno(), other.fileno()])
        card.handle.close()
        os.write(writer, b"y")
        time.sleep(60)
        os._exit(0)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    return child


kept_by("a killed client's card", lambda: holder(ATTACKER, 60))
kept_by("a killed client's card with an open queue", lambda: holder(ATTACKER, 60, queue=True))
kept_by("a stopped, then killed client's card", lambda: holder(ATTACKER, 60, stop=True, queue=True))
kept_by("a card in the hands of a forked child", with_child)
kept_by("a card whose handle is on its way nowhere", in_flight)


@row("identity and names", "an address kept by a stopped process after its card was revoked")
def stopped_holds(arena, way):
    child = holder(ATTACKER, 60, stop=True, queue=True)
    try:
        vnics = arena.root().ask("status")[0]["status"]["vnics"]
        number = next(vnic["vnic"] for vnic in vnics if vnic["name"] == "card 60")
        if way != "off":
            arena.root().ask({"delete-vnic": {"vnic": number}})
        # Whether it is still taken.
        free = allowed(lambda: arena.session(VICTIM).create(60).handle.close())
        return free if way == "control" else not free
    finally:
        end(child)
        stays(arena, "card 60")


STAGES = ["connected", "asked", "made", "memory made", "queue opened", "frames sent", "rings unmapped", "socket closed", "deleting"]


def dies_at(stage):
    """A client that kills itself at a stage of setting up or taking down."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        def reach(name):
            if name == stage:
                os.write(writer, b"y")
                if not os.environ.get("QANAT_STAY"):
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)

        try:
            session = Session(PATH, ATTACKER)
            reach("connected")
            session.socket.send(json.dumps({"version": VERSION, "body": {"create-vnic": wish(60)}}).encode())
            reach("asked")
            data, beside, _, _ = socket.recv_fds(session.socket, 1 << 16, 4)
            card = Card(json.loads(data)["body"], beside)
            reach("made")
            file = memory_file(256 * FRAME)
            reach("memory made")
            queue = Queue(card)
            reach("queue opened")
            for _ in range(16):
                queue.send(card.frame_to(card, b"x"))
            reach("frames sent")
            for ring in (queue.receive, queue.transmit, queue.fill, queue.completion):
                ring.map.close()
            reach("rings unmapped")
            queue.socket.close()
            reach("socket closed")
            session.socket.send(json.dumps({"version": VERSION, "body": {"delete-vnic": {"vnic": card.number}}}).encode())
            reach("deleting")
            os.close(file)
        finally:
            os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    return child


for stage in STAGES:

    def killed(arena, way, stage=stage):
        os.environ.pop("QANAT_STAY", None)
        if way == "control":
            # Somebody else's way through the same stages, to its end.
            card = arena.session(VICTIM).create(61)
            Queue(card).close()
            card.handle.close()
            return not stays(arena, "card 61")
        if way == "off":
            os.environ["QANAT_STAY"] = "1"
        child = dies_at(stage if way == "attack" or stage not in ("connected", "deleting") else "made")
        try:
            if way == "attack":
                os.waitpid(child, 0)
                child = None
            else:
                time.sleep(0.1)
            left = stays(arena, "card 60", 1.0 if way == "attack" else 0.1)
            # The address and the daemon are there for others.
            return left or (way == "attack" and not allowed(lambda: arena.session(VICTIM).create(60).handle.close()))
        finally:
            if child:
                end(child)
            stays(arena, "card 60")

    row("descriptors", f"a client killed when it has {stage}")(killed)
