pub use qanat_api::{Fill, Source};
