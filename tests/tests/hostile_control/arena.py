"""Who takes part in an attack, and the table of attacks."""

import json
import os
import subprocess
import sys

from card import Queue, Refused, Session, start

ATTACKER, VICTIM, THIRD = 1001, 1002, 1003
SECRET = b"the victim's secret, which is nobody else's"
# The control plane's socket; nothing if the rows are only to be listed.
PATH = sys.argv[1] if len(sys.argv) > 1 else ""
QANAT = sys.argv[2] if len(sys.argv) > 2 else ""
CLASSES = (
    "frames", "fields and memory", "descriptors", "identity and names", "time and cost", "side channels", "privilege",
    "administration",
)
ROWS = []


def row(kind, name, damages=False):
    """Puts a function of arena and way into the table. It says whether the act happened, in each of three ways:

    control   the same act where it is allowed: it must happen
    attack    as an ordinary user who has nothing but what the daemon gave him: it must not happen
    off       with the protection out of the way (with the victim's own descriptor, as root, …): it must happen

    `damages`: what is left of attacker and, unprotected, of victim is of no use to other rows."""
    assert kind in CLASSES, f"{name}: {kind} is no class of attacks"
    assert all((kind, name) != known[:2] for known in ROWS), f"{kind}: {name} is there twice"
    return lambda function: ROWS.append((kind, name, function, damages)) or function


def allowed(work):
    """Whether it is not refused. Descriptors that were answered are closed."""
    try:
        answer = work()
        if isinstance(answer, tuple):
            for fd in answer[1]:
                os.close(fd)
        return True
    except (Refused, OSError):
        return False


def qanat(user, *words, patience=30):
    """What the command says (both outputs, as bytes) to a user, and its exit code."""
    running = start(QANAT, PATH, user, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        return running.communicate(timeout=patience)[0], running.returncode
    except subprocess.TimeoutExpired:
        running.kill()
        return running.communicate()[0], None


class Arena:
    """Three users with a card each, made when first asked for."""

    def __init__(self):
        self.sessions, self.cards, self.queues = {}, {}, {}

    def session(self, user):
        if user not in self.sessions:
            self.sessions[user] = Session(PATH, user)
        return self.sessions[user]

    def card(self, user):
        if user not in self.cards:
            self.cards[user] = self.session(user).create(user - 1000 + 1)
        return self.cards[user]

    def queue(self, user):
        if user not in self.queues:
            # The victim has more memory than the attacker: there is something beyond the attacker's end.
            self.queues[user] = Queue(self.card(user), 512 if user == VICTIM else 256)
        return self.queues[user]

    def root(self):
        return self.session(0)

    def names(self):
        return [vnic["name"] for vnic in self.root().ask("status")[0]["status"]["vnics"]]

    def disturbed(self):
        """Whether victim and third do not hear of each other exactly what was said."""
        victim, third = self.queue(VICTIM), self.queue(THIRD)
        there = self.card(VICTIM).frame_to(self.card(THIRD), b"hear me" + os.urandom(8))
        back = self.card(THIRD).frame_to(self.card(VICTIM), b"I hear" + os.urandom(8))
        victim.send(there)
        third.send(back)
        return [third.arrivals(expected=1), victim.arrivals(expected=1)] != [[there], [back]]

    def drop(self, user):
        """Forgets a user's card; the next who asks gets a new one."""
        queue, card = self.queues.pop(user, None), self.cards.pop(user, None)
        if queue:
            try:
                queue.close()
            except (OSError, BufferError, ValueError):
                # Closed already, by its own attack.
                pass
        if card:
            card.handle.close()

    def quiet(self):
        for user in (VICTIM, THIRD):
            self.queue(user)
        for user in (VICTIM, THIRD):
            self.queue(user).arrivals()

    def close(self):
        for user in list(self.cards):
            self.drop(user)
        for session in self.sessions.values():
            session.close()


class Witness:
    """Another user's service and its clients, in a process of their own: see witness.py."""

    def __init__(self, command):
        here = os.path.dirname(os.path.abspath(__file__))
        arguments = [sys.executable, os.path.join(here, "witness.py"), PATH, command]
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said()

    def said(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the witness is gone")
        return json.loads(line)

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.said()

    def watch(self, work):
        """What `work` says, and what the witness heard meanwhile."""
        self.tell("begin")
        try:
            said = work()
        finally:
            heard = self.tell("end")
        return said, heard

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


def complaint(heard):
    """What the witness has to say against an attack, if anything."""
    for name, seen in heard.items():
        for what, wrong in [("wrong answers", seen["wrong"]), ("ended", seen["broken"]), ("starved", seen["starved"]),
                            ("never answered again", seen["silent"])]:
            if wrong:
                return f"the witness' {name}: {what}: {seen}"
    return None
