"""Servers of files and of mail."""

import ftplib
import imaplib
import io
import os
import smtplib

from stage import CLIENTS, FILES, OURS, PATIENCE, at_once, pattern, row, same


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


@row("vsftpd 3.0", "C", "processes for each connection: one of root's, one of nobody's that hands on sockets by SCM_RIGHTS", "1 MB got and put by 3 clients, passive and active")
def vsftpd(stage):
    os.makedirs(stage.path("root/put"))
    stage.file("root/large", FILES["1000000.bin"])
    os.chmod(stage.path("root"), 0o755)
    os.chmod(stage.path("root/put"), 0o777)
    os.makedirs(stage.path("empty"))
    config = (
        f"listen=YES\nbackground=NO\nlisten_address={OURS}\nlisten_port=2121\nanonymous_enable=YES\nno_anon_password=YES\n"
        f"anon_root={stage.path('root')}\nwrite_enable=YES\nanon_upload_enable=YES\nsecure_chroot_dir={stage.path('empty')}\n"
        "xferlog_enable=NO\nftp_username=daemon\nseccomp_sandbox=NO\nconnect_from_port_20=NO\nport_promiscuous=YES\n"
    )
    server = stage.serve("vsftpd", stage.file("vsftpd.conf", config), port=2121)

    def client(number):
        ftp = ftplib.FTP(timeout=PATIENCE)
        ftp.connect(OURS, 2121)
        ftp.login()
        for passive in (True, False):
            ftp.set_pasv(passive)
            got = io.BytesIO()
            ftp.retrbinary("RETR large", got.write)
            same(got.getvalue(), FILES["1000000.bin"], "a file")
            name = f"put/{number}.{passive}"
            ftp.storbinary(f"STOR {name}", io.BytesIO(pattern(700_000 + number)))
            same(open(stage.path(f"root/{name}"), "rb").read(), pattern(700_000 + number), "a file that was put")
        ftp.quit()

    at_once(client, 3)
    server.ends(codes=None)


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


@row("Dovecot 2.3", "C", "prefork: a process to log in hands the connection on by SCM_RIGHTS, another user's; `epoll`", "IMAP: 3 clients put and get 300 KB in 5 letters, compared; IDLE told of a letter")
def dovecot(stage):
    os.makedirs(stage.path("mail"))
    os.chmod(stage.path("mail"), 0o777)
    config = (
        f"protocols = imap\nlisten = {OURS}\nbase_dir = {stage.path('base')}\nlog_path = /dev/stderr\nssl = no\ndisable_plaintext_auth = no\n"
        f"mail_location = maildir:{stage.path('mail')}/%u\nfirst_valid_uid = 1\nmail_uid = nobody\nmail_gid = nogroup\n"
        "passdb {\n driver = static\n args = nopassword=y\n}\nuserdb {\n driver = static\n"
        f" args = uid=nobody gid=nogroup home={stage.path('mail')}/%u\n}}\n"
        "service imap-login {\n inet_listener imap {\n  port = 1430\n }\n inet_listener imaps {\n  port = 0\n }\n}\n"
    )
    server = stage.serve("dovecot", "-F", "-c", stage.file("dovecot.conf", config), port=1430)

    def client(number):
        imap = imaplib.IMAP4(OURS, 1430, PATIENCE)
        imap.login(f"user{number}", "x")
        for turn in range(5):
            letter = b"Subject: " + str(turn).encode() + b"\r\n\r\n" + (f"{number}.{turn} it flows\r\n" * 20_000).encode()[:300_000]
            assert imap.append("INBOX", None, None, letter)[0] == "OK"
            imap.select()
            got = imap.fetch(str(turn + 1), "(BODY[])")[1][0][1]
            same(got, letter, "a letter")
        imap.logout()

    at_once(client, 3)
    server.ends(codes=(0,))
