//! Which program this is.

/// With the commit that it was built from: `build.rs`.
pub const VERSION: &str = env!("QANAT_VERSION");
