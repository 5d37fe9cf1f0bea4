//! The system calls that are left to a process which has given up the others, by what it is.
//!
//! A call that is not needed fails; it does not kill, so that nothing found late takes the network away.

use crate::confine::error::ConfineError;
use qanat_nic::vfio::MEMORY_CALLS;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;

/// Those of a net core's loop; of `bpf` only what works on descriptors it has; `mmap` never executable.
pub(super) fn only_net_cores() -> Result<(), ConfineError> {
    apply(filter(&[], &PRCTL, &[], false))
}

/// Those of a disk core's loop: its ring, memory that it is given, sockets that it has. `mmap` never executable. `has_function`: its disk
/// is a function that it drives, for which it maps memory, and which it stops.
pub(super) fn only_disk_cores(has_function: bool) -> Result<(), ConfineError> {
    apply(disk_cores_filter(has_function))
}

fn disk_cores_filter(has_function: bool) -> Result<BpfProgram, BackendError> {
    let is = |argument, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = DISK_CORES_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let fcntl = [libc::F_GET_SEALS, libc::F_DUPFD_CLOEXEC, libc::F_GETFL, libc::F_GETFD];
    let fcntl: Result<Vec<_>, _> =
        fcntl.iter().map(|command| SeccompRule::new(vec![is(1, *command as u64)?])).collect();
    rules.insert(libc::SYS_fcntl, fcntl?);
    if has_function {
        let memory: Result<Vec<_>, _> = MEMORY_CALLS.iter().map(|call| SeccompRule::new(vec![is(1, *call)?])).collect();
        rules.insert(libc::SYS_ioctl, memory?);
        // The function's configuration: whether it may reach memory.
        rules.insert(libc::SYS_pread64, Vec::new());
        rules.insert(libc::SYS_pwrite64, Vec::new());
    }
    let death = SeccompRule::new(vec![is(0, libc::PR_SET_PDEATHSIG as u64)?])?;
    rules.insert(libc::SYS_prctl, vec![death]);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        let never = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        let condition = SeccompCondition::new(2, SeccompCmpArgLen::Dword, never, 0)?;
        rules.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// What a disk core calls, by any arguments.
const DISK_CORES_CALLS: &[i64] = &[
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_ppoll,
    // Its disk's doorbell; what it says on standard error.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_fstat,
    // How large a memory file is, by its descriptor: no file can be reached by its name.
    libc::SYS_statx,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Those of an export's keeper: mounts and threads. It opens and executes nothing, and makes no process.
pub(super) fn only_export_keepers() -> Result<(), ConfineError> {
    // As for services.
    apply(without_clone3())?;
    apply(export_keepers_filter())
}

fn export_keepers_filter() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        EXPORT_KEEPERS_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let masked = |mask: i32| SeccompCmpOp::MaskedEq(mask as u64);
    let when = |argument, compared, value: i32| {
        SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compared, value as u64)?])
    };
    let is_thread = when(0, masked(libc::CLONE_THREAD | NAMESPACES), libc::CLONE_THREAD)?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    rules.insert(libc::SYS_prctl, vec![when(0, SeccompCmpOp::Eq, libc::PR_SET_NAME)?]);
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![when(2, masked(libc::PROT_EXEC), 0)?]);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// What an export's keeper calls, by any arguments.
const EXPORT_KEEPERS_CALLS: &[i64] = &[
    libc::SYS_move_mount,
    libc::SYS_umount2,
    libc::SYS_statfs,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_ppoll,
    libc::SYS_write,
    libc::SYS_close,
    libc::SYS_unlinkat,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
];

/// Those of a process that keeps a stack for others.
pub(super) fn only_keepers() -> Result<(), ConfineError> {
    // Urgent data is told of by a signal; 0 asks whether there is such a process.
    apply(filter(
        &[PROCESSES_CALLS, KEEPERS_CALLS].concat(),
        &[libc::PR_SET_PDEATHSIG, libc::PR_SET_NAME],
        &[0, libc::SIGURG as u64],
        false,
    ))
}

/// Those of a service: a net core's, files, and threads. Sockets are pairs of Unix sockets; with `connects` they may be connected. `dials`:
/// there may be sockets of TCP, too, which its ring connects.
pub(super) fn only_services(connects: bool, dials: bool) -> Result<(), ConfineError> {
    let connects: &[i64] = if connects { &[libc::SYS_connect] } else { &[] };
    let more = [PROCESSES_CALLS, SERVICES_CALLS, connects].concat();
    // First, since the second one allows no more filters.
    apply(without_clone3())?;
    apply(filter(&more, &[libc::PR_SET_NAME], &[], dials))
}

fn apply(filter: Result<BpfProgram, BackendError>) -> Result<(), ConfineError> {
    Ok(seccompiler::apply_filter(&filter?)?)
}

/// `clone3` isn't there. The C library then starts threads by `clone`, whose flags a filter can see.
fn without_clone3() -> Result<BpfProgram, BackendError> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, missing, std::env::consts::ARCH.try_into()?)?.try_into()
}

/// What keepers and services both call beside a net core's.
const PROCESSES_CALLS: &[i64] = &[
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_shutdown,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_socketpair,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_close_range,
    libc::SYS_eventfd2,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_clone,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getppid,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// What keepers call as well. `clone` makes processes that are confined like their parent.
const KEEPERS_CALLS: &[i64] = &[
    libc::SYS_setitimer,
    libc::SYS_listen,
    libc::SYS_wait4,
    libc::SYS_get_robust_list,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_chdir,
];

/// What services call as well: files as far as they may be opened, and threads. `clone` makes no other process.
const SERVICES_CALLS: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pwrite64,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fadvise64,
    // Of a disk's ring, which was restricted when it was made. None can be made.
    libc::SYS_io_uring_enter,
    libc::SYS_utimensat,
    // Another filter says that it isn't there.
    libc::SYS_clone3,
    libc::SYS_sched_getaffinity,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_clock_getres,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getrlimit,
];

/// Of `prctl` only the wish to end with the parent.
const PRCTL: [i32; 1] = [libc::PR_SET_PDEATHSIG];

/// What the loop calls, by any arguments.
const CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    // A TAP device's queue.
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_accept4,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_getsockopt,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Linux' numbers of what says which signal a socket sends, and to whom.
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;

/// `bpf` commands on descriptors: look up, update and delete in a map; run a program.
const BPF_COMMANDS: [u64; 4] = [1, 2, 3, 10];

/// In a namespace of its own a process has all capabilities.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// `more`: calls beyond a net core's; `signals`: what may be sent to others; `dials`: there may be sockets of TCP.
fn filter(more: &[i64], prctl: &[i32], signals: &[u64], dials: bool) -> Result<BpfProgram, BackendError> {
    let is = |argument, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let without = |argument, mask: i32| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask as u64), 0)
    };
    let one = |condition| SeccompRule::new(vec![condition]);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = CALLS.iter().chain(more).map(|call| (*call, Vec::new())).collect();
    let bpf: Result<Vec<_>, _> = BPF_COMMANDS.iter().map(|command| one(is(0, *command)?)).collect();
    rules.insert(libc::SYS_bpf, bpf?);
    let prctl: Result<Vec<_>, _> = prctl.iter().map(|option| one(is(0, *option as u64)?)).collect();
    rules.insert(libc::SYS_prctl, prctl?);
    let fcntl = [libc::F_ADD_SEALS, libc::F_GET_SEALS, libc::F_DUPFD_CLOEXEC, libc::F_GETFL, libc::F_GETFD];
    let fcntl: Result<Vec<_>, _> = fcntl.iter().map(|command| one(is(1, *command as u64)?)).collect();
    rules.insert(libc::SYS_fcntl, fcntl?);
    if !more.is_empty() {
        // With these any signal could be sent by a socket: a keeper has such as are for ending its program.
        let is_not = |value| SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value);
        let no_signals =
            SeccompRule::new(vec![is_not(F_SETSIG)?, is_not(libc::F_SETOWN as u64)?, is_not(F_SETOWN_EX)?])?;
        rules.insert(libc::SYS_fcntl, vec![no_signals]);
        for call in [libc::SYS_kill, libc::SYS_tkill].into_iter().filter(|_| !signals.is_empty()) {
            let rule: Result<Vec<_>, _> = signals.iter().map(|signal| one(is(1, *signal)?)).collect();
            rules.insert(call, rule?);
        }
        let controls = [libc::FIONBIO, libc::FIONREAD, libc::TIOCOUTQ, libc::TCGETS, libc::TIOCGWINSZ];
        let controls: Result<Vec<_>, _> = controls.iter().map(|request| one(is(1, *request)?)).collect();
        rules.insert(libc::SYS_ioctl, controls?);
        let mut clone = vec![without(0, NAMESPACES)?];
        if more.contains(&libc::SYS_clone3) {
            let thread = libc::CLONE_THREAD as u64;
            clone.push(SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), thread)?);
        }
        rules.insert(libc::SYS_clone, vec![SeccompRule::new(clone)?]);
    }
    if more.contains(&libc::SYS_prlimit64) {
        // Its own: another process of the same user could be killed by a limit.
        rules.insert(libc::SYS_prlimit64, vec![one(is(0, 0)?)?]);
    }
    rules.insert(libc::SYS_mmap, vec![one(without(2, libc::PROT_EXEC)?)?]);
    rules.insert(libc::SYS_mprotect, vec![one(without(2, libc::PROT_EXEC)?)?]);
    let mut sockets = Vec::new();
    if more.contains(&libc::SYS_connect) {
        sockets.push(one(is(0, libc::AF_UNIX as u64)?)?);
    }
    if more.contains(&libc::SYS_openat) {
        // Services look at interfaces and routes when they get their next card.
        let by_netlink = vec![is(0, libc::AF_NETLINK as u64)?, is(2, libc::NETLINK_ROUTE as u64)?];
        sockets.push(SeccompRule::new(by_netlink)?);
    }
    for family in [libc::AF_INET, libc::AF_INET6].into_iter().filter(|_| dials) {
        // The kind, without flags.
        let kind = SeccompCmpOp::MaskedEq(0xf);
        let is_stream = SeccompCondition::new(1, SeccompCmpArgLen::Dword, kind, libc::SOCK_STREAM as u64)?;
        sockets.push(SeccompRule::new(vec![is(0, family as u64)?, is_stream])?);
    }
    if !sockets.is_empty() {
        rules.insert(libc::SYS_socket, sockets);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}
