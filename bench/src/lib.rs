//! Load generators and benchmarks.
#![forbid(unsafe_code)]
