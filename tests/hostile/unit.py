"""Runs a program under a systemd unit's restrictions, without systemd: unit.py run UNIT DIRECTORY [STORE] -- PROGRAM …

DIRECTORY stands for the unit's RuntimeDirectory. What [Service] restricts is applied as systemd 252 does it (src/core/namespace.c,
src/shared/seccomp-util.c): mounts, capabilities, limits, system calls. A setting that this program doesn't know is an error, so that
none is left out silently; those that need systemd's control groups are named in CONTROL_GROUPS. The program takes this
process's place.

unit.py store SOCKET keeps descriptors as a service manager does (FileDescriptorStoreMax=): what a program that runs with the same STORE
hands over, the next one gets.
"""

import array
import ctypes
import errno
import functools
import os
import platform
import re
import resource
import socket
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUTS, CLONE_FS = 0x00020000, 0x04000000, 0x200
NAMESPACES = {
    "cgroup": 0x02000000, "ipc": 0x08000000, "net": 0x40000000, "mnt": CLONE_NEWNS, "pid": 0x20000000, "user": 0x10000000,
    "uts": CLONE_NEWUTS, "time": 0x80,
}
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 8, 4096, 16384, 1 << 19
AT_RECURSIVE, MOUNT_ATTR_RDONLY, MOUNT_SETATTR = 0x8000, 1, 442
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17, "AF_XDP": 44}
CAPABILITIES = (
    "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST "
    "NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE "
    "SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM "
    "BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE"
).split()
# Known, and nothing to do here: how it is started and ended, and what the directory is.
ELSEWHERE = {
    "Type", "ExecStart", "ExecReload", "ExecStop", "Restart", "RuntimeDirectory", "RuntimeDirectoryMode", "RuntimeDirectoryPreserve",
    "FileDescriptorStoreMax", "NotifyAccess", "KeyringMode", "PrivateMounts", "SystemCallErrorNumber", "ReadWritePaths", "BindPaths",
    "StateDirectory", "StateDirectoryMode",
}
# Filters of a control group, which a service manager makes.
CONTROL_GROUPS = {"IPAddressDeny", "IPAddressAllow", "DeviceAllow"}


def checked(outcome, what):
    if outcome < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def read_unit(path):
    """The settings of [Service]: a list of values each. An empty value forgets those before it."""
    settings, section = {}, ""
    with open(path, encoding="utf-8") as unit:
        for line in unit.read().replace("\\\n", " ").splitlines():
            line = line.strip()
            if line.startswith("["):
                section = line
            elif line and line[0] not in "#;" and section == "[Service]":
                key, value = (part.strip() for part in line.split("=", 1))
                settings.setdefault(key, []).append(value)
                if not value:
                    settings[key] = []
    return settings


class Unit:
    def __init__(self, path, directory):
        self.settings, self.directory, self.less = read_unit(path), directory, []
        known = {name[4:] for name in dir(self) if name.startswith("set_")} | ELSEWHERE | CONTROL_GROUPS
        unknown = set(self.settings) - known
        if unknown:
            sys.exit(f"{path}: {', '.join(sorted(unknown))}: not known to {__file__}, so not tested; teach it, or take it out")

    def last(self, key, default=""):
        values = self.settings.get(key) or [default]
        return values[-1]

    def yes(self, key):
        return self.last(key) in ("yes", "true", "1", "on")

    def words(self, key):
        return " ".join(self.settings.get(key, [])).split()

    # Limits.

    def set_UMask(self):
        os.umask(int(self.last("UMask", "0022"), 8))

    def limit(self, kind, key):
        value = self.last(key)
        if value:
            number = resource.RLIM_INFINITY if value == "infinity" else int(value)
            try:
                resource.setrlimit(kind, (number, number))
            except ValueError:
                # In a container without CAP_SYS_RESOURCE.
                most = resource.getrlimit(kind)[1]
                resource.setrlimit(kind, (most, most))
                self.less.append(key)
                print(f"unit.py: {key}={value} can't be had here: {most}", file=sys.stderr)

    def set_LimitMEMLOCK(self):
        self.limit(resource.RLIMIT_MEMLOCK, "LimitMEMLOCK")

    def set_LimitNOFILE(self):
        self.limit(resource.RLIMIT_NOFILE, "LimitNOFILE")

    # Capabilities.

    def set_CapabilityBoundingSet(self):
        kept = {word.removeprefix("CAP_") for word in self.words("CapabilityBoundingSet")}
        assert kept <= set(CAPABILITIES), kept - set(CAPABILITIES)
        if self.yes("PrivateDevices"):
            kept -= {"MKNOD", "SYS_RAWIO"}
        if self.yes("ProtectClock"):
            kept -= {"SYS_TIME", "WAKE_ALARM"}
        if self.yes("ProtectKernelModules"):
            kept -= {"SYS_MODULE"}
        if self.yes("ProtectKernelLogs"):
            kept -= {"SYSLOG"}
        if "LimitMEMLOCK" in self.less:
            # What the limit would have let it lock.
            kept |= {"IPC_LOCK"}
        for number, name in enumerate(CAPABILITIES):
            if name not in kept:
                checked(LIBC.prctl(PR_CAPBSET_DROP, number, 0, 0, 0), f"drop {name}")

    def set_NoNewPrivileges(self):
        if self.yes("NoNewPrivileges"):
            checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


# Mounts.


def mount(source, target, kind=None, flags=0, data=None):
    encoded = [part.encode() if part else None for part in (source, target, kind)]
    checked(LIBC.mount(*encoded, ctypes.c_ulong(flags), data.encode() if data else None), f"mount {target}")


def bind(path, onto=None):
    mount(path, onto or path, None, MS_BIND | MS_REC)


def read_only(path, deep=True, on=True):
    """A mount, and with `deep` all below it."""
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY if on else 0, 0 if on else MOUNT_ATTR_RDONLY, 0, 0)
    flags = AT_RECURSIVE if deep else 0
    checked(LIBC.syscall(MOUNT_SETATTR, -100, path.encode(), flags, attributes, 32), f"protect {path}")


def mounts_below(root):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        places = [re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), line.split()[4]) for line in table]
    return sorted({place for place in places if place == root or place.startswith(root.rstrip("/") + "/")})


def locked(path):
    """As if it were not there."""
    if os.path.isdir(path):
        mount("none", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=000,size=4k,nr_inodes=2")
    elif os.path.exists(path):
        bind("/dev/null", path)


class Mounts(Unit):
    """A mount namespace of its own, from the outside in."""

    def set_ProtectSystem(self):
        assert self.last("ProtectSystem") == "strict", "only ProtectSystem=strict is known"
        self.writable = [self.directory]
        for path in self.words("ReadWritePaths"):
            if os.path.exists(path.removeprefix("-")):
                self.writable.append(path.removeprefix("-"))
            else:
                assert path.startswith("-"), f"{path} is not there"
        for path in self.writable:
            # A mount of its own, which stays as it is.
            bind(path)
        kept = tuple(place for path in self.writable for place in mounts_below(path))
        for place in mounts_below("/"):
            if place not in kept and not place.startswith(("/dev", "/proc", "/sys")):
                read_only(place, deep=False)

    def set_ProtectHome(self):
        if self.yes("ProtectHome"):
            for path in ("/home", "/root", "/run/user"):
                locked(path)

    def set_PrivateTmp(self):
        if self.yes("PrivateTmp"):
            for path in ("/tmp", "/var/tmp"):
                mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")

    def set_PrivateDevices(self):
        if not self.yes("PrivateDevices"):
            return
        new = "/dev/shm"  # replaced by what is made there
        mount("tmpfs", new, "tmpfs", MS_NOSUID, "mode=755")
        for name in ("null", "zero", "full", "random", "urandom", "tty"):
            open(f"{new}/{name}", "w").close()
            bind(f"/dev/{name}", f"{new}/{name}")
        for name in ("shm", "pts", "mqueue", "hugepages"):
            os.mkdir(f"{new}/{name}")
        mount("tmpfs", f"{new}/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
            os.symlink(target, f"{new}/{name}")
        for path in self.words("BindPaths"):
            path = path.removeprefix("-")
            assert path.startswith("/dev/"), "only devices are bound"
            if os.path.exists(path):
                inside = new + path.removeprefix("/dev")
                os.makedirs(os.path.dirname(inside), exist_ok=True)
                open(inside, "w").close()
                bind(path, inside)
        bind(new, "/dev")
        read_only("/dev", deep=False)

    def set_ProtectKernelModules(self):
        if self.yes("ProtectKernelModules"):
            locked("/usr/lib/modules")

    def set_ProtectProc(self):
        assert self.last("ProtectProc") == "invisible", "only ProtectProc=invisible is known"
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible")
        self.reopen("/proc")

    def set_ProtectKernelTunables(self):
        if not self.yes("ProtectKernelTunables"):
            return
        read_only("/sys")
        self.reopen("/sys")
        for name in ("sys", "acpi", "apm", "asound", "bus", "fs", "irq", "latency_stats", "mtrr", "scsi", "sysrq-trigger", "timer_stats"):
            if os.path.exists(f"/proc/{name}"):
                bind(f"/proc/{name}")
                read_only(f"/proc/{name}")
        for name in ("kallsyms", "kcore"):
            locked(f"/proc/{name}")
        self.reopen("/proc/sys")

    def reopen(self, below):
        for path in self.writable:
            if path.startswith(below + "/"):
                bind(path)
                read_only(path, on=False)

    def set_ProtectControlGroups(self):
        if self.yes("ProtectControlGroups") and os.path.isdir("/sys/fs/cgroup"):
            read_only("/sys/fs/cgroup")

    def mount_all(self):
        checked(LIBC.unshare(CLONE_NEWNS | CLONE_FS), "a mount namespace")
        mount(None, "/", None, MS_REC | MS_SLAVE)
        # systemd mounts it when the machine starts (src/shared/mount-setup.c); where it isn't the first process, nobody has.
        if not any(line.split()[1:3] == ["/sys/fs/bpf", "bpf"] for line in open("/proc/self/mounts", encoding="utf-8")):
            mount("bpf", "/sys/fs/bpf", "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=700")
        os.chdir("/")
        for name in ("ProtectSystem", "ProtectHome", "PrivateDevices", "ProtectKernelModules", "ProtectProc",
                     "ProtectKernelTunables", "ProtectControlGroups", "PrivateTmp"):
            if self.words(name):
                getattr(self, f"set_{name}")()


# System calls.


class Compare(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("how", ctypes.c_int), ("one", ctypes.c_uint64), ("other", ctypes.c_uint64)]


LESS, EQUAL, GREATER, MASKED = 2, 4, 6, 7
ALLOW, REFUSE, NO_NEW_PRIVS = 0x7FFF0000, 0x00050000, 3


class Filter:
    """One seccomp filter, as libseccomp makes it."""

    @functools.cached_property
    def library(self):
        try:
            library = ctypes.CDLL("libseccomp.so.2")
        except OSError:
            sys.exit("libseccomp.so.2 is not there: apt-get install libseccomp2")
        library.seccomp_init.restype = ctypes.c_void_p
        return library

    def __init__(self, otherwise=ALLOW):
        self.context = ctypes.c_void_p(self.library.seccomp_init(ctypes.c_uint32(otherwise)))
        assert self.context.value, "seccomp_init"
        # Whether that is set is the unit's affair.
        self.library.seccomp_attr_set(self.context, NO_NEW_PRIVS, 0)

    def rule(self, action, call, *compare):
        number = self.library.seccomp_syscall_resolve_name(call.encode())
        if number < 0:
            return False  # not on this machine
        arguments = (Compare * len(compare))(*[Compare(*one) for one in compare])
        outcome = self.library.seccomp_rule_add_exact_array(self.context, ctypes.c_uint32(action), number, len(compare), arguments)
        assert outcome in (0, -errno.EEXIST, -errno.EACCES), f"{call}: {os.strerror(-outcome)}"
        return True

    def load(self):
        outcome = self.library.seccomp_load(self.context)
        assert outcome == 0, f"seccomp: {os.strerror(-outcome)}"


@functools.cache
def groups():
    """What systemd calls which system calls: all of its groups, asked for once."""
    text = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    all_, name = {}, ""
    for line in text.splitlines():
        word = line.strip()
        if word.startswith("@") and not line.startswith(" "):
            name = word
            all_[name] = set()
        elif word and not word.startswith("#"):
            all_[name].add(word)
    return all_


@functools.cache
def group(name):
    return {call for word in groups()[name] for call in (group(word) if word.startswith("@") else {word})}


def expanded(words):
    return {call for word in words for call in (group(word) if word.startswith("@") else {word})}


class Calls(Mounts):
    def set_SystemCallFilter(self):
        lines = self.settings["SystemCallFilter"]
        assert not lines[0].startswith("~"), "the first line must be what is allowed"
        allowed = group("@default")
        for line in lines:
            calls = expanded(line.removeprefix("~").split())
            allowed = allowed - calls if line.startswith("~") else allowed | calls
        number = self.last("SystemCallErrorNumber")
        assert number, "SystemCallErrorNumber= is not set: a call that was forgotten would kill"
        filter_ = Filter(REFUSE | getattr(errno, number))
        for call in sorted(allowed):
            filter_.rule(ALLOW, call)
        filter_.load()

    def set_SystemCallArchitectures(self):
        # libseccomp's filters kill what comes by another architecture's table.
        assert self.last("SystemCallArchitectures") == "native"

    def set_RestrictAddressFamilies(self):
        allowed = {FAMILIES[word] for word in self.words("RestrictAddressFamilies")}
        filter_, refuse = Filter(), REFUSE | errno.EAFNOSUPPORT
        filter_.rule(refuse, "socket", (0, LESS, min(allowed), 0))
        filter_.rule(refuse, "socket", (0, GREATER, max(allowed), 0))
        for family in set(range(min(allowed), max(allowed))) - allowed:
            filter_.rule(refuse, "socket", (0, EQUAL, family, 0))
        filter_.load()

    def set_RestrictNamespaces(self):
        allowed = set(self.words("RestrictNamespaces"))
        assert allowed and allowed < set(NAMESPACES), "only a list of those that are allowed is known"
        filter_, refuse = Filter(), REFUSE | errno.EPERM
        # Its flags are in memory, where no filter looks; the C library uses `clone` then.
        filter_.rule(REFUSE | errno.ENOSYS, "clone3")
        filter_.rule(refuse, "setns", (1, EQUAL, 0, 0))
        for flag in (flag for name, flag in NAMESPACES.items() if name not in allowed and name != "time"):
            filter_.rule(refuse, "unshare", (0, MASKED, flag, flag))
            filter_.rule(refuse, "clone", (0, MASKED, flag, flag))
            filter_.rule(refuse, "setns", (1, MASKED, flag, flag))
        filter_.load()

    def set_MemoryDenyWriteExecute(self):
        if not self.yes("MemoryDenyWriteExecute"):
            return
        filter_, refuse = Filter(), REFUSE | errno.EPERM
        filter_.rule(refuse, "mmap", (2, MASKED, 6, 6))
        filter_.rule(refuse, "mprotect", (2, MASKED, 4, 4))
        filter_.rule(refuse, "pkey_mprotect", (2, MASKED, 4, 4))
        filter_.rule(refuse, "shmat", (2, MASKED, 0o100000, 0o100000))
        filter_.load()

    def set_RestrictRealtime(self):
        if self.yes("RestrictRealtime"):
            filter_ = Filter()
            for policy in (1, 2, 6):
                filter_.rule(REFUSE | errno.EPERM, "sched_setscheduler", (1, EQUAL, policy, 0))
            filter_.rule(REFUSE | errno.EPERM, "sched_setscheduler", (1, GREATER, 6, 0))
            filter_.load()

    def set_RestrictSUIDSGID(self):
        if not self.yes("RestrictSUIDSGID"):
            return
        filter_, refuse = Filter(), REFUSE | errno.EPERM
        places = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2, "creat": 1,
                  "open": 2, "openat": 3}
        for bit in (0o4000, 0o2000):
            for call, place in places.items():
                filter_.rule(refuse, call, (place, MASKED, bit, bit))
        filter_.rule(REFUSE | errno.ENOSYS, "openat2")
        filter_.load()

    def set_LockPersonality(self):
        if self.yes("LockPersonality"):
            filter_ = Filter()
            filter_.rule(REFUSE | errno.EPERM, "personality", (0, GREATER, 0, 0))
            filter_.load()

    def refuse_all(self, calls):
        filter_ = Filter()
        for call in calls:
            filter_.rule(REFUSE | errno.EPERM, call)
        filter_.load()

    def set_ProtectHostname(self):
        if self.yes("ProtectHostname"):
            self.refuse_all(["sethostname", "setdomainname"])

    def set_ProtectClock(self):
        if self.yes("ProtectClock"):
            self.refuse_all(sorted(group("@clock")))

    def set_ProtectKernelLogs(self):
        if self.yes("ProtectKernelLogs"):
            self.refuse_all(["syslog"])

    def apply(self):
        """All of it, in systemd's order. What filters need of the machine is asked for first."""
        groups()
        for name in ("LimitMEMLOCK", "LimitNOFILE", "UMask"):
            getattr(self, f"set_{name}")()
        self.mount_all()
        if self.yes("ProtectHostname"):
            checked(LIBC.unshare(CLONE_NEWUTS), "a namespace of names")
        if self.yes("ProtectKernelLogs"):
            locked("/proc/kmsg")
            locked("/dev/kmsg")
        self.set_CapabilityBoundingSet()
        self.set_NoNewPrivileges()
        for name in ("RestrictAddressFamilies", "MemoryDenyWriteExecute", "RestrictRealtime", "RestrictSUIDSGID",
                     "RestrictNamespaces", "ProtectClock", "ProtectKernelLogs", "ProtectHostname", "LockPersonality",
                     "SystemCallArchitectures", "SystemCallFilter"):
            if self.words(name):
                getattr(self, f"set_{name}")()


# Descriptors that outlive the program.


def store(path):
    """For as long as standard input is open."""
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(path)
    asks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asks.bind(path + ".ask")
    asks.listen(8)
    for name in (path, path + ".ask"):
        os.chmod(name, 0o600)
    kept = {}
    import select

    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([notices, asks, 0], [], [])
        if 0 in ready:
            return
        # What was handed over before is there for who asks.
        while select.select([notices], [], [], 0)[0]:
            text, descriptors, _, _ = socket.recv_fds(notices, 4096, 16)
            words = dict(line.split("=", 1) for line in text.decode().splitlines())
            name = words.get("FDNAME", "stored")
            if "FDSTOREREMOVE" in words:
                for descriptor in kept.pop(name, []):
                    os.close(descriptor)
            if "FDSTORE" in words:
                kept.setdefault(name, []).extend(descriptors)
        if asks in ready:
            asker, _ = asks.accept()
            descriptors = [descriptor for held in kept.values() for descriptor in held][:16]
            names = ":".join(name for name, held in kept.items() for _ in held)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            asker.sendmsg([f"names={names}".encode()], rights)
            asker.close()


def given_back(path):
    """As LISTEN_FDS says: from 3 on."""
    asker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asker.connect(path + ".ask")
    text, descriptors, _, _ = socket.recv_fds(asker, 4096, 16)
    asker.close()
    # Out of the way of where they are to be.
    high = [os.dup2(descriptor, 500 + place) for place, descriptor in enumerate(descriptors)]
    for place, descriptor in enumerate(high):
        os.dup2(descriptor, 3 + place)
        os.close(descriptor)
    os.environ["NOTIFY_SOCKET"] = path
    if high:
        os.environ.update(LISTEN_FDS=str(len(high)), LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES=text.decode()[6:])


def main():
    if sys.argv[1] == "store":
        store(sys.argv[2])
        return
    end = sys.argv.index("--")
    path, directory, *rest = sys.argv[2:end]
    program = sys.argv[end + 1 :]
    unit = Calls(path, os.path.realpath(directory))
    if rest:
        given_back(rest[0])
    # It may lie where the unit sees nothing.
    file = os.open(program[0], os.O_RDONLY)
    executable = 400
    os.dup2(file, executable, inheritable=False)
    if platform.machine() != "x86_64":
        print(f"{__file__}: not tried on {platform.machine()}", file=sys.stderr)
    unit.apply()
    os.execve(executable, program, os.environ)


main()
