//! A [`Disk`] as a directory that programs use (FUSE).

use crate::disk::{Disk, Node, ROOT};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyStatfs, ReplyWrite, Request, SessionACL, TimeOrNow, WriteFlags,
};
use qanat_tests::e2e::Program;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// A mounted disk. It is unmounted when this is dropped.
pub struct Mounted {
    disk: Arc<Mutex<Disk>>,
    place: PathBuf,
    _session: BackgroundSession,
}

impl Mounted {
    /// # Panics
    /// It can't be mounted.
    pub fn new(disk: Disk, place: &Path) -> Mounted {
        let disk = Arc::new(Mutex::new(disk));
        let mut config = Config::default();
        // The store may be another user.
        config.acl = SessionACL::All;
        config.mount_options = vec![MountOption::FSName("power-loss".to_owned())];
        let session = fuser::spawn_mount(Files(Arc::clone(&disk)), place, &config).expect("a mounted disk");
        Mounted { disk, place: place.to_owned(), _session: session }
    }

    pub fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Mounted {
    /// A directory that can't be looked at can't be unmounted either. Children of a store that was killed may still be there for a moment.
    fn drop(&mut self) {
        self.disk().is_off = false;
        Program::new("umount").arguments(["--lazy".as_ref(), self.place.as_os_str()]).run();
    }
}

struct Files(Arc<Mutex<Disk>>);

/// Nothing is remembered: the disk changes under the kernel when power is lost.
const REMEMBERED: Duration = Duration::ZERO;

fn attributes(number: u64, node: &Node) -> FileAttr {
    let (kind, perm) = if node.is_directory { (FileType::Directory, 0o777) } else { (FileType::RegularFile, 0o666) };
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(number),
        size: node.data.len() as u64,
        blocks: node.data.len().div_ceil(512) as u64,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4_096,
        flags: 0,
    }
}

impl Files {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, reply: ReplyEmpty, change: impl FnOnce(&mut Disk) -> bool) {
        match change(&mut self.disk()) {
            true => reply.ok(),
            false => reply.error(Errno::EIO),
        }
    }

    /// Makes a file or directory, unless there is no power.
    fn make(&self, directory: INodeNo, name: &OsStr, is_directory: bool) -> Option<FileAttr> {
        let mut disk = self.disk();
        disk.node(directory.0)?;
        let number = disk.make(directory.0, name, is_directory);
        disk.node(number).map(|node| attributes(number, node))
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.disk();
        let found = disk.find(parent.0, name);
        match found.and_then(|number| Some(attributes(number, disk.node(number)?))) {
            Some(attributes) => reply.entry(&REMEMBERED, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.disk().node(number.0) {
            Some(node) => reply.attr(&REMEMBERED, &attributes(number.0, node)),
            None => reply.error(Errno::EIO),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        _user: Option<u32>,
        _group: Option<u32>,
        size: Option<u64>,
        _accessed: Option<TimeOrNow>,
        _modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed_time: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        if let Some(size) = size {
            disk.set_length(number.0, size as usize);
        }
        match disk.node(number.0) {
            Some(node) => reply.attr(&REMEMBERED, &attributes(number.0, node)),
            None => reply.error(Errno::EIO),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _mode: u32, _mask: u32, reply: ReplyEntry) {
        match self.make(parent, name, true) {
            Some(attributes) => reply.entry(&REMEMBERED, &attributes, Generation(0)),
            None => reply.error(Errno::EIO),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _mask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(parent, name, false) {
            Some(attributes) => {
                reply.created(&REMEMBERED, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            None => reply.error(Errno::EIO),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |disk| disk.remove(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |disk| disk.remove(parent.0, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.done(reply, |disk| disk.rename((parent.0, name), (new_parent.0, new_name)));
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.disk().node(number.0) {
            Some(node) => {
                let from = node.data.get(offset as usize..).unwrap_or_default();
                reply.data(from.get(..size as usize).unwrap_or(from));
            }
            None => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk().write(number.0, offset as usize, data) {
            true => reply.written(data.len() as u32),
            false => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.done(reply, |disk| disk.settle(number.0));
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        self.done(reply, |disk| disk.settle(number.0));
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let end = (offset + length) as usize;
        self.done(reply, |disk| {
            let is_longer = disk.node(number.0).is_some_and(|node| node.data.len() >= end);
            // Only room at the end is made; whoever wants anything else writes it.
            mode == 0 && (is_longer || disk.set_length(number.0, end))
        });
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let disk = self.disk();
        let mut entries = vec![(".".into(), number.0), ("..".into(), ROOT)];
        entries.extend(disk.list(number.0));
        for (index, (name, number)) in entries.into_iter().enumerate().skip(offset as usize) {
            let is_directory = disk.node(number).is_some_and(|node| node.is_directory);
            let kind = if is_directory { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(number), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = (8 << 30) / 4_096;
        reply.statfs(blocks, blocks, blocks, 1 << 20, 1 << 20, 4_096, 255, 4_096);
    }
}
