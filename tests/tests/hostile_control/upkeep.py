"""What is tried on who looks after the machine: on the daemon's life, its files, and on what an administrator reads."""

import json
import os
import re
import socket
import stat
import threading
import time

from arena import ATTACKER, PATH, VICTIM, allowed, qanat, row
from card import CONTROL_GROUP, Refused, in_child, wish

NOTES = os.path.splitext(PATH)[0] + ".state"


def lives(arena):
    return allowed(lambda: arena.root().ask("status"))


@row("administration", "the daemon ended by `qanat down`, run by a user")
def down(arena, way):
    if way == "control":
        return qanat(ATTACKER, "limits")[1] == 0
    if way == "off":
        # Root's would end all tests: another word that is root's alone stands for it.
        return qanat(0, "status", "--prometheus")[1] == 0
    return qanat(ATTACKER, "down")[1] == 0 or qanat(ATTACKER, "status", "--prometheus")[1] == 0 or not lives(arena)


@row("administration", "net cores added and removed by a user")
def net_cores(arena, way):
    if way != "attack":
        return allowed(lambda: arena.session(0 if way == "off" else ATTACKER).ask("limits" if way == "control" else "metrics"))
    bodies = [{"add-net-core": {"processor": 0}}, {"remove-net-core": {"processor": 0}}]
    return any([allowed(lambda body=body: arena.session(ATTACKER).ask(body)) for body in bodies])


@row("administration", "signals sent to the daemon by a user")
def signals(arena, way):
    daemon = arena.session(ATTACKER).daemon()
    target = {"control": lambda: os.getpid(), "attack": lambda: daemon, "off": lambda: daemon}[way]
    numbers = (0,) if way != "attack" else (1, 2, 15, 9, 19, 0)
    return in_child(0 if way == "off" else ATTACKER, lambda: any([allowed(lambda n=n: os.kill(target(), n)) for n in numbers]))


@row("administration", "requests to leave and to stop, a flood of them")
def flood_of_ends(arena, way):
    session = arena.session(0 if way == "off" else ATTACKER)
    if way != "attack":
        return all([allowed(lambda: session.ask("limits")) for _ in range(200)])
    return any([allowed(lambda word=word: session.ask(word)) for _ in range(100) for word in ("stop", "leave")])


def on_file(name, act, own):
    """`act(path)`: on the daemon's; the control on one of one's own, `own(directory)`."""

    def attack(arena, way):
        if way == "control":
            place = f"/tmp/qanat-own-{os.getpid()}"
            os.mkdir(place)
            try:
                os.chown(place, ATTACKER, CONTROL_GROUP)
                return in_child(ATTACKER, lambda: allowed(lambda: own(place)))
            finally:
                for file in os.listdir(place):
                    os.unlink(os.path.join(place, file))
                os.rmdir(place)
        return in_child(0 if way == "off" else ATTACKER, lambda: allowed(act)) or not lives(arena)

    row("administration", name)(attack)


def move():
    os.rename(PATH, PATH + ".moved")
    os.rename(PATH + ".moved", PATH)


def bind(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as taken:
        taken.bind(path)
    os.unlink(path)


def touch(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def write_note():
    name = os.path.join(NOTES, "vnic-999.json")
    touch(name)
    os.unlink(name)


def open_up():
    old = stat.S_IMODE(os.stat(PATH).st_mode)
    os.chmod(PATH, old)


def own_move(place):
    touch(f"{place}/a")
    os.rename(f"{place}/a", f"{place}/b")


def own_mode(place):
    touch(f"{place}/a")
    os.chmod(f"{place}/a", 0o666)


on_file("the daemon's socket moved away", move, own_move)
on_file("a socket beside the daemon's", lambda: bind(PATH + "+"), lambda place: bind(f"{place}/s"))
on_file("the daemon's socket opened to all", open_up, own_mode)
on_file("the daemon's notes read", lambda: os.listdir(NOTES), os.listdir)
on_file("the daemon's notes written", write_note, lambda place: touch(f"{place}/n"))


DECEPTIVE = ["\x1b[2J", "\n", "\r", "\x7f", "\x9b2J", "\u202e", "\u2028", "\u200b", "\ufeff", "\U000e0041"]


@row("administration", "a card's name that a terminal would obey")
def name_of_card(arena, way):
    """What root reads of others' cards is what it looks like."""
    names = ["plain é 日本"] if way == "control" else [f"a{letter}b" for letter in DECEPTIVE]
    seen = False
    for name in names:
        if way == "off":
            # As it would be seen if it were shown as it is.
            seen = seen or any(letter in json.loads(json.dumps(name)) for letter in DECEPTIVE)
            continue
        try:
            card, descriptors = arena.session(ATTACKER).ask({"create-vnic": wish(92, name=name)})
        except Refused:
            continue
        text = qanat(0, "status")[0].decode()
        for descriptor in descriptors:
            os.close(descriptor)
        seen = seen or name in text
        arena.session(ATTACKER).ask("limits")
    return seen


@row("administration", "figures of one's own making among the daemon's")
def figures(arena, way):
    """A name can't end its label and begin a line."""
    name = 'x"} 1 qanat_fake{a="b\\' if way != "control" else "plain"
    card, descriptors = arena.session(ATTACKER).ask({"create-vnic": wish(92, name=name)})
    try:
        text = arena.root().ask("metrics")[0]["text"]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    line = re.compile(r'[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)*\})? [0-9.]+\Z')
    wrong = [one for one in text.splitlines() if not one.startswith("#") and not line.match(one)]
    if way == "control":
        return "qanat_vnic_frames_total" in text and not wrong
    if way == "off":
        return not line.match(f'qanat_vnic_memory_bytes{{vnic="1",name="{name}"}} 5')
    return bool(wrong)


def keepers():
    """A directory where `qanat status` looks for a user's keepers."""
    place = f"/tmp/qanat-run-{ATTACKER}"
    try:
        os.mkdir(place, 0o700)
        os.chown(place, ATTACKER, CONTROL_GROUP)
    except FileExistsError:
        pass
    return place


def keeper(number):
    return f"{keepers()}/{os.stat('/proc/self/ns/net').st_ino}-{os.getpid()}-{number}"


class Stranger:
    """Something that listens where `qanat status` looks for keepers, and says `word` to each who asks."""

    def __init__(self, user, name, word, endless=False):
        self.name = name
        self.pid = os.fork()
        if self.pid:
            time.sleep(0.05)
            return
        try:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if user:
                os.setgroups([])
                os.setresgid(CONTROL_GROUP, CONTROL_GROUP, CONTROL_GROUP)
                os.setresuid(user, user, user)
            listener.bind(name)
            listener.listen(8)
            while True:
                endpoint, _ = listener.accept()
                threading.Thread(target=self.serve, args=(endpoint, word, endless), daemon=True).start()
        finally:
            os._exit(0)

    @staticmethod
    def serve(endpoint, word, endless):
        try:
            endpoint.recv(1 << 16)
            while True:
                endpoint.send(word)
                if not endless:
                    return
                time.sleep(0.3)
        except OSError:
            pass

    def end(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.unlink(self.name)


def program(name):
    return json.dumps({"program": name, "addresses": ["10.77.0.99"], "processes": 1, "sockets": 0, "connections": 0}).encode()


@row("administration", "a terminal's commands from what calls itself a keeper")
def keeper_says(arena, way):
    """Everybody has a directory for them, and root asks."""
    word = "a program" if way == "control" else "\x1b]0;taken\x07\x9b2Jb"
    stranger = Stranger(ATTACKER, keeper("0"), program(word))
    try:
        text = qanat(0, "status")[0].decode()
    finally:
        stranger.end()
    if way == "off":
        return "\x1b" in json.loads(program(word))["program"]
    return word in text


@row("administration", "`qanat status` held up by what calls itself a keeper")
def keeper_holds(arena, way):
    """It sends a little, again and again, and never all. Counted in answers: root's comes, or it does not."""
    if way == "control":
        return lives(arena)
    strangers = [
        Stranger(ATTACKER, keeper(number), b" ", endless=True) for number in range(12)
    ]
    try:
        if way == "off":
            # One who asks without an end in mind has none: a hundred pieces come, and no answer.
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker:
                asker.connect(keeper("0"))
                asker.send(b"status")
                return all(asker.recv(64) == b" " for _ in range(4))
        return qanat(0, "status", patience=20)[1] != 0
    finally:
        for stranger in strangers:
            stranger.end()


@row("administration", "`qanat doctor --fix`, run by a user, changes the machine")
def doctor(arena, way):
    """It is the user's own rights that it has: what is wrong stays so, and the daemon's cards go on."""
    victim = arena.card(VICTIM).status["interface"]
    there = lambda: os.path.exists(f"/sys/class/net/{victim}") or victim in [name for _, name in socket.if_nameindex()]
    if way == "off":
        return qanat(0, "vnic", "list")[0].decode().find(arena.card(VICTIM).status["name"]) >= 0
    if way == "control":
        return qanat(ATTACKER, "doctor")[1] is not None and there()
    qanat(ATTACKER, "doctor", "--fix", patience=60)
    return not there() or not lives(arena)

