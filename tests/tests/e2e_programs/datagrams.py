"""Servers of datagrams."""

import os
import signal
import socket
import struct
import time

from stage import CLIENTS, OURS, at_once, eventually, pattern, row, same


def question(number, name, kind=1):
    """A question of DNS."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)


def names_are_answered(wanted, count=100, clients=CLIENTS):
    """Several clients ask by UDP, each from a socket of its own; the addresses are those of `wanted`."""
    def client(number):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(10)
            datagrams.connect((OURS, 5300))
            for turn in range(count):
                name, address = wanted[(turn + number) % len(wanted)]
                datagrams.send(question(turn, name))
                answer = datagrams.recv(4_096)
                assert answer[:2] == struct.pack(">H", turn) and answer[3] & 15 == 0, f"{name}: {answer!r}"
                assert b"\0\4" + socket.inet_aton(address) in answer, f"{name}: {answer!r}"

    at_once(client, clients)


def dig(stage, *words):
    return stage.client("dig", f"@{OURS}", "-p", 5300, "+tries=1", "+time=5", "+noedns", "+short", *words).decode()


NAMES = [(f"host{number}.qanat.test", f"192.0.2.{number}") for number in range(1, 20)]
TEXT = "a text that is long enough for an answer that only TCP can carry " * 3
ZONE = (
    "$ORIGIN qanat.test.\n$TTL 60\n@ SOA ns host 1 60 60 600 60\n@ NS ns\nns A 192.0.2.53\n"
    + "".join(f"{name}. A {address}\n" for name, address in NAMES)
    + "".join(f'many TXT "{number} {TEXT}"\n' for number in range(200))
)


def large_answers(stage, words=("+tcp", "many.qanat.test", "TXT")):
    """Of some 40 KB, by TCP; several at once."""
    def client(_):
        lines = dig(stage, *words).splitlines()
        assert sorted(lines) == sorted(f'"{number} {TEXT}"' for number in range(200)), len(lines)

    at_once(client, 3)


@row("dnsmasq 2.90", "C", "`poll`; a process for each connection by TCP", "600 questions of 6 clients by UDP, by TCP; reload")
def dnsmasq(stage):
    words = ["-k", "-p", 5300, "-a", OURS, "--bind-interfaces", "-R", "-h", "-u", "root", "-C", "/dev/null", "--log-facility=-"]
    hosts = stage.file("hosts", "".join(f"{address} {name}\n" for name, address in NAMES[1:]))
    server = stage.serve("dnsmasq", *words, f"--addn-hosts={hosts}", port=5300)
    names_are_answered(NAMES[1:])
    stage.file("hosts", "".join(f"{address} {name}\n" for name, address in NAMES))
    server.tell(signal.SIGHUP)
    eventually("it has read the file again", lambda: dig(stage, NAMES[0][0]).strip() == NAMES[0][1])
    assert dig(stage, "+tcp", NAMES[3][0]).strip() == NAMES[3][1]
    server.ends(codes=(0,))


@row("Unbound 1.17", "C", "two threads, each `libevent` with sockets of its own (SO_REUSEPORT)", "600 questions of 6 clients by UDP; answers of 40 KB by TCP")
def unbound(stage):
    local = "".join(f'  local-data: "{name}. 60 A {address}"\n' for name, address in NAMES)
    local += "".join(f'  local-data: \'many.qanat.test. 60 TXT "{number} {TEXT}"\'\n' for number in range(200))
    config = (
        f'server:\n  interface: {OURS}@5300\n  access-control: 10.77.0.0/24 allow\n  num-threads: 2\n  so-reuseport: yes\n  chroot: ""\n'
        f'  username: ""\n  do-daemonize: no\n  pidfile: ""\n  use-syslog: no\n  directory: "{stage.directory}"\n'
        f'  local-zone: "qanat.test." static\n{local}remote-control:\n  control-enable: no\n'
    )
    server = stage.serve("unbound", "-d", "-c", stage.file("unbound.conf", config), port=5300)
    names_are_answered(NAMES)
    large_answers(stage)
    server.ends(codes=(0,))


@row("NSD 4.6", "C", "prefork: two processes that serve, `libevent`, `recvmmsg`", "600 questions of 6 clients by UDP; answers of 40 KB by TCP; reload")
def nsd(stage):
    zone = stage.file("zone", ZONE)
    config = (
        f'server:\n  ip-address: {OURS}@5300\n  server-count: 2\n  username: ""\n  zonesdir: "{stage.directory}"\n  database: ""\n'
        f'  pidfile: "{stage.path("pid")}"\n  xfrdfile: "{stage.path("xfrd")}"\n  zonelistfile: "{stage.path("list")}"\n  xfrdir: "{stage.directory}"\n'
        f'  cookie-secret-file: "{stage.path("secret")}"\nremote-control:\n  control-enable: no\nzone:\n  name: qanat.test\n  zonefile: {zone}\n'
    )
    server = stage.serve("nsd", "-d", "-c", stage.file("nsd.conf", config), port=5300)
    names_are_answered(NAMES)
    large_answers(stage)
    stage.file("zone", ZONE.replace("host 1 60", "host 2 60") + "later A 192.0.2.99\n")
    time.sleep(1.1)
    os.utime(zone)
    server.tell(signal.SIGHUP)
    eventually("it has read the zone again", lambda: dig(stage, "later.qanat.test").strip() == "192.0.2.99")
    server.ends(codes=(0,))


@row("Knot DNS 3.2", "C", "threads: two for UDP (`recvmmsg`), two for TCP (`poll`)", "600 questions of 6 clients by UDP; answers of 40 KB by TCP")
def knot(stage):
    stage.file("qanat.test.zone", ZONE)
    config = (
        f"server:\n  listen: {OURS}@5300\n  udp-workers: 2\n  tcp-workers: 2\n  rundir: {stage.directory}\n"
        f"database:\n  storage: {stage.directory}\nlog:\n- target: stderr\n  any: info\n"
        f"zone:\n- domain: qanat.test\n  storage: {stage.directory}\n"
    )
    server = stage.serve("knotd", "-c", stage.file("knot.conf", config), port=5300)
    eventually("the zone is loaded", lambda: dig(stage, NAMES[0][0]).strip() == NAMES[0][1])
    names_are_answered(NAMES)
    large_answers(stage)
    server.ends(codes=(0,))


@row("tftpd-hpa 5.2", "C", "UDP: a process for each file, connected", "as root: 300 KB got and put, 3 clients; blocks of 512 and 1,400 bytes")
def tftpd(stage):
    content = pattern(300_000)
    stage.file("boot/large", content)
    os.chmod(stage.path("boot"), 0o777)
    # As root: with fewer rights each file's process would have left the card's memory, and with it datagram sockets.
    server = stage.run("in.tftpd", "-L", "-c", "-u", "root", "-a", f"{OURS}:6900", "-p")
    got, large = stage.path("got"), stage.path("boot/large")

    def get(name):
        stage.client("tftp", "-m", "binary", OURS, 6900, "-c", "get", large, name, codes=None)
        return os.path.exists(name) and open(name, "rb").read()

    eventually("tftpd answers", lambda: get(got) == content)

    def client(number):
        same(get(f"{got}.{number}"), content, "a file")
        url = f"tftp://{OURS}:6900/{large}"
        stage.client("curl", "-sS", "-m", 20, "--tftp-blksize", 1400, "-o", f"{got}.curl.{number}", url)
        same(open(f"{got}.curl.{number}", "rb").read(), content, "a file in large blocks")
        stage.client("tftp", "-m", "binary", OURS, 6900, "-c", "put", got, stage.path(f"boot/put.{number}"))
        same(open(stage.path(f"boot/put.{number}"), "rb").read(), content, "a file that was put")

    at_once(client, 3)
    server.ends()


@row("snmpd (Net-SNMP 5.9)", "C", "UDP, `select`; answers by IP_PKTINFO", "values asked for by 6 clients, a walk")
def snmpd(stage):
    config = "rocommunity public\nsysName qanat\nsysLocation here\nsysContact nobody\n"
    environment = {"SNMP_PERSISTENT_DIR": stage.directory}
    words = ["-f", "-Lo", "-C", "-c", stage.file("snmpd.conf", config), "-p", stage.path("pid"), f"udp:{OURS}:1610"]
    server = stage.run("snmpd", *words, environment=environment)
    # It has no descriptions of values at hand, and need not say so.
    quiet = {"MIBS": ""}
    to = ["-v2c", "-c", "public", "-Ovq", f"{OURS}:1610"]
    eventually("snmpd answers", lambda: stage.client("snmpget", "-r", 0, "-t", 1, *to, ".1.3.6.1.2.1.1.5.0", codes=None, environment=quiet).strip() == b'"qanat"')

    def client(_):
        for _ in range(10):
            assert stage.client("snmpget", *to, ".1.3.6.1.2.1.1.6.0", environment=quiet).strip() == b'"here"'

    at_once(client)
    assert len(stage.client("snmpbulkwalk", *to, ".1.3.6.1.2.1.1", environment=quiet).splitlines()) > 10
    server.ends(codes=(0,))


@row("chronyd 4.3", "C", "UDP, `select`; times of arrival by control messages", "the time asked for by 6 clients, 20 times each; each answer is to its own question")
def chronyd(stage):
    config = f"local stratum 5\nallow 10.77.0.0/24\nbindaddress {OURS}\nport 1230\ncmdport 0\nbindcmdaddress /\npidfile {stage.path('pid')}\n"
    server = stage.run("chronyd", "-d", "-x", "-U", "-u", "root", "-f", stage.file("chrony.conf", config))

    def ask(stamp):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(1)
            try:
                datagrams.connect((OURS, 1230))
                datagrams.send(b"\x23" + bytes(39) + stamp)
                return datagrams.recv(100)
            except OSError:
                return None

    eventually("chronyd answers", lambda: ask(b"a stamp."))

    def client(number):
        for turn in range(20):
            stamp = struct.pack(">II", number, turn)
            answer = eventually("an answer", lambda stamp=stamp: ask(stamp))
            assert len(answer) == 48 and answer[0] & 7 == 4 and answer[1] == 5 and answer[24:32] == stamp, answer
            at = struct.unpack(">I", answer[40:44])[0] - 2_208_988_800
            assert abs(at - time.time()) < 60, at

    at_once(client)
    server.ends(codes=None)


@row("coturn 4.6", "C", "threads, `libevent`; UDP", "STUN: 120 questions of 6 clients, each told its own address and port")
def coturn(stage):
    words = ["-n", "-L", OURS, "-p", 3478, "--no-tls", "--no-dtls", "--no-cli", "-S", "--pidfile", stage.path("pid"), "--log-file", "stdout"]
    server = stage.serve("turnserver", *words, port=3478)

    def client(number):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.settimeout(10)
            datagrams.connect((OURS, 3478))
            for turn in range(20):
                identity = struct.pack(">IQ", number, turn)
                datagrams.send(struct.pack(">HHI", 1, 0, 0x2112A442) + identity)
                answer = datagrams.recv(2_000)
                assert answer[:2] == b"\x01\x01" and answer[8:20] == identity, answer
                at = answer.index(b"\x00\x20\x00\x08\x00\x01") + 6
                port = struct.unpack(">H", answer[at:at + 2])[0] ^ 0x2112
                address = bytes(left ^ right for left, right in zip(answer[at + 2:at + 6], b"\x21\x12\xa4\x42"))
                assert (socket.inet_ntoa(address), port) == datagrams.getsockname(), answer

    at_once(client)
    server.ends(codes=None)
