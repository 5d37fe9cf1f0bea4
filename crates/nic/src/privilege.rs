//! Which privileges this process lacks, and who can give them: an error that tells root to become root helps nobody.

/// What devices need: the capabilities' names, and their bits in `/proc/self/status`.
pub const NEEDED: [(&str, u32); 4] = [("NET_ADMIN", 12), ("NET_RAW", 13), ("SYS_ADMIN", 21), ("BPF", 39)];

/// What to do when the kernel says that something is not permitted.
pub fn remedy() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    let is_root = field("Uid:").split_whitespace().nth(1) == Some("0");
    remedy_for(is_root, u64::from_str_radix(&field("CapEff:"), 16).unwrap_or(0))
}

fn remedy_for(is_root: bool, capabilities: u64) -> String {
    let missing: Vec<String> =
        NEEDED.iter().filter(|(_, bit)| capabilities >> bit & 1 == 0).map(|(name, _)| format!("CAP_{name}")).collect();
    match (is_root, missing.is_empty()) {
        (false, _) => "run with sudo".to_owned(),
        (true, false) => format!(
            "root has not got {} here: whoever started this took it, a container (--cap-add), a unit (CapabilityBoundingSet=) or setpriv",
            missing.join(", ")
        ),
        (true, true) => "root may not do it either: a system-call filter, a security module (`journalctl -k`), a user namespace, or \
                         the kernel's lockdown (/sys/kernel/security/lockdown) forbids it"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_become_root() {
        assert_eq!(remedy_for(false, 0), "run with sudo");
        let all = NEEDED.iter().fold(0, |bits, (_, bit)| bits | 1 << bit);
        let without = remedy_for(true, all & !(1 << 39));
        assert!(without.starts_with("root has not got CAP_BPF here") && !without.contains("sudo"), "{without}");
        assert!(!remedy_for(true, all).contains("sudo"));
    }
}
