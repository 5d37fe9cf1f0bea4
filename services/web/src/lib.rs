//! Static web service.
#![forbid(unsafe_code)]
