//! What a script consists of.

use std::collections::BTreeMap;
use std::time::Duration;

/// Which implementation a line is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// This project's.
    Qanat,
    /// The kernel's.
    Linux,
}

/// What is known of a script's outcome on one of the stacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// It does not apply there: not run.
    Skip(String),
    /// It passes, with lines of its own; this is why.
    Deviation(String),
    /// It fails for now; passing is an error, so that the note goes away with the bug.
    Bug(String),
}

/// A script.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Path below the directory of scripts.
    pub name: String,
    /// First comment: one line on what it shows.
    pub title: String,
    /// `RFC 9293 §3.5` and the like.
    pub section: String,
    /// The sentence it tests: quoted, or in other words.
    pub sentence: String,
    /// Remarks on each stack.
    pub notes: Vec<(Stack, Note)>,
    /// Settings by the kernel's names (`tcp_ecn`), applied to both.
    pub sysctls: BTreeMap<String, String>,
    /// IPv6 instead of IPv4.
    pub ipv6: bool,
    /// MTU of the interface, bytes.
    pub mtu: u16,
    /// Time an event may be off.
    pub tolerance: Option<Duration>,
    /// Compare PSH too.
    pub check_push: bool,
    /// What happens, in order.
    pub lines: Vec<Line>,
}

impl Script {
    /// The note on `stack`, if there is one.
    pub fn note(&self, stack: Stack) -> Option<&Note> {
        self.notes.iter().find(|(on, _)| *on == stack).map(|(_, note)| note)
    }
}

/// One event.
#[derive(Clone, Debug)]
pub struct Line {
    /// Line number in the file.
    pub number: usize,
    /// Only on this stack.
    pub only: Option<Stack>,
    /// When.
    pub when: When,
    /// What.
    pub action: Action,
}

/// A point in time, from the start or from the event before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum When {
    /// After the previous event.
    Relative(Duration),
    /// After the start.
    Absolute(Duration),
    /// Between two times after the previous event.
    Range(Duration, Duration),
    /// At any time (within some seconds).
    Any,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Action {
    /// A segment from the peer.
    Inbound(Segment),
    /// A segment expected from the stack.
    Outbound(Segment),
    /// An ICMP error from the network, quoting a segment of the stack.
    Icmp(Icmp),
    /// A socket call.
    Call(Call),
    /// Nothing: time passes.
    Wait,
}

/// A TCP segment with relative numbers.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// The flag byte: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    /// Sequence number; the sender's SYN is 0.
    pub sequence: u32,
    /// Payload bytes.
    pub length: u32,
    /// Acknowledgment number.
    pub acknowledgment: Option<u32>,
    /// Window field, not scaled; `None`: inbound 0, outbound not compared.
    pub window: Option<u16>,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options; `None` (`<...>`): not compared.
    pub options: Option<Vec<Opt>>,
    /// The IP header's ECN bits; `None`: inbound 0, outbound not compared.
    pub ecn: Option<u8>,
}

/// A TCP option. A missing value (`*`) is not compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Opt {
    /// Maximum segment size.
    Mss(Option<u16>),
    /// Window scale.
    WindowScale(Option<u8>),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks, relative.
    Sack(Vec<(u32, u32)>),
    /// Timestamps.
    Timestamps(Option<u32>, Option<u32>),
    /// No operation.
    NoOperation,
    /// End of options.
    End,
    /// Any bytes (`raw:fe0400ff`), inbound only.
    Raw(Vec<u8>),
}

/// An ICMP error.
#[derive(Clone, Debug)]
pub struct Icmp {
    /// Relative sequence number of the quoted segment.
    pub sequence: u32,
    /// Its length.
    pub length: u32,
    /// ICMP type.
    pub kind: u8,
    /// ICMP code.
    pub code: u8,
    /// MTU field.
    pub mtu: u32,
}

/// A socket call and its result.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Its arguments, as written.
    pub arguments: Vec<String>,
    /// What it must return.
    pub result: i64,
    /// With −1: the error's name.
    pub errno: Option<String>,
}
