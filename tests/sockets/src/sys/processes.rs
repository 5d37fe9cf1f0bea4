//! `fork`, `exec`, and what comes of them.

use super::base::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};

/// Runs `child` in a new process, which ends with its value. Gives the parent the process id.
pub fn fork(child: impl FnOnce() -> i32) -> Ret {
    // SAFETY: the child has the one thread; it runs a case's few calls and ends without unwinding past here.
    let process = unsafe { libc::fork() };
    if process == 0 {
        exit(child());
    }
    Ret::of(process)
}

/// Ends at once, as `_exit` does.
pub fn exit(code: i32) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(code) }
}

/// Waits for a child; its exit code, or 1000 and the signal that ended it.
pub fn wait(process: i32) -> (Ret, i32) {
    let mut status = 0;
    // SAFETY: room for one status.
    let ret = Ret::of(unsafe { libc::waitpid(process, &raw mut status, 0) });
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1000 + libc::WTERMSIG(status) };
    (ret, code)
}

fn arguments(words: &[&str]) -> Vec<CString> {
    words.iter().filter_map(|word| CString::new(*word).ok()).collect()
}

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Starts a program by `posix_spawn` with `stdin` and `stdout` as its first two descriptors.
pub fn spawn(words: &[&str], stdin: Fd, stdout: Fd) -> Ret {
    let words = arguments(words);
    let mut list: Vec<*mut libc::c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    list.push(null_mut());
    let mut process = 0;
    // SAFETY: all zeroes are room for what init fills in.
    let mut actions: libc::posix_spawn_file_actions_t = unsafe { std::mem::zeroed() };
    // SAFETY: the list of words ends with null and lives through the calls; the environment is the process's own.
    let code = unsafe {
        libc::posix_spawn_file_actions_init(&raw mut actions);
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, stdin, 0);
        libc::posix_spawn_file_actions_adddup2(&raw mut actions, stdout, 1);
        let code = libc::posix_spawnp(&raw mut process, list[0], &raw const actions, null(), list.as_ptr(), environ);
        libc::posix_spawn_file_actions_destroy(&raw mut actions);
        code
    };
    if code == 0 { Ret::of(process) } else { Ret::of_code(code) }
}

/// Replaces this process by a program, with `stdin` and `stdout` as its first two descriptors. Returns if it can't.
pub fn exec(words: &[&str], stdin: Fd, stdout: Fd) -> Ret {
    let words = arguments(words);
    let mut list: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    list.push(null());
    // SAFETY: the list of words ends with null and lives through the calls.
    Ret::of(unsafe {
        libc::dup2(stdin, 0);
        libc::dup2(stdout, 1);
        libc::execvp(list[0], list.as_ptr())
    })
}

/// The same in a child made by `vfork`.
#[allow(deprecated, reason = "programs do this, so it has to be tried")]
#[inline(never)]
pub fn vfork_exec(words: &[&str], stdin: Fd, stdout: Fd) -> Ret {
    let words = arguments(words);
    let mut list: Vec<*const libc::c_char> = words.iter().map(|word| word.as_ptr()).collect();
    list.push(null());
    let (program, list) = (list[0], list.as_ptr());
    // SAFETY: between the two returns the child makes system calls only, with values computed before, and never returns.
    let process = unsafe {
        let process = libc::vfork();
        if process == 0 {
            libc::dup2(stdin, 0);
            libc::dup2(stdout, 1);
            libc::execvp(program, list);
            libc::_exit(127);
        }
        process
    };
    Ret::of(process)
}

/// A process group of its own, so that all of it can be ended.
pub fn own_group() {
    // SAFETY: takes numbers only.
    unsafe { libc::setpgid(0, 0) };
}
