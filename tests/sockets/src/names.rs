//! Numbers as the names they have in headers.

const ERRNOS: [(i32, &str); 50] = [
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::ESRCH, "ESRCH"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::ENXIO, "ENXIO"),
    (libc::EBADF, "EBADF"),
    (libc::ECHILD, "ECHILD"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::ENODEV, "ENODEV"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENFILE, "ENFILE"),
    (libc::EMFILE, "EMFILE"),
    (libc::ENOTTY, "ENOTTY"),
    (libc::ESPIPE, "ESPIPE"),
    (libc::EPIPE, "EPIPE"),
    (libc::EDOM, "EDOM"),
    (libc::ERANGE, "ERANGE"),
    (libc::ELOOP, "ELOOP"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::EPROTO, "EPROTO"),
    (libc::EOVERFLOW, "EOVERFLOW"),
    (libc::ENOTSOCK, "ENOTSOCK"),
    (libc::EDESTADDRREQ, "EDESTADDRREQ"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::EPROTOTYPE, "EPROTOTYPE"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::EPROTONOSUPPORT, "EPROTONOSUPPORT"),
    (libc::ESOCKTNOSUPPORT, "ESOCKTNOSUPPORT"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EAFNOSUPPORT, "EAFNOSUPPORT"),
    (libc::EADDRINUSE, "EADDRINUSE"),
    (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ECONNABORTED, "ECONNABORTED"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::ENOBUFS, "ENOBUFS"),
    (libc::EISCONN, "EISCONN"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    (libc::EALREADY, "EALREADY"),
    (libc::EINPROGRESS, "EINPROGRESS"),
    (libc::ENODATA, "ENODATA"),
];

/// The name of an errno; 0 is `none`.
pub fn errno(number: i32) -> &'static str {
    if number == 0 {
        return "none";
    }
    ERRNOS.iter().find(|(known, _)| *known == number).map_or("another errno", |(_, name)| name)
}

fn joined(value: u32, known: &[(i32, &str)]) -> String {
    let mut rest = value;
    let mut words = Vec::new();
    for (bit, name) in known {
        let bit = bit.cast_unsigned();
        if value & bit == bit {
            words.push((*name).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 {
        words.push(format!("{rest:#x}"));
    }
    if words.is_empty() { "-".to_owned() } else { words.join("|") }
}

/// The events of `poll`; those of `epoll` have the same values.
pub fn events(value: u32) -> String {
    joined(
        value,
        &[
            (1, "IN"),
            (2, "PRI"),
            (4, "OUT"),
            (8, "ERR"),
            (0x10, "HUP"),
            (0x20, "NVAL"),
            (0x40, "RDNORM"),
            (0x80, "RDBAND"),
            (0x100, "WRNORM"),
            (0x200, "WRBAND"),
            (0x2000, "RDHUP"),
        ],
    )
}

/// The flags of a received message.
pub fn message_flags(value: i32) -> String {
    joined(
        value.cast_unsigned(),
        &[
            (libc::MSG_OOB, "OOB"),
            (libc::MSG_TRUNC, "TRUNC"),
            (libc::MSG_CTRUNC, "CTRUNC"),
            (libc::MSG_ERRQUEUE, "ERRQUEUE"),
            (libc::MSG_EOR, "EOR"),
            (libc::MSG_CMSG_CLOEXEC, "CLOEXEC"),
        ],
    )
}

/// The status flags of a descriptor (`F_GETFL`).
pub fn status_flags(value: i64) -> String {
    let value = u32::try_from(value).unwrap_or(0);
    let access = ["RDONLY", "WRONLY", "RDWR", "?"][(value & 3) as usize];
    let rest = value & !3;
    let known = [(libc::O_NONBLOCK, "NONBLOCK"), (libc::O_APPEND, "APPEND"), (libc::O_ASYNC, "ASYNC")];
    if rest == 0 { access.to_owned() } else { format!("{access}|{}", joined(rest, &known)) }
}

/// The state of a TCP connection, from the first byte of `TCP_INFO`.
pub fn tcp_state(value: u8) -> &'static str {
    const STATES: [&str; 13] = [
        "none",
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE",
        "CLOSE_WAIT",
        "LAST_ACK",
        "LISTEN",
        "CLOSING",
        "NEW_SYN_RECV",
    ];
    STATES.get(usize::from(value)).copied().unwrap_or("?")
}
