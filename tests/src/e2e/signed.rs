//! A zone signed by somebody else.

use super::program::Program;
use std::path::{Path, PathBuf};

/// A zone's file after `ldns-signzone`, and the key whose DS record its parent would have.
#[derive(Debug)]
pub struct Signed {
    /// The signed zone.
    pub zone: PathBuf,
    /// The key signing key, as one DNSKEY record.
    pub key: PathBuf,
}

impl Signed {
    /// Signs `zone`; `options` are `ldns-signzone`'s. Keys and signed zone lie in `directory`.
    ///
    /// # Panics
    /// The tools fail.
    pub fn new(directory: &Path, apex: &str, zone: &Path, options: &[&str]) -> Signed {
        let key = |more: &[&str]| {
            let outcome = Program::new("ldns-keygen")
                .directory(directory)
                .arguments(["-a", "ECDSAP256SHA256", "-r", "/dev/urandom"])
                .arguments(more)
                .arguments([apex])
                .succeeds();
            outcome.text().trim().to_owned()
        };
        let (zone_key, key_key) = (key(&[]), key(&["-k"]));
        let signed = zone.with_extension("signed");
        Program::new("ldns-signzone")
            .directory(directory)
            .arguments(["-o", apex, "-f"])
            .arguments([&signed])
            .arguments(options)
            .arguments([zone])
            .arguments([&zone_key, &key_key])
            .succeeds();
        Signed { zone: signed, key: directory.join(key_key + ".key") }
    }
}
