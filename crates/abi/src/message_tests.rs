//! Every message comes back as it went in; nothing else is one, and nothing makes decoding fail otherwise than by saying so.

use super::*;
use proptest::prelude::*;

fn events() -> Vec<Event> {
    let connection = Id { slot: 0xFFFF_FFFE, generation: 0x8000_0001 };
    let window = Window { frame: u32::MAX - 3, start: 0xFFEE, length: 0xFFFF };
    let (four, six) =
        (SocketAddr::from(([10, 77, 0, 2], 65_535)), SocketAddr::from(([0xFD00, 1, 2, 3, 4, 5, 6, 7], 1)));
    vec![
        Event::Accepted { connection, listener: u16::MAX, peer: four },
        Event::Accepted { connection, listener: 1, peer: six },
        Event::Connected { connection },
        Event::Data { connection, window, acked: 0 },
        Event::Data { connection, window, acked: u32::MAX },
        Event::Acked { connection, bytes: u32::MAX },
        Event::PeerClosed { connection },
        Event::Closed { connection, why: 9 },
        Event::AddressConflict { address: six.ip(), holder: MacAddress([2, 0, 0xfe, 4, 5, 6]) },
        Event::Datagram { socket: 0xFEDC, peer: six, window },
        Event::Datagram { socket: 3, peer: four, window },
        Event::Answer { request: 77, error: 255, id: connection },
        Event::Moved { connection, unacknowledged: u32::MAX },
    ]
}

fn commands() -> Vec<Command> {
    let connection = Id { slot: 1, generation: u32::MAX };
    let window = Window { frame: 4_095, start: 66, length: 1_472 };
    let (four, six) = (SocketAddr::from(([1, 2, 3, 4], 53)), SocketAddr::from(([1, 2, 3, 4, 5, 6, 7, 8], 65_535)));
    let range = Range { offset: u32::MAX, length: 65_536 };
    vec![
        Command::Listen { request: 1, local: six, backlog: u32::MAX },
        Command::BindUdp { request: u32::MAX, local: four },
        Command::ConnectFrom { local: six },
        Command::Connect { request: 3, peer: four },
        Command::CloseListener { listener: connection },
        Command::CloseUdp { socket: connection },
        Command::Send { connection, range, consumed: None },
        Command::Send { connection, range, consumed: Some(u32::MAX) },
        Command::SendTo { socket: u16::MAX, peer: six, offset: u32::MAX, length: u16::MAX },
        Command::SendChunkTo { socket: 0, peer: six, window },
        Command::Consume { connection, frame: 8 },
        Command::Release { count: 6, frames: [1, 2, 3, 4, 5, u32::MAX] },
        Command::Shutdown { connection },
        Command::Close { connection },
        Command::Abort { connection },
        Command::Set { connection, setting: Setting::NoDelay(true) },
        Command::Set { connection, setting: Setting::UserTimeout(None) },
        Command::Set { connection, setting: Setting::PacingRate(Some(u64::MAX)) },
        Command::Yield { connection: Id::NONE },
    ]
}

#[test]
fn all_come_back() {
    for event in events() {
        assert_eq!(Event::decode(event.encode()), Ok(event));
    }
    for command in commands() {
        assert_eq!(Command::decode(command.encode()), Ok(command));
    }
}

#[test]
fn nonsense_is_told_apart() {
    assert_eq!(Event::decode([0; 4]), Err(BadMessage { kind: 0 }));
    assert_eq!(Command::decode([17, 0, 0, 0]), Err(BadMessage { kind: 17 }));
    // Seven frames to release.
    assert_eq!(Command::decode([11 | 7 << 16, 0, 0, 0]), Err(BadMessage { kind: 11 }));
    // A flag of 2.
    assert_eq!(Command::decode([15 | 2 << 8, 0, 0, 0]), Err(BadMessage { kind: 15 }));
    // A setting that is none, and one with a value where none belongs.
    assert_eq!(Command::decode([15 | 8 << 16, 0, 0, 0]), Err(BadMessage { kind: 15 }));
    assert_eq!(Command::decode([15, 0, 1, 0]), Err(BadMessage { kind: 15 }));
    // An IPv4 address of more than 32 bits.
    assert_eq!(Command::decode([2, 0, 1 << 32, 0]), Err(BadMessage { kind: 2 }));
}

proptest! {
    #[test]
    fn what_decodes_says_the_same_when_encoded_again(mut words: [u64; 4], kind in 0u8..24) {
        words[0] = (words[0] & !0xFF) | u64::from(kind);
        if let Ok(command) = Command::decode(words) {
            prop_assert_eq!(Command::decode(command.encode()), Ok(command));
        }
        if let Ok(event) = Event::decode(words) {
            prop_assert_eq!(Event::decode(event.encode()), Ok(event));
        }
    }
}
