//! Content: files of a document root as prepared objects, kept within a memory budget.

pub mod head;
pub mod mime;
pub mod object;
pub mod resource;
pub mod store;
pub mod window;

pub use head::{Representation, ResponseHead};
pub use object::{DeviceMemory, Object, PreparedBytes, Stamp};
pub use resource::{Content, FileIdentity, Resource, ResourceKey, Root, Target, Variant};
pub use store::Store;
