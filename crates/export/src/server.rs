//! [`Server`]: answers the kernel on a descriptor of `/dev/fuse`, from a [`Tree`]. It needs no right and no name of a file.
//!
//! One thread answers one request at a time. Nothing is cached by the kernel, so a reader sees what is there now; a file's content is what
//! it was when it was opened. The file system is read-only by its mount: what would change it is answered by the kernel, and if it were
//! asked here, with ENOSYS.

use crate::handles::Handles;
use crate::tree::{Attributes, CONTENT_BYTES_MAX, Kind, NAME_BYTES_MAX, Tree, TreeError};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    Request, Session, SessionACL,
};
use rustix::process::{getegid, geteuid};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// For so long the kernel may believe what it was told.
const BELIEVED: Duration = Duration::ZERO;
/// Bytes of a request to write, of which there are none: the smallest.
const WRITE_BYTES_MAX: u32 = 4_096;
/// Requests of the kernel that nobody waits for.
const BACKGROUND_MAX: u16 = 4;
const BLOCK_BYTES: u32 = 4_096;
/// What the number of an entry is in a list of names: it is looked up when somebody wants it (FUSE_UNKNOWN_INO).
const UNKNOWN_NODE: INodeNo = INodeNo(0xffff_ffff);

/// The rights of files: its user reads them, nobody else but root.
const FILE_MODE: u16 = 0o400;
const DIRECTORY_MODE: u16 = 0o500;

struct State<T> {
    tree: T,
    handles: Handles,
}

/// The file system, as the library knows it.
struct Answers<T> {
    /// The library would ask from several threads if it were told to. It has one, so nobody waits for the lock.
    state: Mutex<State<T>>,
    user: u32,
    group: u32,
    /// When it began. All files have this time: one that moved would tell `tar` that a file changes while it is read.
    begun: SystemTime,
}

/// A tree that is served; the kernel has been greeted.
pub struct Server<T: Tree> {
    session: Session<Answers<T>>,
}

impl<T: Tree> Server<T> {
    /// Greets the kernel on a descriptor of `/dev/fuse` that is mounted or about to be. Files belong to this thread's user.
    ///
    /// # Errors
    /// It is no such descriptor, or the kernel speaks another version.
    pub fn new(tree: T, device: OwnedFd) -> io::Result<Server<T>> {
        let answers = Answers {
            state: Mutex::new(State { tree, handles: Handles::default() }),
            user: geteuid().as_raw(),
            group: getegid().as_raw(),
            begun: SystemTime::now(),
        };
        let mut config = Config::default();
        config.acl = SessionACL::All;
        Ok(Server { session: Session::from_fd(answers, device, SessionACL::All, config)? })
    }

    /// Answers until the mount is gone. A thread of the library's does it, this one waits.
    ///
    /// # Errors
    /// The kernel said what can't be understood, or there is no thread.
    pub fn run(self) -> io::Result<()> {
        self.session.run()
    }
}

fn errno(error: TreeError) -> Errno {
    Errno::from_i32(error.errno().raw_os_error())
}

impl<T: Tree> Answers<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self, node: u64, attributes: Attributes) -> Result<FileAttr, TreeError> {
        // The kernel takes larger sizes for negative ones.
        if attributes.size > CONTENT_BYTES_MAX as u64 {
            return Err(TreeError::TooLarge);
        }
        let (kind, perm) = match attributes.kind {
            Kind::Directory => (FileType::Directory, DIRECTORY_MODE),
            Kind::File => (FileType::RegularFile, FILE_MODE),
        };
        Ok(FileAttr {
            ino: INodeNo(node),
            size: attributes.size,
            blocks: attributes.size.div_ceil(512),
            atime: self.begun,
            mtime: self.begun,
            ctime: self.begun,
            crtime: self.begun,
            kind,
            perm,
            // A directory with one link says that its subdirectories were not counted.
            nlink: 1,
            uid: self.user,
            gid: self.group,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        })
    }
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::File => FileType::RegularFile,
    }
}

impl<T: Tree> Filesystem for Answers<T> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |_| io::Error::from(io::ErrorKind::InvalidInput);
        config.set_max_write(WRITE_BYTES_MAX).map_err(refused)?;
        let refused = |_| io::Error::from(io::ErrorKind::InvalidInput);
        config.set_max_background(BACKGROUND_MAX).map_err(refused)?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.state().tree.look_up(parent.0, name.as_bytes());
        match found.and_then(|(node, attributes)| self.told(node, attributes)) {
            Ok(told) => reply.entry(&BELIEVED, &told, Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _: &Request, node: INodeNo, look_ups: u64) {
        self.state().tree.forget(node.0, look_ups);
    }

    fn getattr(&self, _: &Request, node: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let mut state = self.state();
        // Of an open file it is the size of what its reader has.
        let open = handle.and_then(|handle| state.handles.content(handle.0)).map(|content| content.len() as u64);
        let attributes = open.map_or_else(|| state.tree.attributes(node.0), |size| Ok(Attributes::file(size)));
        drop(state);
        match attributes.and_then(|attributes| self.told(node.0, attributes)) {
            Ok(told) => reply.attr(&BELIEVED, &told),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn open(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let mut state = self.state();
        let opened = state.tree.open(node.0).and_then(|content| state.handles.open_file(content));
        match opened {
            // Read past the kernel's cache, which would hold it to the size that was told before.
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let state = self.state();
        match state.handles.content(handle.0) {
            Some(content) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
                let to = from.saturating_add(size as usize).min(content.len());
                reply.data(content.get(from..to).unwrap_or_default());
            }
            None => reply.error(errno(TreeError::Stale)),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.state().handles.close(handle.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.state().handles.open_directory() {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(&self, _: &Request, node: INodeNo, handle: FileHandle, place: u64, mut reply: ReplyDirectory) {
        let mut state = self.state();
        let State { tree, handles } = &mut *state;
        let given = handles.read_directory(
            handle.0,
            place,
            |cookie| tree.page(node.0, cookie),
            |kind, next, name| reply.add(UNKNOWN_NODE, next, file_type(kind), OsStr::from_bytes(name)),
        );
        match given {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.state().handles.close(handle.0);
        reply.ok();
    }

    /// It is also what a watchdog asks.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, BLOCK_BYTES, NAME_BYTES_MAX as u32, BLOCK_BYTES);
    }
}
