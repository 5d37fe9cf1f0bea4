//! [`Pages`]: the dashboard's page, and the status, as content of the web service. All of it is in memory.

use super::feed::Latest;
use bytes::Bytes;
use qanat::{Event, StorageCommands};
use qanat_web::content::{
    Content, FlatObject, Library, LibraryError, LibraryEvent, Representation, Shelf, Variant, mime,
};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{Error, ErrorKind};
use std::rc::Rc;

const FILES: [(&[u8], &str, &str); 3] = [
    (b"", "index.html", include_str!("page/index.html")),
    (b"dashboard.css", "dashboard.css", include_str!("page/dashboard.css")),
    (b"dashboard.js", "dashboard.js", include_str!("page/dashboard.js")),
];

const STATUS: &[u8] = b"status.json";

/// See the module.
#[derive(Debug)]
pub struct Pages {
    /// What an address begins with. Who does not know it finds nothing: other users of this machine, and pages of elsewhere that lead a
    /// browser here.
    key: String,
    files: Vec<(&'static [u8], Rc<Variant>)>,
    latest: Latest,
    /// What was heard last, and what is served of it.
    status: (Bytes, Rc<Variant>),
    is_open: bool,
}

impl Pages {
    /// The page, which shows what `latest` says, below `key`.
    pub fn new(key: String, latest: Latest) -> Pages {
        let files = FILES.iter().map(|(path, name, text)| (*path, page(name, Bytes::from_static(text.as_bytes()))));
        let text = latest.get();
        let status = (text.clone(), page("status.json", text));
        Pages { key, files: files.collect(), latest, status, is_open: false }
    }
}

fn page(name: &str, bytes: Bytes) -> Rc<Variant> {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let representation = Representation {
        media_type: mime::of(name.as_bytes()),
        etag: format!("\"{:x}\"", hasher.finish()),
        last_modified: 0,
        coding: None,
        varies: false,
        cache_control: Some("no-cache".to_owned()),
        common: String::new(),
    };
    let size = bytes.len() as u64;
    Rc::new(Variant::of_library(representation, Content::Page(bytes), size))
}

impl Library for Pages {
    fn open(&mut self, _storage: &mut dyn StorageCommands) -> Result<(), LibraryError> {
        Ok(())
    }

    fn handle(&mut self, event: Event, _storage: &mut dyn StorageCommands) -> Option<Event> {
        Some(event)
    }

    fn next(&mut self, _storage: &mut dyn StorageCommands) -> Option<LibraryEvent> {
        (!std::mem::replace(&mut self.is_open, true)).then_some(LibraryEvent::Open)
    }

    fn find(&mut self, path: &[u8]) -> Shelf {
        let length = self.key.len().min(path.len());
        let (key, path) = path.split_at(length);
        // How long it takes does not tell how much of it is right.
        let differences = self.key.bytes().zip(key).fold(0, |all, (one, other)| all | one ^ other);
        if length < self.key.len() || differences != 0 {
            return Shelf::Empty;
        }
        let Some(path) = path.strip_prefix(b"/") else {
            return if path.is_empty() { Shelf::Directory } else { Shelf::Empty };
        };
        if path == STATUS {
            let text = self.latest.get();
            if text != self.status.0 {
                self.status = (text.clone(), page("status.json", text));
            }
            return Shelf::Holds(Rc::clone(&self.status.1));
        }
        let file = self.files.iter().find(|(name, _)| *name == path);
        file.map_or(Shelf::Empty, |(_, variant)| Shelf::Holds(Rc::clone(variant)))
    }

    // There are no objects: pages are held by who serves them.

    fn hold(&mut self, _object: FlatObject) -> bool {
        false
    }

    fn release(&mut self, _object: FlatObject) {}

    fn read(
        &mut self,
        _object: FlatObject,
        _piece: u64,
        _token: u64,
        _storage: &mut dyn StorageCommands,
    ) -> Result<(), LibraryError> {
        Err(LibraryError::of(Error::from(ErrorKind::NotFound)))
    }
}
