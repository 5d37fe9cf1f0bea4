//! What a process could not give up.

use rustix::io::Errno;

/// What a process could not give up. It must not go on then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// The process can't become another user.
    #[error(
        "becoming user {user}, group {group}: {error}: it takes CAP_SETUID and CAP_SETGID, and both numbers must be known in \
         this user namespace"
    )]
    Account {
        /// The user it was to become.
        user: u32,
        /// That user's group.
        group: u32,
        /// What the system says.
        error: Errno,
    },
    /// Capabilities could not be given up.
    #[error("no capabilities: {0}")]
    Capabilities(#[source] Errno),
    /// Capabilities that programs executed later would have could not be given up.
    #[error("no capabilities by exec: {0}")]
    BoundingSet(#[source] Errno),
    /// The process can't be made to end with its parent any more.
    #[error("ending with its parent: {0}")]
    Parent(#[source] Errno),
    /// Programs executed later could have new privileges.
    #[error("no new privileges: {0}")]
    NewPrivileges(#[source] Errno),
    /// Debuggers could not be kept out.
    #[error("keeping debuggers out: {0}")]
    Debuggers(#[source] Errno),
    /// Landlock refuses.
    #[error("landlock: {0}")]
    Landlock(#[from] landlock::RulesetError),
    /// No filter of system calls can be made.
    #[error("seccomp: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The filter of system calls can't be applied.
    #[error("seccomp: {0}")]
    Seccomp(#[from] seccompiler::Error),
}
