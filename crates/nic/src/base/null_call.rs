//! [`null_call`]: a way into the kernel and back.

/// Enters the kernel with these arguments and comes back: `getppid`, which looks at none of them. It is what measurements add to a call
/// that could be one of the kernel's (“The Case Against User-Level Networking”, section VI-B).
#[inline]
pub fn null_call(arguments: [u64; 4]) {
    let [first, second, third, fourth] = arguments;
    // SAFETY: the call takes no arguments, so the kernel does not look at the registers. It touches no memory and can't fail.
    unsafe { libc::syscall(libc::SYS_getppid, first, second, third, fourth) };
}
