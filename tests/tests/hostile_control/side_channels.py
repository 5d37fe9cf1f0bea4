"""What one user's client learns of another's cards from answers, numbers and memory it has a right to."""

import json
import re
import time

from arena import ATTACKER, PATH, SECRET, THIRD, VICTIM, row
from card import Queue, Refused, Session, wish
from handles import stays


def answer(session, body):
    """An answer as text, or a refusal."""
    try:
        said, descriptors = session.ask(body)
        assert not descriptors
        return json.dumps(said, sort_keys=True)
    except Refused as refused:
        return str(refused)


def differs(arena, maker, look):
    """Whether an answer is another one when a card has been made."""
    before = look()
    card = maker.create(90)
    try:
        time.sleep(0.02)
        return look() != before
    finally:
        card.handle.close()
        stays(arena, "card 90")


def told_by(name, body, knows, without=()):
    """Whether an answer to the attacker changes when another makes a card; the control: when he makes one himself. `knows`: who may
    know of the other's."""

    def attack(arena, way):
        asker = arena.session(knows if way == "off" else ATTACKER)
        maker = arena.session(ATTACKER if way == "control" else VICTIM)

        def look():
            said = json.loads(answer(asker, body))
            for place in without:
                said.get("status", said).pop(place, None)
            return said

        arena.card(ATTACKER)
        arena.card(VICTIM)
        # What was given up before this row is gone.
        stays(arena, "card 90", 0.5)
        # Counters of his own card move too, for example when the kernel looks for routers; his answer is told something only if
        # it differs each time.
        return all(differs(arena, maker, look) for _ in range(3))

    row("side channels", name)(attack)


told_by("another's card noticed in one's status", "status", 0, ("uptime_s",))
told_by("another's card noticed in one's limits", "limits", VICTIM)


@row("side channels", "another's requests counted in one's status")
def others_requests(arena, way):
    asker, other = arena.session(0 if way == "off" else ATTACKER), arena.session(VICTIM)
    figures = lambda: asker.ask("status")[0]["status"]
    before = figures()
    for _ in range(20):
        other.ask("limits")
    after = figures()
    if way == "control":
        # One's own sessions are one's own affair.
        more = [fresh(ATTACKER) for _ in range(2)]
        seen = figures()["sessions"] - before["sessions"]
        for session in more:
            session.close()
        return seen >= 2
    return sum(after["requests"]) - sum(before["requests"]) >= 20


def fresh(user):
    session = Session(PATH, user)
    session.ask("limits")
    return session


@row("side channels", "another's sessions counted in one's status")
def others_sessions(arena, way):
    asker = arena.session(0 if way == "off" else ATTACKER)
    user = ATTACKER if way == "control" else VICTIM
    count = lambda: asker.ask("status")[0]["status"]["sessions"]
    arena.session(user)
    # Sessions of the attack before may still be ending.
    before = count()
    while (now := count()) < before:
        before = now
        time.sleep(0.2)
    # The witness comes and goes; so many more do not come by chance.
    more = [fresh(user) for _ in range(20)]
    try:
        return count() - before >= 14
    finally:
        for session in more:
            session.close()


@row("side channels", "which numbers are others' cards, by what refusals say")
def refusals(arena, way):
    """A number that is another's and one that is nobody's are refused in the same words."""
    victim, attacker = arena.card(VICTIM), arena.card(ATTACKER)
    asker = arena.session(0 if way == "off" else ATTACKER)
    number = attacker.number if way == "control" else victim.number

    def said(number):
        rate = {"bits_per_s": 0, "packets_per_s": 0}
        said = answer(asker, {"set-rate": {"vnic": number, "direction": "receive", "rate": rate}})
        assert "closed" not in said, said
        return re.sub(rf"\b{number}\b", "N", said)

    return said(number) != said(1_999)


@row("side channels", "who has an address, by the refusal of it")
def holder_of_address(arena, way):
    """That it is taken must be said; not by whom."""
    victim = arena.card(VICTIM)
    if way == "off":
        said = json.dumps(arena.root().ask("status")[0])
    elif way == "control":
        said = json.dumps(arena.session(VICTIM).ask("status")[0])
    else:
        said = answer(arena.session(ATTACKER), {"create-vnic": wish(victim.last, name="curious")})
        assert "taken" in said or "does not allow" in said, said
    return any(word in said for word in (str(VICTIM), victim.status["name"], victim.status["interface"]))


@row("side channels", "what another's queue held, in the rings and memory of a new one", damages=True)
def leftovers(arena, way):
    """Pages that were another's are not had again with what is in them."""
    secret = SECRET + b" once more"
    session = arena.session(VICTIM)
    card = session.create(91)
    queue = Queue(card)
    for _ in range(32):
        queue.send(card.frame_to(arena.card(THIRD), secret))
    arena.queue(THIRD).arrivals()
    areas = lambda queue: [queue.memory, queue.receive.map, queue.transmit.map, queue.fill.map, queue.completion.map]
    if way != "attack":
        # It is seen where it is: in one's own memory.
        found = any(area[:].find(secret) >= 0 for area in areas(queue))
        queue.close()
        card.handle.close()
        stays(arena, "card 91")
        return found
    queue.close()
    card.handle.close()
    stays(arena, "card 91")
    own = arena.queue(ATTACKER)
    return any(area[:].find(secret) >= 0 for area in areas(own))


@row("side channels", "another's frames counted by one's own card")
def counted(arena, way):
    """What passes between two others is in no figure of a third's."""
    attacker, victim, third = arena.card(ATTACKER), arena.card(VICTIM), arena.card(THIRD)
    asker = arena.session({"control": VICTIM, "attack": ATTACKER, "off": 0}[way])
    own = attacker.status["vnic"] if way == "attack" else victim.status["vnic"]

    def frames():
        cards = asker.ask("status")[0]["status"]["vnics"]
        card = next(card for card in cards if card["vnic"] == own)
        return sum(count["frames"] for side in ("transmit", "receive") for count in card[side]["counts"])

    arena.queue(ATTACKER)
    arena.quiet()
    before = frames()
    for _ in range(64):
        arena.queue(VICTIM).send(victim.frame_to(third, b"between us"))
    arena.queue(THIRD).arrivals(expected=1)
    # A broadcast or two of the kernel's own may come meanwhile.
    return frames() - before >= 32

