"""What is tried on those who look after the machine: what they ask is not answered any more, or answered wrongly."""

import socket

from arena import ATTACKER, THIRD, allowed, row
from card import Refused, ask

CARDS, VOLUMES = 8, 64


def parts(session, request="status-part"):
    """All parts of a long answer."""
    place = {"major": 0, "minor": 0}
    found = []
    while place:
        answer = session.ask({request: {"from": place}})[0]
        part = next(iter(answer.values()))
        found.append(part)
        place = part["next"]
    return found


def fill(arena, user, first):
    """As many cards as a user may have, with as many filters; returns what holds them."""
    held, session = [], arena.session(user)
    for number in range(CARDS):
        try:
            card = session.create(first + number, name=f"{user} {'x' * 50} {number}")
        except Refused:
            break
        held.append(card.handle)
        for direction in ("transmit", "receive"):
            volumes = [
                {"local": f"10.77.0.{first + number}", "peer": f"2001:db8:{port}::1-2001:db8:{port}:ffff:ffff:ffff:ffff:fff0",
                 "service": f"udp/{port}-{60000 + port}", "peer_ports": f"{port}-{60000 + port}"}
                for port in range(1000, 1000 + VOLUMES)
            ]
            try:
                _, beside = session.ask({"create-filter": {"direction": direction, "filters": volumes}})
                held.append(card_filter(card, beside[0]))
            except Refused:
                break
    return held


def card_filter(card, fd):
    ask(card.handle, {"assign": {"queue": None}}, [fd])
    return socket.socket(fileno=fd)


def listing(name, look, short):
    """Whether root can't see what there is, once two users have all they can get. `off`: asked for in one message."""

    def attack(arena, way):
        arena.drop(ATTACKER)
        arena.drop(THIRD)
        root = arena.root()
        if way == "control":
            return look(arena, 0)
        held = fill(arena, ATTACKER, 160) + fill(arena, THIRD, 180)
        try:
            if way == "off":
                return not allowed(lambda: root.ask(short))
            return not look(arena, 2 * CARDS)
        finally:
            for thing in held:
                thing.close()

    row("administration", name, damages=True)(attack)


def all_cards(arena, count):
    cards = {}
    for part in parts(arena.root()):
        for card in part["status"]["vnics"]:
            for direction in ("transmit", "receive"):
                cards.setdefault(card["vnic"], []).extend(card[direction]["filters"])
    # Root sees each card, and each filter of each.
    full = [filters for filters in cards.values() if len(filters) >= 2 * VOLUMES]
    return len(full) == count


listing("so many cards and filters that no message holds the list", all_cards, "status")


@row("administration", "a part of a list that never ends")
def endless(arena, way):
    """Whether a part is answered that begins where the one before it began, or an earlier one."""
    session = arena.session(ATTACKER)
    arena.card(ATTACKER)
    if way == "control":
        return bool(parts(session))
    if way == "off":
        return allowed(lambda: session.ask({"status-part": {"from": {"major": 0, "minor": 0}}}))
    places = [(2**32 - 1, 2**32 - 1), (0, 2**32 - 1), (2**32 - 1, 0), (255, 7)]
    for major, minor in places:
        following = session.ask({"status-part": {"from": {"major": major, "minor": minor}}})[0]["status-part"]["next"]
        if following and (following["major"], following["minor"]) <= (major, minor):
            return True
    return False


@row("administration", "figures of all users asked for by one")
def figures(arena, way):
    arena.card(ATTACKER)
    user = ATTACKER if way == "attack" else 0
    return allowed(lambda: parts(arena.session(user), "metrics-part"))
