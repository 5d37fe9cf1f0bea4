//! A queue's socket over the client's memory, charged to the VNIC's owner.

use crate::cards::charges::Charge;
use crate::cards::vnic::{Site, Vnic};
use crate::error::say;
use crate::fence::injectors::Opener;
use qanat_control::protocol::QueueWish;
use qanat_control::refusal::{Cause, Refusal};
use qanat_nic::af_xdp::{HandedQueue, INJECTION_BYTES, MemoryFiles, PreparedBatch, hand_over, is_injectable};
use qanat_nic::link::Namespace;
use qanat_nic::{DeviceError, MemoryPlan};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::os::fd::{AsFd, OwnedFd};

impl Vnic {
    /// Registers the client's memory with a socket on a queue, and charges it to the VNIC's owner.
    pub(crate) fn open_queue(
        &mut self,
        site: &mut Site<'_>,
        wish: QueueWish,
        files: &[OwnedFd],
        opener: Opener,
    ) -> Result<HandedQueue, Refusal> {
        if wish.queue >= self.wish.queues {
            return Err(format!(
                "VNIC {} has {} queues, from 0: there is no {}",
                self.slot, self.wish.queues, wish.queue
            )
            .into());
        }
        let QueueWish { queue, frame_size, receive_frames, transmit_frames, prepared_frames } = wish;
        let plan = MemoryPlan { frame_size, receive_frames, transmit_frames, prepared_frames };
        let frames = u64::from(receive_frames) + u64::from(transmit_frames) + u64::from(prepared_frames);
        let length = frames.saturating_mul(u64::from(frame_size));
        site.charges.settle(site.state, self.account);
        let left = (self.rule.memory_mib << 20).saturating_sub(site.charges.of(self.account));
        if length > left {
            let text = format!(
                "rule \"{}\" allows {} MiB of frame memory, of which {} are left: not {length} bytes (memory of a \
                 deleted VNIC counts until its sockets are closed)",
                self.rule.name,
                self.rule.memory_mib,
                left >> 20
            );
            return Err(Refusal::new(Cause::Full, text));
        }
        let files = match files {
            [receive, rest] => {
                let received = u64::from(receive_frames) * u64::from(frame_size);
                check_memory_file(receive, received)?;
                check_memory_file(rest, length.saturating_sub(received))?;
                MemoryFiles::Lendable(receive.as_fd(), rest.as_fd())
            }
            [file, ..] => {
                check_memory_file(file, length)?;
                MemoryFiles::One(file.as_fd())
            }
            [] => return Err("frame memory comes beside the request".into()),
        };
        let handed = if self.is_nics() {
            let here = Namespace::current().map_err(|error| say("look at the own namespace", error))?;
            // Nothing judges what is sent there, and the device finishes checksums before the wire.
            hand_over(&self.end, &here, self.nic_queue(queue), files, plan, true)
        } else {
            let device = self.queue_device(site.tables, site.ends, queue)?;
            hand_over(&device, site.ends, 0, files, plan, false)
        };
        let mut handed = handed.map_err(|error| match error {
            DeviceError::QueueBusy { .. } => Refusal::new(Cause::Taken, error.to_string()),
            error => error.to_string().into(),
        })?;
        let may_inject = self.may_inject(opener) && left - length >= INJECTION_BYTES;
        let batch = may_inject.then(|| site.charges.injectors.prepare()).flatten();
        let bytes = length + batch.as_ref().map_or(0, |_| INJECTION_BYTES);
        let number = batch.as_ref().map_or(0, PreparedBatch::number);
        let Charge { row, number } =
            site.charges.add(site.state, self.account, bytes, handed.socket.as_fd(), number)?;
        if let Some(batch) = batch {
            handed.injector = site.charges.injectors.hand_over(row, batch, self.end.index, site.ends);
        }
        site.tables.set_socket(self.slot, queue, handed.socket.as_fd())?;
        self.queues.insert(queue, length);
        if let Some(before) = self.sockets.insert(queue, number) {
            site.charges.revoke(before);
        }
        Ok(handed)
    }

    /// Whether the process that opens a queue may have an injector. The descriptor of an XDP program goes with it, and the kernel
    /// lets a process attach such a program, by a link, to any device of its namespace without a capability. So only those get an
    /// injector that could do so anyway, or that can't make links at all.
    fn may_inject(&self, opener: Opener) -> bool {
        let is_trusted = opener == Opener::NetCore || self.user == 0 || self.rule.trusted;
        is_trusted && !self.is_nics() && is_injectable(self.wish.mtu)
    }
}

/// Whether memory can't be pulled from under the kernel, or be more than what is paid for.
fn check_memory_file(file: &OwnedFd, length: u64) -> Result<(), Refusal> {
    let seals = fcntl_get_seals(file).map_err(|_| "frame memory must be a memory file (memfd_create)".to_owned())?;
    if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) || seals.contains(SealFlags::WRITE) {
        return Err("frame memory must be sealed against shrinking and growing, and writable".into());
    }
    let status = fstat(file).map_err(|error| say("look at frame memory", error))?;
    let size = status.st_size;
    if u64::try_from(size) != Ok(length) || length == 0 {
        return Err(format!("frame memory has {size} bytes, the plan {length}: they must be the same").into());
    }
    // Pages the daemon's own registering would bring into being would be the daemon's, and its time.
    match u64::try_from(status.st_blocks).is_ok_and(|blocks| blocks.saturating_mul(512) >= length) {
        true => Ok(()),
        false => Err("frame memory must be allocated (fallocate) before it is registered".into()),
    }
}
