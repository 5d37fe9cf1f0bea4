//! Content: files of a document root as prepared objects, kept within a memory budget; or the objects of a library, read as they go.

pub mod head;
pub mod library;
pub mod mime;
pub mod object;
pub mod resource;
pub mod store;
pub mod window;

pub use head::{Representation, ResponseHead};
pub use library::{FlatObject, Library, LibraryError, LibraryEvent, PIECE_BYTES, Shelf};
pub use object::{DeviceMemory, Object, PreparedBytes, Stamp};
pub use resource::{Content, FileIdentity, Resource, ResourceKey, Root, Target, Variant};
pub use store::Store;
