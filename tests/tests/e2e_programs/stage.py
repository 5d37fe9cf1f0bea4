"""The table of programs, and where each is tried: under `qanat run`, asked by clients on the kernel's sockets, or the other way round."""

import glob
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

# The one that Debian's packages are for.
PYTHON = "/usr/bin/python3"
OURS, KERNELS = "10.77.0.2", "10.77.0.1"
PATIENCE = 20
# Clients at once, and exchanges of each.
CLIENTS, ROUNDS = 6, 12
ROWS = []


def row(program, language, style, tried):
    """Puts a function of a stage into the table. It tries the program, and raises if anything is not as it should be."""
    assert all(program != known[0] for known in ROWS), f"{program} is there twice"
    return lambda function: ROWS.append((program, language, style, tried, function)) or function


def without(program, language, style, reason):
    """Puts a program into the table that does not work, and why."""
    ROWS.append((program, language, style, reason, None))


def pattern(length):
    """Bytes that tell their offset: a byte out of place shows."""
    block = bytes((at ^ (at >> 8)) & 255 for at in range(65_536))
    return b"".join(bytes([number & 255]) + block[1:] for number in range(length // 65_536 + 1))[:length]


# Lengths about segments' and buffers', and one of a megabyte.
FILES = {f"{length}.bin": pattern(length) for length in (1, 1_447, 1_449, 65_536, 1_000_000)}


def eventually(what, ready, patience=PATIENCE):
    """What `ready` says as soon as it says something."""
    end = time.monotonic() + patience
    while not (answer := ready()):
        assert time.monotonic() < end, f"{what}: not within {patience} s"
        time.sleep(0.02)
    return answer


def same(got, wanted, what):
    """Compares without printing a megabyte."""
    if got != wanted:
        at = next((at for at, (left, right) in enumerate(zip(got, wanted)) if left != right), min(len(got), len(wanted)))
        near = f"{got[at:at + 60]!r} where {wanted[at:at + 60]!r} should be"
        raise AssertionError(f"{what}: {len(got)} of {len(wanted)}, different from {at} on: {near}")


def at_once(work, clients=CLIENTS):
    """Runs `work(number)` in threads; the first error is raised."""
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append((number, error))

    threads = [threading.Thread(target=guarded, args=[number], daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(3 * PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a client never ended"
    if errors:
        raise AssertionError(f"client {errors[0][0]}: {errors[0][1]!r}") from errors[0][1]


def connect(port, host=OURS):
    stream = socket.create_connection((host, port), PATIENCE)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def exactly(stream, length):
    parts = bytearray()
    while len(parts) < length:
        part = stream.recv(min(length - len(parts), 1 << 16))
        assert part, f"the end after {len(parts)} of {length} bytes"
        parts += part
    return bytes(parts)


def to_the_end(stream):
    parts = []
    while part := stream.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def one_echo(stream, message):
    """Both ways at once: neither side waits for the other's buffers."""
    sender = threading.Thread(target=stream.sendall, args=[message])
    sender.start()
    same(exactly(stream, len(message)), message, "what was said back")
    sender.join()


def echoes(port, host=OURS, clients=CLIENTS, wrapped=lambda stream: stream):
    """A server that says everything back says it as it was: messages of many lengths, up to 300 KB, of several clients."""
    content = pattern(300_000)

    def client(number):
        with wrapped(connect(port, host)) as stream:
            for turn in range(ROUNDS):
                one_echo(stream, content[:1 + (turn * turn * 2_311 + number) % len(content)])
            one_echo(stream, content)

    at_once(client, clients)


def gets(port, files=None, host=OURS, clients=CLIENTS, kept=True, secure=None, path="/"):
    """Several clients take all files, on connections that are kept or on one each, and compare them."""
    files = FILES if files is None else files

    def open_one():
        if secure:
            return http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=secure)
        return http.client.HTTPConnection(host, port, timeout=PATIENCE)

    def client(number):
        connection = open_one()
        for _ in range(3):
            for name in sorted(files)[number % len(files):] + sorted(files)[:number % len(files)]:
                if not kept:
                    connection.close()
                    connection = open_one()
                connection.request("GET", path + name)
                answer = connection.getresponse()
                got = answer.read()
                assert answer.status == 200, f"{name}: status {answer.status}, {got[:200]!r}"
                same(got, files[name], name)
        connection.close()

    at_once(client, clients)


def posts(port, path="/", length=1_000_000, host=OURS, clients=3):
    """Several clients send a megabyte each, and have it back."""
    content = pattern(length)

    def client(number):
        connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
        connection.request("POST", path, content[number:], {"Content-Type": "application/octet-stream"})
        answer = connection.getresponse()
        got = answer.read()
        assert answer.status == 200, f"status {answer.status}: {got[:200]!r}"
        same(got, content[number:], "what was posted")
        connection.close()

    at_once(client, clients)


def asleep(process):
    """Waits until a process waits in one and the same call, for a tenth of a second: then it has nothing in hand."""
    same, last, end = 0, None, time.monotonic() + PATIENCE
    while same < 10:
        assert time.monotonic() < end, f"{process} never waits"
        time.sleep(0.01)
        now = open(f"/proc/{process}/syscall").read()
        same, last = (same + 1 if now == last and now.strip() != "running" else 0), now


class Running:
    """A program under way, what it says in files."""

    def __init__(self, stage, words, environment=None, given=None):
        self.line = " ".join(words)
        stage.count += 1
        self.outputs = [stage.path(f"output.{stage.count}.{kind}") for kind in ("out", "err")]
        out, err = (open(name, "wb") for name in self.outputs)
        stdin = subprocess.PIPE if given is not None else subprocess.DEVNULL
        self.process = subprocess.Popen(
            words, stdin=stdin, stdout=out, stderr=err, cwd=stage.directory, env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
        if given:
            self.process.stdin.write(given)
            self.process.stdin.flush()
        stage.running.append(self)

    def said(self):
        return "".join(open(name, errors="replace").read() for name in self.outputs)

    def output(self):
        with open(self.outputs[0], "rb") as file:
            return file.read()

    def children(self):
        """The processes it has started that have not been waited for."""
        return {int(child) for child in open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()}

    def tell(self, number, group=False):
        (os.killpg if group else os.kill)(self.process.pid, number)

    def ends(self, by=signal.SIGTERM, codes=None, group=False):
        """Ends it, which it does by itself once told; says how it ended. `group`: as if from the terminal."""
        assert self.process.poll() is None, f"{self.line}: ended before it was told to: {self.process.returncode}"
        self.tell(by, group)
        return self.waits(codes)

    def waits(self, codes=None, patience=PATIENCE):
        """Waits for its end."""
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.line}: it does not end") from None
        assert codes is None or code in codes, f"{self.line}: it ended with {code}"
        return code

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Stage:
    """A directory of its own, and the programs that run in it."""

    def __init__(self, command, directory):
        self.command, self.directory, self.count, self.running = command, directory, 0, []
        os.chmod(directory, 0o777)
        self.environment = {"QANAT_SOCKET": self.path("control.sock")}
        self.daemon = None
        if not self.is_bare:
            self.daemon = self.kernels(command, "up", "--socket", self.path("control.sock"))
            eventually("the daemon listens", lambda: os.path.exists(self.path("control.sock")))

    @property
    def is_bare(self):
        """Without the library: to see whether a row itself holds."""
        return self.command == "bare"

    def path(self, name=""):
        return os.path.join(self.directory, name)

    def file(self, name, content):
        """Writes a file anybody may read, and says where it is."""
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, 0o755)
        return path

    def site(self):
        """A directory of [`FILES`]."""
        for name, content in FILES.items():
            self.file(f"site/{name}", content)
        return self.path("site")

    def run(self, *words, environment=None, given=None, options=()):
        """A program under `qanat run`."""
        before = [] if self.is_bare else [self.command, "run", "--explain", *options, "--"]
        environment = {**self.environment, **(environment or {})}
        return Running(self, [*before, *map(str, words)], environment, given)

    def kernels(self, *words, environment=None, given=None):
        """A program on the kernel's sockets."""
        return Running(self, list(map(str, words)), environment, given)

    def serve(self, *words, port, environment=None, given=None, options=()):
        """A server under `qanat run`, once it accepts connections at `port`."""
        server = self.run(*words, environment=environment, given=given, options=options)
        self.listens(server, port)
        return server

    def kernels_serve(self, *words, port, host=KERNELS, environment=None):
        """A server on the kernel's sockets, once it accepts connections."""
        server = self.kernels(*words, environment=environment)
        self.listens(server, port, host)
        return server

    def listens(self, server, port, host=OURS):
        def ready():
            assert server.process.poll() is None, f"{server.line}: ended with {server.process.returncode}"
            try:
                connect(port, host).close()
                return True
            except OSError:
                return False

        eventually(f"{server.line}: listens at {port}", ready)

    def client(self, *words, given=None, environment=None, codes=(0,)):
        """A client on the kernel's sockets, to its end; what it writes to standard output."""
        return self.finished(subprocess.Popen(
            list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=self.directory, env={**os.environ, **(environment or {})},
        ), given, codes)

    def ours(self, *words, given=None, environment=None, codes=(0,), is_ours=True):
        """A client under `qanat run`, to its end; what it writes to standard output. `is_ours`: that a connection was is seen."""
        running = self.run(*words, environment=environment, given=given)
        if given is not None:
            running.process.stdin.close()
        running.waits(codes, 2 * PATIENCE)
        assert self.is_bare or not is_ours or f"{KERNELS}:" in running.said() and ": ours" in running.said(), \
            f"{running.line}: its sockets were the kernel's"
        return running.output()

    @staticmethod
    def finished(process, given, codes):
        try:
            out, err = process.communicate(given, 2 * PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            codes = ()
        assert codes is None or process.returncode in codes, \
            f"{process.args}: ended with {process.returncode}\n{out[-2_000:].decode(errors='replace')}\n{err[-2_000:].decode(errors='replace')}"
        return out

    def cards(self):
        if self.is_bare:
            return []
        said = subprocess.run(
            [self.command, "status", "--json", "--socket", self.path("control.sock")], capture_output=True, check=False,
        ).stdout
        for line in said.splitlines():
            if line.startswith(b"{"):
                return json.loads(line).get("vnics", [])
        return []

    def others(self):
        """Processes of this network namespace beside this one."""
        here = os.readlink("/proc/self/ns/net")
        found = []
        for name in glob.glob("/proc/[0-9]*"):
            number = int(name.rpartition("/")[2])
            try:
                if number != os.getpid() and os.readlink(f"{name}/ns/net") == here:
                    command = open(f"{name}/cmdline", "rb").read().replace(b"\0", b" ").decode(errors="replace")
                    state = open(f"{name}/stat").read().rpartition(")")[2].split()[0]
                    found.append(f"{number} {state} {command}")
            except OSError:
                pass
        return found

    def close(self):
        """Ends what still runs. Nothing is left then: no card, no process."""
        for running in self.running:
            if running.process.poll() is None and running is not self.daemon:
                running.kill()
        try:
            eventually("no card is left", lambda: not self.cards())
        finally:
            if self.daemon:
                self.daemon.ends(codes=(0,))
        try:
            eventually("no process is left", lambda: not self.others())
        except AssertionError:
            raise AssertionError(f"processes are left: {self.others()}") from None

    def accounts(self):
        """What all programs said, for who looks why a row failed."""
        parts = []
        for running in self.running:
            said = running.said()
            parts.append(f"--- {running.line} ({running.process.poll()}) said:\n{said[-4_000:]}")
        return "\n".join(parts)


def try_one(command, name):
    """Tries a row's program here; says what went wrong, nothing if all went well."""
    import traceback

    function = next(known[4] for known in ROWS if known[0] == name)
    addresses = [f"{KERNELS}/32"] + ([f"{OURS}/32"] if command == "bare" else [])
    for address in addresses:
        subprocess.run(["ip", "address", "add", address, "dev", "lo"], check=True)
    with tempfile.TemporaryDirectory(prefix="qanat-programs") as directory:
        stage = Stage(command, directory)
        try:
            try:
                function(stage)
            finally:
                failed = sys.exc_info()[0] is not None
                try:
                    stage.close()
                except AssertionError:
                    if not failed:
                        raise
            return None
        except Exception:
            return f"{traceback.format_exc()}\n{stage.accounts()}"
        finally:
            for running in stage.running:
                running.kill()
