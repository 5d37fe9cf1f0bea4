//! Scripts and functions of clients.

pub mod calls;
pub mod carrying;
pub mod functions;
pub mod management;
