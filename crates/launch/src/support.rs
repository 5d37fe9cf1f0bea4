//! What of the sockets API is supported, call by call: the library goes by this table, `qanat run --support` prints it, and a
//! test holds the exported functions and `docs/posix.md` against it.

use Support::{Answered, Kernels, NoEffect, NotCarried, Refused, Supported};
use libc::c_int;
use std::fmt;

/// How a call, an option or a flag fares on a socket of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// As on Linux.
    Supported,
    /// Of an option: it can't be set, and what is asked for comes from the stack.
    Answered,
    /// The kernel's socket of the same number keeps it and answers; nothing of ours depends on it.
    Kernels,
    /// Accepted and kept as on Linux, but nothing comes of it. `--explain` tells of options.
    NoEffect,
    /// Fails with this.
    Refused(c_int),
    /// The kernel's socket of the same number, which is connected to nothing, is what arrives.
    NotCarried,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Supported => f.write_str("supported"),
            Answered => f.write_str("answered by the stack"),
            Kernels => f.write_str("passed through"),
            NoEffect => f.write_str("kept, without effect"),
            Refused(errno) => write!(f, "refused: `{}`", errno_name(*errno)),
            NotCarried => f.write_str("not carried over"),
        }
    }
}

fn errno_name(errno: c_int) -> &'static str {
    match errno {
        libc::EINVAL => "EINVAL",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EMSGSIZE => "EMSGSIZE",
        _ => "another",
    }
}

/// Functions that the library puts before the C library's.
pub const CALLS: &[(&[&str], Support, &str)] = &[
    (&["socket"], Supported, "it becomes ours when it is bound or connected"),
    (&["bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername"], Supported, ""),
    (&["shutdown", "close", "close_range", "closefrom"], Supported, "`close_range` with flags is the kernel's alone"),
    (
        &["read", "readv", "recv", "recvfrom", "recvmsg", "recvmmsg"],
        Supported,
        "a buffer at a low address (null) is `EFAULT`, another that is none ends the program",
    ),
    (
        &["__read_chk", "__recv_chk", "__recvfrom_chk", "__poll_chk", "__ppoll_chk"],
        Supported,
        "what programs built with `_FORTIFY_SOURCE` call",
    ),
    (
        &["write", "writev", "send", "sendto", "sendmsg", "sendmmsg"],
        Supported,
        "a datagram longer than the MTU leaves in fragments",
    ),
    (&["sendfile", "sendfile64"], Supported, "by reading the file"),
    (&["splice"], Supported, "between a stream and a pipe, by copying"),
    (&["poll", "ppoll", "select", "pselect"], Supported, "descriptors of the kernel mixed in"),
    (
        &["epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2"],
        Supported,
        "descriptors of the kernel mixed in; as long as ours are ready, those that begin to be may be told with the eighth wait",
    ),
    (
        &["dup", "dup2", "dup3", "fcntl", "fcntl64"],
        Supported,
        "`F_DUPFD`, `F_DUPFD_CLOEXEC`, `F_GETFL`, `F_SETFL`; others are passed through; `F_SETOWN` brings `SIGURG`, `O_ASYNC` no signals",
    ),
    (
        &["ioctl"],
        Supported,
        "`FIONBIO`, `FIONREAD`, `SIOCOUTQ`, `SIOCATMARK`; of interfaces `SIOCGIFCONF`, `SIOCGIFADDR` and their like; others are passed \
         through",
    ),
    (
        &["getifaddrs", "freeifaddrs", "if_nameindex", "if_nametoindex", "if_indextoname"],
        Supported,
        "the card is the interface `qanat-card`, also in lists of links, addresses and routes by netlink",
    ),
    (&["getsockopt", "setsockopt"], Supported, "see the options"),
    (&["fork", "vfork", "daemon"], Supported, "the child has the same sockets"),
    (&["_exit", "_Exit"], Supported, "no other thread of the process is cut off within the stack"),
    (&["fdopen", "dprintf", "vdprintf", "__dprintf_chk", "__vdprintf_chk"], Supported, ""),
    (
        &["execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve"],
        Supported,
        "the new program has the sockets it inherits; a connection that is its standard input, output or error goes on as a Unix \
         socket, which a process pumps, and so does each connection to a program that is linked statically",
    ),
    (
        &[
            "posix_spawn",
            "posix_spawnp",
            "posix_spawn_file_actions_init",
            "posix_spawn_file_actions_addclose",
            "posix_spawn_file_actions_addopen",
            "posix_spawn_file_actions_addclosefrom_np",
            "posix_spawn_file_actions_destroy",
        ],
        Supported,
        "the new program has the sockets it inherits, unless it is linked statically or closes all descriptors from one on",
    ),
    (
        &["posix_spawn_file_actions_adddup2"],
        Supported,
        "a connection goes on as a Unix socket, which a process pumps; listeners and datagram sockets are not carried over",
    ),
    (
        &["syscall"],
        Supported,
        "`close`, `sendmmsg`, `recvmmsg`, and those that give up rights; `io_uring_setup` is refused (`ENOSYS`), so that libuv goes by `epoll`; others are passed through",
    ),
    (
        &["io_uring_queue_init", "io_uring_queue_init_params"],
        Supported,
        "refused (`ENOSYS`), so that programs with liburing go by `epoll` or say why not",
    ),
    (
        &[
            "setuid",
            "setgid",
            "seteuid",
            "setegid",
            "setreuid",
            "setregid",
            "setresuid",
            "setresgid",
            "setgroups",
            "initgroups",
            "capset",
            "chroot",
            "unshare",
            "setns",
            "prctl",
            "clone",
        ],
        Supported,
        "who gives up rights takes the card along or leaves it to the others: see «Privileges»",
    ),
    (&["sigaction", "signal", "siginterrupt"], Supported, "a wait goes on behind a handler that says `SA_RESTART`"),
];

/// Calls that the library does not stand before.
pub const OTHERS: &[(&str, Support, &str)] = &[
    ("`socketpair`, `epoll_create`", Kernels, ""),
    (
        "SCM_RIGHTS over a Unix socket",
        Supported,
        "to processes at the same card; a connection to another one goes on as a Unix socket, which a process pumps",
    ),
    ("what a program started by `system` or `popen` inherits", NotCarried, ""),
    ("`io_uring`, `aio_read`, `preadv`, `pwritev`, `vmsplice`, `tee`, system calls made directly", NotCarried, ""),
    (
        "what the C library's own `stdin`, `stdout` and `stderr` read and write of a connection that `dup2` has put there",
        NotCarried,
        "`read`, `send` and their like are; bash's `/dev/tcp` is not",
    ),
];

/// Flags of receiving and sending.
pub const FLAGS: &[(&str, Support, &str)] = &[
    (
        "`MSG_PEEK`, `MSG_WAITALL`, `MSG_DONTWAIT`, `MSG_TRUNC`, `MSG_NOSIGNAL`, `MSG_CMSG_CLOEXEC`, `MSG_WAITFORONE`",
        Supported,
        "",
    ),
    ("`MSG_ERRQUEUE`", Supported, "ICMP's errors of datagrams"),
    ("`MSG_OOB`", Supported, "of streams"),
    ("`MSG_MORE`", Supported, ""),
    ("`MSG_EOR`", Supported, "of a stream: no segment goes on behind it"),
    ("`MSG_FASTOPEN`", Supported, "of a stream"),
    ("`MSG_ZEROCOPY`, `MSG_CONFIRM`, `MSG_DONTROUTE`", NoEffect, ""),
    ("`EPOLLET`, `EPOLLONESHOT`, `EPOLLEXCLUSIVE`, `EPOLLRDHUP`, `EPOLLPRI`, `POLLPRI`", Supported, ""),
    ("`EPOLLWAKEUP`", NoEffect, ""),
];

/// Control messages, of datagrams unless said otherwise.
pub const MESSAGES: &[(&str, Support, &str)] = &[
    ("received: `SCM_TIMESTAMP`, `SCM_TIMESTAMPNS`", Supported, "of streams too; the time it is read at"),
    ("received: `IP_PKTINFO`, `IPV6_PKTINFO`", Supported, "with the card's number among interfaces"),
    (
        "received: `IP_TTL`, `IP_TOS`, `IP_ORIGDSTADDR`, `IPV6_HOPLIMIT`, `IPV6_TCLASS`, `IPV6_ORIGDSTADDR`",
        Supported,
        "of one that came in fragments: 64, 0, the card's address",
    ),
    ("received: `IP_RECVERR`, `IPV6_RECVERR`", Supported, ""),
    ("received: `TCP_CM_INQ`", Supported, "of streams"),
    (
        "sent: `IP_PKTINFO`, `IPV6_PKTINFO`",
        Supported,
        "a foreign source is refused; of several own ones the stack chooses",
    ),
    ("sent: `UDP_SEGMENT`, `IPV6_DONTFRAG`", Supported, ""),
    ("sent: `IP_TTL`, `IP_TOS`, `IPV6_HOPLIMIT`, `IPV6_TCLASS`, `SCM_TXTIME`, `SO_MARK`, `SO_PRIORITY`", NoEffect, ""),
    ("sent: others of these levels", Refused(libc::EINVAL), ""),
];

/// An option: its level, number and name, and how it fares.
pub struct Row {
    /// As `setsockopt` is given it.
    pub level: c_int,
    /// Its number at that level.
    pub option: c_int,
    /// What the C library calls the level and the option.
    pub names: (&'static str, &'static str),
    /// How it fares.
    pub support: Support,
    /// What else there is to say; may be empty.
    pub note: &'static str,
}

macro_rules! options {
    ($($level:ident { $($option:ident $support:expr, $note:literal;)* })*) => {
        /// Options of sockets; of one that is not among them the kernel's answer stands, and nothing else comes of it.
        pub const OPTIONS: &[Row] = &[$($(Row {
            level: libc::$level,
            option: numbers::$option,
            names: (stringify!($level), stringify!($option)),
            support: $support,
            note: $note,
        },)*)*];
    };
}

/// Linux' number that the `libc` crate lacks: what is sent at once is several datagrams.
pub const UDP_SEGMENT: c_int = 103;
/// Linux' number that the `libc` crate lacks: what is sent is joined into one datagram.
pub const UDP_CORK: c_int = 1;
/// Linux' number that the `libc` crate lacks: how much may be unsent.
pub const TCP_NOTSENT_LOWAT: c_int = 25;

/// Linux' numbers: those the `libc` crate has, and those it lacks.
mod numbers {
    use super::c_int;
    pub use libc::*;
    pub const SO_DETACH_REUSEPORT_BPF: c_int = 68;
    pub const TCP_NOTSENT_LOWAT: c_int = super::TCP_NOTSENT_LOWAT;
    pub const UDP_CORK: c_int = super::UDP_CORK;
    pub const UDP_SEGMENT: c_int = super::UDP_SEGMENT;
    pub const UDP_GRO: c_int = 104;
}

options! {
    SOL_SOCKET {
        SO_RCVTIMEO Supported, "";
        SO_SNDTIMEO Supported, "";
        SO_LINGER Supported, "";
        SO_KEEPALIVE Supported, "";
        SO_REUSEADDR Supported, "";
        SO_REUSEPORT Supported, "";
        SO_BROADCAST Supported, "";
        SO_RCVLOWAT Supported, "";
        SO_SNDBUF Supported, "bytes given and not acknowledged, if set; else 1 MiB";
        SO_RCVBUF Supported, "bounds a stream's window and its scale, and a datagram socket's queue, if set";
        SO_TIMESTAMP Supported, "";
        SO_TIMESTAMPNS Supported, "";
        SO_ERROR Answered, "";
        SO_ACCEPTCONN Answered, "";
        SO_TYPE Kernels, "";
        SO_DOMAIN Kernels, "";
        SO_PROTOCOL Kernels, "";
        SO_PEERCRED Kernels, "";
        SO_COOKIE Kernels, "";
        SO_OOBINLINE Supported, "";
        SO_PRIORITY NoEffect, "";
        SO_MARK NoEffect, "";
        SO_BINDTODEVICE NoEffect, "";
        SO_DONTROUTE NoEffect, "";
        SO_DEBUG NoEffect, "";
        SO_NO_CHECK NoEffect, "";
        SO_ZEROCOPY Refused(libc::ENOPROTOOPT), "";
        SO_BUSY_POLL NoEffect, "";
        SO_INCOMING_CPU NoEffect, "";
        SO_MAX_PACING_RATE NoEffect, "";
        SO_SNDBUFFORCE NoEffect, "";
        SO_RCVBUFFORCE NoEffect, "";
        SO_RXQ_OVFL NoEffect, "";
        SO_TXTIME NoEffect, "";
        SO_TIMESTAMPING Refused(libc::ENOPROTOOPT), "";
        SO_PEEK_OFF Refused(libc::ENOPROTOOPT), "";
        SO_ATTACH_FILTER Refused(libc::ENOPROTOOPT), "";
        SO_ATTACH_BPF Refused(libc::ENOPROTOOPT), "";
        SO_ATTACH_REUSEPORT_CBPF Refused(libc::ENOPROTOOPT), "";
        SO_ATTACH_REUSEPORT_EBPF Refused(libc::ENOPROTOOPT), "";
        SO_DETACH_REUSEPORT_BPF Refused(libc::ENOPROTOOPT), "";
    }
    IPPROTO_TCP {
        TCP_NODELAY Supported, "";
        TCP_CORK Supported, "";
        TCP_KEEPIDLE Supported, "";
        TCP_KEEPINTVL Supported, "";
        TCP_KEEPCNT Supported, "";
        TCP_USER_TIMEOUT Supported, "";
        TCP_DEFER_ACCEPT Supported, "until there are data or the end, whatever time is said";
        TCP_INQ Supported, "";
        TCP_INFO Answered, "the state, times and windows the stack has";
        TCP_MAXSEG Supported, "before there is a connection; 536 is as good as not set";
        TCP_QUICKACK NoEffect, "";
        TCP_SYNCNT Supported, "";
        TCP_LINGER2 NoEffect, "";
        TCP_WINDOW_CLAMP NoEffect, "";
        TCP_CONGESTION Supported, "`cubic`, `reno` and `bbr`, if the kernel has them, too";
        TCP_FASTOPEN Supported, "";
        TCP_FASTOPEN_CONNECT Supported, "";
        TCP_FASTOPEN_KEY Supported, "";
        TCP_FASTOPEN_NO_COOKIE Supported, "";
        TCP_NOTSENT_LOWAT Supported, "";
        TCP_SAVE_SYN NoEffect, "";
        TCP_THIN_LINEAR_TIMEOUTS NoEffect, "";
        TCP_MD5SIG Refused(libc::ENOPROTOOPT), "";
        TCP_ULP Refused(libc::ENOPROTOOPT), "no TLS in the kernel: libraries do it themselves";
        TCP_REPAIR Refused(libc::ENOPROTOOPT), "";
    }
    IPPROTO_UDP {
        UDP_SEGMENT Supported, "";
        UDP_GRO Kernels, "nothing is ever joined";
        UDP_CORK Supported, "";
    }
    IPPROTO_IP {
        IP_PKTINFO Supported, "";
        IP_RECVTTL Supported, "";
        IP_RECVTOS Supported, "";
        IP_RECVORIGDSTADDR Supported, "";
        IP_RECVERR Supported, "of datagrams";
        IP_MTU_DISCOVER Supported, "of datagrams";
        IP_MTU Answered, "";
        IP_TTL NoEffect, "64";
        IP_TOS NoEffect, "";
        IP_FREEBIND NoEffect, "";
        IP_TRANSPARENT NoEffect, "";
        IP_BIND_ADDRESS_NO_PORT NoEffect, "";
        IP_MULTICAST_IF Kernels, "groups are the kernel's, on its own devices";
        IP_MULTICAST_TTL Kernels, "";
        IP_MULTICAST_LOOP Kernels, "";
        IP_ADD_MEMBERSHIP Kernels, "";
        IP_DROP_MEMBERSHIP Kernels, "";
        IP_OPTIONS Refused(libc::ENOPROTOOPT), "";
    }
    IPPROTO_IPV6 {
        IPV6_V6ONLY Supported, "";
        IPV6_RECVPKTINFO Supported, "";
        IPV6_RECVHOPLIMIT Supported, "";
        IPV6_RECVTCLASS Supported, "";
        IPV6_RECVORIGDSTADDR Supported, "";
        IPV6_RECVERR Supported, "of datagrams";
        IPV6_MTU_DISCOVER Supported, "of datagrams";
        IPV6_DONTFRAG Supported, "of datagrams";
        IPV6_MTU Answered, "";
        IPV6_UNICAST_HOPS NoEffect, "64";
        IPV6_TCLASS NoEffect, "";
        IPV6_MULTICAST_IF Kernels, "groups are the kernel's, on its own devices";
        IPV6_MULTICAST_HOPS Kernels, "";
        IPV6_MULTICAST_LOOP Kernels, "";
        IPV6_ADD_MEMBERSHIP Kernels, "";
        IPV6_DROP_MEMBERSHIP Kernels, "";
        IPV6_RTHDR Refused(libc::ENOPROTOOPT), "";
        IPV6_HOPOPTS Refused(libc::ENOPROTOOPT), "";
    }
}
