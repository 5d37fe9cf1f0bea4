//! Files below a document root, found and read on a reader thread, held on the service's.

use super::compress;
use super::flat::FlatObject;
use super::head::{Representation, prepared_head};
use super::listing;
use super::object::{DeviceMemory, Object, PreparedBytes};
use super::window::ALIGNMENT;
use crate::http::encoding::Coding;
use bytes::Bytes;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// A document root: look-ups are confined to it by the kernel (`openat2` with `RESOLVE_BENEATH`), symbolic links
/// included, so no race between a check and an opening can lead out.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    directory: OwnedFd,
}

impl Root {
    /// Opens the directory `path`.
    ///
    /// # Errors
    /// What the system says; `NotADirectory` for a file.
    pub fn open(path: &Path) -> std::io::Result<Root> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&path, flags, Mode::empty())?;
        Ok(Root { path, directory })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_below(&self, path: &[u8]) -> Result<File, Errno> {
        // Not blocking: the path may name a pipe without a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..8 {
            match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve) {
                Ok(fd) => return Ok(File::from(fd)),
                // A rename raced with the walk (openat2(2)): try again, a bounded number of times.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS) => return self.open_stepwise(path, flags),
                Err(error) => return Err(error),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Where `openat2` is missing or filtered (old container profiles, valgrind): one component at a time. Every symbolic
    /// link is refused, so none can lead out. `path` is normalised: it has no `..`.
    fn open_stepwise(&self, path: &[u8], flags: OFlags) -> Result<File, Errno> {
        let mut directory: Option<OwnedFd> = None;
        let mut components = path.split(|byte| *byte == b'/').filter(|component| !component.is_empty()).peekable();
        while let Some(component) = components.next() {
            if component == b".." {
                return Err(Errno::XDEV);
            }
            let last = components.peek().is_none();
            let step = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
            let parent = directory.as_ref().unwrap_or(&self.directory);
            let opened = rustix::fs::openat(parent, component, step | OFlags::NOFOLLOW, Mode::empty())?;
            if last {
                return Ok(File::from(opened));
            }
            directory = Some(opened);
        }
        Err(Errno::INVAL)
    }
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(metadata: &std::fs::Metadata) -> FileIdentity {
        FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Bytes in the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// When it was last changed in any way, seconds since 1970.
    pub fn changed_seconds(&self) -> i64 {
        self.changed.0
    }

    fn etag(&self, coding: Coding) -> String {
        let (seconds, nanoseconds) = self.modified;
        match coding {
            Coding::Identity => format!("\"{:x}-{seconds:x}.{nanoseconds:x}\"", self.size),
            other => format!("\"{:x}-{seconds:x}.{nanoseconds:x}-{}\"", self.size, other.name()),
        }
    }
}

/// A file whose content is read as it is sent.
#[derive(Debug)]
pub struct OpenFile {
    file: File,
    /// Its state when it was opened.
    pub identity: FileIdentity,
    /// It is read around the page cache.
    is_direct: bool,
}

impl OpenFile {
    /// `around`: around the page cache, if its file system has a way.
    fn new(file: File, identity: FileIdentity, around: bool) -> OpenFile {
        let is_direct = around
            && rustix::fs::fcntl_getfl(&file)
                .and_then(|flags| rustix::fs::fcntl_setfl(&file, flags | OFlags::DIRECT))
                .is_ok();
        OpenFile { file, identity, is_direct }
    }

    /// Whether it is read around the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Reads the `length` bytes from `start` on to the beginning of `target`. Blocks. Around the page cache, `start` and the target's
    /// address and length are multiples of [`ALIGNMENT`].
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` if the file is shorter now.
    pub fn read(&self, start: u64, length: usize, target: &mut [u8]) -> std::io::Result<()> {
        let whole = if self.is_direct { length.next_multiple_of(ALIGNMENT) } else { length };
        let mut read = 0;
        while read < length {
            // What follows a short read is to begin at such a place, too.
            let from = if self.is_direct { read - read % ALIGNMENT } else { read };
            let rest = target.get_mut(from..whole).ok_or(std::io::ErrorKind::InvalidInput)?;
            match self.file.read_at(rest, start + from as u64) {
                Ok(count) if from + count > read => read = from + count,
                Ok(_) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// How files become resources, of all sites.
#[derive(Clone, Debug)]
pub struct LookupRules {
    /// Look for `.br` and `.gz`.
    pub precompressed: bool,
    /// Longest file prepared in memory.
    pub object_bytes_max: u64,
    /// Payload of a frame.
    pub payload_bytes: usize,
    /// Longer files are read around the page cache.
    pub reads_around: bool,
    /// File that is served for a directory.
    pub index: String,
}

/// How files become resources of one site.
#[derive(Clone, Debug, Default)]
pub struct SiteRules {
    /// Cache-Control.
    pub cache_control: Option<String>,
    /// See [`Representation::common`].
    pub common: String,
    /// Directories without an index are listed; `true` within: with their hidden files.
    pub listing: Option<bool>,
    /// What is not there compressed is compressed.
    pub compress: bool,
}

/// A look-up: blocks.
#[derive(Clone, Copy, Debug)]
pub struct LookUp<'a> {
    /// Below which directory.
    pub root: &'a Root,
    /// Which path, relative and normalised.
    pub path: &'a [u8],
    /// By these rules.
    pub rules: &'a LookupRules,
    /// And these.
    pub site: &'a SiteRules,
    /// The time, seconds since 1970.
    pub now_seconds: u64,
}

/// What a look-up found; made on a reader thread.
#[derive(Debug)]
pub enum Found {
    /// Nothing to serve; the status to answer with.
    Missing(u16),
    /// A directory asked for without its final slash.
    Directory,
    /// A file and its compressed variants, in the order of [`Coding::ALL`].
    File(Box<[Option<FoundVariant>; 3]>),
}

/// One variant of a file.
#[derive(Debug)]
pub struct FoundVariant {
    /// The file, and its state; `None`: it was made of the first variant.
    file: Option<(PathBuf, FileIdentity)>,
    size: u64,
    representation: Representation,
    content: FoundContent,
    /// Of the first variant: which compressed files are there, and can't be used.
    unusable: [bool; 3],
}

#[derive(Debug)]
enum FoundContent {
    Prepared(PreparedBytes),
    Opened(OpenFile),
}

impl LookUp<'_> {
    /// Finds and reads.
    pub fn find(self) -> Found {
        let LookUp { root, path, rules, site, .. } = self;
        let file = match root.open_below(path) {
            Ok(file) => file,
            Err(Errno::NOENT) => return self.list().unwrap_or(Found::Missing(404)),
            Err(error) => return Found::Missing(status_of(error)),
        };
        let bytes = match file.metadata() {
            Ok(metadata) if metadata.is_dir() => return Found::Directory,
            Ok(metadata) if !metadata.is_file() => return Found::Missing(403),
            Ok(metadata) => metadata.size(),
            Err(_) => return Found::Missing(500),
        };
        let mut variants = [None, None, None];
        let mut unusable = [false; 3];
        if rules.precompressed {
            for (index, coding) in Coding::ALL.iter().enumerate().skip(1) {
                let name = [path, coding.suffix().as_bytes()].concat();
                // A compressed variant that can't be read is as good as missing.
                match root.open_below(&name) {
                    Ok(file) => {
                        variants[index] = self.read(&name, file, *coding, true).ok();
                        unusable[index] = variants[index].is_none();
                    }
                    Err(error) => unusable[index] = error != Errno::NOENT,
                }
            }
        }
        let compresses = site.compress && compress::is_worth_it(super::mime::of(path), bytes);
        let varies = compresses || variants.iter().any(Option::is_some);
        match self.read(path, file, Coding::Identity, varies) {
            Ok(mut plain) => {
                plain.unusable = unusable;
                if compresses {
                    for (coding, slot) in Coding::ALL.iter().zip(variants.iter_mut()).skip(1) {
                        *slot = slot.take().or_else(|| self.compressed(&plain, *coding));
                    }
                }
                variants[0] = Some(plain);
            }
            Err(_) => return Found::Missing(500),
        }
        Found::File(Box::new(variants))
    }

    /// The page of a directory whose index the path would be; `None`: it isn't listed, or there is none.
    fn list(self) -> Option<Found> {
        let LookUp { root, path, rules, site, now_seconds } = self;
        let hidden = site.listing?;
        let directory =
            path.strip_suffix(rules.index.as_bytes()).filter(|path| path.is_empty() || path.ends_with(b"/"))?;
        let opened = root.open_below(if directory.is_empty() { b"." } else { directory }).ok()?;
        let page = listing::page(&opened, directory, hidden).ok()?;
        let mut hasher = DefaultHasher::new();
        page.hash(&mut hasher);
        let size = page.len() as u64;
        let representation = Representation {
            media_type: "text/html; charset=utf-8",
            etag: format!("\"{size:x}-{:x}\"", hasher.finish()),
            last_modified: now_seconds,
            coding: None,
            varies: false,
            cache_control: site.cache_control.clone(),
            common: site.common.clone(),
        };
        let content = self.prepared(&representation, &page);
        // No file is in this state: what is in the directory may change without it, so that the page is good for this second.
        let identity = FileIdentity { device: 0, inode: 0, size: 0, modified: (0, 0), changed: (0, 0) };
        let path = root.path.join(Path::new(std::ffi::OsStr::from_bytes(directory)));
        let variant =
            FoundVariant { file: Some((path, identity)), size, representation, content, unusable: [false; 3] };
        Some(Found::File(Box::new([Some(variant), None, None])))
    }

    fn prepared(self, representation: &Representation, body: &[u8]) -> FoundContent {
        let mut master = prepared_head(representation, body.len() as u64);
        let head_length = master.len();
        master.extend_from_slice(body);
        FoundContent::Prepared(PreparedBytes::new(master, head_length, self.rules.payload_bytes))
    }

    /// A compressed variant of a plain file; `None`: it is hardly shorter, or the file is not in memory.
    fn compressed(self, plain: &FoundVariant, coding: Coding) -> Option<FoundVariant> {
        let FoundContent::Prepared(bytes) = &plain.content else { return None };
        let (_, identity) = plain.file.as_ref()?;
        let body = compress::compress(bytes.body(), coding)?;
        let representation =
            Representation { etag: identity.etag(coding), coding: Some(coding.name()), ..plain.representation.clone() };
        let content = self.prepared(&representation, &body);
        Some(FoundVariant { file: None, size: body.len() as u64, representation, content, unusable: [false; 3] })
    }

    fn read(self, name: &[u8], mut file: File, coding: Coding, varies: bool) -> std::io::Result<FoundVariant> {
        let LookUp { root, path, rules, site, now_seconds } = self;
        let full = root.path.join(Path::new(std::ffi::OsStr::from_bytes(name)));
        let mut attempts = 0;
        loop {
            attempts += 1;
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(std::io::ErrorKind::InvalidInput.into());
            }
            let identity = FileIdentity::of(&metadata);
            let size = identity.size;
            let representation = Representation {
                media_type: super::mime::of(path),
                etag: identity.etag(coding),
                // RFC 9110, 8.8.2.1: no later than the response's date.
                last_modified: u64::try_from(metadata.mtime()).unwrap_or(0).min(now_seconds),
                coding: (coding != Coding::Identity).then(|| coding.name()),
                varies,
                cache_control: site.cache_control.clone(),
                common: site.common.clone(),
            };
            if size > rules.object_bytes_max {
                let content = FoundContent::Opened(OpenFile::new(file, identity, rules.reads_around));
                return Ok(FoundVariant {
                    file: Some((full, identity)),
                    size,
                    representation,
                    content,
                    unusable: [false; 3],
                });
            }
            let mut master = prepared_head(&representation, size);
            let head_length = master.len();
            master.reserve_exact(size as usize + 1);
            (&mut file).take(size + 1).read_to_end(&mut master)?;
            let read = (master.len() - head_length) as u64;
            let steady = FileIdentity::of(&file.metadata()?) == identity;
            // A file that is being written: its length must match its head at least; the next check finds the rest.
            if read == size && (steady || attempts >= 4) {
                let content = FoundContent::Prepared(PreparedBytes::new(master, head_length, rules.payload_bytes));
                return Ok(FoundVariant {
                    file: Some((full, identity)),
                    size,
                    representation,
                    content,
                    unusable: [false; 3],
                });
            }
            if attempts >= 16 {
                return Err(std::io::Error::other("the file keeps changing"));
            }
            std::io::Seek::rewind(&mut file)?;
        }
    }
}

fn status_of(error: Errno) -> u16 {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::INVAL => 404,
        // XDEV: a symbolic link leads out of the root.
        Errno::XDEV | Errno::ACCESS | Errno::PERM | Errno::NXIO => 403,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN => 503,
        _ => 500,
    }
}

/// Which resource: a document root's number and a normalised relative path.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ResourceKey {
    /// Index of the root.
    pub root: usize,
    /// Path below it.
    pub path: Box<[u8]>,
}

/// What is served for a path.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all are files: no pointer more on their way")]
pub enum Target {
    /// Nothing: this status.
    Missing(u16),
    /// A redirection to the path with a slash.
    Directory,
    /// A file; the first variant (identity) is always there.
    File([Option<Variant>; 3]),
}

/// One variant of a file, held; or an object of a library.
#[derive(Debug)]
pub struct Variant {
    /// The file, and its state when it was read.
    file: Option<(PathBuf, FileIdentity)>,
    size: u64,
    /// Of the first variant: which compressed files were there, and could not be used. They are looked for again when the file changes.
    unusable: [bool; 3],
    /// Its description.
    pub representation: Representation,
    /// Its bytes.
    pub content: Content,
}

impl Variant {
    /// Of a library, which has no files.
    pub fn of_library(representation: Representation, content: Content, size: u64) -> Variant {
        Variant { file: None, size, unusable: [false; 3], representation, content }
    }

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the file is still what was read.
    fn is_fresh(&self) -> bool {
        self.file.as_ref().is_none_or(|(path, identity)| {
            std::fs::metadata(path).is_ok_and(|metadata| FileIdentity::of(&metadata) == *identity)
        })
    }
}

/// Where a variant's bytes are.
#[derive(Clone, Debug)]
pub enum Content {
    /// Ready.
    Object(Rc<Object>),
    /// On disk: streamed.
    File(Arc<OpenFile>),
    /// On a storage area: read piece by piece.
    Flat(FlatObject),
    /// In memory, for answers that are too few to be prepared.
    Page(Bytes),
}

/// A path's content as the service holds it.
#[derive(Debug)]
pub struct Resource {
    /// Whose.
    pub key: ResourceKey,
    /// What.
    pub target: Target,
    /// Bytes counted against the memory budget.
    pub cost: usize,
    /// When it was last used, in requests served.
    pub used: Cell<u64>,
    /// In which second its file was last compared.
    pub checked: Cell<u64>,
    /// No longer in the store: what still refers to it must look again.
    pub evicted: Cell<bool>,
}

/// Bookkeeping of a resource, and of a held open file, bytes.
const RESOURCE_COST: usize = 1024;
const OPEN_FILE_COST: usize = 64 * 1024;

impl Resource {
    /// From what a look-up `found` in second `now_seconds`.
    pub fn new(key: ResourceKey, found: Found, memory: &Rc<DeviceMemory>, now_seconds: u64) -> Resource {
        let mut cost = RESOURCE_COST + key.path.len();
        let target = match found {
            Found::Missing(status) => Target::Missing(status),
            Found::Directory => Target::Directory,
            Found::File(variants) => Target::File(variants.map(|variant| {
                variant.map(|found| {
                    let content = match found.content {
                        FoundContent::Prepared(bytes) => {
                            cost += bytes.memory_bytes();
                            Content::Object(Rc::new(Object::new(bytes, Rc::clone(memory))))
                        }
                        FoundContent::Opened(file) => {
                            cost += OPEN_FILE_COST;
                            Content::File(Arc::new(file))
                        }
                    };
                    let FoundVariant { file, size, representation, unusable, .. } = found;
                    Variant { file, size, unusable, representation, content }
                })
            })),
        };
        let (used, checked, evicted) = (Cell::new(0), Cell::new(now_seconds), Cell::new(false));
        Resource { key, target, cost, used, checked, evicted }
    }

    /// Whether the files are still what was read. One `stat` per variant, at most once a second.
    pub fn is_fresh(&self, now_seconds: u64, check_files: bool) -> bool {
        if self.checked.get() == now_seconds {
            return true;
        }
        let Target::File(variants) = &self.target else { return false };
        let fresh = !check_files
            || variants.iter().zip(Coding::ALL).enumerate().all(|(index, (variant, coding))| {
                match (variant, &variants[0]) {
                    (Some(variant), _) if variant.file.is_some() => variant.is_fresh(),
                    // A compressed file that has appeared since.
                    (_, Some(identity)) if coding != Coding::Identity && !identity.unusable[index] => {
                        identity.file.as_ref().is_none_or(|(path, _)| {
                            let mut name = path.clone().into_os_string();
                            name.push(coding.suffix());
                            !Path::new(&name).exists()
                        })
                    }
                    _ => true,
                }
            });
        if fresh {
            self.checked.set(now_seconds);
        }
        fresh
    }

    /// Gives up the ready frames of all variants.
    pub fn release_copies(&self) {
        if let Target::File(variants) = &self.target {
            for variant in variants.iter().flatten() {
                if let Content::Object(object) = &variant.content {
                    object.release_copies();
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "resource_tests.rs"]
mod tests;
