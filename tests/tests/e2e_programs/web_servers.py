"""Servers of files."""

import signal

from stage import CLIENTS, FILES, OURS, at_once, gets, pattern, row, same


@row("mini-httpd 1.30", "C", "a process for each connection", "files to 1 MB compared, 6 clients, a connection for each file")
def mini_httpd(stage):
    server = stage.serve("mini_httpd", "-D", "-p", 8000, "-h", OURS, "-d", stage.site(), "-u", "root", port=8000)
    gets(8000, kept=False)
    server.ends()


@row("webfs 1.21", "C", "`select`, a thread for each processor", "files to 1 MB compared, 6 clients, connections kept; ranges")
def webfs(stage):
    server = stage.serve("webfsd", "-F", "-p", 8000, "-i", OURS, "-r", stage.site(), port=8000)
    gets(8000)
    got = stage.client("curl", "-sS", "-m", 10, "-r", "500000-599999", f"http://{OURS}:8000/1000000.bin")
    same(got, FILES["1000000.bin"][500_000:600_000], "a range")
    server.ends()


@row("busybox `httpd` 1.35", "C", "a process for each connection, by `vfork`-like `fork`", "files to 1 MB compared, 6 clients")
def busybox(stage):
    server = stage.serve("busybox", "httpd", "-f", "-p", f"{OURS}:8000", "-h", stage.site(), port=8000)
    gets(8000, kept=False)
    server.ends()


@row("h2o 2.2", "C", "an event loop on each of two threads (`epoll`, edge)", "HTTP/1.1 and HTTP/2: files to 1 MB compared; `h2load`, 8 connections of 10 streams; graceful end")
def h2o(stage):
    config = (
        f"listen:\n  host: {OURS}\n  port: 8000\nnum-threads: 2\nuser: root\n"
        f"hosts:\n  default:\n    paths:\n      /:\n        file.dir: {stage.site()}\n"
    )
    server = stage.serve("h2o", "-m", "worker", "-c", stage.file("h2o.conf", config), port=8000)
    gets(8000)
    http2(stage, "/")
    server.ends(codes=(0,))


def http2(stage, path, port=8000):
    """HTTP/2 without TLS: one client that compares, one that counts."""
    got = stage.client("curl", "-sS", "-m", 10, "--http2-prior-knowledge", f"http://{OURS}:{port}{path}1000000.bin")
    same(got, FILES["1000000.bin"], "by HTTP/2")
    said = stage.client("h2load", "-n", 2_000, "-c", 8, "-m", 10, f"http://{OURS}:{port}{path}1449.bin").decode()
    assert "2000 succeeded, 0 failed, 0 errored, 0 timeout" in said, said


@row("nghttpd 1.52", "C++", "`libev` on each of two threads", "HTTP/2: 1 MB compared; `h2load`, 8 connections of 10 streams")
def nghttpd(stage):
    server = stage.serve("nghttpd", "--no-tls", "-n2", "-d", stage.site(), "-a", OURS, 8000, port=8000)
    http2(stage, "/")
    server.ends(codes=None)


@row("PHP 8.2, its own server", "PHP", "`poll`; three worker processes that share a listener", "files to 1 MB and posted bodies compared, 6 clients")
def php(stage):
    stage.file("site/back.php", "<?php echo file_get_contents('php://input');")
    stage.site()
    server = stage.serve(
        "php", "-d", "enable_post_data_reading=0", "-S", f"{OURS}:8000", "-t", stage.path("site"), port=8000,
        environment={"PHP_CLI_SERVER_WORKERS": "3"},
    )
    gets(8000)
    content = pattern(1_000_000)

    def client(number):
        name = stage.file(f"body.{number}", content[number:])
        got = stage.client("curl", "-sS", "-m", 10, "-H", "Expect:", "--data-binary", f"@{name}", f"http://{OURS}:8000/back.php")
        same(got, content[number:], "what was posted")

    at_once(client, CLIENTS // 2)
    server.ends(by=signal.SIGINT, group=True)
