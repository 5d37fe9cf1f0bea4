//! Frame formats that a service may meet: checksums of what it prepares, and addresses of the link. The crate `qanat-wire` has all of them.

pub use qanat_wire::checksum;
pub use qanat_wire::ethernet::MacAddress;
