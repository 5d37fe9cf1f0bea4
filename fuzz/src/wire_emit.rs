//! `crates/wire` writing into buffers of every length: nothing panics, a buffer too short is left as it was, and one
//! long enough is written only as far as the returned length says.

use crate::values::Values;
use qanat_wire::neighbor_discovery as discovery;
use qanat_wire::tcp::SequenceNumber;
use qanat_wire::tcp_options::{Options, SackBlock, SackBlocks, Timestamps};
use qanat_wire::{Error, icmpv4, icmpv6, ip, ipv4, ipv6, ipv6_extension, tcp, udp};

/// What untouched bytes are filled with.
const UNTOUCHED: u8 = 0xa5;

/// Makes headers from `data` and emits them into a buffer whose length `data` chooses too.
pub fn wire_emit(data: &[u8]) {
    let mut values = Values::new(data);
    let room = usize::from(values.u8());
    let payload_length = values.u32() as usize >> (values.u8() % 32);
    let options = tcp_options(&mut values);
    let tcp = tcp::Header {
        source_port: values.u16(),
        destination_port: values.u16(),
        sequence: SequenceNumber(values.u32()),
        acknowledgment: SequenceNumber(values.u32()),
        flags: tcp::Flags(values.u8()),
        window: values.u16(),
        urgent: values.u16(),
        options,
    };
    check(room, |bytes| options.emit(bytes));
    check(room, |bytes| tcp.emit(bytes));
    let udp = udp::Header { source_port: values.u16(), destination_port: values.u16(), payload_length };
    check(room, |bytes| udp.emit(bytes));
    let ipv4 = ipv4::Header {
        source: values.u32().into(),
        destination: values.u32().into(),
        protocol: ip::Protocol(values.u8()),
        payload_length,
        ttl: values.u8(),
        identification: values.u16(),
        dont_fragment: values.bool(),
        ecn: ip::Ecn::from_bits(values.u8()),
        dscp: values.u8(),
    };
    check(room, |bytes| ipv4.emit(bytes));
    let ipv6 = ipv6::Header {
        source: values.u128().into(),
        destination: values.u128().into(),
        next_header: ip::Protocol(values.u8()),
        payload_length,
        hop_limit: values.u8(),
        flow_label: values.u32(),
        ecn: ip::Ecn::from_bits(values.u8()),
        dscp: values.u8(),
    };
    check(room, |bytes| ipv6.emit(bytes));
    let fragment = ipv6_extension::Fragment {
        next_header: ip::Protocol(values.u8()),
        offset: payload_length,
        more_fragments: values.bool(),
        identification: values.u32(),
    };
    check(room, |bytes| fragment.emit(bytes));
    let payload = data.get(..usize::from(values.u8())).unwrap_or(data);
    let (message_type, code, rest) = (values.u8(), values.u8(), values.u32().to_be_bytes());
    let icmpv4 = icmpv4::Header::Other { message_type, code, rest };
    check(room, |bytes| icmpv4.emit(bytes, payload));
    let icmpv6 = icmpv6::Header::Other { message_type, code, rest };
    check(room, |bytes| icmpv6.emit(bytes, payload, 0xffff));
    let discovery = neighbor_discovery(&mut values);
    check(room, |bytes| discovery.emit(bytes, 0));
}

fn tcp_options(values: &mut Values<'_>) -> Options {
    let mut sack_blocks = SackBlocks::NONE;
    for index in 0..values.u8() % 6 {
        let block = SackBlock { start: SequenceNumber(values.u32()), end: SequenceNumber(values.u32()) };
        assert_eq!(sack_blocks.push(block), index < 4);
    }
    Options {
        mss: values.bool().then(|| values.u16()),
        window_scale: values.bool().then(|| values.u8()),
        sack_permitted: values.bool(),
        timestamps: values.bool().then(|| Timestamps { value: values.u32(), echo: values.u32() }),
        sack_blocks,
        user_timeout: values.bool().then(|| qanat_wire::tcp_options::UserTimeout(values.u16())),
        fast_open: qanat_wire::tcp_options::FastOpen::new(
            &std::array::from_fn::<u8, 18, _>(|_| values.u8())[..usize::from(values.u8()) % 19],
            values.bool(),
        ),
    }
}

fn neighbor_discovery(values: &mut Values<'_>) -> discovery::Header {
    use qanat_wire::ethernet::MacAddress;
    let discovery = match values.u8() % 4 {
        0 => discovery::Discovery::RouterSolicitation,
        1 => discovery::Discovery::RouterAdvertisement {
            hop_limit: values.u8(),
            managed: values.bool(),
            other: values.bool(),
            lifetime_s: values.u16(),
            reachable_time_ms: values.u32(),
            retransmission_time_ms: values.u32(),
        },
        2 => discovery::Discovery::NeighborSolicitation { target: values.u128().into() },
        _ => discovery::Discovery::NeighborAdvertisement {
            router: values.bool(),
            solicited: values.bool(),
            replaces: values.bool(),
            target: values.u128().into(),
        },
    };
    let mut prefixes = discovery::Prefixes::default();
    for index in 0..values.u8() % 6 {
        let pushed = prefixes.push(discovery::Prefix {
            address: values.u128().into(),
            length: values.u8(),
            on_link: values.bool(),
            autonomous: values.bool(),
            valid_lifetime_s: values.u32(),
            preferred_lifetime_s: values.u32(),
        });
        assert_eq!(pushed, index < 4);
    }
    let options = discovery::Options {
        source_link_layer: values.bool().then_some(MacAddress([2, 0, 0, 0, 0, 1])),
        target_link_layer: values.bool().then_some(MacAddress::BROADCAST),
        mtu: values.bool().then(|| values.u32()),
        prefixes,
    };
    discovery::Header { discovery, options }
}

/// Emits into `room` bytes: all that is written is what the result says.
fn check(room: usize, emit: impl FnOnce(&mut [u8]) -> Result<usize, Error>) {
    let mut bytes = vec![UNTOUCHED; room];
    let written = match emit(&mut bytes) {
        Ok(written) => {
            assert!(written <= room);
            written
        }
        Err(error) => {
            assert!(matches!(error, Error::NoRoom | Error::BadLength | Error::BadValue), "{error:?}");
            0
        }
    };
    assert!(bytes[written..].iter().all(|byte| *byte == UNTOUCHED), "wrote past {written}");
}
