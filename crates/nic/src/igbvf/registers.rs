//! Registers and messages of an 82576's virtual function, as its data sheet names them.

/// Device Control.
pub(super) const CTRL: u32 = 0x0000;
/// In CTRL: resets the function's queues and interrupts.
pub(super) const CTRL_RESET: u32 = 1 << 26;
/// Device Status.
pub(super) const STATUS: u32 = 0x0008;
/// In STATUS: the link is up.
pub(super) const STATUS_LINK: u32 = 1 << 1;

/// Extended Interrupt Mask Set.
pub(super) const EIMS: u32 = 0x1524;
/// Extended Interrupt Mask Clear.
pub(super) const EIMC: u32 = 0x1528;
/// Extended Interrupt Auto Clear: causes that are forgotten once their vector has fired.
pub(super) const EIAC: u32 = 0x152c;
/// Extended Interrupt Cause.
pub(super) const EICR: u32 = 0x1580;
/// Vectors of queue 0: of what is received, and of what is sent (one byte each).
pub(super) const IVAR0: u32 = 0x1700;
/// The mailbox's vector.
pub(super) const IVAR_MISC: u32 = 0x1740;
/// In both: the vector is valid.
pub(super) const IVAR_VALID: u32 = 0x80;

/// Packet Split Receive Type.
pub(super) const PSRTYPE: u32 = 0x0f0c;

/// Receive queue 0: base, length, head, tail, control.
pub(super) const RDBAL: u32 = 0x2800;
pub(super) const RDBAH: u32 = 0x2804;
pub(super) const RDLEN: u32 = 0x2808;
pub(super) const SRRCTL: u32 = 0x280c;
pub(super) const RDH: u32 = 0x2810;
pub(super) const RDT: u32 = 0x2818;
pub(super) const RXDCTL: u32 = 0x2828;
/// Transmit queue 0.
pub(super) const TDBAL: u32 = 0x3800;
pub(super) const TDBAH: u32 = 0x3804;
pub(super) const TDLEN: u32 = 0x3808;
pub(super) const TDH: u32 = 0x3810;
pub(super) const TDT: u32 = 0x3818;
pub(super) const TXDCTL: u32 = 0x3828;
pub(super) const TDWBAL: u32 = 0x3838;
pub(super) const TDWBAH: u32 = 0x383c;
/// In RXDCTL and TXDCTL: the queue is on.
pub(super) const QUEUE_ENABLE: u32 = 1 << 25;
/// In RXDCTL and TXDCTL: when descriptors are fetched and written back (prefetch 16, host 8, write back each).
pub(super) const THRESHOLDS: u32 = 16 | 8 << 8 | 1 << 16;
/// In SRRCTL: advanced descriptors with one buffer.
pub(super) const ONE_BUFFER: u32 = 0x0200_0000;
/// In SRRCTL: a frame without a buffer is dropped, and doesn't hold up other functions.
pub(super) const DROP_ENABLE: u32 = 1 << 31;

/// The mailbox's control.
pub(super) const V2PMAILBOX: u32 = 0x0c40;
/// The mailbox's memory, 16 words.
pub(super) const VMBMEM: u32 = 0x0800;

/// Bits of V2PMAILBOX. We ask.
pub(super) const MAILBOX_REQUEST: u32 = 0x01;
/// We have read.
pub(super) const MAILBOX_ACKNOWLEDGE: u32 = 0x02;
/// The memory is ours.
pub(super) const MAILBOX_OURS: u32 = 0x04;
/// There is a message of the host's.
pub(super) const MAILBOX_MESSAGE: u32 = 0x10;
/// The host has read ours.
pub(super) const MAILBOX_READ: u32 = 0x20;
/// The host is being reset.
pub(super) const MAILBOX_RESET_GOING_ON: u32 = 0x40;
/// The host has been reset.
pub(super) const MAILBOX_RESET_DONE: u32 = 0x80;
/// Bits that are gone once they were read.
pub(super) const MAILBOX_READ_CLEARS: u32 = MAILBOX_MESSAGE | MAILBOX_READ | MAILBOX_RESET_DONE;

/// Messages: the function was reset.
pub(super) const MESSAGE_RESET: u32 = 1;
/// The address is to be this.
pub(super) const MESSAGE_SET_ADDRESS: u32 = 2;
/// Frames may be so long.
pub(super) const MESSAGE_SET_LENGTH: u32 = 5;
/// Frames for these groups are wanted: so many (above), by their hashes, two in a word.
pub(super) const MESSAGE_SET_GROUPS: u32 = 3;
/// In answers: yes, no, and "clear to send".
pub(super) const MESSAGE_YES: u32 = 0x8000_0000;
pub(super) const MESSAGE_NO: u32 = 0x4000_0000;
pub(super) const MESSAGE_CLEAR_TO_SEND: u32 = 0x2000_0000;

/// Descriptors of both kinds are of so many bytes.
pub(super) const DESCRIPTOR_BYTES: usize = 16;
/// Received: the descriptor is done; the frame ends here. In the lower half of its second word.
pub(super) const RECEIVED_DONE: u64 = 1;
pub(super) const RECEIVED_END: u64 = 1 << 1;
/// Received: an error of the frame on the wire (RXE).
pub(super) const RECEIVED_ERROR: u64 = 1 << 31;
/// To send: advanced, data, whole frame, checksum of the frame, report when done.
pub(super) const SEND_WHOLE: u32 = 0x2000_0000 | 0x0030_0000 | 0x0100_0000 | 0x0200_0000 | 0x0800_0000;
/// Sent: the descriptor is done. In the upper half of its second word.
pub(super) const SENT_DONE: u64 = 1 << 32;
