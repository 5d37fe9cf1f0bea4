"""Who takes part in an attack, and the table of attacks."""

import os
import sys

from card import Queue, Refused, Session

ATTACKER, VICTIM, THIRD = 1001, 1002, 1003
SECRET = b"the victim's secret, which is nobody else's"
PATH = sys.argv[1]
ROWS = []


def row(kind, name, damages=False):
    """`damages`: what is left of attacker and, unprotected, of victim is of no use to other rows."""
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
