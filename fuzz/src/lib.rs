//! # Fuzz targets
//!
//! A target is a function over bytes that panics if something that must always hold doesn't. One file per mechanism,
//! listed in [`TARGETS`]. Two ways to run them:
//!
//! ```text
//! # Stable Rust, bounded: every target for 10 seconds each, from the checked-in corpus. What CI runs.
//! cargo test --package qanat-fuzz --test fuzz-bounded -- --seconds 10
//!
//! # Nightly, with coverage feedback, for as long as you like (cargo install cargo-fuzz).
//! cargo +nightly fuzz run --features libfuzzer wire
//! ```
//!
//! `fuzz-bounded` prints its seed and the number of inputs tried. The same seed tries the same inputs in the same
//! order, so `--seed S --target NAME` repeats a run (even one that ended in an abort). An input that makes a target
//! panic, or that keeps it busy for [`bounded::HANG_TIME`], is made smaller, written to `fuzz/crashes/` and printed
//! with the command that replays it:
//!
//! ```text
//! cargo test --package qanat-fuzz --test fuzz-bounded -- --target wire --replay fuzz/crashes/…
//! ```
//!
//! A crash that is fixed goes into `corpus/<target>/` under a name that says what it was, and is tried first forever.
//!
//! # Adding a target
//!
//! 1. `src/<mechanism>.rs` with `pub fn <mechanism>(data: &[u8])`, ending in a check that everything it took (buffers,
//!    credits, timers) was given back.
//! 2. A line in [`TARGETS`], and a corpus of a few real inputs in `corpus/<mechanism>/` (or an existing one).
//! 3. `fuzz_targets/<mechanism>.rs` and its `[[bin]]` in `Cargo.toml`, like `wire`'s.

#![forbid(unsafe_code)]

pub mod bounded;
pub mod cache;
pub mod control;
pub mod descriptors;
pub mod differential;
pub mod disk_areas;
pub mod disk_queue;
pub mod dns;
pub mod dns_transfer;
pub mod http;
pub mod http2;
pub mod kv;
pub mod kv_dump;
pub mod memif;
pub mod mutate;
pub mod repair;
pub mod stack;
pub mod store;
pub mod tenant;
pub mod tls;
mod values;
pub mod wire;
pub mod wire_emit;

/// Something to fuzz.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// The directory below `corpus/` it starts from.
    pub corpus: &'static str,
    /// Takes one input; panics if something that must hold doesn't.
    pub run: fn(&[u8]),
    /// Makes a mutated input pass the outermost checks (checksums) so that it reaches what is behind them; applied to
    /// half of the inputs.
    pub repair: Option<fn(&mut [u8])>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target { name: "wire", corpus: "wire", run: wire::wire, repair: Some(repair::frame) },
    Target { name: "memif", corpus: "memif", run: memif::memif, repair: None },
    Target { name: "wire_emit", corpus: "wire", run: wire_emit::wire_emit, repair: None },
    // It repairs the frames within its input itself.
    Target { name: "stack", corpus: "stack", run: stack::stack, repair: None },
    Target { name: "tenant", corpus: "tenant", run: tenant::tenant, repair: None },
    Target { name: "differential", corpus: "differential", run: differential::differential, repair: None },
    Target { name: "http", corpus: "http", run: http::http, repair: None },
    Target { name: "cache", corpus: "cache", run: cache::cache, repair: None },
    Target { name: "kv", corpus: "kv", run: kv::kv, repair: None },
    Target { name: "kv_dump", corpus: "kv_dump", run: kv_dump::kv_dump, repair: Some(kv_dump::repair) },
    Target { name: "tls", corpus: "tls", run: tls::tls, repair: None },
    Target { name: "http2", corpus: "http2", run: http2::http2, repair: None },
    Target { name: "hpack", corpus: "hpack", run: http2::hpack, repair: None },
    Target { name: "control", corpus: "control", run: control::control, repair: None },
    Target { name: "descriptors", corpus: "descriptors", run: descriptors::descriptors, repair: None },
    Target { name: "disk_queue", corpus: "disk_queue", run: disk_queue::disk_queue, repair: None },
    Target { name: "disk_areas", corpus: "disk_areas", run: disk_areas::disk_areas, repair: None },
    Target { name: "store", corpus: "store", run: store::store, repair: None },
    Target { name: "dns_question", corpus: "dns_question", run: dns::dns_question, repair: None },
    Target { name: "dns_zone", corpus: "dns_zone", run: dns::dns_zone, repair: None },
    Target { name: "dns_transfer", corpus: "dns_transfer", run: dns_transfer::dns_transfer, repair: None },
];
