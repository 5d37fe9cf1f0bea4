"""Clients under `qanat run`, of servers on the kernel's sockets."""

import os

from files_and_mail import keys, same_trees
from middle import certificate, echo_behind, pages_behind
from stage import FILES, KERNELS, row, same

LARGE = FILES["1000000.bin"]
PAGE = f"http://{KERNELS}:8001/1000000.bin"


@row("curl 7.88, HTTP/2", "C", "`poll`, nghttp2", "files to 1 MB compared")
def curl(stage):
    stage.kernels_serve("nghttpd", "--no-tls", "-d", stage.site(), "-a", KERNELS, 8001, port=8001)
    for name, content in FILES.items():
        url = f"http://{KERNELS}:8001/{name}"
        same(stage.ours("curl", "-sS", "-m", 20, "--http2-prior-knowledge", url), content, name)


@row("aria2 1.36", "C++", "event loop (`epoll`)", "1 MB in 4 pieces at once, compared")
def aria2(stage):
    pages_behind(stage)
    stage.ours("aria2c", "-q", "-x", 4, "-s", 4, "-k", "1M", "--min-split-size=1M", "-d", stage.directory, "-o", "got", PAGE)
    same(open(stage.path("got"), "rb").read(), LARGE, "the file")


@row("`ab` 2.4", "C", "event loop (`epoll`)", "500 requests over 8 kept connections, none failed")
def ab(stage):
    pages_behind(stage)
    said = stage.ours("ab", "-q", "-k", "-c", 8, "-n", 500, f"http://{KERNELS}:8001/1449.bin").decode()
    assert "Complete requests:      500\n" in said and "Failed requests:        0\n" in said and "Non-2xx" not in said, said


@row("`h2load` 1.52", "C++", "`libev`, two threads", "1,000 requests of HTTP/2 over 4 connections of 10 streams, none failed")
def h2load(stage):
    stage.kernels_serve("nghttpd", "--no-tls", "-d", stage.site(), "-a", KERNELS, 8001, port=8001)
    said = stage.ours("h2load", "-t", 2, "-n", 1_000, "-c", 4, "-m", 10, f"http://{KERNELS}:8001/1449.bin").decode()
    assert "1000 succeeded, 0 failed, 0 errored, 0 timeout" in said, said


@row("`openssl s_client` 3.0", "C", "`select`; OpenSSL", "TLS 1.3: a page of 1 MB compared, the certificate checked")
def s_client(stage):
    cert, key = certificate(stage)
    stage.site()
    stage.kernels_serve("openssl", "s_server", "-accept", f"{KERNELS}:8443", "-cert", cert, "-key", key, "-WWW", port=8443)
    question = b"GET /site/1000000.bin HTTP/1.0\r\n\r\n"
    words = ["-quiet", "-verify_return_error", "-CAfile", cert, "-ign_eof", "-connect", f"{KERNELS}:8443"]
    got = stage.ours("openssl", "s_client", *words, given=question)
    same(got.partition(b"\r\n\r\n")[2], LARGE, "the page")


@row("nc (OpenBSD) 1.219", "C", "`poll`", "1 MB sent and said back, compared")
def nc(stage):
    echo_behind(stage)
    same(stage.ours("nc.openbsd", "-N", KERNELS, 7001, given=LARGE), LARGE, "what was said back")


@row("OpenSSH 9.2, `ssh` and `scp`", "C", "`poll`; `scp` starts `ssh`", "1 MB to `cat` and back; 1 MB copied each way, compared")
def ssh(stage):
    keys(stage)
    os.makedirs("/run/sshd", exist_ok=True)
    config = (
        f"ListenAddress {KERNELS}:2222\nHostKey {stage.path('host')}\nAuthorizedKeysFile {stage.path('authorized')}\nStrictModes no\n"
        "PermitRootLogin yes\nUsePAM no\nPidFile none\nSubsystem sftp internal-sftp\n"
    )
    stage.kernels_serve("/usr/sbin/sshd", "-D", "-e", "-f", stage.file("sshd_config", config), port=2222)
    words = ["-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", stage.path("user")]
    same(stage.ours("ssh", *words, "-p", 2222, f"root@{KERNELS}", "cat", given=LARGE), LARGE, "what was said back")
    there, copy = stage.file("there", LARGE), stage.path("copy")
    stage.ours("scp", "-q", *words, "-P", 2222, there, f"root@{KERNELS}:{copy}")
    stage.ours("scp", "-q", *words, "-P", 2222, f"root@{KERNELS}:{copy}", stage.path("back"))
    same(open(stage.path("back"), "rb").read(), LARGE, "the copy")


@row("rsync 3.5, client", "C", "`select`, two processes", "a directory with 1 MB got and put, compared")
def rsync(stage):
    site = stage.site()
    os.makedirs(stage.path("put"))
    config = f"use chroot = no\nuid = root\ngid = root\n[site]\npath = {site}\n[put]\npath = {stage.path('put')}\nread only = no\n"
    config = stage.file("rsyncd.conf", config)
    stage.kernels_serve("rsync", "--daemon", "--no-detach", f"--address={KERNELS}", "--port=8730", f"--config={config}", port=8730)
    stage.ours("rsync", "-a", f"rsync://{KERNELS}:8730/site/", "got")
    same_trees(site, stage.path("got"))
    stage.ours("rsync", "-a", f"{site}/", f"rsync://{KERNELS}:8730/put/")
    same_trees(site, stage.path("put"))


@row("`git clone` 2.39", "C", "blocking; its own protocol", "a repository of 1 MB, checked")
def git(stage):
    home = {"HOME": stage.directory, "GIT_CONFIG_NOSYSTEM": "1"}
    stage.site()
    stage.client("git", "init", "-q", "site", environment=home)
    stage.client("git", "-C", "site", "add", ".", environment=home)
    stage.client("git", "-C", "site", "-c", "user.name=a", "-c", "user.email=a@qanat.test", "commit", "-qm", "all", environment=home)
    words = ["--reuseaddr", f"--listen={KERNELS}", "--port=9418", "--export-all", f"--base-path={stage.directory}"]
    stage.kernels_serve("git", "daemon", *words, port=9418, environment=home)
    stage.ours("git", "clone", "-q", f"git://{KERNELS}/site", "got", environment=home)
    for name, content in FILES.items():
        same(open(stage.path(f"got/{name}"), "rb").read(), content, name)


@row("lftp 4.9", "C++", "`poll`, an event loop of its own", "FTP from vsftpd: 1 MB got in 3 pieces, 1 MB put, compared")
def lftp(stage):
    os.makedirs(stage.path("root/put"))
    stage.file("root/large", LARGE)
    os.chmod(stage.path("root"), 0o755)
    os.chmod(stage.path("root/put"), 0o777)
    os.makedirs(stage.path("empty"))
    config = (
        f"listen=YES\nbackground=NO\nlisten_address={KERNELS}\nlisten_port=2121\nanonymous_enable=YES\nno_anon_password=YES\n"
        f"anon_root={stage.path('root')}\nwrite_enable=YES\nanon_upload_enable=YES\nsecure_chroot_dir={stage.path('empty')}\n"
        "xferlog_enable=NO\nftp_username=daemon\nseccomp_sandbox=NO\n"
    )
    stage.kernels_serve("vsftpd", stage.file("vsftpd.conf", config), port=2121)
    commands = "pget -n 3 large -o got; cd put; put got"
    stage.ours("lftp", "-e", f"{commands}; exit", f"ftp://{KERNELS}:2121/", environment={"HOME": stage.directory})
    same(open(stage.path("got"), "rb").read(), LARGE, "the file")
    same(open(stage.path("root/put/got"), "rb").read(), LARGE, "the file that was put")


@row("redis-benchmark and redis-cli 7.0", "C", "event loop (`epoll`); blocking", "4,000 increments by 16 clients, counted; 300 KB set and got")
def redis(stage):
    words = ["--bind", KERNELS, "--protected-mode", "no", "--save", "", "--port", 6390]
    stage.kernels_serve("redis-server", *words, port=6390)
    to = ["-h", KERNELS, "-p", 6390]
    stage.ours("redis-benchmark", *to, "-q", "-c", 16, "-n", 4_000, "incr", "n")
    assert stage.ours("redis-cli", *to, "get", "n").strip() == b"4000"
    stage.ours("redis-cli", *to, "-x", "set", "large", given=b"x" * 300_000)
    same(stage.ours("redis-cli", *to, "get", "large").strip(), b"x" * 300_000, "a value")


@row("PHP 8.2, streams", "PHP", "`poll`", "a page of 1 MB by its HTTP wrapper, compared")
def php(stage):
    pages_behind(stage)
    same(stage.ours("php", "-r", f"echo file_get_contents('{PAGE}');"), LARGE, "the page")


@row("Ruby 3.1, `Net::HTTP`", "Ruby", "threads, `poll`", "6 threads: files to 1 MB, their digests compared")
def ruby(stage):
    pages_behind(stage)
    script = f"""
require "net/http"
threads = 6.times.map {{ Thread.new {{ Net::HTTP.get(URI("{PAGE}")) }} }}
all = threads.map(&:value)
abort "they differ" unless all.uniq.size == 1
$stdout.binmode
print all[0]
"""
    same(stage.ours("ruby", stage.file("client.rb", script)), LARGE, "the page")


@row("busybox `wget` 1.35", "C", "blocking, by `FILE`s of the C library", "a page of 1 MB compared")
def busybox(stage):
    pages_behind(stage)
    stage.ours("busybox", "wget", "-q", "-O", "got", PAGE)
    same(open(stage.path("got"), "rb").read(), LARGE, "the page")
