//! Messages of the shared-memory interface: whatever a peer sends is understood or refused, and what is understood is
//! written as it was read. (Rings and regions need shared memory: `qanat-nic`'s own tests throw arbitrary ones at both
//! roles.)

use qanat_nic::memif::message::{MESSAGE_LENGTH, Message};

/// The input as it is, and cut into messages.
pub fn memif(data: &[u8]) {
    let _ = Message::parse(data);
    for chunk in data.chunks(MESSAGE_LENGTH) {
        let mut bytes = [0; MESSAGE_LENGTH];
        bytes[..chunk.len()].copy_from_slice(chunk);
        // Half of all types are none: make most of the input count.
        bytes[0] &= 15;
        bytes[1] = 0;
        let Ok(message) = Message::parse(&bytes) else { continue };
        let emitted = message.emit();
        let again = Message::parse(&emitted).expect("what we write is a message");
        // Names that are no text are read as something else than they were; the second time nothing changes any more.
        assert_eq!(Message::parse(&again.emit()).as_ref(), Ok(&again));
        if let Message::Disconnect { reason, .. } = &message {
            assert!(!reason.chars().any(char::is_control), "nothing that a terminal would obey");
        }
    }
}
