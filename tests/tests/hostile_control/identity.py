"""What is tried with addresses, user numbers and names that are others', or nobody's."""

import os
import socket

from arena import ATTACKER, PATH, VICTIM, allowed, row
from card import CONTROL_GROUP, PATIENCE, Queue, Refused, Session, wish

# In the policy of attacks.rs: the account that has the numbers from FIRST_SUBORDINATE on for its namespaces; a user who may have
# any address; the group of a rule for members, and a number that this rule names.
OWNER, FIRST_SUBORDINATE, ANYWHERE, MEMBERS, NAMED = 1005, 200_000, 1011, 60, 300_001
CARDS_MAX = 8


def claim(session, address, length=24, **more):
    """Makes a card with an address as it is written, and gives it up."""
    _, beside = session.ask({"create-vnic": {**wish(0, **more), "addresses": [[address, length]]}})
    os.close(beside[0])


def spelled(name, spelling):
    """Another's address in another form."""

    def attack(arena, way):
        last = 56 if way == "control" else arena.card(VICTIM).last
        if way == "off":
            # It is given up: nobody has it.
            arena.drop(VICTIM)
            arena.session(VICTIM).ask("status")
        return allowed(lambda: claim(arena.session(ATTACKER), spelling(last)))

    row("identity and names", f"the address of another's card, {name}", damages=True)(attack)


spelled("as an IPv4-mapped one", lambda last: f"::ffff:10.77.0.{last}")
spelled("as an IPv4-mapped one in hexadecimal", lambda last: f"::ffff:a4d:{last:x}")
spelled("as an IPv4-mapped one in full", lambda last: f"0:0:0:0:0:FFFF:0A4D:00{last:02X}")


@row("identity and names", "another's address lost by a claim in another form, and its end", damages=True)
def lost(arena, way):
    """Whether victim and third no longer hear of each other."""
    arena.quiet()
    session = arena.session(ATTACKER)
    last = {"control": 57, "attack": arena.card(VICTIM).last, "off": 0}[way]
    if way == "off":
        arena.root().ask({"delete-vnic": {"vnic": arena.card(VICTIM).number}})
        return arena.disturbed()
    made = allowed(lambda: claim(session, f"::ffff:10.77.0.{last}"))
    session.ask("status")
    return made if way == "control" else made or arena.disturbed()


@row("identity and names", "one address twice in one wish, in two forms")
def twice(arena, way):
    other = {"control": "10.77.0.59", "attack": "::ffff:10.77.0.58", "off": "::ffff:10.77.0.59"}[way]
    addresses = [["10.77.0.58", 24], [other, 24]]

    def make():
        _, beside = arena.session(ATTACKER).ask({"create-vnic": {**wish(0), "addresses": addresses}})
        os.close(beside[0])

    return allowed(make)


def special(name, addresses, ordinary):
    """Addresses that are no host's; `off`: one that is."""

    def attack(arena, way):
        session = arena.session(ANYWHERE)
        wanted = addresses if way == "attack" else [ordinary]
        return any([allowed(lambda: claim(session, *address)) for address in wanted])

    row("identity and names", f"claimed: {name}")(attack)


special("the network's own and its broadcast address", [("10.77.0.0", 24), ("10.77.0.255", 24), ("10.77.0.255", 32), ("10.77.0.0", 32)], ("10.77.0.254", 24))
special("the broadcast address of a prefix of one's own", [("10.77.0.71", 29), ("10.77.0.64", 29)], ("10.77.0.70", 29))
special("the address of all routers", [("fd77::", 64), ("fd77::", 128)], ("fd77::9", 64))
special("loopback addresses", [("127.0.0.1", 8), ("::1", 128), ("::ffff:127.0.0.1", 8)], ("10.77.0.72", 24))
special("multicast and broadcast addresses", [("224.0.0.1", 4), ("255.255.255.255", 32), ("ff02::1", 128)], ("10.77.0.73", 24))
special("addresses of no host", [("0.0.0.0", 0), ("0.1.2.3", 8), ("::", 0)], ("10.77.0.74", 24))
special("link-local addresses", [("169.254.169.254", 16), ("fe80::1", 64), ("febf::1", 64)], ("10.77.0.75", 24))
special("IPv4 addresses inside IPv6 ones", [("::10.77.0.3", 96), ("64:ff9b::a4d:3", 96), ("2002:a4d:3::1", 48), ("2001:0:a4d:3::1", 64)], ("fd77::10", 64))
special("the kernel's own address", [("10.77.0.1", 24), ("::ffff:10.77.0.1", 24), ("fd77::1", 64)], ("10.77.0.76", 24))


@row("identity and names", "all addresses, by ranges that look like IPv6 alone")
def ranges(arena, way):
    """A filter for everybody, written as IPv6's: what holds IPv4 addresses, too, says so."""
    peers = {"control": ["2000::/3", "10.0.0.0/8"], "attack": ["::/0", "::/64", "::1/::ffff", "::-ffff::"], "off": ["any"]}[way]

    def add(peer):
        session = Session(PATH, ATTACKER)
        card = session.create(61)
        body = {"local": "any", "peer": peer, "service": "udp/7", "peer_ports": "any"}
        try:
            return allowed(lambda: session.ask({"add-filter": {"vnic": card.number, "direction": "transmit", "filter": body, "queue": None}}))
        finally:
            card.handle.close()
            session.close()

    return any([add(peer) for peer in peers])


class Member:
    """A session of a user by number, as a member of a group."""

    def __init__(self, user, group=CONTROL_GROUP):
        before = os.getgroups()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        os.setgroups([CONTROL_GROUP])
        os.setegid(group)
        os.seteuid(user)
        try:
            self.socket.connect(PATH)
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(before)

    ask, create, close = Session.ask, Session.create, Session.close


def take(users, work):
    """How many of these users could do something that is then held; all is given back."""
    held, sessions = [], []
    try:
        for number, user in enumerate(users):
            session = Member(user)
            sessions.append(session)
            held += work(session, number)
    except (Refused, OSError):
        pass
    count = len(held)
    for thing in held + sessions:
        thing.close()
    return count


def multiplied(name, most, work):
    """More than a rule allows one user, by numbers of its namespaces. `off`: by users who have nothing to do with each other."""

    def attack(arena, way):
        first = 400_000 if way == "off" else FIRST_SUBORDINATE
        count = take([first + number for number in range(most + (way != "control"))], work)
        return count >= most if way == "control" else count > most

    row("identity and names", f"more {name} than one user may have, by numbers of one's namespaces")(attack)


def with_memory(session, number):
    card = session.create(130 + number)
    try:
        return [Queue(card)]
    finally:
        card.handle.close()


multiplied("cards", CARDS_MAX, lambda session, number: [session.create(130 + number).handle])
multiplied("connections", 32, lambda session, number: [] if not session.ask("limits") else [socket.socket()])


@row("identity and names", "more frame memory than one user may have, by numbers of one's namespaces")
def memory(arena, way):
    """The rule allows 2 MiB; each queue has half of one."""
    first = 400_100 if way == "off" else FIRST_SUBORDINATE + 100
    return take([first + number for number in range(3 if way == "control" else 5)], with_memory) >= (3 if way == "control" else 5)


@row("identity and names", "the rights of an account, by a number of its namespaces")
def subordinate_rights(arena, way):
    owner = Member(OWNER)
    card = owner.create(150)
    user = {"control": OWNER, "attack": FIRST_SUBORDINATE + 5, "off": 0}[way]
    other = Member(user)
    try:
        return allowed(lambda: other.ask({"open-vnic": {"vnic": card.number}}))
    finally:
        card.handle.close()
        other.close()
        owner.close()


@row("identity and names", "a rule for a group's members, by a number that is nobody's")
def nobodys(arena, way):
    """`control`: an account (`daemon`) in the group; `off`: a number that the rule names."""
    user = {"control": 1, "attack": 300_000, "off": NAMED}[way]
    session = Member(user, MEMBERS)
    try:
        return allowed(lambda: session.create(151).handle.close())
    finally:
        session.close()


def named(kind, names):
    """Names that change what a listing looks like. `off`: letters of any alphabet."""

    def attack(arena, way):
        wanted = {"control": ["web server"], "attack": names, "off": ["Straße é 網路"]}[way]
        session = arena.session(ATTACKER)
        return any([allowed(lambda: session.create(62, name=name).handle.close()) for name in wanted])

    row("identity and names", f"a card's name {kind}")(attack)


named("that draws on terminals", ["\x1b[2J", "\x9b2J", "a\rb", "\x07", "\x7f"])
named("of several lines", ["a\nb", "a\u2028b", "a\u2029b", 'x"} 1\nqanat_vnics 0'])
named("that turns what follows round", ["a\u202eb", "a\u2066b", "a\u200fb", "a\u061cb"])
named("that cannot be told from another's", ["card\u200b 3", "card\u00ad 3", "\ufeffcard 3", "card\u2060 3", "card \U000e0033"])
