//! A real browser without a window.

use super::pages::Pages;
use super::program::Program;
use std::time::Duration;

/// Chromium, looking at `url`, with its own files in `profile`. In a namespace of the caller's own: a setting of the network is changed.
///
/// A page tells a test what it saw by requests, which the access log shows.
///
/// # Panics
/// The setting can't be changed.
pub fn chromium(url: &str, profile: &Pages) -> Program {
    // The address IPv6 gives the client's interface by itself is there at once. Otherwise it joins a second or two later
    // (RFC 4862 §5.4), and a browser gives up every request under way when an address comes: `ERR_NETWORK_CHANGED`.
    std::fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").expect("this namespace's own setting");
    let data = format!("--user-data-dir={}", profile.argument());
    Program::new("chromium")
        .arguments([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
            "--autoplay-policy=no-user-gesture-required",
            "--hide-scrollbars",
            // Which network error a failed request met, in what a failing test shows.
            "--enable-logging=stderr",
            "--window-size=900,1200",
            &data,
            url,
        ])
        .environment("HOME", profile.path())
        .patience(Duration::from_secs(60))
}
