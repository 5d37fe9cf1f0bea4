//! A VNIC's further queues.
//!
//! A socket gets frames of its own device's queue only, and veth chooses the queue of what is redirected by the processor:
//! no program could choose it. So each further queue is a veth pair of its own beside the VNIC's end, and `deliver` chooses
//! the pair (see `bpf/fence.h`). Made when the queue is opened first; gone with the VNIC.

use crate::cards::vnic::Vnic;
use crate::error::{DaemonError, say};
use crate::fence::tables::{QUEUES_MAX, Tables};
use qanat_control::filter::Direction;
use qanat_control::refusal::Refusal;
use qanat_nic::link::{self, Feature, Link, Namespace};
use std::io;

fn names(slot: u32, queue: u32) -> (String, String) {
    (format!("in{slot}-{queue}"), format!("vnic{slot}-{queue}"))
}

impl Vnic {
    /// Whether what a filter covers can be received by `queue`.
    pub(crate) fn check_queue(&self, direction: Direction, queue: Option<u32>) -> Result<(), Refusal> {
        match queue {
            Some(_) if self.is_nics() => {
                Err("which of a NIC's queues a packet comes by is the NIC's affair: see `ethtool -N`".into())
            }
            Some(_) if self.is_tap() => Err("a TAP device has one queue: leave the queue out".into()),
            Some(_) if direction == Direction::Transmit => {
                Err("what is sent has no queue: name one with a receive filter only".into())
            }
            Some(queue) if queue >= self.wish.queues => {
                Err(format!("VNIC {} has {} queues, from 0: there is no {queue}", self.slot, self.wish.queues).into())
            }
            _ => Ok(()),
        }
    }

    /// The device a queue's socket is bound to; makes it if it is a further queue's and not there.
    pub(crate) fn queue_device(&self, tables: &mut Tables, ends: &Namespace, queue: u32) -> Result<Link, DaemonError> {
        if queue == 0 {
            return Ok(self.end.clone());
        }
        let (inlet, end) = names(self.slot, queue);
        let found = ends.within(|| link::link(&end)).map_err(|error| say("enter a namespace", error))?;
        if let Ok(found) = found {
            return Ok(found);
        }
        let (relay, deliver) = (tables.other("relay")?, tables.other("deliver_queue")?);
        let make = || -> io::Result<(Link, Link)> {
            link::make_veth(&inlet, &end, ends, self.wish.mtu, 1)?;
            let (inlet, found) = (link::link(&inlet)?, link::link(&end)?);
            let set_up = || -> io::Result<()> {
                link::set_xdp(inlet.index, relay)?;
                link::set_xdp(found.index, deliver)?;
                link::set_up(inlet.index)?;
                link::set_up(found.index)?;
                let _ = link::set_feature(&end, Feature::TcpSegmentation, false);
                Ok(())
            };
            set_up().inspect_err(|_| {
                let _ = link::delete(inlet.index);
            })?;
            Ok((inlet, found))
        };
        let made = ends.within(make).and_then(|made| made);
        let (inlet, found) = made.map_err(|error| say("make a further queue's device", error))?;
        self.connect_queue(tables, ends, queue, &inlet, &found)?;
        Ok(found)
    }

    fn connect_queue(
        &self,
        tables: &mut Tables,
        ends: &Namespace,
        queue: u32,
        inlet: &Link,
        end: &Link,
    ) -> Result<(), DaemonError> {
        let row = self.slot * QUEUES_MAX;
        let connect = || -> Result<(), DaemonError> {
            tables.connect_queue(row, self.end.index, &[])?;
            tables.connect_queue(row + queue, inlet.index, &[inlet.index, end.index])
        };
        ends.within(connect).map_err(|error| say("enter a namespace", error))?
    }

    /// Interfaces of the further queues, both ends of each.
    pub(crate) fn further_devices(&self, ends: &Namespace) -> Vec<u32> {
        let find = || {
            let find = |queue| {
                let (inlet, end) = names(self.slot, queue);
                [inlet, end].into_iter().filter_map(|name| link::link(&name).ok()).map(|link| link.index)
            };
            (1..self.wish.queues.min(QUEUES_MAX)).flat_map(find).collect()
        };
        if self.wish.queues <= 1 || self.is_nics() { Vec::new() } else { ends.within(find).unwrap_or_default() }
    }

    /// Removes them.
    pub(crate) fn remove_queues(&self, tables: &mut Tables, ends: &Namespace) {
        let devices = self.further_devices(ends);
        tables.disconnect_queues(self.slot, &devices);
        let _ = ends.within(|| devices.iter().for_each(|index| drop(link::delete(*index))));
    }
}
