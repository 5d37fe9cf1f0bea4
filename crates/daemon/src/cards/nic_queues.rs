//! Which queues of NICs may be used, and by whom they are.

use crate::cards::nic::{is_ours, release};
use crate::cards::vnic::{Vnic, place};
use crate::daemon::Daemon;
use crate::error::say;
use crate::policy::{NicPolicy, Rule};
use qanat_control::address::Address;
use qanat_control::protocol::{Provider, VnicWish};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::link::{self, Link};

/// Whether addresses are claimed as the kernel has them: shared, if it has them on that NIC.
fn check_addresses(wish: &VnicWish, rule: &Rule, of_kernel: &[(Address, u8)]) -> Result<(), Refusal> {
    for (address, length) in &wish.addresses {
        if !wish.shared {
            address.check_claim(*length, of_kernel)?;
        }
        let is_kernels = of_kernel.iter().any(|(own, _)| own == address);
        match (is_kernels, wish.shared) {
            (true, false) => return Err(format!("address {address} is the kernel's: share it (--shared)").into()),
            (false, true) => return Err(format!("address {address} is not the kernel's: it can't be shared").into()),
            _ => {}
        }
    }
    let all = |service: &qanat_control::filter::Service| service.ports.first == 0 && service.ports.last == u16::MAX;
    if wish.shared && (wish.services.is_empty() || wish.services.iter().any(all)) {
        return Err(format!(
            "rule \"{}\": of a shared address name the ports that are to be yours: the rest is the kernel's",
            rule.name
        )
        .into());
    }
    Ok(())
}

impl Daemon {
    /// The NIC whose queues are wished for, if they may be had.
    pub(crate) fn wanted_nic(&self, wish: &VnicWish, rule: &Rule) -> Result<Option<Link>, Refusal> {
        let Some((name, first)) = place(&wish.provider) else {
            return Ok(None);
        };
        rule.check_trusted()?;
        let count = wish.queues.max(1);
        let end = u64::from(first) + u64::from(count);
        let nics = || self.policy.nic.iter().filter(|nic| nic.interface == name);
        let holds = |NicPolicy { queues: [low, high], .. }: &&NicPolicy| *low <= first && end <= u64::from(*high) + 1;
        if !nics().any(|nic| holds(&nic)) {
            let given: Vec<String> =
                nics().map(|NicPolicy { queues: [low, high], .. }| format!("{low} to {high}")).collect();
            let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
            return Err(format!(
                "queues {first} to {} of {name}: the policy gives away {given} of it ([[nic]])",
                end.saturating_sub(1)
            )
            .into());
        }
        if wish.priority_queues > 0 {
            return Err("which of a NIC's queues a packet comes by is the NIC's affair: none is high-priority".into());
        }
        for other in self.vnics.values() {
            let (Some((taken, from)), queues) = (place(&other.wish.provider), other.wish.queues) else { continue };
            if taken == name && u64::from(from) < end && first < from + queues {
                let text = format!("queue {} of {name} is another VNIC's already", from.max(first));
                return Err(Refusal::new(Cause::Taken, text));
            }
        }
        let found = link::link(name).map_err(|error| say(&format!("NIC {name}"), error))?;
        if !found.is_up {
            return Err(format!("NIC {name} is down: ip link set {name} up").into());
        }
        if end > u64::from(found.receive_queues) {
            return Err(
                format!("NIC {name} has {} queues, from 0: see `ethtool -l {name}`", found.receive_queues).into()
            );
        }
        if found.xdp_program.is_some_and(|program| !is_ours(program, &self.tables)) {
            return Err(format!("NIC {name} has another's XDP program: ip link set {name} xdp off").into());
        }
        let of_kernel = link::addresses(found.index).map_err(|error| say(&format!("NIC {name}"), error))?;
        let of_kernel: Vec<(Address, u8)> = of_kernel.into_iter().map(|(own, length)| (own.into(), length)).collect();
        check_addresses(wish, rule, &of_kernel)?;
        Ok(Some(found))
    }

    /// Gives a NIC back to the kernel when the last VNIC on it is gone.
    pub(crate) fn release_nic(&self, provider: &Provider) {
        let Some((name, _)) = place(provider) else { return };
        let is_on_it = |vnic: &Vnic| place(&vnic.wish.provider).is_some_and(|(other, _)| other == name);
        if !self.vnics.values().any(is_on_it) {
            release(name, &self.tables);
        }
    }

    /// Queues that the policy gives away and nobody has, in words.
    pub(crate) fn free_nic_queues(&self) -> Vec<String> {
        let has = |name: &str, queue: u32| {
            self.vnics.values().any(|vnic| {
                place(&vnic.wish.provider)
                    .is_some_and(|(other, first)| other == name && (first..first + vnic.wish.queues).contains(&queue))
            })
        };
        let free = |NicPolicy { interface, queues: [low, high] }: &NicPolicy| {
            // Numbers beyond what any NIC has are not looked at.
            let free: Vec<String> = (*low..=(*high).min(low.saturating_add(1_023)))
                .filter(|queue| !has(interface, *queue))
                .map(|queue| queue.to_string())
                .collect();
            format!("queue ({interface}: {})", if free.is_empty() { "none free".to_owned() } else { free.join(" ") })
        };
        self.policy.nic.iter().map(free).collect()
    }
}
