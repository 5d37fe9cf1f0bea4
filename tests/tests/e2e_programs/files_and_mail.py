"""Servers of files and of mail."""

import os

from stage import CLIENTS, FILES, OURS, at_once, pattern, row, same, without


def same_trees(left, right):
    assert sorted(os.listdir(left)) == sorted(os.listdir(right)), os.listdir(right)
    for name in os.listdir(left):
        with open(f"{left}/{name}", "rb") as one, open(f"{right}/{name}", "rb") as other:
            same(other.read(), one.read(), name)


@row("rsync 3.5, daemon", "C", "a process for each connection, `select`", "a directory with 1 MB got and put by 3 clients, compared")
def rsync(stage):
    site = stage.site()
    os.makedirs(stage.path("put"))
    config = f"use chroot = no\nuid = root\ngid = root\n[site]\npath = {site}\n[put]\npath = {stage.path('put')}\nread only = no\n"
    server = stage.serve(
        "rsync", "--daemon", "--no-detach", f"--address={OURS}", "--port=8730", f"--config={stage.file('rsyncd.conf', config)}",
        port=8730,
    )
    url = f"rsync://{OURS}:8730"

    def client(number):
        stage.client("rsync", "-a", f"{url}/site/", stage.path(f"got.{number}"))
        same_trees(site, stage.path(f"got.{number}"))
        stage.client("rsync", "-a", f"{site}/", f"{url}/put/{number}/")
        same_trees(site, stage.path(f"put/{number}"))

    at_once(client, 3)
    server.ends(codes=None)


@row("`git daemon` 2.39", "C", "a program for each connection, which has it as its standard input and output", "3 clones of a repository of 1 MB, checked")
def git(stage):
    home = {"HOME": stage.directory, "GIT_CONFIG_NOSYSTEM": "1"}
    stage.site()
    stage.client("git", "init", "-q", "site", environment=home)
    stage.client("git", "-C", "site", "add", ".", environment=home)
    author = ["-c", "user.name=a", "-c", "user.email=a@qanat.test"]
    stage.client("git", "-C", "site", *author, "commit", "-qm", "all", environment=home)
    server = stage.serve(
        "git", "daemon", "--reuseaddr", f"--listen={OURS}", "--port=9418", "--export-all", f"--base-path={stage.directory}",
        port=9418, environment=home,
    )

    def client(number):
        stage.client("git", "clone", "-q", f"git://{OURS}/site", f"got.{number}", environment=home)
        stage.client("git", "-C", f"got.{number}", "fsck", "--full", environment=home)
        for name, content in FILES.items():
            same(open(stage.path(f"got.{number}/{name}"), "rb").read(), content, name)

    at_once(client, 3)
    # `git` waits for `git-daemon`, and is told by it.
    server.ends(codes=None)


without(
    "vsftpd 3.0", "C", "processes for each connection, made by `clone` with namespaces, which give up rights; SCM_RIGHTS",
    "by hand: **does not work**: its sessions' connections are reset, probably as the library does not see processes that "
    "`syscall(SYS_clone)` makes; with `isolate=NO` sessions end with `500 OOPS: mmap`, probably by the limit on memory that vsftpd sets itself",
)


def keys(stage):
    for name in ("host", "user"):
        stage.client("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name)
    os.chmod(stage.directory, 0o755)
    stage.file("authorized", open(stage.path("user.pub")).read())
    os.chmod(stage.path("authorized"), 0o600)


def ssh(stage, port, count=CLIENTS):
    """Several clients send a megabyte there and back."""
    content = pattern(1_000_000)
    words = ["-F", "/dev/null", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-i", stage.path("user"), "-p", port]

    def client(number):
        same(stage.client("ssh", *words, f"root@{OURS}", "cat", given=content[number:]), content[number:], "what was said back")

    at_once(client, count)


@row("OpenSSH 9.2, `sshd`", "C", "a process started anew for each connection, a child of fewer rights; `poll`", "1 MB to `cat` and back, 4 clients")
def sshd(stage):
    keys(stage)
    os.makedirs("/run/sshd", exist_ok=True)
    config = (
        f"ListenAddress {OURS}:2222\nHostKey {stage.path('host')}\nAuthorizedKeysFile {stage.path('authorized')}\nStrictModes no\n"
        "PermitRootLogin yes\nUsePAM no\nPidFile none\nMaxStartups 100\n"
    )
    server = stage.serve("/usr/sbin/sshd", "-D", "-e", "-f", stage.file("sshd_config", config), port=2222)
    ssh(stage, 2222, 4)
    server.ends(codes=None)


@row("nbdkit 1.32", "C", "a thread for each connection, blocking", "a disk of 8 MB written and read by `nbdcopy` over 4 connections, compared")
def nbdkit(stage):
    stage.file("disk", pattern(8 << 20))
    server = stage.serve("nbdkit", "-f", "-i", OURS, "-p", 10_809, "memory", "8M", port=10_809)
    url = f"nbd://{OURS}:10809"
    stage.client("nbdcopy", "--connections=4", "disk", url)
    stage.client("nbdcopy", "--connections=4", url, "got")
    same(open(stage.path("got"), "rb").read(), pattern(8 << 20), "the disk")
    server.ends(codes=None)


without(
    "Dovecot 2.3", "C", "prefork: a process to log in hands the connection on by SCM_RIGHTS, another user's; `epoll`",
    "by hand: **does not work**: over `exec`, its `imap-login` has a descriptor where one of the library's belongs, says so, and can't accept",
)
