//! [`FilmLibrary`]: the objects of an area as content for the web service, and the pages that play them.

use crate::{name, pages};
use qanat::{AreaId, Event, StorageCommands};
use qanat_store::{ObjectEvent, ObjectId, Objects, Options, StoreError};
use qanat_web::content::{
    Content, FlatObject, Library, LibraryError, LibraryEvent, Representation, Shelf, Variant, mime,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long a client may keep what it was given, seconds: a film's files never change.
const KEEP_S: u32 = 3_600;

/// A page of a film's own, if it has one.
const OWN_PAGE: &str = "index.html";

/// An object that is served.
#[derive(Debug)]
struct Held {
    name: Vec<u8>,
    id: ObjectId,
}

/// Films on a storage area, which is only read.
#[derive(Debug)]
pub struct FilmLibrary {
    area: AreaId,
    objects: Option<Objects>,
    /// By the number that the service knows them by.
    held: Vec<Held>,
    /// By path.
    shelves: BTreeMap<Vec<u8>, Rc<Variant>>,
}

impl FilmLibrary {
    /// The films of an area. [`Library::open`] opens it.
    pub fn new(area: AreaId) -> FilmLibrary {
        FilmLibrary { area, objects: None, held: Vec::new(), shelves: BTreeMap::new() }
    }

    fn objects(&mut self) -> Result<&mut Objects, LibraryError> {
        self.objects.as_mut().ok_or_else(|| LibraryError::of(StoreError::NotReady))
    }

    /// Puts all that is there on the shelves.
    fn fill(&mut self) {
        let Some(objects) = &self.objects else { return };
        let identity = objects.identity().iter().take(4).fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        let mut films: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (object, info) in objects.iter() {
            let Some((path, added_s)) = name::parse(object) else { continue };
            let Some((film, file)) = path.split_once('/') else { continue };
            let representation = Representation {
                media_type: mime::of(path.as_bytes()),
                etag: format!("\"{identity}-{:x}\"", info.id.number()),
                last_modified: added_s,
                coding: None,
                varies: false,
                cache_control: Some(format!("max-age={KEEP_S}")),
                common: String::new(),
            };
            let content = Content::Flat(FlatObject(self.held.len() as u64));
            self.held.push(Held { name: object.to_vec(), id: info.id });
            films.entry(film.to_owned()).or_default().push(file.to_owned());
            let variant = Rc::new(Variant::of_library(representation, content, info.bytes));
            if let Some(folder) = path.strip_suffix(OWN_PAGE).filter(|folder| folder.ends_with('/')) {
                self.shelves.insert(folder.into(), Rc::clone(&variant));
            }
            self.shelves.insert(path.into(), variant);
        }
        for (path, variant) in pages::all(&films) {
            // A film's own page comes first.
            self.shelves.entry(path).or_insert(Rc::new(variant));
        }
    }
}

impl Library for FilmLibrary {
    fn open(&mut self, storage: &mut dyn StorageCommands) -> Result<(), LibraryError> {
        let objects = Objects::open(self.area, Options::default().read_only(), storage).map_err(LibraryError::of)?;
        self.objects = Some(objects);
        Ok(())
    }

    fn handle(&mut self, event: Event, storage: &mut dyn StorageCommands) -> Option<Event> {
        match &mut self.objects {
            Some(objects) => objects.handle(event, storage),
            None => Some(event),
        }
    }

    fn next(&mut self, storage: &mut dyn StorageCommands) -> Option<LibraryEvent> {
        loop {
            match self.objects.as_mut()?.next(storage)? {
                ObjectEvent::Recovered { .. } => {
                    self.fill();
                    return Some(LibraryEvent::Open);
                }
                ObjectEvent::Read { token, result } => {
                    return Some(LibraryEvent::Read { token, result: result.map_err(LibraryError::of) });
                }
                ObjectEvent::Failed(error) => return Some(LibraryEvent::Failed(LibraryError::of(error))),
                // Nothing is written here.
                _ => {}
            }
        }
    }

    fn find(&mut self, path: &[u8]) -> Shelf {
        if let Some(variant) = self.shelves.get(path) {
            return Shelf::Holds(Rc::clone(variant));
        }
        let below = [path, b"/"].concat();
        let is_folder = self.shelves.range(below.clone()..).next().is_some_and(|(path, _)| path.starts_with(&below));
        if is_folder && !path.is_empty() && !path.ends_with(b"/") { Shelf::Directory } else { Shelf::Empty }
    }

    fn hold(&mut self, object: FlatObject) -> bool {
        let (Some(objects), Some(held)) = (&mut self.objects, self.held.get(object.0 as usize)) else { return false };
        objects.hold(&held.name).is_ok()
    }

    fn release(&mut self, object: FlatObject) {
        if let (Some(objects), Some(held)) = (&mut self.objects, self.held.get(object.0 as usize)) {
            objects.release(held.id);
        }
    }

    fn read(
        &mut self,
        object: FlatObject,
        piece: u64,
        token: u64,
        storage: &mut dyn StorageCommands,
    ) -> Result<(), LibraryError> {
        let id = self.held.get(object.0 as usize).ok_or_else(|| LibraryError::of(StoreError::None))?.id;
        self.objects()?.read(id, piece, token, storage).map_err(LibraryError::of)
    }
}

/// The web service's pieces are those of the store.
const _: () = assert!(qanat_web::content::PIECE_BYTES == qanat_store::PIECE_BYTES);
