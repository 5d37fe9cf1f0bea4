//! Whether this machine has what a policy names. It is looked at before a daemon that does its work ends to start anew, and by
//! `qanat up --check`; nothing is changed.

use crate::cards::uplink::Uplink;
use crate::disks::records::Records;
use crate::error::DaemonError;
use crate::policy::{DEFAULT_GROUP, Policy, parse_processors};
use qanat_nic::link;
use std::net::{SocketAddr, TcpListener};

/// Whether a daemon with this policy can start. `own`: where the daemon that runs serves its metrics, which it gives up before.
///
/// # Errors
/// Why not, with the remedy.
pub fn can_start(policy: &Policy, own: Option<SocketAddr>) -> Result<(), DaemonError> {
    if let Some(wanted) = &policy.uplink {
        Uplink::look(wanted)?;
    }
    policy.socket_group()?;
    if let Some(address) = policy.metrics.filter(|address| Some(*address) != own) {
        TcpListener::bind(address)
            .map_err(|error| format!("metrics at {address}: {error}; name another address, or end who has it"))?;
    }
    Ok(())
}

/// What a policy names that there isn't; a daemon starts without it.
pub fn missing(policy: &Policy) -> Vec<String> {
    let mut all = Vec::new();
    if policy.group != DEFAULT_GROUP && policy.socket_group().is_ok_and(|group| group.is_none()) {
        all.push(format!(
            "there is no group {}, so only root can ask the daemon: `groupadd --system {0}`",
            policy.group
        ));
    }
    for nic in &policy.nic {
        if let Err(error) = link::link(&nic.interface) {
            all.push(format!("[[nic]] {}: {error}; `ip link` shows those there are", nic.interface));
        }
    }
    for vf in &policy.vf {
        if let Err(error) = link::link(&vf.interface) {
            all.push(format!("[[vf]] {}: {error}; `ip link` shows those there are", vf.interface));
        }
    }
    // Nobody but root may look there.
    if let Ok(known) = Records::at(policy.disk_directory()).read() {
        let is_known = |name: &String| name == "*" || known.iter().any(|(known, _)| known == name);
        for rule in &policy.rule {
            all.extend(rule.disks.iter().filter(|name| !is_known(name)).map(|name| {
                format!(
                    "rule \"{}\" names the disk {name}, and there is none: `qanat disk add` it, or name another",
                    rule.name
                )
            }));
        }
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    if let Ok(online) = parse_processors(online.trim()) {
        let absent = policy.net.cores.iter().filter(|core| !online.contains(core));
        all.extend(
            absent.map(|core| format!("[net] cores: there is no processor {core}, so that net core never starts")),
        );
    }
    all
}
