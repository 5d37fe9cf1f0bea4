"""Another user's service, and what its own clients hear of it while others attack. A process of its own: witness.py SOCKET QANAT

`qanat echo` runs here as a user of its own. Four clients ask all the time, each one request after the other:

    udp     a datagram to the echo and back
    tcp     a block over one connection, which lives as long as this process
    status  the status of the user's card, over one session with the daemon
    door    a new session, one question, and its end

Every byte of every answer is compared. Commands on standard input: `begin` starts a record, `end` answers with it as a line of
JSON. What counts as having been starved is told in rounds of this process, not by a clock: a machine that is slow for all is
slow for the rounds, too.
"""

import errno
import json
import os
import random
import select
import socket
import subprocess
import sys
import time

from card import PATIENCE, VERSION, as_user, start

USER, ADDRESS, PORT = 1004, "10.77.0.250", 7
# A round that found nothing to do takes a millisecond or more.
ROUND_MS = 1
# So many rounds without an answer, and none during the whole attack: starved.
STARVED = 10_000
# An answer that has not come after so many will not come.
HOPELESS = 60_000
DATAGRAM_LOST = 300
BLOCK = 4_096


class Channel:
    """One client: a request is under way, or is due at `next`."""

    name, pace = "", 0.005
    # Whether the answer may be lost on the way, as a datagram may.
    forgiving = False

    def __init__(self):
        self.socket, self.sent, self.next, self.waited = None, None, 0.0, 0
        self.begin()

    def begin(self):
        # `fresh`: an answer came to a request that was sent since.
        self.began, self.fresh = time.monotonic(), False
        self.latencies, self.wrong, self.lost, self.longest, self.broken = [], 0, 0, 0, []

    def descriptor(self):
        return self.socket.fileno() if self.socket and self.sent is not None else None

    def start(self, now):
        if self.sent is not None or now < self.next:
            return
        try:
            if self.socket is None:
                self.open()
            self.send()
            self.sent, self.waited = now, 0
        except BlockingIOError:
            self.next = now + 0.001
        except OSError as error:
            self.failed(error)

    def ready(self):
        try:
            right = self.receive()
        except BlockingIOError:
            return
        except OSError as error:
            self.failed(error)
            return
        if right is None:
            return
        now = time.monotonic()
        self.latencies.append(now - self.sent)
        self.fresh = self.fresh or self.sent >= self.began
        self.wrong += not right
        self.sent, self.next = None, now + self.pace

    def round(self):
        """Nothing came in a whole round."""
        if self.sent is None:
            return
        self.waited += 1
        self.longest = max(self.longest, self.waited)
        if self.forgiving and self.waited % DATAGRAM_LOST == 0:
            self.lost += 1
            waited = self.waited
            self.sent, self.next = None, 0.0
            self.start(time.monotonic())
            self.waited = waited

    def failed(self, error):
        self.broken.append(str(error))
        if self.socket:
            self.socket.close()
        self.socket, self.sent, self.next = None, None, time.monotonic() + 0.05

    def record(self):
        times = sorted(self.latencies)
        at = lambda share: round(1e6 * times[min(len(times) - 1, int(len(times) * share))]) if times else None
        return {
            "answers": len(times), "p50_us": at(0.5), "p99_us": at(0.99), "max_us": at(1),
            "wrong": self.wrong, "lost": self.lost, "rounds": self.longest, "broken": self.broken[:3],
        }


class Udp(Channel):
    name, forgiving = "udp", True

    def open(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect((ADDRESS, PORT))
        self.socket.setblocking(False)
        self.under_way, self.number = {}, 0

    def send(self):
        self.number += 1
        text = self.number.to_bytes(8, "big") + random.randbytes(random.randrange(1_200))
        self.under_way[self.number] = text
        # Those that were given up may still come.
        self.under_way.pop(self.number - 64, None)
        self.socket.send(text)

    def receive(self):
        data = self.socket.recv(2_048)
        number = int.from_bytes(data[:8], "big")
        if number < self.number and number not in self.under_way:
            return None
        right = self.under_way.pop(number, None) == data
        return right if number == self.number or not right else None


class Tcp(Channel):
    name = "tcp"

    def open(self):
        self.socket = socket.create_connection((ADDRESS, PORT), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def send(self):
        # It fits into any socket buffer.
        self.text, self.back = random.randbytes(BLOCK), b""
        self.socket.sendall(self.text)

    def receive(self):
        data = self.socket.recv(BLOCK)
        if not data:
            raise OSError(errno.EPIPE, "the connection ended")
        self.back += data
        return self.back == self.text if len(self.back) >= BLOCK else None


class Status(Channel):
    name, pace, body = "status", 0.02, "status"

    def open(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setblocking(False)
        try:
            as_user(USER, lambda: self.socket.connect(sys.argv[1]))
        except OSError:
            self.socket.close()
            self.socket = None
            raise

    def send(self):
        self.socket.send(json.dumps({"version": VERSION, "body": self.body}).encode())

    def receive(self):
        data = self.socket.recv(1 << 19)
        if not data:
            raise OSError(errno.EPIPE, "the daemon hung up")
        return self.right(json.loads(data)["body"])

    @staticmethod
    def right(body):
        cards = body["status"]["vnics"] if "status" in body else []
        return [card["addresses"][0][0] for card in cards] == [ADDRESS]


class Door(Status):
    name, pace, body = "door", 0.05, "limits"

    def receive(self):
        answer = super().receive()
        self.socket.close()
        self.socket = None
        return answer

    @staticmethod
    def right(body):
        return "limits" in body


def start_echo(command):
    """The service, as its own user."""
    echo = start(command, sys.argv[1], USER, "echo", "--address", f"{ADDRESS}/24", "--json", stdout=subprocess.DEVNULL)
    for _ in range(1_000):
        if echo.poll() is not None:
            sys.exit(f"the witness' service ended: {echo.returncode}")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.settimeout(0.05)
            try:
                probe.connect((ADDRESS, PORT))
                probe.send(b"ready?")
                if probe.recv(16) == b"ready?":
                    return echo
            except OSError:
                time.sleep(0.01)
    sys.exit("the witness' service does not answer")


def watch(echo):
    channels = [Udp(), Tcp(), Status(), Door()]
    ending = None
    while True:
        now = time.monotonic()
        for channel in channels:
            channel.start(now)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        waiting = {channel.descriptor(): channel for channel in channels if channel.descriptor() is not None}
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        events = poll.poll(ROUND_MS)
        for descriptor, _ in events:
            if descriptor != 0:
                waiting[descriptor].ready()
                continue
            line = sys.stdin.readline().strip()
            if not line:
                return
            if line == "begin":
                for channel in channels:
                    channel.begin()
                    # Whatever else happens, each has something to say soon.
                    channel.next = 0.0
                print("{}", flush=True)
            else:
                ending = {channel.name: channel.record() for channel in channels}
        if not events:
            for channel in channels:
                channel.round()
        if echo.poll() is not None:
            sys.exit(f"the witness' service ended: {echo.returncode}")
        if ending is not None:
            # The attack is over: each is heard of once more, or never.
            quiet = [channel for channel in channels if not channel.fresh]
            if not quiet or any(channel.waited > HOPELESS for channel in quiet):
                for channel in channels:
                    seen = ending[channel.name]
                    seen["wrong"], seen["broken"] = channel.wrong, channel.broken[:3]
                    seen["starved"] = seen["answers"] == 0 and seen["rounds"] >= STARVED
                    seen["silent"] = channel in quiet
                print(json.dumps(ending), flush=True)
                ending = None


def main():
    echo = start_echo(sys.argv[2])
    print("{}", flush=True)
    try:
        watch(echo)
    finally:
        echo.terminate()
        echo.wait()


if __name__ == "__main__":
    main()
