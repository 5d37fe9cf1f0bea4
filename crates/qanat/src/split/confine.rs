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
    let filter = filter().map_err(|error| format!("seccomp: {error}"))?;
    seccompiler::apply_filter(&filter).map_err(|error| format!("seccomp: {error}"))?;
    done.seccomp = true;
    Ok(done)
}

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

/// `bpf` commands on descriptors: look up, update and delete in a map; run a program.
const BPF_COMMANDS: [u64; 4] = [1, 2, 3, 10];

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let is = |argument, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let without = |argument, mask: i32| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask as u64), 0)
    };
    let one = |condition| SeccompRule::new(vec![condition]);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let bpf: Result<Vec<_>, _> = BPF_COMMANDS.iter().map(|command| one(is(0, *command)?)).collect();
    rules.insert(libc::SYS_bpf, bpf?);
    // Of `prctl` only the wish to end with the parent.
    rules.insert(libc::SYS_prctl, vec![one(is(0, libc::PR_SET_PDEATHSIG as u64)?)?]);
    let fcntl = [libc::F_ADD_SEALS, libc::F_GET_SEALS, libc::F_DUPFD_CLOEXEC, libc::F_GETFL, libc::F_GETFD];
    let fcntl: Result<Vec<_>, _> = fcntl.iter().map(|command| one(is(1, *command as u64)?)).collect();
    rules.insert(libc::SYS_fcntl, fcntl?);
    rules.insert(libc::SYS_mmap, vec![one(without(2, libc::PROT_EXEC)?)?]);
    rules.insert(libc::SYS_mprotect, vec![one(without(2, libc::PROT_EXEC)?)?]);
    // A call that is not needed fails; it does not kill, so that nothing found late takes the network away.
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}
