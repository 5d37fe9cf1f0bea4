//! The `qanat` command.
#![forbid(unsafe_code)]
fn main() {}
