//! Provider `queue`: queues of a NIC's own as a VNIC, for those the policy trusts.
//!
//! The application's sockets are bound to the NIC's queues, without copies where the driver can. The program `own_queue` on
//! the NIC gives them what comes by these queues and is the VNIC's by address and filters; the rest is the kernel's, as what
//! comes by other queues is. Which flows come by which queue is the NIC's affair (`ethtool -N`). Nothing is between the
//! application and the wire in the other direction: transmit filters and rates say what the VNIC answers for, and fence
//! nothing. So a rule must say `trusted = true`.

use super::Daemon;
use super::tables::{self, FLAG_QUEUE, FLAG_SHARED, OWN_QUEUE, QUEUES_MAX, Tables, say};
use super::uplink::default_gateways;
use super::vnic::{Frame, Maker, Site, Vnic, own_all};
use crate::policy::{NicPolicy, Rule};
use qanat_control::address::Address;
use qanat_control::protocol::{Provider, VnicWish};
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::link::{self, Link};

/// The NIC and its queues, if a VNIC has some.
fn place(provider: &Provider) -> Option<(&str, u32)> {
    match provider {
        Provider::Queue { interface, first } => Some((interface, *first)),
        _ => None,
    }
}

/// Whether `program` is of this fence's, or an earlier daemon's.
fn is_ours(program: u32, tables: &Tables) -> bool {
    let own = tables.other(OWN_QUEUE).and_then(|own| tables::program_id(own, OWN_QUEUE));
    own == Ok(program) || tables::is_called(program, OWN_QUEUE)
}

/// Whether addresses are claimed as the kernel has them: shared, if it has them on that NIC.
fn check_addresses(wish: &VnicWish, rule: &Rule, of_kernel: &[(Address, u8)]) -> Result<(), String> {
    for (address, length) in &wish.addresses {
        if !wish.shared {
            address.check_claim(*length, of_kernel)?;
        }
        let is_kernels = of_kernel.iter().any(|(own, _)| own == address);
        match (is_kernels, wish.shared) {
            (true, false) => return Err(format!("address {address} is the kernel's: share it (--shared)")),
            (false, true) => return Err(format!("address {address} is not the kernel's: it can't be shared")),
            _ => {}
        }
    }
    let all = |service: &qanat_control::filter::Service| service.ports.first == 0 && service.ports.last == u16::MAX;
    if wish.shared && (wish.services.is_empty() || wish.services.iter().any(all)) {
        return Err(format!(
            "rule \"{}\": of a shared address name the ports that are to be yours: the rest is the kernel's",
            rule.name
        ));
    }
    Ok(())
}

impl Daemon {
    /// The NIC whose queues are wished for, if they may be had.
    pub(super) fn wanted_nic(&self, wish: &VnicWish, rule: &Rule) -> Result<Option<Link>, Refusal> {
        let Some((name, first)) = place(&wish.provider) else {
            return match wish.provider {
                Provider::Vf => {
                    Err("provider vf: SR-IOV functions as cards are not built; there are veth, tap and queue".into())
                }
                _ => Ok(None),
            };
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
    pub(super) fn release_nic(&self, provider: &Provider) {
        let Some((name, _)) = place(provider) else { return };
        let is_on_it = |vnic: &Vnic| place(&vnic.wish.provider).is_some_and(|(other, _)| other == name);
        if !self.vnics.values().any(is_on_it) {
            release(name, &self.tables);
        }
    }

    /// Queues that the policy gives away and nobody has, in words.
    pub(super) fn free_nic_queues(&self) -> Vec<String> {
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

fn release(name: &str, tables: &Tables) {
    if let Ok(link) = link::link(name)
        && link.xdp_program.is_some_and(|program| is_ours(program, tables))
    {
        // Gone meanwhile: just as well.
        let _ = link::clear_xdp(link.index);
    }
}

/// Gives back a NIC that an ended daemon has left, in the calling thread's namespace.
pub(super) fn release_left(index: u32) {
    if let Ok(link) = link::link_by_index(index)
        && link.xdp_program.is_some_and(|program| tables::is_called(program, OWN_QUEUE))
    {
        let _ = link::clear_xdp(link.index);
    }
}

/// Makes the NIC's queues known to the programs.
pub(super) fn enter(tables: &mut Tables, slot: u32, wish: &VnicWish, nic: &Link) -> Result<(), String> {
    let Some((_, first)) = place(&wish.provider) else { return Ok(()) };
    own_all(tables, slot, wish)?;
    (0..wish.queues.min(QUEUES_MAX))
        .try_for_each(|queue| tables.own_nic_queue(nic.index, first + queue, slot * QUEUES_MAX + queue))
}

/// Attaches the program, if it is not there.
pub(super) fn attach(tables: &Tables, nic: &Link) -> Result<(), String> {
    let program = tables.other(OWN_QUEUE)?;
    if nic.xdp_program == tables::program_id(program, OWN_QUEUE).ok() {
        return Ok(());
    }
    // Tags must be where the program looks for them; a device that has no such offload has them there.
    let _ = link::keep_vlan_tags(&nic.name);
    link::set_xdp(nic.index, program).map_err(|error| {
        say(&format!("attach to {}; its driver must have native XDP, and its MTU must suit that", nic.name), error)
    })
}

impl Vnic {
    /// Whether it has queues of a NIC's.
    pub(super) fn is_nics(&self) -> bool {
        place(&self.wish.provider).is_some()
    }

    /// The NIC's queue that is the VNIC's `queue`.
    pub(super) fn nic_queue(&self, queue: u32) -> u32 {
        place(&self.wish.provider).map_or(0, |(_, first)| first + queue)
    }

    /// Makes queues of `nic` a VNIC.
    pub(super) fn of_nic(
        site: &mut Site<'_>,
        slot: u32,
        mut wish: VnicWish,
        nic: Link,
        maker: Maker,
    ) -> Result<Vnic, Refusal> {
        wish.queues = wish.queues.max(1);
        wish.mtu = nic.mtu;
        let tables = &mut *site.tables;
        let flags = FLAG_QUEUE | if wish.shared { FLAG_SHARED } else { 0 };
        let row = maker.write_row(tables, slot, &wish, [nic.mac.0, nic.mac.0], flags)?;
        enter(tables, slot, &wish, &nic)?;
        let gateways = default_gateways(nic.index).into_iter().map(Address::ip).collect();
        let mut vnic = Vnic::assemble(slot, wish, maker, Frame { host: nic.clone(), end: nic.clone(), gateways, row });
        let done = vnic.write_filters(tables).and_then(|()| attach(tables, &nic));
        match done {
            Ok(()) => Ok(vnic),
            Err(error) => {
                vnic.remove(tables, site.ends);
                Err(error.into())
            }
        }
    }
}
