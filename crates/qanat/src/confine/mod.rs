//! How processes give up what they don't need any more, for good: users, capabilities, names, system calls.
//!
//! * *User*: root becomes another one, without groups; no capability is left in any set; no new rights by exec.
//! * *Landlock*: no file can be opened by name any more, but what [`Places`] lists; no TCP port of the kernel's.
//! * *seccomp*: only the system calls that such a process makes (`calls`).
//!
//! The kernel does all of this to the calling thread, and threads inherit it. So it is done while there is one thread, or by each
//! thread; [`is_whole`] looks whether every thread of the process has done so.

mod calls;
mod error;

pub use error::ConfineError;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus,
};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Pid, Signal, Uid, getppid, parent_process_death_signal, set_parent_process_death_signal,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::path::PathBuf;

/// The user and group without rights.
pub const NOBODY: u32 = 65_534;

/// Who a process becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Account {
    /// Its number.
    pub user: u32,
    /// Its only group.
    pub group: u32,
}

/// What can still be opened by name, as far as the user may.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Read, with all that is below.
    pub read: Vec<PathBuf>,
    /// Directories in which files are read, written, made and replaced, with all that is below.
    pub write: Vec<PathBuf>,
}

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

/// Gives up all that a net core's loop does not need: once its cards are open and its memory is mapped it needs neither rights nor
/// names. For good.
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine() -> Result<Confinement, ConfineError> {
    let user = rustix::process::geteuid().is_root();
    let account = user.then_some(Account { user: NOBODY, group: NOBODY });
    let landlock = give_up(account, &Places::default())?;
    calls::only_net_cores()?;
    Ok(Confinement { user, landlock, seccomp: true })
}

/// Gives up all that a disk core's loop does not need, once it has its disk: what else it needs comes as descriptors. For good. Its ring
/// must be fenced by then: system calls made through a ring are not seen by a filter.
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine_disk_core(has_function: bool) -> Result<Confinement, ConfineError> {
    let user = rustix::process::geteuid().is_root();
    let account = user.then_some(Account { user: NOBODY, group: NOBODY });
    let landlock = give_up(account, &Places::default())?;
    calls::only_disk_cores(has_function)?;
    Ok(Confinement { user, landlock, seccomp: true })
}

/// Confines a keeper for good. It is a process that keeps a stack for less privileged ones, and makes calls for others on sockets that it
/// is given. It opens nothing by name, makes no connection, executes nothing and looks into no process. It sends only the signal of
/// urgent data, which has no effect unless it was asked for, and those that a socket sends because its owner said so.
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine_keeper() -> Result<(), ConfineError> {
    no_new_rights()?;
    only_places(&Places::default(), false)?;
    calls::only_keepers()
}

/// Gives up, for the calling thread, all that a service does not need once its card is open. It reads and writes files where `places`
/// says, starts threads, and uses the descriptors it has; it makes connections to Unix sockets if it is nobody else's steward that makes
/// them ([`connects`](ServiceNeeds::connects)).
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine_service(account: Option<Account>, needs: &ServiceNeeds) -> Result<(), ConfineError> {
    give_up_but(account, &needs.places, needs.dials)?;
    calls::only_services(needs.connects, needs.dials)
}

/// What a service goes on needing.
#[derive(Clone, Debug, Default)]
pub struct ServiceNeeds {
    /// Files.
    pub places: Places,
    /// It makes connections to Unix sockets itself.
    pub connects: bool,
    /// It makes connections of the kernel's TCP to others: in the kernel placement, a name server that fetches zones.
    pub dials: bool,
}

/// Gives up all that a steward does not need who only asks a daemon, or removes files from `places`: its user, by which others know it,
/// is all that it keeps.
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine_steward(places: &Places) -> Result<(), ConfineError> {
    give_up(None, places)?;
    calls::only_services(true, false)
}

/// Gives up, for good, all that the keeper of an export does not need: it puts one mount to its place, looks whether it answers, and takes
/// it away again. It keeps its user and CAP_SYS_ADMIN. It can open nothing. Landlock would forbid mounts, so there is none.
///
/// # Errors
/// What could not be given up; the process is not to go on then.
pub fn confine_export_keeper() -> Result<(), ConfineError> {
    empty_bounding_set()?;
    let (one, none) = (CapabilitySet::SYS_ADMIN, CapabilitySet::empty());
    rustix::thread::set_capabilities(None, CapabilitySets { effective: one, permitted: one, inheritable: none })
        .and_then(|()| rustix::thread::clear_ambient_capability_set())
        .map_err(ConfineError::Capabilities)?;
    no_new_rights()?;
    calls::only_export_keepers()
}

/// Whether Landlock holds.
fn give_up(account: Option<Account>, places: &Places) -> Result<bool, ConfineError> {
    give_up_but(account, places, false)
}

/// The same; `dials`: connections of TCP may still be made.
fn give_up_but(account: Option<Account>, places: &Places, dials: bool) -> Result<bool, ConfineError> {
    // Before the user changes: it takes a capability.
    empty_bounding_set()?;
    let (parent, death) = (getppid(), parent_process_death_signal());
    if let Some(account) = account {
        let Account { user, group } = account;
        become_account(account).map_err(|error| ConfineError::Account { user, group, error })?;
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .and_then(|()| rustix::thread::clear_ambient_capability_set())
        .map_err(ConfineError::Capabilities)?;
    end_with(parent, death).map_err(ConfineError::Parent)?;
    no_new_rights()?;
    only_places(places, dials)
}

/// The kernel forgets that a process is to end with its parent when the user changes.
fn end_with(parent: Option<Pid>, death: rustix::io::Result<Option<Signal>>) -> rustix::io::Result<()> {
    let Some(signal) = death? else { return Ok(()) };
    set_parent_process_death_signal(Some(signal))?;
    // It may have ended meanwhile.
    if getppid() == parent { Ok(()) } else { Err(Errno::SRCH) }
}

fn no_new_rights() -> Result<(), ConfineError> {
    rustix::thread::set_no_new_privs(true).map_err(ConfineError::NewPrivileges)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(ConfineError::Debuggers)
}

/// Takes away what no program executed later may have. A process that may not do so can't execute such a program either, since there
/// are no new rights.
fn empty_bounding_set() -> Result<(), ConfineError> {
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // The kernel has fewer capabilities than there are numbers for.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(ConfineError::BoundingSet(error)),
        }
    }
    Ok(())
}

fn become_account(account: Account) -> rustix::io::Result<()> {
    let (user, group) = (Uid::from_raw(account.user), Gid::from_raw(account.group));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)
}

/// Nothing else can be opened by name, and no port be taken; whether the kernel sees to it. `dials`: connections of TCP may be made.
fn only_places(places: &Places, dials: bool) -> Result<bool, ConfineError> {
    let abi = ABI::V5;
    let network = if dials { AccessNet::BindTcp.into() } else { AccessNet::from_all(abi) };
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.handle_access(network))
        .and_then(Ruleset::create)?;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let writing = reading | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    let all = places.read.iter().map(|path| (path, reading)).chain(places.write.iter().map(|path| (path, writing)));
    let mut ruleset = ruleset;
    for (path, access) in all {
        // What can't be reached is not to be opened either: whoever needs it finds that out by opening it.
        let Ok(place) = PathFd::new(path) else { continue };
        ruleset = ruleset.add_rule(PathBeneath::new(place, allowed_on(path, access)))?;
    }
    let status = ruleset.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// Of a file, only what files have.
fn allowed_on(path: &std::path::Path, access: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    if path.is_dir() { access } else { access & AccessFs::from_file(ABI::V5) }
}

/// Whether every thread of this process has given up what the calling one has: user, groups, capabilities, new rights, calls.
///
/// # Errors
/// What the kernel does not tell.
pub fn is_whole() -> std::io::Result<bool> {
    let mut first: Option<Vec<String>> = None;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let Ok(status) = std::fs::read_to_string(thread?.path().join("status")) else { continue };
        let rights = rights(&status);
        match &first {
            None => first = Some(rights),
            Some(first) if *first == rights => {}
            Some(_) => return Ok(false),
        }
    }
    Ok(first.is_some())
}

/// The lines of a `status` that say what a thread may do.
fn rights(status: &str) -> Vec<String> {
    const NAMES: [&str; 9] =
        ["Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:"];
    let is_one = |line: &&str| NAMES.iter().any(|name| line.starts_with(name)) || line.starts_with("Seccomp");
    status.lines().filter(is_one).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Resource, getpid, getrlimit, prlimit, test_kill_process};
    use std::fs::File;
    use std::net::TcpListener;
    use std::process::Command;

    /// Threads are confined one by one, so this test's others are not.
    #[test]
    fn a_service_has_its_files_and_threads_and_nothing_else() {
        let is_root = rustix::process::geteuid().is_root();
        let account = is_root.then_some(Account { user: NOBODY, group: NOBODY });
        let places = Places { read: vec!["/proc".into()], write: Vec::new() };
        let limits = getrlimit(Resource::Cpu);
        let confined = std::thread::spawn(move || {
            // As `confine_service` does. This kernel may be without Landlock.
            let has_landlock = give_up(account, &places).map_err(|error| error.to_string())?;
            calls::only_services(false, false).map_err(|error| error.to_string())?;
            let is_out_of_reach = || File::open("/etc/passwd").is_err();
            let by_thread = std::thread::Builder::new().spawn(is_out_of_reach);
            let by_thread = by_thread.map_err(|error| format!("a thread: {error}"))?;
            let is_refused = [
                ("a file elsewhere", is_out_of_reach() || !has_landlock),
                ("the same by a thread", by_thread.join().unwrap_or_default() || !has_landlock),
                ("a program", Command::new("/bin/true").spawn().is_err()),
                ("a port", TcpListener::bind("127.0.0.1:0").is_err()),
                ("a signal", test_kill_process(getpid()).is_err()),
                ("limits of a process by its number", prlimit(Some(getpid()), Resource::Cpu, limits).is_err()),
                (
                    "another way to be root",
                    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_err(),
                ),
            ];
            let is_allowed = [
                ("a file of its places", File::open("/proc/self/status").is_ok()),
                ("its own limits", prlimit(None, Resource::Cpu, limits).is_ok()),
                (
                    "the same rights in its threads",
                    rights_of_thread().is_some_and(|rights| {
                        rights.iter().any(|line| line == "CapBnd:\t0000000000000000") || !is_root
                    }),
                ),
            ];
            Ok::<_, String>(is_refused.into_iter().chain(is_allowed).collect::<Vec<_>>())
        });
        let outcome = confined.join().expect("it does not panic").expect("it is confined");
        for (what, is_so) in outcome {
            assert!(is_so, "{what}");
        }
    }

    fn rights_of_thread() -> Option<Vec<String>> {
        Some(rights(&std::fs::read_to_string("/proc/thread-self/status").ok()?))
    }
}
