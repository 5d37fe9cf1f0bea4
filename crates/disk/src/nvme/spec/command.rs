//! [`Command`]: an entry of a submission queue.

/// Bytes in an entry of a submission queue.
pub const COMMAND_BYTES: usize = 64;

/// Opcodes: of the admin queue, and of I/O queues.
pub mod opcode {
    /// Admin: Delete I/O Submission Queue.
    pub const DELETE_SUBMISSION_QUEUE: u8 = 0x00;
    /// Admin: Create I/O Submission Queue.
    pub const CREATE_SUBMISSION_QUEUE: u8 = 0x01;
    /// Admin: Get Log Page.
    pub const GET_LOG_PAGE: u8 = 0x02;
    /// Admin: Delete I/O Completion Queue.
    pub const DELETE_COMPLETION_QUEUE: u8 = 0x04;
    /// Admin: Create I/O Completion Queue.
    pub const CREATE_COMPLETION_QUEUE: u8 = 0x05;
    /// Admin: Identify.
    pub const IDENTIFY: u8 = 0x06;
    /// Admin: Abort.
    pub const ABORT: u8 = 0x08;
    /// Admin: Set Features.
    pub const SET_FEATURES: u8 = 0x09;
    /// Admin: Get Features.
    pub const GET_FEATURES: u8 = 0x0a;
    /// Admin: Asynchronous Event Request.
    pub const ASYNCHRONOUS_EVENT_REQUEST: u8 = 0x0c;
    /// Admin: Doorbell Buffer Config.
    pub const DOORBELL_BUFFER_CONFIG: u8 = 0x7c;
    /// I/O: Flush.
    pub const FLUSH: u8 = 0x00;
    /// I/O: Write.
    pub const WRITE: u8 = 0x01;
    /// I/O: Read.
    pub const READ: u8 = 0x02;
    /// I/O: Write Zeroes.
    pub const WRITE_ZEROES: u8 = 0x08;
}

/// Force Unit Access, in `cdw12`.
const FORCE_UNIT_ACCESS: u32 = 1 << 30;
/// Physically Contiguous, in `cdw11` of queue creation.
const PHYSICALLY_CONTIGUOUS: u32 = 1;
/// Interrupts Enabled, in `cdw11` of the creation of a completion queue.
const INTERRUPTS_ENABLED: u32 = 1 << 1;

/// An entry of a submission queue: a copy, never the memory itself.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Command {
    /// Two double words each, the lower one first.
    words: [u64; 8],
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Command({:#04x} id {} nsid {:#x} prp {:#x} {:#x} cdw10.. {:#x} {:#x} {:#x})",
            self.opcode(),
            self.identifier(),
            self.namespace(),
            self.prp1(),
            self.prp2(),
            self.double_word(10),
            self.double_word(11),
            self.double_word(12)
        )
    }
}

impl Command {
    /// A command of zeroes but for its opcode and namespace.
    pub fn new(opcode: u8, namespace: u32) -> Command {
        let mut command = Command::default();
        command.set_double_word(0, u32::from(opcode));
        command.set_double_word(1, namespace);
        command
    }

    /// From what lies in memory.
    #[inline]
    pub fn from_words(words: [u64; 8]) -> Command {
        Command { words: words.map(u64::from_le) }
    }

    /// As it lies in memory.
    #[inline]
    pub fn to_words(self) -> [u64; 8] {
        self.words.map(u64::to_le)
    }

    /// As bytes in memory.
    pub fn to_bytes(self) -> [u8; COMMAND_BYTES] {
        let mut bytes = [0; COMMAND_BYTES];
        for (target, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Double word `index` (0…15); 0 beyond.
    #[inline]
    pub fn double_word(&self, index: usize) -> u32 {
        let word = self.words.get(index / 2).copied().unwrap_or_default();
        (word >> (32 * (index % 2))) as u32
    }

    /// Sets double word `index` (0…15); nothing beyond.
    #[inline]
    pub fn set_double_word(&mut self, index: usize, value: u32) {
        if let Some(word) = self.words.get_mut(index / 2) {
            let shift = 32 * (index % 2);
            *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
        }
    }

    /// The same with double word `index` set.
    pub fn with_double_word(mut self, index: usize, value: u32) -> Command {
        self.set_double_word(index, value);
        self
    }

    /// The opcode.
    #[inline]
    pub fn opcode(&self) -> u8 {
        self.double_word(0) as u8
    }

    /// Whether the command is an ordinary one: not fused (FUSE), and its data pointer is PRPs (PSDT).
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.double_word(0) & 0xc300 == 0
    }

    /// The command identifier (CID).
    #[inline]
    pub fn identifier(&self) -> u16 {
        (self.double_word(0) >> 16) as u16
    }

    /// The same with a command identifier.
    #[inline]
    pub fn with_identifier(mut self, identifier: u16) -> Command {
        self.set_double_word(0, self.double_word(0) & 0xffff | u32::from(identifier) << 16);
        self
    }

    /// The namespace identifier (NSID).
    #[inline]
    pub fn namespace(&self) -> u32 {
        self.double_word(1)
    }

    /// PRP entry 1.
    #[inline]
    pub fn prp1(&self) -> u64 {
        self.words[3]
    }

    /// PRP entry 2.
    #[inline]
    pub fn prp2(&self) -> u64 {
        self.words[4]
    }

    /// The same with both PRP entries.
    #[inline]
    pub fn with_prps(mut self, prp1: u64, prp2: u64) -> Command {
        self.words[3] = prp1;
        self.words[4] = prp2;
        self
    }

    /// The first block (SLBA) of an I/O command.
    #[inline]
    pub fn first_block(&self) -> u64 {
        self.words[5]
    }

    /// How many blocks an I/O command names (NLB, which counts from 0, and one): 1…65,536.
    #[inline]
    pub fn blocks(&self) -> u32 {
        (self.double_word(12) & 0xffff) + 1
    }

    /// Whether what it writes is to be durable when it completes (FUA).
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.double_word(12) & FORCE_UNIT_ACCESS != 0
    }

    fn transfer(opcode: u8, namespace: u32, block: u64, blocks: u32, durable: bool) -> Command {
        let mut command = Command::new(opcode, namespace);
        command.words[5] = block;
        let durable = if durable { FORCE_UNIT_ACCESS } else { 0 };
        command.words[6] = u64::from(blocks.wrapping_sub(1) & 0xffff | durable);
        command
    }

    /// Read of `blocks` (1…65,536) from `block` on, without PRPs yet.
    #[inline]
    pub fn read(namespace: u32, block: u64, blocks: u32) -> Command {
        Command::transfer(opcode::READ, namespace, block, blocks, false)
    }

    /// Write of `blocks` (1…65,536) from `block` on, without PRPs yet.
    #[inline]
    pub fn write(namespace: u32, block: u64, blocks: u32, durable: bool) -> Command {
        Command::transfer(opcode::WRITE, namespace, block, blocks, durable)
    }

    /// Write Zeroes of `blocks` (1…65,536) from `block` on.
    #[inline]
    pub fn write_zeroes(namespace: u32, block: u64, blocks: u32) -> Command {
        Command::transfer(opcode::WRITE_ZEROES, namespace, block, blocks, false)
    }

    /// Flush.
    #[inline]
    pub fn flush(namespace: u32) -> Command {
        Command::new(opcode::FLUSH, namespace)
    }

    /// Identify, into the page at `page`.
    pub fn identify(selector: u8, namespace: u32, page: u64) -> Command {
        Command::new(opcode::IDENTIFY, namespace).with_prps(page, 0).with_double_word(10, u32::from(selector))
    }

    /// Get Log Page: `bytes` (a multiple of 4, at least 4) of it, into the page at `page`. What it says is not said again.
    pub fn get_log_page(log: u8, bytes: u32, page: u64) -> Command {
        // Double words, counted from 0.
        let count = (bytes / 4).wrapping_sub(1);
        Command::new(opcode::GET_LOG_PAGE, 0)
            .with_prps(page, 0)
            .with_double_word(10, count << 16 | u32::from(log))
            .with_double_word(11, count >> 16)
    }

    /// Of Get Log Page: bytes.
    pub fn log_bytes(&self) -> u64 {
        let count = u64::from(self.double_word(11) & 0xffff) << 16 | u64::from(self.double_word(10) >> 16);
        (count + 1) * 4
    }

    /// Asynchronous Event Request.
    pub fn asynchronous_event_request() -> Command {
        Command::new(opcode::ASYNCHRONOUS_EVENT_REQUEST, 0)
    }

    /// Set Features.
    pub fn set_feature(feature: u8, value: u32) -> Command {
        Command::new(opcode::SET_FEATURES, 0).with_double_word(10, u32::from(feature)).with_double_word(11, value)
    }

    /// Get Features.
    pub fn get_feature(feature: u8) -> Command {
        Command::new(opcode::GET_FEATURES, 0).with_double_word(10, u32::from(feature))
    }

    /// Create I/O Completion Queue, of `entries` (2…65,536) at `address`, with interrupts on `vector`, or without.
    pub fn create_completion_queue(queue: u16, entries: u32, address: u64, vector: Option<u16>) -> Command {
        let interrupts = vector.map_or(0, |vector| u32::from(vector) << 16 | INTERRUPTS_ENABLED);
        Command::new(opcode::CREATE_COMPLETION_QUEUE, 0)
            .with_prps(address, 0)
            .with_double_word(10, entries.wrapping_sub(1) << 16 | u32::from(queue))
            .with_double_word(11, interrupts | PHYSICALLY_CONTIGUOUS)
    }

    /// Create I/O Submission Queue, of `entries` (2…65,536) at `address`, that completes to `completion_queue`.
    pub fn create_submission_queue(queue: u16, entries: u32, address: u64, completion_queue: u16) -> Command {
        Command::new(opcode::CREATE_SUBMISSION_QUEUE, 0)
            .with_prps(address, 0)
            .with_double_word(10, entries.wrapping_sub(1) << 16 | u32::from(queue))
            .with_double_word(11, u32::from(completion_queue) << 16 | PHYSICALLY_CONTIGUOUS)
    }

    /// Delete I/O Submission Queue.
    pub fn delete_submission_queue(queue: u16) -> Command {
        Command::new(opcode::DELETE_SUBMISSION_QUEUE, 0).with_double_word(10, u32::from(queue))
    }

    /// Delete I/O Completion Queue.
    pub fn delete_completion_queue(queue: u16) -> Command {
        Command::new(opcode::DELETE_COMPLETION_QUEUE, 0).with_double_word(10, u32::from(queue))
    }

    /// Doorbell Buffer Config: the page of shadow doorbells, and that of event indices.
    pub fn doorbell_buffer_config(shadow: u64, event_indices: u64) -> Command {
        Command::new(opcode::DOORBELL_BUFFER_CONFIG, 0).with_prps(shadow, event_indices)
    }

    /// Of queue creation: entries (the field counts from 0): 1…65,536.
    pub fn queue_entries(&self) -> u32 {
        (self.double_word(10) >> 16) + 1
    }

    /// Of queue creation and deletion: the queue.
    pub fn queue(&self) -> u16 {
        self.double_word(10) as u16
    }

    /// Of queue creation: whether it is said to lie in one piece.
    pub fn is_contiguous(&self) -> bool {
        self.double_word(11) & PHYSICALLY_CONTIGUOUS != 0
    }

    /// Of the creation of a submission queue: its completion queue. Of a completion queue: the interrupt vector.
    pub fn queue_partner(&self) -> u16 {
        (self.double_word(11) >> 16) as u16
    }

    /// Of the creation of a completion queue: whether it interrupts.
    pub fn interrupts(&self) -> bool {
        self.double_word(11) & INTERRUPTS_ENABLED != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_lies_in_memory_as_the_specification_says() {
        let command = Command::read(7, 0x0102_0304_0506_0708, 16).with_identifier(0xabcd).with_prps(0x1000, 0x2000);
        let mut expected = [0; COMMAND_BYTES];
        expected[..8].copy_from_slice(&[0x02, 0, 0xcd, 0xab, 7, 0, 0, 0]);
        expected[24..40].copy_from_slice(&[0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0]);
        expected[40..52].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1, 15, 0, 0, 0]);
        assert_eq!(command.to_bytes(), expected);
        assert_eq!((command.opcode(), command.identifier(), command.namespace()), (2, 0xabcd, 7));
        assert_eq!((command.first_block(), command.blocks()), (0x0102_0304_0506_0708, 16));
        assert!(command.is_plain() && !command.is_durable());
        assert_eq!(Command::from_words(command.to_words()), command);
    }

    #[test]
    fn durable_writes_and_the_edges_of_counts() {
        let command = Command::write(1, 0, 65_536, true);
        assert_eq!(command.to_bytes()[48..52], [0xff, 0xff, 0, 0x40]);
        assert_eq!((command.blocks(), command.is_durable()), (65_536, true));
        assert_eq!(Command::write_zeroes(1, 5, 1).to_bytes()[0], 8);
        assert_eq!(Command::flush(0xffff_ffff).to_bytes()[..8], [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn queues_are_made_as_the_specification_says() {
        let command = Command::create_completion_queue(3, 128, 0xf000, Some(2));
        assert_eq!(command.to_bytes()[40..48], [3, 0, 127, 0, 3, 0, 2, 0]);
        assert_eq!((command.queue(), command.queue_entries(), command.queue_partner()), (3, 128, 2));
        assert!(command.interrupts() && command.is_contiguous());
        let command = Command::create_submission_queue(3, 65_536, 0xf000, 3);
        assert_eq!(command.to_bytes()[40..48], [3, 0, 0xff, 0xff, 1, 0, 3, 0]);
        assert_eq!(Command::create_completion_queue(1, 2, 0, None).to_bytes()[44..48], [1, 0, 0, 0]);
    }

    #[test]
    fn a_log_page_is_asked_for_as_the_specification_says() {
        let command = Command::get_log_page(4, 4_096, 0x1000);
        assert_eq!((command.to_bytes()[0], &command.to_bytes()[40..48]), (2, &[4, 0, 0xff, 3, 0, 0, 0, 0][..]));
        assert_eq!(command.log_bytes(), 4_096);
        assert_eq!(Command::get_log_page(4, 1 << 20, 0).log_bytes(), 1 << 20);
    }

    #[test]
    fn fused_commands_and_lists_of_segments_are_told() {
        for bit in [8, 9, 14, 15] {
            assert!(!Command::default().with_double_word(0, 1 << bit).is_plain());
        }
        assert_eq!(Command::default().double_word(16), 0);
    }
}
