//! [`Handshake`]: from a function in any state to one that the host's driver lets send. It never waits: each call gets as far as it gets.

use super::bus::Bus;
use super::groups::Groups;
use super::mailbox::{Mailbox, PUT_WORDS, WORDS};
use super::registers::{
    CTRL, CTRL_RESET, MESSAGE_CLEAR_TO_SEND, MESSAGE_NO, MESSAGE_RESET, MESSAGE_SET_ADDRESS, MESSAGE_SET_LENGTH,
    MESSAGE_YES,
};
use crate::base::time::Time;
use qanat_wire::ethernet::MacAddress;
use std::time::Duration;

/// How long a step may take. Then all begins anew: the host's driver may be down.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is said next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    Reset,
    Address,
    Length,
    Groups,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Reset,
    /// For the host to be ready.
    Ready,
    Put(Message),
    Read(Message),
    Answer(Message),
    Done,
}

/// A handshake under way.
#[derive(Debug)]
pub(super) struct Handshake {
    step: Step,
    deadline: Time,
    mac: MacAddress,
    frame_bytes: u32,
    groups: Groups,
}

impl Handshake {
    /// `mac`: the address, if the host gives none. `frame_bytes`: the longest frame.
    pub(super) fn new(mac: MacAddress, frame_bytes: u32, groups: Groups) -> Handshake {
        Handshake { step: Step::Reset, deadline: Time::ZERO, mac, frame_bytes, groups }
    }

    fn words(&self, message: Message) -> [u32; PUT_WORDS] {
        let MacAddress([a, b, c, d, e, f]) = self.mac;
        let mut words = [0; PUT_WORDS];
        let [first, second, third, ..] = &mut words;
        match message {
            Message::Reset => *first = MESSAGE_RESET,
            Message::Address => {
                *first = MESSAGE_SET_ADDRESS;
                *second = u32::from_le_bytes([a, b, c, d]);
                *third = u32::from_le_bytes([e, f, 0, 0]);
            }
            Message::Length => (*first, *second) = (MESSAGE_SET_LENGTH, self.frame_bytes),
            Message::Groups => return self.groups.words(),
        }
        words
    }

    /// Gets as far as it gets; the address once all is done.
    pub(super) fn advance(&mut self, bus: &impl Bus, mailbox: &mut Mailbox, now: Time) -> Option<MacAddress> {
        loop {
            let before = self.step;
            match self.step {
                Step::Reset => {
                    mailbox.forget(bus);
                    bus.write(CTRL, bus.read(CTRL) | CTRL_RESET);
                    self.step = Step::Ready;
                }
                Step::Ready => {
                    if !mailbox.is_host_resetting(bus) {
                        self.step = Step::Put(Message::Reset);
                    }
                }
                Step::Put(message) => {
                    if mailbox.put(bus, self.words(message)) {
                        self.step = Step::Read(message);
                    }
                }
                Step::Read(message) => {
                    if mailbox.takes_read(bus) {
                        self.step = Step::Answer(message);
                    }
                }
                Step::Answer(message) => {
                    if let Some(words) = mailbox.take_message(bus) {
                        self.answered(message, words);
                    }
                }
                Step::Done => return Some(self.mac),
            }
            if self.step == before {
                break;
            }
            self.deadline = now + PATIENCE;
        }
        if now >= self.deadline {
            self.step = Step::Reset;
            self.deadline = now + PATIENCE;
        }
        None
    }

    fn answered(&mut self, message: Message, words: [u32; WORDS]) {
        let kind = words[0] & !(MESSAGE_YES | MESSAGE_NO | MESSAGE_CLEAR_TO_SEND);
        if kind & 0xffff != self.words(message)[0] & 0xffff {
            // Not the answer: the host says something of its own, such as that it was reset.
            if words[0] & MESSAGE_CLEAR_TO_SEND == 0 {
                self.step = Step::Reset;
            }
            return;
        }
        let is_yes = words[0] & MESSAGE_YES != 0;
        self.step = match message {
            // The host lets it send; without an address if its administrator gave none. Then it takes ours.
            Message::Reset if is_yes => {
                let ([a, b, c, d], [e, f, ..]) = (words[1].to_le_bytes(), words[2].to_le_bytes());
                self.mac = MacAddress([a, b, c, d, e, f]);
                Step::Put(Message::Length)
            }
            Message::Reset => Step::Put(Message::Address),
            Message::Address => Step::Put(Message::Length),
            Message::Length => Step::Put(Message::Groups),
            // A host may refuse that: then groups that are not for all don't arrive.
            Message::Groups => Step::Done,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::registers::{
        MAILBOX_ACKNOWLEDGE, MAILBOX_MESSAGE, MAILBOX_OURS, MAILBOX_READ, MAILBOX_READ_CLEARS, MAILBOX_REQUEST,
        MAILBOX_RESET_DONE, MAILBOX_RESET_GOING_ON, V2PMAILBOX, VMBMEM,
    };
    use super::*;
    use std::cell::{Cell, RefCell};

    /// One group, that of all nodes.
    const GROUPS: u32 = 3 | 1 << 16;
    const OURS: MacAddress = MacAddress([2, 1, 2, 3, 4, 5]);
    const GIVEN: MacAddress = MacAddress([2, 9, 8, 7, 6, 5]);

    /// A host's driver that answers at once.
    struct Host {
        control: Cell<u32>,
        memory: RefCell<[u32; 16]>,
        given: Option<MacAddress>,
        is_up: Cell<bool>,
        heard: RefCell<Vec<u32>>,
    }

    impl Host {
        fn new(given: Option<MacAddress>) -> Host {
            Host {
                control: Cell::new(0),
                memory: RefCell::new([0; 16]),
                given,
                is_up: Cell::new(true),
                heard: RefCell::new(Vec::new()),
            }
        }

        fn answer(&self) {
            let mut memory = self.memory.borrow_mut();
            let asked = memory[0];
            self.heard.borrow_mut().push(asked);
            memory[0] |= MESSAGE_CLEAR_TO_SEND;
            match (asked, self.given) {
                (MESSAGE_RESET, Some(MacAddress([a, b, c, d, e, f]))) => {
                    memory[0] |= MESSAGE_YES;
                    memory[1] = u32::from_le_bytes([a, b, c, d]);
                    memory[2] = u32::from_le_bytes([e, f, 0, 0]);
                }
                (MESSAGE_RESET, None) => memory[0] |= MESSAGE_NO,
                _ => memory[0] |= MESSAGE_YES,
            }
            self.control.set(self.control.get() | MAILBOX_READ | MAILBOX_MESSAGE);
        }
    }

    impl Bus for Host {
        fn read(&self, offset: u32) -> u32 {
            match offset {
                V2PMAILBOX => {
                    let control = self.control.get();
                    self.control.set(control & !MAILBOX_READ_CLEARS);
                    control
                }
                VMBMEM.. if offset < VMBMEM + 64 => self.memory.borrow()[(offset - VMBMEM) as usize / 4],
                _ => 0,
            }
        }

        fn write(&self, offset: u32, value: u32) {
            match offset {
                V2PMAILBOX => {
                    let ours = value & MAILBOX_OURS;
                    self.control.set(self.control.get() & !MAILBOX_OURS | ours);
                    if value & MAILBOX_REQUEST != 0 && self.is_up.get() {
                        self.answer();
                    }
                    assert_eq!(value & !(MAILBOX_OURS | MAILBOX_REQUEST | MAILBOX_ACKNOWLEDGE), 0);
                }
                VMBMEM.. if offset < VMBMEM + 64 => {
                    assert!(self.control.get() & MAILBOX_OURS != 0, "the memory must be owned");
                    self.memory.borrow_mut()[(offset - VMBMEM) as usize / 4] = value;
                }
                _ => {}
            }
        }
    }

    #[test]
    fn a_host_that_is_being_reset_is_waited_for() {
        let host = Host::new(Some(GIVEN));
        host.control.set(MAILBOX_RESET_GOING_ON);
        assert_eq!((shake(&host), host.heard.borrow().len()), (None, 0));
        host.control.set(MAILBOX_RESET_DONE);
        assert_eq!(shake(&host), Some(GIVEN));
    }

    fn shake(host: &Host) -> Option<MacAddress> {
        let (mut handshake, mut mailbox) = (Handshake::new(OURS, 1_522, Groups::default()), Mailbox::default());
        (0..50).find_map(|step| handshake.advance(host, &mut mailbox, Time::from_millis(step)))
    }

    #[test]
    fn the_address_is_the_hosts_if_it_has_one() {
        let host = Host::new(Some(GIVEN));
        assert_eq!(shake(&host), Some(GIVEN));
        assert_eq!(*host.heard.borrow(), [MESSAGE_RESET, MESSAGE_SET_LENGTH, GROUPS]);
        let host = Host::new(None);
        assert_eq!(shake(&host), Some(OURS));
        let expected = [MESSAGE_RESET, MESSAGE_SET_ADDRESS, MESSAGE_SET_LENGTH, GROUPS];
        assert_eq!(*host.heard.borrow(), expected);
    }

    #[test]
    fn a_host_that_is_down_is_asked_again() {
        let host = Host::new(Some(GIVEN));
        host.is_up.set(false);
        let (mut handshake, mut mailbox) = (Handshake::new(OURS, 1_522, Groups::default()), Mailbox::default());
        for step in 0..2_000 {
            assert_eq!(handshake.advance(&host, &mut mailbox, Time::from_millis(step)), None);
        }
        host.is_up.set(true);
        let found = (2_000..4_000).find_map(|step| handshake.advance(&host, &mut mailbox, Time::from_millis(step)));
        assert_eq!(found, Some(GIVEN));
    }
}
