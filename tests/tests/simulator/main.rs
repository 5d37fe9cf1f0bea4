//! Whole systems on a virtual clock: see `qanat_tests::sim`.
//!
//! ```text
//! cargo test -p qanat-tests --release --test simulator                  # a few seeds of everything
//! QANAT_SEEDS=10000 cargo test … --test simulator                       # more
//! QANAT_SEED=17 QANAT_PCAP=/tmp/17.pcap cargo test … --test simulator streams_under_faults
//! ```

mod attacks;
mod bombs;
mod fragments;
mod goodput;
mod options;
mod raw;
mod siege;
mod smoltcp_node;
mod smoltcp_peer;
mod streams;
mod talks;
mod web;
mod web_clients;
