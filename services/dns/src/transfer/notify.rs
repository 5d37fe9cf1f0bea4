//! NOTIFY to secondaries (RFC 1996): sent when a zone's serial number is a new one, repeated until answered.

use super::config::{Remote, TransferConfig};
use super::identifiers::Random;
use super::log::Log;
use super::replies;
use super::tokens::TIMER_NOTIFY;
use super::tsig::{Signer, Verifier};
use crate::name::Name;
use crate::zone::rtype;
use qanat::{Commands, Context, UdpSocketId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Times a NOTIFY is sent; RFC 1996, section 3.6, advises five.
const TRIES_MAX: u32 = 5;
/// Before it is sent again; doubled each time.
const PATIENCE: Duration = Duration::from_secs(2);
/// Not answered yet at once: zones times secondaries beyond it wait for their next change.
const PENDING_MAX: usize = 10_000;
/// Opcode NOTIFY, authoritative.
const FLAGS: [u8; 2] = [0x24, 0];
const HEADER_LENGTH: usize = 12;

struct Pending {
    apex: Name,
    serial: u32,
    remote: Remote,
    identifier: u16,
    tries: u32,
    verifier: Option<Verifier>,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Notifier {
    /// Serial numbers told of.
    told: BTreeMap<Name, u32>,
    pending: Vec<Option<Pending>>,
}

/// A question for the zone's SOA record, with this identifier and these flags.
pub(super) fn soa_question(identifier: u16, flags: [u8; 2], apex: &Name, qtype: u16) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_LENGTH + apex.wire().len() + 4);
    message.extend_from_slice(&identifier.to_be_bytes());
    message.extend_from_slice(&flags);
    message.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    message.extend_from_slice(apex.wire());
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

/// Whether the question of `message` is one for the SOA record of `apex`.
fn asks_for(message: &[u8], apex: &Name) -> bool {
    replies::question(message).is_some_and(|(name, qtype)| name == *apex && qtype == rtype::SOA)
}

impl Notifier {
    /// Looks which zones are new, and tells those who want to know.
    pub(super) fn look(
        &mut self,
        serials: Vec<(Name, u32)>,
        config: &TransferConfig,
        tools: (&[UdpSocketId; 2], &mut Random, &mut Log),
        now_s: u64,
        context: &mut Context<'_>,
    ) {
        let (sockets, random, log) = tools;
        for (apex, serial) in serials {
            if self.told.get(&apex) == Some(&serial) {
                continue;
            }
            let remotes = config.zone(&apex).map_or(&[][..], |zone| &zone.notify);
            for remote in remotes {
                let identifier = random.identifier();
                let pending = Pending {
                    apex: apex.clone(),
                    serial,
                    remote: remote.clone(),
                    identifier,
                    tries: 0,
                    verifier: None,
                };
                // An older one to the same server is of no use any more.
                let same = |slot: &Option<Pending>| {
                    slot.as_ref().is_some_and(|old| old.apex == apex && old.remote.address == remote.address)
                };
                let slot = self.pending.iter().position(same).or_else(|| self.pending.iter().position(Option::is_none));
                let index = match slot {
                    Some(index) => index,
                    None if self.pending.len() < PENDING_MAX => {
                        self.pending.push(None);
                        self.pending.len() - 1
                    }
                    None => {
                        log.say(format!(
                            "{apex}: too many NOTIFY messages are not answered yet: {} is not told",
                            remote.address
                        ));
                        continue;
                    }
                };
                if let Some(slot) = self.pending.get_mut(index) {
                    *slot = Some(pending);
                }
                self.send(index, (sockets, log), now_s, context);
            }
            self.told.insert(apex, serial);
        }
    }

    /// Sends, or sends again, what is pending at `index`.
    pub(super) fn send(
        &mut self,
        index: usize,
        (sockets, log): (&[UdpSocketId; 2], &mut Log),
        now_s: u64,
        context: &mut Context<'_>,
    ) {
        let Some(slot) = self.pending.get_mut(index) else { return };
        let Some(pending) = slot else { return };
        if pending.tries >= TRIES_MAX {
            log.say(format!(
                "{}: {} does not answer NOTIFY of serial {}; it will see by its refresh timer",
                pending.apex, pending.remote.address, pending.serial
            ));
            *slot = None;
            return;
        }
        let mut message = soa_question(pending.identifier, FLAGS, &pending.apex, rtype::SOA);
        if let Some(key) = &pending.remote.key {
            let mut signer = Signer::for_request(key);
            signer.sign(&mut message, now_s);
            pending.verifier = Some(signer.into_verifier());
        }
        let [v4, v6] = sockets;
        let socket = if pending.remote.address.is_ipv4() { v4 } else { v6 };
        // What can't be sent now is sent again later.
        let _ = context.send_to(*socket, pending.remote.address, &message);
        let patience = PATIENCE * (1 << pending.tries.min(8));
        pending.tries += 1;
        if context.set_timer(patience, TIMER_NOTIFY | index as u64).is_err() {
            log.say(format!("{}: no timer is left: NOTIFY is not repeated", pending.apex));
        }
    }

    /// A message that is an answer came from `peer`: is it one to a NOTIFY?
    pub(super) fn answered(&mut self, message: &[u8], peer: SocketAddr, now_s: u64, log: &mut Log) {
        let Some([high, low, flags, code]) = message.first_chunk().copied() else { return };
        let identifier = u16::from_be_bytes([high, low]);
        let is_ours = |slot: &&mut Option<Pending>| {
            slot.as_ref().is_some_and(|old| old.identifier == identifier && old.remote.address == peer)
        };
        if flags & 0xf8 != 0xa0 {
            return;
        }
        let Some(slot) = self.pending.iter_mut().find(is_ours) else { return };
        let Some(pending) = slot else { return };
        // RFC 5452 section 9.1: the question, too. What is forged must not end the wait for the true answer.
        if !asks_for(message, &pending.apex) {
            return;
        }
        if let Some(verifier) = &pending.verifier
            && let Err(error) = verifier.clone().verify(&mut message.to_vec(), now_s)
        {
            log.say(format!("{}: the answer of {peer} to NOTIFY: {error}", pending.apex));
            return;
        }
        if code & 0xf != 0 {
            log.say(format!("{}: {peer} answers NOTIFY with response code {}", pending.apex, code & 0xf));
        }
        *slot = None;
    }
}
