"""Servers of protocols of their own."""

import signal

from middle import certificate
from stage import CLIENTS, FILES, OURS, PYTHON, at_once, connect, eventually, exactly, pattern, row, same


@row("`openssl s_server` 3.0", "C", "blocking, a client at a time; OpenSSL", "TLS 1.3: files to 1 MB compared, checked against its certificate")
def s_server(stage):
    cert, key = certificate(stage)
    stage.site()
    server = stage.serve("openssl", "s_server", "-accept", f"{OURS}:8443", "-cert", cert, "-key", key, "-WWW", port=8443)
    for name in FILES:
        url = f"https://{OURS}:8443/site/{name}"
        same(stage.client("curl", "-sS", "-m", 10, "--http1.0", "--tlsv1.3", "--cacert", cert, url), FILES[name], name)
    server.ends()


@row("Mosquitto 2.0", "C", "event loop (`epoll`)", "MQTT: 6 subscribers have each of 60 messages of 6 publishers, one of 300 KB; a message kept for who comes later")
def mosquitto(stage):
    config = f"listener 1883 {OURS}\nallow_anonymous true\nlog_type all\nuser root\n"
    server = stage.serve("mosquitto", "-c", stage.file("mosquitto.conf", config), port=1883)
    large = pattern(300_000)
    stage.file("large", large)
    to = ["-h", OURS, "-V", "mqttv5", "-q", 1]
    count = 10 * CLIENTS
    subscribers = [stage.kernels("mosquitto_sub", *to, "-t", "news/#", "-C", count) for _ in range(CLIENTS)]
    eventually("all have subscribed", lambda: server.said().count("Sending SUBACK") >= CLIENTS)

    def publisher(number):
        lines = "".join(f"{number}.{turn}\n" for turn in range(10))
        stage.client("mosquitto_pub", *to, "-t", f"news/{number}", "-l", given=lines.encode())

    at_once(publisher)
    wanted = sorted(f"{number}.{turn}" for number in range(CLIENTS) for turn in range(10))
    for subscriber in subscribers:
        subscriber.waits((0,))
        assert sorted(subscriber.output().decode().split()) == wanted
    stage.client("mosquitto_pub", *to, "-r", "-t", "kept", "-f", "large")
    same(stage.client("mosquitto_sub", *to, "-t", "kept", "-C", 1, "-N"), large, "a message that was kept")
    server.ends(codes=(0,))


@row("beanstalkd 1.12", "C", "event loop (`epoll`)", "6 producers and 6 workers: each of 120 jobs done once; a job of 60 KB compared")
def beanstalkd(stage):
    server = stage.serve("beanstalkd", "-l", OURS, "-p", 11_300, port=11_300)
    done = []

    def line(stream):
        said = b""
        while not said.endswith(b"\r\n"):
            said += exactly(stream, 1)
        return said.split()

    def producer(number):
        with connect(11_300) as stream:
            for turn in range(20):
                job = b"%d.%d" % (number, turn)
                stream.sendall(b"put 0 0 60 %d\r\n%s\r\n" % (len(job), job))
                assert line(stream)[0] == b"INSERTED"

    def worker(_):
        with connect(11_300) as stream:
            while True:
                stream.sendall(b"reserve-with-timeout 1\r\n")
                said = line(stream)
                if said[0] == b"TIMED_OUT":
                    return
                assert said[0] == b"RESERVED", said
                done.append(exactly(stream, int(said[2]) + 2)[:-2])
                stream.sendall(b"delete %s\r\n" % said[1])
                assert line(stream) == [b"DELETED"]

    at_once(lambda number: (producer if number % 2 else worker)(number // 2), 2 * CLIENTS)
    assert sorted(done) == sorted(b"%d.%d" % (number, turn) for number in range(CLIENTS) for turn in range(20))
    content = pattern(60_000)
    with connect(11_300) as stream:
        stream.sendall(b"put 0 0 60 60000\r\n" + content + b"\r\nreserve\r\n")
        assert line(stream)[0] == b"INSERTED" and line(stream)[0] == b"RESERVED"
        same(exactly(stream, 60_000), content, "a job")
    server.ends()


@row("ngIRCd 26.1", "C", "event loop (`epoll`)", "6 users in a channel: each hears each of the others' 20 lines in order")
def ngircd(stage):
    config = f"[Global]\nName = irc.qanat.test\nInfo = test\nListen = {OURS}\nPorts = 6667\n[Limits]\nMaxConnectionsIP = 0\n[Options]\nDNS = no\nIdent = no\nPAM = no\n"
    server = stage.serve("ngircd", "-n", "-f", stage.file("ngircd.conf", config), port=6667)
    streams = [connect(6667) for _ in range(CLIENTS)]
    files = [stream.makefile("rb") for stream in streams]

    def until(file, word):
        while line := file.readline():
            if word in line:
                return line
        raise AssertionError(f"the end before {word}")

    for number, stream in enumerate(streams):
        stream.sendall(b"NICK u%d\r\nUSER u%d 0 * :u\r\n" % (number, number))
    for number, stream in enumerate(streams):
        until(files[number], b" 001 ")
        stream.sendall(b"JOIN #flow\r\n")
        until(files[number], b" 366 ")
    for turn in range(20):
        for number, stream in enumerate(streams):
            stream.sendall(b"PRIVMSG #flow :%d.%d\r\n" % (number, turn))
    for number, file in enumerate(files):
        heard = []
        while len(heard) < 20 * (CLIENTS - 1):
            heard.append(until(file, b"PRIVMSG").split(b":")[-1].strip())
        for other in set(range(CLIENTS)) - {number}:
            assert [said for said in heard if said.startswith(b"%d." % other)] == [b"%d.%d" % (other, turn) for turn in range(20)]
    for stream in streams:
        stream.close()
    server.ends()


ZMQ_SERVER = f"""
import zmq
context = zmq.Context()
answers, pushes = context.socket(zmq.REP), context.socket(zmq.PULL)
answers.bind("tcp://{OURS}:5555")
pushes.bind("tcp://{OURS}:5556")
poller, count = zmq.Poller(), 0
poller.register(answers, zmq.POLLIN)
poller.register(pushes, zmq.POLLIN)
while True:
    for ready, _ in poller.poll():
        said = ready.recv()
        if ready is pushes: count += 1
        else: answers.send(b"%d" % count if said == b"count" else said)
"""
ZMQ_CLIENT = f"""
import sys, zmq
number, context = int(sys.argv[1]), zmq.Context()
asks, pushes = context.socket(zmq.REQ), context.socket(zmq.PUSH)
asks.connect("tcp://{OURS}:5555")
pushes.connect("tcp://{OURS}:5556")
for turn in range(100): pushes.send(b"one more")
content = bytes(range(256)) * 1200
for turn in range(20):
    message = content[turn * number:]
    asks.send(message)
    assert asks.recv() == message
while True:
    asks.send(b"count")
    if int(asks.recv()) == {100 * CLIENTS}: break
"""


@row("ZeroMQ 4.3 (pyzmq)", "C++, Python", "threads of its own for input and output (`epoll`)", "requests of 300 KB said back, 600 messages pushed by 6 clients counted")
def zeromq(stage):
    server = stage.serve(PYTHON, stage.file("server.py", ZMQ_SERVER), port=5556)
    script = stage.file("client.py", ZMQ_CLIENT)
    at_once(lambda number: stage.client(PYTHON, script, number))
    server.ends()


@row("Icecast 2.4", "C", "threads; `poll`", "a source's stream to 3 listeners: what they hear is what was sent")
def icecast(stage):
    config = (
        "<icecast><limits><sources>2</sources><queue-size>4000000</queue-size><burst-size>0</burst-size></limits>"
        "<authentication><source-password>flow</source-password><admin-user>a</admin-user><admin-password>b</admin-password></authentication>"
        f"<hostname>qanat</hostname><listen-socket><port>8000</port><bind-address>{OURS}</bind-address></listen-socket>"
        "<paths><basedir>/usr/share/icecast2</basedir><logdir>.</logdir><webroot>/usr/share/icecast2/web</webroot>"
        "<adminroot>/usr/share/icecast2/admin</adminroot></paths><logging><accesslog>a.log</accesslog><errorlog>e.log</errorlog></logging>"
        "<security><chroot>0</chroot><changeowner><user>nobody</user><group>nogroup</group></changeowner></security></icecast>"
    )
    server = stage.serve("icecast2", "-c", stage.file("icecast.xml", config), port=8000)
    source = connect(8000)
    source.sendall(b"SOURCE /flow HTTP/1.0\r\nAuthorization: Basic c291cmNlOmZsb3c=\r\nContent-Type: application/octet-stream\r\n\r\n")
    assert b" 200 " in source.recv(1_000)
    listeners = [connect(8000).makefile("rwb") for _ in range(3)]
    for listener in listeners:
        listener.write(b"GET /flow HTTP/1.0\r\n\r\n")
        listener.flush()
        while line := listener.readline().strip():
            assert b" 4" not in line[:12], line
    content = pattern(1_000_000)
    source.sendall(content)
    heard = [b""] * 3

    def hear(number):
        # What came before it was there is not for it: it begins somewhere early.
        heard[number] = listeners[number].read(500_000)

    at_once(hear, 3)
    for said in heard:
        assert len(said) == 500_000 and said in content
    source.close()
    server.ends(codes=None)


@row("iperf 2.1", "C++", "threads, blocking", "two streams each way, UDP")
def iperf(stage):
    server = stage.serve("iperf", "-s", "-B", OURS, port=5001)
    said = stage.client("iperf", "-c", OURS, "-n", "4M", "-P", 2, "-f", "k").decode()
    assert said.count("4096 KBytes") == 2 or "8192 KBytes" in said, said
    datagrams = stage.serve("iperf", "-s", "-u", "-B", OURS, "-p", 5002, port=5001)
    said = stage.client("iperf", "-c", OURS, "-u", "-p", 5002, "-b", "10M", "-t", 1).decode()
    assert "Server Report" in said, said
    datagrams.ends(codes=None)
    server.ends(codes=None)


@row("sockperf 3.7", "C++", "`epoll` and `recvmsg`, TCP and UDP", "10,000 requests each way: none lost, none twice, none out of order")
def sockperf(stage):
    for words in (["--tcp"], []):
        server = stage.run("sockperf", "server", "-i", OURS, "-p", 11_111, *words)
        eventually("sockperf serves", lambda: "[SERVER] listen" in server.said() or "to terminate" in server.said())
        said = stage.client("sockperf", "ping-pong", "-i", OURS, "-p", 11_111, "-t", 1, "-m", 1000, *words).decode()
        assert "# dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0" in said, said
        server.ends(by=signal.SIGINT, codes=None)


@row("qperf 0.4", "C", "a process for each test, blocking", "TCP and UDP: bandwidth and latency both ways, with messages of 1 MB")
def qperf(stage):
    server = stage.serve("qperf", "--listen_port", 19_765, port=19_765)
    words = ["--listen_port", 19_765, "-t", 1, "--ip_port", 19_766, OURS]
    for test in (["-m", "1M", "tcp_bw"], ["tcp_lat"], ["udp_lat"]):
        said = stage.client("qperf", *words[:-1], OURS, *test).decode()
        assert "GB/sec" in said or "MB/sec" in said or "latency" in said, said
    server.ends(codes=None)
