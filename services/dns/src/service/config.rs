//! What a server is told.

use crate::answer::Settings;

/// What a server is told.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// Port of both protocols.
    pub port: u16,
    /// What answers say beyond the zones.
    pub settings: Settings,
}

impl Default for DnsConfig {
    fn default() -> DnsConfig {
        DnsConfig { port: 53, settings: Settings::default() }
    }
}
