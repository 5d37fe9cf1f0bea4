//! The control plane, as far as a service and what runs it need it: a session with the daemon, addresses as users write them, files that
//! are read only if they are files, and figures for Prometheus. The crate `qanat-control` has the rest: filters, the protocol, the steward.

pub use qanat_control::address::Address;
pub use qanat_control::card_watch::CardWatch;
pub use qanat_control::client::{ClientError, Session, VnicHandle, default_socket};
pub use qanat_control::protocol::AreaPath;
pub use qanat_control::{ParseError, prometheus, regular_file};
