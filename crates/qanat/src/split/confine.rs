//! A net core's confinement: once its cards are open and its memory is mapped it needs neither rights nor names.
//!
//! * *User*: root becomes nobody, without groups; no new rights by exec.
//! * *Landlock*: no file, no TCP port, can be opened by name any more.
//! * *seccomp*: only the system calls of the loop; of `bpf` only what works on descriptors it has; `mmap` never executable.
//!
//! To be called while the process has one thread.

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus};
use rustix::process::{DumpableBehavior, Gid, Uid};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// The user and group without rights.
const NOBODY: u32 = 65_534;

/// What was given up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Confinement {
    /// Was root, is nobody.
    pub user: bool,
    /// Landlock holds; false: this kernel has none.
    pub landlock: bool,
    /// seccomp holds.
    pub seccomp: bool,
}

/// Gives up all that a net core's loop does not need. For good.
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine() -> Result<Confinement, String> {
    let mut done = Confinement::default();
    if rustix::process::geteuid().is_root() {
        become_nobody().map_err(|error| format!("becoming nobody: {error}"))?;
        done.user = true;
    }
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("no new privileges: {error}"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| format!("keeping debuggers out: {error}"))?;
    done.landlock = no_names().map_err(|error| format!("landlock: {error}"))?;
    let filter = filter(&[], &PRCTL).map_err(|error| format!("seccomp: {error}"))?;
    seccompiler::apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))?;
    done.seccomp = true;
    Ok(done)
}

/// Gives up all that a process does not need which keeps a stack that less privileged ones share with it, and makes calls for others on
/// sockets it is given: it opens nothing by name, makes no connection, executes nothing, looks into no process, and of signals sends
/// only that of urgent data, which nobody heeds who has not asked for it, and what a socket sends whose owner has said so. For good.
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine_keeper() -> Result<(), String> {
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("no new privileges: {error}"))?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| format!("keeping debuggers out: {error}"))?;
    no_names().map_err(|error| format!("landlock: {error}"))?;
    let filter = filter(KEEPERS_CALLS, &[libc::PR_SET_PDEATHSIG, libc::PR_SET_NAME]);
    let filter = filter.map_err(|error| format!("seccomp: {error}"))?;
    seccompiler::apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))
}

/// What keepers call as well. `clone` makes processes that are confined like their parent.
const KEEPERS_CALLS: &[i64] = &[
    libc::SYS_setitimer,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvmmsg,
    libc::SYS_sendmmsg,
    libc::SYS_listen,
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
    libc::SYS_wait4,
    libc::SYS_clone,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_chdir,
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

/// Of `prctl` only the wish to end with the parent.
const PRCTL: [i32; 1] = [libc::PR_SET_PDEATHSIG];

fn become_nobody() -> rustix::io::Result<()> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}

/// Nothing can be opened by name; whether the kernel sees to it.
fn no_names() -> Result<bool, landlock::RulesetError> {
    let abi = ABI::V5;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .create()?
        .restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// What the loop calls, by any arguments.
const CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
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

fn filter(more: &[i64], prctl: &[i32]) -> Result<BpfProgram, seccompiler::BackendError> {
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
        // With these two a keeper could send any signal by the sockets that are for ending its program, and to others.
        let is_not = |value| SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value);
        let no_signals =
            SeccompRule::new(vec![is_not(F_SETSIG)?, is_not(libc::F_SETOWN as u64)?, is_not(F_SETOWN_EX)?])?;
        rules.insert(libc::SYS_fcntl, vec![no_signals]);
        // Urgent data is told of by a signal; 0 asks whether there is such a process.
        let signals = [0, libc::SIGURG as u64];
        for call in [libc::SYS_kill, libc::SYS_tkill] {
            let rule: Result<Vec<_>, _> = signals.iter().map(|signal| one(is(1, *signal)?)).collect();
            rules.insert(call, rule?);
        }
        let controls = [libc::FIONBIO, libc::FIONREAD, libc::TIOCOUTQ];
        let controls: Result<Vec<_>, _> = controls.iter().map(|request| one(is(1, *request)?)).collect();
        rules.insert(libc::SYS_ioctl, controls?);
    }
    rules.insert(libc::SYS_mmap, vec![one(without(2, libc::PROT_EXEC)?)?]);
    rules.insert(libc::SYS_mprotect, vec![one(without(2, libc::PROT_EXEC)?)?]);
    // A call that is not needed fails; it does not kill, so that nothing found late takes the network away.
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}
