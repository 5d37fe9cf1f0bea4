//! `qanat cache` as its users run it: Debian's memcached as the oracle, command by command; its own clients; and clients who mean ill.
#![forbid(unsafe_code)]

#[path = "e2e_cache/clients.rs"]
mod clients;
#[path = "e2e_cache/hostile.rs"]
mod hostile;
#[path = "e2e_cache/oracle.rs"]
mod oracle;
#[path = "e2e_cache/peer.rs"]
mod peer;
