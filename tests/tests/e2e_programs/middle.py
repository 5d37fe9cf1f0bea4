"""Programs in the middle: clients of the kernel's before them, a server of the kernel's behind them."""

import http.client
import os
import socket
import ssl
import struct

from stage import (CLIENTS, FILES, KERNELS, OURS, PATIENCE, PYTHON, ROUNDS, at_once, connect, echoes, eventually, exactly, gets,
                   pattern, row, same)

ECHO = f"""
import socket, threading
def echo(stream):
    while said := stream.recv(50_000): stream.sendall(said)
    stream.close()
server = socket.create_server(("{KERNELS}", 7001), backlog=64)
while True: threading.Thread(target=echo, args=[server.accept()[0]], daemon=True).start()
"""


def echo_behind(stage):
    stage.kernels_serve(PYTHON, stage.file("echo.py", ECHO), port=7001)


def pages_behind(stage):
    """Files on the kernel's sockets."""
    stage.kernels_serve("webfsd", "-F", "-c", 128, "-p", 8001, "-i", KERNELS, "-r", stage.site(), port=8001)


def certificate(stage):
    """One that a client can check."""
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2, "-subj", "/CN=qanat"]
    stage.client("openssl", *words, "-addext", f"subjectAltName=IP:{OURS},IP:{KERNELS}", "-keyout", "key.pem", "-out", "cert.pem")
    return stage.path("cert.pem"), stage.path("key.pem")


def trusting(certificate):
    return ssl.create_default_context(cafile=certificate)


@row("socat 1.7", "C", "a process for each connection, `select`", "connected to an echo server on the other side, and to a program (`EXEC`): what 6 clients say, to 300 KB, said back")
def socat(stage):
    echo_behind(stage)
    relay = stage.serve("socat", f"TCP-LISTEN:7000,bind={OURS},fork,reuseaddr", f"TCP:{KERNELS}:7001", port=7000)
    program = stage.serve("socat", f"TCP-LISTEN:7002,bind={OURS},fork,reuseaddr", "EXEC:cat", port=7002)
    echoes(7000)
    echoes(7002)
    relay.ends()
    program.ends()


@row("stunnel 5.68", "C", "a thread for each connection, `poll`; OpenSSL", "TLS to 6 clients, an echo server behind it: messages to 300 KB said back; reload")
def stunnel(stage):
    echo_behind(stage)
    cert, key = certificate(stage)
    config = f"foreground = yes\npid =\n[echo]\naccept = {OURS}:7000\nconnect = {KERNELS}:7001\ncert = {cert}\nkey = {key}\n"
    server = stage.serve("stunnel4", stage.file("stunnel.conf", config), port=7000)
    context = trusting(cert)

    def secured():
        # A reload closes the listener: who waits in it is reset, here as on the kernel.
        try:
            return context.wrap_socket(connect(7000), server_hostname=OURS)
        except ConnectionError:
            return None

    def client(number):
        content = pattern(300_000)
        with eventually("stunnel has a listener", secured) as stream:
            for turn in range(ROUNDS):
                message = content[:1 + turn * 3_001 + number]
                stream.sendall(message)
                same(exactly(stream, len(message)), message, "what was said back")

    at_once(client)
    server.tell(1)
    at_once(client)
    server.ends(codes=None)


@row("tinyproxy 1.11", "C", "a thread for each connection, `poll`", "a proxy of HTTP: files to 1 MB compared, 6 clients; CONNECT: messages to 300 KB said back")
def tinyproxy(stage):
    pages_behind(stage)
    echo_behind(stage)
    config = f"Port 8000\nListen {OURS}\nTimeout 60\nMaxClients 50\nConnectPort 7001\n"
    server = stage.serve("tinyproxy", "-d", "-c", stage.file("tinyproxy.conf", config), port=8000)
    gets(8000, path=f"http://{KERNELS}:8001/", kept=False)

    def through(stream):
        stream.sendall(f"CONNECT {KERNELS}:7001 HTTP/1.1\r\nHost: {KERNELS}:7001\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += exactly(stream, 1)
        assert b" 200 " in head, head
        return stream

    echoes(8000, wrapped=through)
    server.ends(codes=None)


@row("nghttpx 1.52", "C++", "`libev` on each of two threads", "HTTP/2 before a server of HTTP/1.1: 1 MB compared; `h2load`, 8 connections of 10 streams")
def nghttpx(stage):
    pages_behind(stage)
    words = [f"-f{OURS},8000;no-tls", f"-b{KERNELS},8001", "-n2", "--single-process", "--conf=/dev/null"]
    server = stage.serve("nghttpx", *words, port=8000)
    got = stage.client("curl", "-sS", "-m", 10, "--http2-prior-knowledge", f"http://{OURS}:8000/1000000.bin")
    same(got, FILES["1000000.bin"], "by HTTP/2")
    said = stage.client("h2load", "-n", 500, "-c", 8, "-m", 10, f"http://{OURS}:8000/1449.bin").decode()
    assert "500 succeeded, 0 failed, 0 errored, 0 timeout" in said, said
    server.ends(codes=None)


@row("Varnish 7.1", "C", "a master, a process of threads with `epoll`", "a cache before a server of the kernel's: files to 1 MB compared, 6 clients, each fetched once")
def varnish(stage):
    pages_behind(stage)
    words = ["-F", "-a", f"{OURS}:8000", "-b", f"{KERNELS}:8001", "-n", stage.path("varnish"), "-s", "malloc,32m", "-j", "none"]
    server = stage.serve("varnishd", *words, port=8000)
    gets(8000)
    answer = http.client.HTTPConnection(OURS, 8000, timeout=PATIENCE)
    answer.request("GET", "/1000000.bin")
    # Two numbers: what was asked now, and what had brought it into the cache.
    assert len(answer.getresponse().getheader("X-Varnish").split()) == 2
    server.ends(codes=(0,))


@row("twemproxy 0.5 (nutcracker)", "C", "event loop (`epoll`, level)", "memcached's protocol before two servers of the kernel's: 300 KB compared, each increment of 6 clients counted")
def nutcracker(stage):
    for port in (11_311, 11_312):
        stage.kernels_serve("memcached", "-u", "nobody", "-l", KERNELS, "-p", port, port=port)
    config = (
        f"pool:\n  listen: {OURS}:11211\n  hash: fnv1a_64\n  distribution: ketama\n"
        f"  servers:\n   - {KERNELS}:11311:1\n   - {KERNELS}:11312:1\n"
    )
    server = stage.serve("nutcracker", "-m", 16_384, "-c", stage.file("pool.yml", config), port=11_211)
    memcached_is_right(11_211)
    server.ends()


def memcached_is_right(port):
    content = pattern(300_000)
    with connect(port) as stream:
        stream.sendall(b"set n 0 0 1\r\n0\r\nset large 0 0 %d\r\n" % len(content) + content + b"\r\n")
        assert exactly(stream, 16) == b"STORED\r\nSTORED\r\n"

    def client(number):
        with connect(port) as stream:
            for _ in range(50):
                stream.sendall(b"incr n 1\r\n")
                said = b""
                while not said.endswith(b"\r\n"):
                    said += exactly(stream, 1)
                assert said[:1].isdigit(), said
            stream.sendall(b"get large\r\n")
            same(exactly(stream, len(content) + 29), b"VALUE large 0 300000\r\n" + content + b"\r\nEND\r\n", "a value")

    at_once(client)
    with connect(port) as stream:
        stream.sendall(b"incr n 0\r\n")
        assert exactly(stream, 5) == b"%d\r\n" % (50 * CLIENTS)


def through_socks(stream):
    """A client of SOCKS 5 (RFC 1928), to the echo server."""
    stream.sendall(b"\5\1\0")
    assert exactly(stream, 2) == b"\5\0"
    stream.sendall(b"\5\1\0\1" + socket.inet_aton(KERNELS) + struct.pack(">H", 7001))
    assert exactly(stream, 10)[:2] == b"\5\0"
    return stream


@row("microsocks 1.0", "C", "a thread for each connection, `poll`", "SOCKS 5: messages to 300 KB said back to 6 clients")
def microsocks(stage):
    echo_behind(stage)
    server = stage.serve("microsocks", "-i", OURS, "-p", 1080, port=1080)
    echoes(1080, wrapped=through_socks)
    server.ends()


@row("Dante 1.4 (danted)", "C", "prefork: connections go from process to process by SCM_RIGHTS; `select`", "SOCKS 5: messages to 300 KB said back to 6 clients")
def dante(stage):
    echo_behind(stage)
    config = (
        f"logoutput: stderr\ninternal: {OURS} port = 1080\nexternal: {KERNELS}\nsocksmethod: none\nclientmethod: none\n"
        "user.privileged: root\nuser.unprivileged: root\n"
        "client pass { from: 0/0 to: 0/0 }\nsocks pass { from: 0/0 to: 0/0 }\n"
    )
    server = stage.serve("danted", "-f", stage.file("danted.conf", config), "-p", stage.path("pid"), port=1080)
    echoes(1080, wrapped=through_socks)
    server.ends(codes=None)


@row("rinetd 0.73", "C", "event loop (`select`)", "messages to 300 KB said back to 6 clients")
def rinetd(stage):
    echo_behind(stage)
    config = f"{OURS} 7000 {KERNELS} 7001\n"
    server = stage.serve("rinetd", "-f", "-c", stage.file("rinetd.conf", config), port=7000)
    echoes(7000)
    server.ends(codes=None)


@row("Privoxy 3.0", "C", "a thread for each connection, `poll`", "a proxy of HTTP: files to 1 MB compared, 6 clients")
def privoxy(stage):
    pages_behind(stage)
    config = f"listen-address {OURS}:8000\nconfdir {stage.directory}\nlogdir {stage.directory}\nkeep-alive-timeout 5\n"
    server = stage.serve("privoxy", "--no-daemon", stage.file("config", config), port=8000)
    gets(8000, path=f"http://{KERNELS}:8001/", kept=False)
    server.ends(codes=None)


@row("PgBouncer 1.18", "C", "event loop (`libevent`: `epoll`)", "before PostgreSQL of the kernel's: `pgbench` with 4 clients over 2 connections, sums compared, an answer of 1 MB")
def pgbouncer(stage):
    programs = sorted(os.listdir("/usr/lib/postgresql"))[-1]
    programs = f"/usr/lib/postgresql/{programs}/bin"
    data = stage.path("data")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    stage.client(*nobody, f"{programs}/initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
    stage.file("hba", "host all all 10.77.0.0/24 trust\n")
    words = ["-D", data, "-h", KERNELS, "-p", 5433, "-k", stage.directory, "-F", "-c", f"hba_file={stage.path('hba')}"]
    stage.kernels_serve(*nobody, f"{programs}/postgres", *words, port=5433)
    config = (
        f"[databases]\npostgres = host={KERNELS} port=5433\n[pgbouncer]\nlisten_addr = {OURS}\nlisten_port = 6432\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nunix_socket_dir =\n"
    )
    config = config.replace("port=5433", "port=5433 user=postgres")
    server = stage.serve(*nobody, "pgbouncer", stage.file("pgbouncer.ini", config), port=6432)
    to = ["-h", OURS, "-p", 6432, "-U", "postgres"]

    def sql(question):
        return stage.client("psql", *to, "-Atqc", question, "postgres").decode().strip()

    stage.client(f"{programs}/pgbench", *to, "-i", "-q", "postgres")
    said = stage.client(f"{programs}/pgbench", *to, "-n", "-c", 4, "-j", 2, "-t", 50, "postgres").decode()
    assert "number of failed transactions: 0" in said, said
    assert sql("select count(*) from pgbench_history") == "200"
    assert sql("select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)") == "t"
    assert sql("select repeat('qanat', 200000)") == "qanat" * 200_000
    server.ends(by=2, codes=None)
