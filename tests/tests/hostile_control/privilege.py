"""What a process without privileges tries beside the daemon: by namespaces of its own, by system calls, by others' processes."""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct

from arena import ATTACKER, PATH, VICTIM, allowed, row
from card import CONTROL_GROUP, VERSION, Refused, Session, become, in_child

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_NET = 0x10000000, 0x40000000
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
SYS_PIDFD_OPEN, SYS_PIDFD_GETFD = 434, 438
MAP_CREATE, PROGRAM_NEXT, PROGRAM_BY_ID, MAP_NEXT, MAP_BY_ID = 0, 11, 13, 12, 14
PTRACE_SEIZE = 0x4206
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFTXQLEN = 0x8913, 0x8914, 0x8943
AF_NETLINK, AF_PACKET, SCM_CREDENTIALS = 16, 17, 2


def call(outcome):
    if outcome < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return outcome


def own_namespaces():
    """Root of a user and a network namespace of its own."""
    call(LIBC.unshare(NEW_USER | NEW_NET))


def bpf(command, attributes):
    block = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    return call(LIBC.syscall(SYS_BPF, command, block, 128)), block.raw


def flags(name, change=lambda flags: flags):
    """A device's flags, as ifconfig sets them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        said = fcntl.ioctl(any_, SIOCGIFFLAGS, struct.pack("=16sH22x", name.encode(), 0))
        old = struct.unpack_from("=H", said, 16)[0]
        fcntl.ioctl(any_, SIOCSIFFLAGS, struct.pack("=16sH22x", name.encode(), change(old)))
    return True


def ways(name, attack_of, damages=False):
    """An act by an ordinary user; `attack_of(arena, way)` gives the act, which is done in a process of its own."""

    def attack(arena, way):
        act = attack_of(arena, way)
        return in_child(0 if way == "off" else ATTACKER, lambda: allowed(act))

    row("privilege", name, damages)(attack)


def change_device(arena, way):
    """The same act in a namespace of one's own: on loopback there."""
    name = arena.card(ATTACKER).status["interface"]

    def act():
        if way == "control":
            own_namespaces()
            return flags("lo", lambda old: old | 1)
        return flags(name)

    return act


def change_device_as_root_of_ones_own(arena, way):
    name = arena.card(ATTACKER).status["interface"]

    def act():
        if way == "attack":
            # Root there, with every capability; the socket is of here, and so is the device.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
                call(LIBC.unshare(NEW_USER))
                said = fcntl.ioctl(here, SIOCGIFFLAGS, struct.pack("=16sH22x", name.encode(), 0))
                fcntl.ioctl(here, SIOCSIFFLAGS, said)
            return True
        if way == "control":
            own_namespaces()
            return flags("lo", lambda old: old | 1)
        return flags(name)

    return act


ways("the kernel's end of a card set by a user", change_device)
ways("the kernel's end of a card set by root of a user namespace", change_device_as_root_of_ones_own)


def enter(arena, way):
    """The daemon's namespaces entered from a user namespace of one's own."""
    daemon = arena.session(ATTACKER).daemon()

    def act():
        if way == "off":
            with open(f"/proc/{daemon}/ns/net", "rb") as place:
                call(LIBC.setns(place.fileno(), NEW_NET))
            return
        own_namespaces()
        with open("/proc/self/ns/net" if way == "control" else f"/proc/{daemon}/ns/net", "rb") as place:
            call(LIBC.setns(place.fileno(), NEW_NET))

    return act


ways("the daemon's network namespace entered", enter)


def raw_socket(arena, way):
    arena.card(ATTACKER)

    def act():
        if way == "control":
            own_namespaces()
        socket.socket(AF_PACKET, socket.SOCK_RAW, 0x0300).close()

    return act


ways("all packets of the host read by a packet socket", raw_socket)


def by_number(name, following, opening):
    def act_of(arena, way):
        arena.card(ATTACKER)

        def act():
            if way == "control":
                # A descriptor of one's own is asked about.
                os.fstat(0)
                return
            _, said = bpf(following, struct.pack("=II", 0, 0))
            bpf(opening, said[4:8])

        return act

    ways(name, act_of)


by_number("the fence's programs opened by their numbers", PROGRAM_NEXT, PROGRAM_BY_ID)
by_number("the fence's tables opened by their numbers", MAP_NEXT, MAP_BY_ID)


def other_process(name, act_on):
    """What is tried on a client of another user's; the control is a process of one's own."""

    def attack(arena, way):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                become(ATTACKER if way == "control" else VICTIM)
                session = Session(PATH, 0, connect=True)
                # As every program is that was executed as this user.
                LIBC.prctl(4, 1, 0, 0, 0)
                os.write(writer, b"%d" % session.socket.fileno())
                signal.pause()
            finally:
                os._exit(0)
        try:
            descriptor = int(os.read(reader, 16))
            return in_child(0 if way == "off" else ATTACKER, lambda: allowed(lambda: act_on(child, descriptor)))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)
            os.close(writer)

    row("privilege", name)(attack)


def take(process, descriptor):
    pidfd = call(LIBC.syscall(SYS_PIDFD_OPEN, process, 0))
    os.close(call(LIBC.syscall(SYS_PIDFD_GETFD, pidfd, descriptor, 0)))


def trace(process, _descriptor):
    call(LIBC.ptrace(PTRACE_SEIZE, process, 0, 0))


def read_memory(process, _descriptor):
    with open(f"/proc/{process}/mem", "rb"):
        pass


def look(process, descriptor):
    os.readlink(f"/proc/{process}/fd/{descriptor}")


other_process("the session of another's client taken by pidfd_getfd", take)
other_process("another's client traced", trace)
other_process("another's client's memory opened", read_memory)
other_process("another's client's descriptors looked at", look)


@row("privilege", "the daemon traced, its memory opened, its descriptors taken")
def the_daemon(arena, way):
    daemon = os.getpid() if way == "control" else arena.session(ATTACKER).daemon()
    if way == "control":
        return in_child(ATTACKER, lambda: allowed(lambda: os.readlink("/proc/self/fd/0")))
    if way == "off":
        return in_child(0, lambda: allowed(lambda: look(daemon, 0)))
    tried = [lambda: take(daemon, 0), lambda: trace(daemon, 0), lambda: read_memory(daemon, 0), lambda: look(daemon, 0)]
    return in_child(ATTACKER, lambda: any([allowed(one) for one in tried]))


@row("privilege", "root of a user namespace takes himself for root")
def mapped_root(arena, way):
    """The daemon asks the kernel who it is, and that says who he is outside."""

    def act():
        if way != "off":
            # As every program is that was executed as this user.
            call(LIBC.prctl(4, 1, 0, 0, 0))
            call(LIBC.unshare(NEW_USER))
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {ATTACKER} 1"), ("gid_map", f"0 {CONTROL_GROUP} 1")):
                file = os.open(f"/proc/self/{name}", os.O_WRONLY)
                os.write(file, text.encode())
                os.close(file)
            assert os.geteuid() == 0
        session = Session(PATH, 0, connect=True)
        return allowed(lambda: session.ask("limits" if way == "control" else "metrics"))

    return in_child(0 if way == "off" else ATTACKER, act)


@row("privilege", "another's credentials beside a request")
def forged_credentials(arena, way):
    """SCM_CREDENTIALS names root."""
    user = ATTACKER if way == "control" else 0

    def act():
        session = Session(PATH, 0, connect=True)
        own = struct.pack("=iII", os.getpid(), user, CONTROL_GROUP)
        request = json.dumps({"version": VERSION, "body": "limits"}).encode()
        session.socket.sendmsg([request], [(socket.SOL_SOCKET, SCM_CREDENTIALS, own)])
        return len(session.socket.recv(1 << 16)) > 0

    return in_child(0 if way == "off" else ATTACKER, lambda: allowed(act))


@row("privilege", "a user's session used by root has root's rights")
def deputy(arena, way):
    """Who connected is who asks: a program that was given a session is not asked who it is."""
    session = arena.session(0 if way == "off" else ATTACKER)
    return allowed(lambda: session.ask("limits" if way == "control" else "metrics"))


@row("privilege", "a session without the group, by one in a user namespace")
def outside_group(arena, way):
    def act():
        if way != "off":
            group = CONTROL_GROUP if way == "control" else 12_345
            os.setresgid(group, group, group)
            os.setresuid(ATTACKER, ATTACKER, ATTACKER)
            call(LIBC.unshare(NEW_USER))
        session = Session(PATH, 0, connect=True)
        return allowed(lambda: session.ask("limits"))

    def drop():
        os.setgroups([])
        return allowed(act) and True

    return in_child(0, drop)


@row("privilege", "a card without new privileges goes on to be only that")
def no_new_privileges(arena, way):
    """A client that gave up all, with a card that was made before, can send; but it can't open another's."""
    queue = arena.queue(ATTACKER)
    number = arena.card(VICTIM).number
    session = arena.session(0 if way == "off" else ATTACKER)

    def act():
        if way != "off":
            call(LIBC.prctl(38, 1, 0, 0, 0))
        if way == "control":
            return queue.socket.send(b"", socket.MSG_DONTWAIT) == 0
        return allowed(lambda: session.ask({"open-vnic": {"vnic": number}}))

    try:
        return in_child(0 if way == "off" else ATTACKER, act)
    except Refused:
        return False
