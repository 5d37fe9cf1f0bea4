//! Content: files of a document root as prepared objects, kept within a memory budget; or the objects of a library, read as they go.

pub(crate) mod compress;
pub mod flat;
pub mod head;
pub mod library;
pub(crate) mod listing;
pub mod mime;
pub mod object;
pub mod resource;
pub mod store;
pub mod window;

pub use flat::{FlatObject, PIECE_BYTES};
pub use head::{Representation, ResponseHead};
pub use library::{Library, LibraryError, LibraryEvent, Shelf};
pub use object::{DeviceMemory, Object, PreparedBytes, Stamp};
pub use resource::{Content, FileIdentity, OpenFile, Resource, ResourceKey, Root, Target, Variant};
pub use store::Store;
