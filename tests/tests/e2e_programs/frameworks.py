"""What programs of Python, Ruby and Perl serve the web with: each has the same page, which says back what was posted."""

import signal

from stage import CLIENTS, FILES, OURS, PYTHON, asleep, at_once, connect, echoes, eventually, exactly, gets, pattern, posts, row

WSGI = """
import os
def application(environment, start):
    if environment["REQUEST_METHOD"] == "POST":
        length = int(environment.get("CONTENT_LENGTH") or 0)
        answer = b""
        while len(answer) < length:
            answer += environment["wsgi.input"].read(length - len(answer))
    else:
        answer = open("site" + environment["PATH_INFO"], "rb").read()
    start("200 OK", [("Content-Length", str(len(answer)))])
    return [answer]
"""
BOTH = "files to 1 MB and posted megabytes compared, 6 clients"


def wsgi(stage, *words):
    stage.site()
    stage.file("page.py", WSGI)
    server = stage.serve(*words, port=8000)
    gets(8000)
    posts(8000)
    return server


@row("gunicorn 20.1, workers", "Python", "prefork: a master, three processes that accept", BOTH + "; a worker killed is replaced; reload; graceful end")
def gunicorn_processes(stage):
    server = wsgi(stage, "gunicorn", "-w", 3, "-b", f"{OURS}:8000", "page:application")
    before = server.children()
    server.tell(signal.SIGHUP)
    # The reload is over when three new workers are there and the old ones have gone; until then any of them may end.
    eventually("three new workers", lambda: len(server.children() - before) == 3 and not before & server.children())
    gets(8000, kept=False)
    child = max(server.children())
    # One killed in the middle of the stack's work would take the card with it, as docs/posix.md says.
    asleep(child)
    stage.client("kill", "-KILL", child)
    eventually("a worker in its place", lambda: len(server.children() - before - {child}) == 3)
    gets(8000, {"1.bin": FILES["1.bin"]}, clients=1, kept=False)
    server.ends(codes=(0,))


@row("gunicorn 20.1, threads", "Python", "two processes, eight threads each, `epoll`", BOTH)
def gunicorn_threads(stage):
    wsgi(stage, "gunicorn", "-w", 2, "--threads", 8, "-b", f"{OURS}:8000", "page:application").ends(codes=(0,))


@row("gunicorn 20.1, gevent", "Python", "green threads over `libev`, two processes", BOTH)
def gunicorn_gevent(stage):
    # On a busy machine its workers wait for connections that have ended, on the kernel's sockets as well, for as long as this.
    patient = ("--graceful-timeout", 3)
    wsgi(stage, "gunicorn", "-w", 2, "-k", "gevent", *patient, "-b", f"{OURS}:8000", "page:application").ends(codes=(0,))


@row("uWSGI 2.0", "C, Python", "prefork: a master, three processes, `epoll`", BOTH)
def uwsgi(stage):
    words = ["--plugin", "python3", "--http-socket", f"{OURS}:8000", "--master", "--processes", 3, "--wsgi-file", "page.py", "--die-on-term"]
    stage.site()
    stage.file("page.py", WSGI)
    server = stage.serve("uwsgi", *words, port=8000)
    gets(8000, kept=False)
    posts(8000)
    server.ends(codes=(0,))


@row("waitress 2.1", "Python", "`poll`, four threads that work", BOTH)
def waitress(stage):
    script = f"import waitress, page; waitress.serve(page.application, listen='{OURS}:8000', asyncore_use_poll=True)"
    wsgi(stage, PYTHON, "-c", script).ends()


@row("Tornado 6.2", "Python", "event loop (`epoll` by `asyncio`)", BOTH + "; WebSocket messages to 300 KB said back")
def tornado(stage):
    script = f"""
import tornado.ioloop, tornado.web, tornado.websocket
class Page(tornado.web.RequestHandler):
    def get(self, name): self.write(open("site/" + name, "rb").read())
    def post(self, name): self.write(self.request.body)
class Echo(tornado.websocket.WebSocketHandler):
    def on_message(self, message): self.write_message(message, binary=True)
tornado.web.Application([("/echo", Echo), ("/(.*)", Page)]).listen(8000, "{OURS}")
tornado.ioloop.IOLoop.current().start()
"""
    stage.site()
    server = stage.serve(PYTHON, stage.file("server.py", script), port=8000)
    gets(8000)
    posts(8000)
    at_once(websocket)
    server.ends()


def websocket(number):
    """A client of WebSocket (RFC 6455), as far as it takes to hear messages back."""
    stream = connect(8000)
    stream.sendall(
        b"GET /echo HTTP/1.1\r\nHost: qanat\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += exactly(stream, 1)
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, head
    content = pattern(300_000)
    for length in (1, 60_000, 300_000):
        message = content[number:length]
        # Masked with zeros: the bytes are as they are.
        stream.sendall(b"\x82\xff" + len(message).to_bytes(8, "big") + bytes(4) + message)
        kind, size = exactly(stream, 2)
        size = int.from_bytes(exactly(stream, {126: 2, 127: 8}[size]), "big") if size > 125 else size
        assert (kind, size) == (0x82, len(message)), (kind, size)
        assert exactly(stream, size) == message
    stream.close()


@row("Twisted 22.4", "Python", "event loop (`epoll`)", "files to 1 MB compared; what 6 clients say, to 300 KB at a time, said back")
def twisted(stage):
    script = f"""
from twisted.internet import epollreactor
epollreactor.install()
from twisted.internet import reactor, protocol
from twisted.web import server, static
class Echo(protocol.Protocol):
    def dataReceived(self, data): self.transport.write(data)
factory = protocol.Factory()
factory.protocol = Echo
reactor.listenTCP(7000, factory, interface="{OURS}")
reactor.listenTCP(8000, server.Site(static.File("site")), interface="{OURS}")
reactor.run()
"""
    stage.site()
    running = stage.serve(PYTHON, stage.file("server.py", script), port=8000)
    gets(8000)
    echoes(7000)
    running.ends(codes=(0,))


@row("gevent 22.10", "Python", "green threads over `libev`", "what 6 clients say, to 300 KB at a time, said back")
def gevent(stage):
    script = f"""
from gevent import monkey; monkey.patch_all()
from gevent.server import StreamServer
def echo(stream, _):
    while said := stream.recv(50_000): stream.sendall(said)
StreamServer(("{OURS}", 7000), echo).serve_forever()
"""
    server = stage.serve(PYTHON, stage.file("server.py", script), port=7000)
    echoes(7000)
    server.ends(codes=None)


@row("uvloop 0.17", "Python, C", "event loop (`libuv`, which would take `io_uring`)", "what 6 clients say, to 300 KB at a time, said back")
def uvloop(stage):
    script = f"""
import asyncio, uvloop
class Echo(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(data)
async def main():
    server = await asyncio.get_running_loop().create_server(Echo, "{OURS}", 7000)
    await server.serve_forever()
uvloop.install()
asyncio.run(main())
"""
    server = stage.serve(PYTHON, stage.file("server.py", script), port=7000)
    echoes(7000)
    server.ends(codes=None)


@row("WEBrick 1.8 (Ruby 3.1)", "Ruby", "`select`, a thread for each connection", BOTH)
def webrick(stage):
    script = f"""
require "webrick"
server = WEBrick::HTTPServer.new(BindAddress: "{OURS}", Port: 8000, DocumentRoot: "site", AccessLog: [])
server.mount_proc("/back") {{ |question, answer| answer.body = question.body }}
trap("TERM") {{ server.shutdown }}
server.start
"""
    stage.site()
    server = stage.serve("ruby", stage.file("server.rb", script), port=8000)
    gets(8000)
    posts(8000, "/back")
    server.ends(codes=(0,))


@row("Puma 5.6 (Ruby 3.1)", "Ruby, C", "two processes, a reactor (`nio4r`: `libev`) and four threads each", BOTH)
def puma(stage):
    script = """
run proc { |question|
  answer = question["REQUEST_METHOD"] == "POST" ? question["rack.input"].read : File.binread("site" + question["PATH_INFO"])
  [200, { "Content-Length" => answer.bytesize.to_s }, [answer]]
}
"""
    stage.site()
    server = stage.serve("puma", "-w", 2, "-t", "4:4", "-b", f"tcp://{OURS}:8000", stage.file("config.ru", script), port=8000)
    gets(8000)
    posts(8000)
    server.ends(codes=None)


@row("HTTP::Daemon 6.16 (Perl 5.36)", "Perl", "blocking, a process for each connection", BOTH)
def perl(stage):
    script = f"""
use HTTP::Daemon; use HTTP::Response;
$SIG{{CHLD}} = 'IGNORE';
my $server = HTTP::Daemon->new(LocalAddr => '{OURS}', LocalPort => 8000, ReuseAddr => 1, Listen => 64) or die $!;
while (1) {{
    my $stream = $server->accept or next;
    if (fork) {{ close $stream; next }}
    $server->close;
    while (my $question = $stream->get_request) {{
        if ($question->method eq 'POST') {{ $stream->send_response(HTTP::Response->new(200, 'OK', [], $question->content)) }}
        else {{ $stream->send_file_response('site' . $question->uri->path) }}
    }}
    exit;
}}
"""
    stage.site()
    server = stage.serve("perl", stage.file("server.pl", script), port=8000)
    gets(8000)
    posts(8000)
    server.ends()
