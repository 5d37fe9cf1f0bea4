//! Calls by which a process gives up rights. Before they are made, [`lowering`](crate::lifecycle::lowering) settles which processes keep
//! the world.

use crate::calls::give_int;
use crate::lifecycle::lowering::{Effect, change};
use crate::sys::libc_next;
use crate::sys::raw::{self, Call};
use libc::{c_char, c_int, c_long, c_uint, c_ulong, c_void, gid_t, size_t, uid_t};
use rustix::io::Errno;

const KEPT: usize = u32::MAX as usize;
/// Linux' numbers that the `libc` crate may lack.
const SYS_LANDLOCK_RESTRICT_SELF: c_long = 446;
/// Groups of a user at most.
const GROUPS_MAX: usize = 65_536;

fn tried(number: c_long, arguments: [usize; 5], real: impl FnOnce() -> c_int) -> c_int {
    change(&Call::new(number, arguments), Effect::Tried, real, |status| *status == 0)
}

macro_rules! identities {
    ($($name:ident($($argument:ident: $type:ty),*) is $number:ident [$($word:expr),*];)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the call takes no pointers.
            tried(libc::$number, [$($word),*], || unsafe { libc_next::$name($($argument),*) })
        }
    )*};
}

identities! {
    setuid(user: uid_t) is SYS_setuid [user as usize, 0, 0, 0, 0];
    setgid(group: gid_t) is SYS_setgid [group as usize, 0, 0, 0, 0];
    seteuid(user: uid_t) is SYS_setresuid [KEPT, user as usize, KEPT, 0, 0];
    setegid(group: gid_t) is SYS_setresgid [KEPT, group as usize, KEPT, 0, 0];
    setreuid(user: uid_t, effective: uid_t) is SYS_setreuid [user as usize, effective as usize, 0, 0, 0];
    setregid(group: gid_t, effective: gid_t) is SYS_setregid [group as usize, effective as usize, 0, 0, 0];
    setresuid(user: uid_t, effective: uid_t, saved: uid_t) is SYS_setresuid [user as usize, effective as usize, saved as usize, 0, 0];
    setresgid(group: gid_t, effective: gid_t, saved: gid_t) is SYS_setresgid [group as usize, effective as usize, saved as usize, 0, 0];
}

/// # Safety
/// As `setgroups`.
#[unsafe(no_mangle)]
unsafe extern "C" fn setgroups(count: size_t, groups: *const gid_t) -> c_int {
    // SAFETY: `groups` points to `count` numbers: the program's duty by setgroups(2).
    tried(libc::SYS_setgroups, [count, groups.addr(), 0, 0, 0], || unsafe { libc_next::setgroups(count, groups) })
}

/// # Safety
/// As `initgroups`.
#[unsafe(no_mangle)]
unsafe extern "C" fn initgroups(user: *const c_char, group: gid_t) -> c_int {
    let mut groups: Vec<gid_t> = vec![0; 64];
    loop {
        let mut count = groups.len() as c_int;
        // SAFETY: `user` is a C string: the program's duty by initgroups(3). `groups` has room for `count`.
        if unsafe { libc::getgrouplist(user, group, groups.as_mut_ptr(), &raw mut count) } >= 0 {
            groups.truncate(count.max(0) as usize);
            break;
        }
        if groups.len() >= GROUPS_MAX {
            return give_int(Err(Errno::INVAL));
        }
        groups.resize((groups.len() * 2).max(count.max(0) as usize).min(GROUPS_MAX), 0);
    }
    // SAFETY: the pointer is to as many readable numbers as the length says.
    unsafe { setgroups(groups.len(), groups.as_ptr()) }
}

/// # Safety
/// As `capset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn capset(head: *mut c_void, sets: *const c_void) -> c_int {
    // SAFETY: `head` and `sets` are what capset(2) demands: the program's duty.
    tried(libc::SYS_capset, [head.addr(), sets.addr(), 0, 0, 0], || unsafe { libc_next::capset(head, sets) })
}

/// # Safety
/// As `chroot`.
#[unsafe(no_mangle)]
unsafe extern "C" fn chroot(path: *const c_char) -> c_int {
    // SAFETY: `path` is a C string: the program's duty by chroot(2).
    tried(libc::SYS_chroot, [path.addr(), 0, 0, 0, 0], || unsafe { libc_next::chroot(path) })
}

/// What `flags` of `unshare` or `setns` change; `None`: nothing that counts.
fn namespaces(flags: c_int) -> Option<Effect> {
    let counts = libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET;
    (flags & counts != 0).then_some(Effect::Namespaces { user: flags & libc::CLONE_NEWUSER != 0 })
}

/// As [`namespaces`], of a descriptor to enter; 0: whatever it is of.
fn entered(kind: c_int) -> Option<Effect> {
    if kind == 0 { Some(Effect::Namespaces { user: true }) } else { namespaces(kind) }
}

#[unsafe(no_mangle)]
extern "C" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the call takes no pointers.
    let real = || unsafe { libc_next::unshare(flags) };
    let Some(effect) = namespaces(flags) else { return real() };
    change(&Call::new(libc::SYS_unshare, [flags as usize, 0, 0, 0, 0]), effect, real, |status| *status == 0)
}

#[unsafe(no_mangle)]
extern "C" fn setns(fd: c_int, kind: c_int) -> c_int {
    // SAFETY: the call takes no pointers.
    let real = || unsafe { libc_next::setns(fd, kind) };
    let Some(effect) = entered(kind) else { return real() };
    change(&Call::new(libc::SYS_setns, [fd as usize, kind as usize, 0, 0, 0]), effect, real, |status| *status == 0)
}

/// Whether `prctl` or `seccomp` with these arguments adds a filter, and not only asks whether one could be.
fn adds_filter(call: &Call) -> bool {
    let [first, second, third, ..] = call.arguments;
    match call.number {
        libc::SYS_prctl if first == libc::PR_SET_SECCOMP as usize => {
            second == libc::SECCOMP_MODE_STRICT as usize || third != 0
        }
        libc::SYS_seccomp => {
            first == libc::SECCOMP_SET_MODE_STRICT as usize
                || first == libc::SECCOMP_SET_MODE_FILTER as usize && third != 0
        }
        SYS_LANDLOCK_RESTRICT_SELF => true,
        _ => false,
    }
}

/// # Safety
/// As `prctl`.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int {
    let words = [option as usize, second as usize, third as usize, fourth as usize, fifth as usize];
    let call = Call::new(libc::SYS_prctl, words);
    // SAFETY: the arguments are what `option` demands, valid pointers where they are some: the program's duty by prctl(2).
    let real = || unsafe { libc_next::prctl(option, second, third, fourth, fifth) };
    if adds_filter(&call) { change(&call, Effect::Filter, real, |status| *status == 0) } else { real() }
}

/// The same by their numbers, as `syscall` is given them.
///
/// # Safety
/// As that system call demands.
pub(in crate::calls) unsafe extern "C" fn by_number(
    number: c_long,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
) -> c_long {
    let call = Call::new(number, [first, second, third, fourth, fifth]);
    // SAFETY: the arguments are what the system call demands: this function's condition.
    let real = || unsafe { raw::call(&call) };
    let effect = match number {
        libc::SYS_prctl | libc::SYS_seccomp | SYS_LANDLOCK_RESTRICT_SELF => {
            adds_filter(&call).then_some(Effect::Filter)
        }
        libc::SYS_unshare => namespaces(first as c_int),
        libc::SYS_setns => entered(second as c_int),
        _ => Some(Effect::Tried),
    };
    let answer = match effect {
        Some(effect) => change(&call, effect, real, |answer| *answer >= 0),
        None => real(),
    };
    crate::calls::give(if answer < 0 { Err(crate::sys::libc_next::error_of(-answer as i64)) } else { Ok(answer) })
        as c_long
}

/// Below this a child of `clone` borrows its parent's memory, and executes soon, or is a thread.
const BORROWS: c_int = libc::CLONE_VM;

/// What `clone` starts its child with, if that is to have left the world.
struct Begin {
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

/// # Safety
/// `begin` is a [`Begin`].
unsafe extern "C" fn begin_alone(begin: *mut c_void) -> c_int {
    // SAFETY: `begin` is a [`Begin`]: this function's condition. The child has a copy of it.
    let Begin { function, argument } = unsafe { begin.cast::<Begin>().read() };
    crate::sys::local::forked();
    crate::sys::this_process::finish::note_process();
    crate::sys::this_process::departure::leave_for_good();
    function(argument)
}

/// A child in namespaces of its own leaves the world before it begins: it is less than its parent.
///
/// # Safety
/// As `clone`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clone(
    function: extern "C" fn(*mut c_void) -> c_int,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent: *mut c_void,
    local: *mut c_void,
    child: *mut c_void,
) -> c_int {
    let leaves = flags & BORROWS == 0 && namespaces(flags).is_some() && crate::world::lock::shared().is_some();
    let mut begin = Begin { function, argument };
    let (function, argument) = if leaves {
        (begin_alone as *mut c_void, (&raw mut begin).cast())
    } else {
        (function as *mut c_void, argument)
    };
    // SAFETY: `function`, `stack` and the pointers are what clone(2) demands: the program's duty.
    unsafe { libc_next::clone(function, stack, flags, argument, parent, local, child) }
}

/// Numbers [`by_number`] is for.
pub(in crate::calls) const NUMBERS: [c_uint; 14] = [
    libc::SYS_setuid as c_uint,
    libc::SYS_setgid as c_uint,
    libc::SYS_setreuid as c_uint,
    libc::SYS_setregid as c_uint,
    libc::SYS_setresuid as c_uint,
    libc::SYS_setresgid as c_uint,
    libc::SYS_setgroups as c_uint,
    libc::SYS_capset as c_uint,
    libc::SYS_prctl as c_uint,
    libc::SYS_seccomp as c_uint,
    libc::SYS_unshare as c_uint,
    libc::SYS_setns as c_uint,
    libc::SYS_chroot as c_uint,
    SYS_LANDLOCK_RESTRICT_SELF as c_uint,
];
