//! What `qanat run` and the library that it puts before a program's others agree on: which of the sockets API is supported, which
//! numbers the library's descriptors have, and how much memory it needs.
#![forbid(unsafe_code)]

pub mod memory_limits;
pub mod numbers;
pub mod support;
