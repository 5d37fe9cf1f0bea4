//! Questions to a zone larger than caches: answered in groups, so that the memory all of them need is fetched at the same time.
//!
//! An answer reads the table, then the node it names. One after the other, each waits for memory twice; of a group first all
//! entries are asked for, then all nodes, and then it is answered as if everything were near.

use crate::answer::question::Question;
use crate::image::Catalog;
use crate::message::HEADER_LENGTH;
use qanat::{Chunk, UdpSocketId};
use std::net::SocketAddr;

/// Datagrams in a group: twice as many cache lines wait to be used, far fewer than the nearest cache has.
const GROUP: usize = 32;

/// A datagram: where it came to, from whom, and the frame.
type Datagram = (UdpSocketId, SocketAddr, Chunk);

/// Datagrams of the current turn that wait for their group. Their frames are not held beyond it.
pub(super) struct LookAhead {
    waiting: Vec<Datagram>,
}

impl LookAhead {
    pub(super) fn new() -> LookAhead {
        LookAhead { waiting: Vec::with_capacity(GROUP) }
    }

    /// Adds a datagram. Says whether the group is full.
    #[inline]
    pub(super) fn add(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk) -> bool {
        self.waiting.push((socket, peer, chunk));
        self.waiting.len() >= GROUP
    }

    /// Whether no datagram waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the group out, once all memory that its answers need has been asked for.
    #[inline]
    pub(super) fn take(&mut self, catalog: &Catalog) -> Vec<Datagram> {
        if let Some(zone) = catalog.only() {
            let mut hashes = [0; GROUP];
            for ((_, _, chunk), hash) in self.waiting.iter().zip(&mut hashes) {
                if let Some(question) = Question::parse(chunk.bytes()) {
                    *hash = zone.ask_for_entry(chunk.bytes(), HEADER_LENGTH, question.name_end);
                }
            }
            for hash in hashes.iter().take(self.waiting.len()) {
                zone.ask_for_node(*hash);
            }
        }
        std::mem::take(&mut self.waiting)
    }

    /// Gives the memory of a group back once it is answered. So nothing is allocated after the start.
    #[inline]
    pub(super) fn give_back(&mut self, group: Vec<Datagram>) {
        self.waiting = group;
    }
}

#[cfg(test)]
mod tests {
    use crate::image::{Catalog, ZoneImage};
    use crate::name::Name;
    use crate::service::{CatalogPublisher, DnsConfig, DnsService};
    use crate::zone::ZoneBuilder;
    use qanat::nic::{MemoryPlan, PairConfig, pair};
    use qanat::{Commands, Config, Context, Event, Runtime, Service, StartError};
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
    const PORT: u16 = 53;
    /// Enough for more memory than counts as little.
    const NAMES: u32 = 60_000;

    fn question(id: u16, name: &str) -> Vec<u8> {
        let mut question = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        question[..2].copy_from_slice(&id.to_be_bytes());
        question.extend_from_slice(Name::absolute(name).unwrap().wire());
        question.extend_from_slice(&[0, 1, 0, 1]);
        question
    }

    /// Asks all at once; answers by their id.
    struct Client {
        port: u16,
        questions: Vec<Vec<u8>>,
        answers: BTreeMap<u16, Vec<u8>>,
    }

    impl Service for Client {
        fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
            let socket = context.bind_udp(SocketAddr::new(CLIENT, self.port))?;
            for question in &self.questions {
                context.send_to(socket, SocketAddr::new(SERVER, PORT), question)?;
            }
            Ok(())
        }

        fn handle(&mut self, event: Event, _: &mut Context<'_>) {
            if let Event::Datagram { chunk, .. } = event {
                let bytes = chunk.bytes().to_vec();
                self.answers.insert(u16::from_be_bytes([bytes[0], bytes[1]]), bytes);
            }
        }
    }

    #[test]
    fn a_large_zone_answers_each_of_a_group_and_what_is_left() {
        let apex = Name::absolute("example.com").unwrap();
        let mut zone = ZoneBuilder::new(&apex);
        let soa = [b"\x02ns\0\x04host\0".as_slice(), &[0; 20]].concat();
        zone.add(apex.wire(), 6, 60, &soa).unwrap();
        for index in 0..NAMES {
            let name = Name::absolute(&format!("host{index}.example.com")).unwrap();
            zone.add(name.wire(), 1, 60, &index.to_be_bytes()).unwrap();
        }
        let image = ZoneImage::compile(&zone.finish().unwrap().0, &mut |_| {}).unwrap();
        assert!(image.is_large());
        let publisher = CatalogPublisher::new(Catalog::new([Arc::new(image)]));
        let config = DnsConfig { port: PORT, ..DnsConfig::default() };
        let mut dns = DnsService::new(config, publisher.reader().unwrap(), [7; 16]).unwrap();
        let (client_port, server_port) = pair(PairConfig::default()).unwrap();
        let [mut client_side, mut server_side] =
            [(client_port, CLIENT), (server_port, SERVER)].map(|(port, address)| {
                let vnic = port.open(MemoryPlan::default()).unwrap();
                Runtime::new(Box::new(vnic), Config::new(address, 24), [7; 32])
            });
        // The first makes neighbours known; then two groups, and a rest. Every tenth asks for what is not there, is cut off,
        // or is no question at all.
        let ask = |id: u16| match id % 10 {
            7 => question(id, &format!("nohost{id}.example.com")),
            8 => question(id, "host1.example.com")[..20].to_vec(),
            9 => [id.to_be_bytes(), [0x80, 0]].concat(),
            _ => question(id, &format!("HOST{}.example.com", u32::from(id) * 311)),
        };
        server_side.with_context(|context| dns.start(context)).unwrap();
        for (first, count) in [(0, 1), (100, 75)] {
            let questions: Vec<Vec<u8>> = (first..first + count).map(ask).collect();
            let mut client = Client { port: 5_000 + first, questions, answers: BTreeMap::new() };
            client_side.with_context(|context| client.start(context)).unwrap();
            for _ in 0..200 {
                client_side.turn(&mut client);
                server_side.turn(&mut dns);
            }
            for id in first..first + count {
                let rcode = client.answers.get(&id).map(|answer| answer[3] & 0xf);
                let expected = [None, Some(1), Some(3)][match id % 10 {
                    7 => 2,
                    8 => 1,
                    9 => 0,
                    _ => {
                        let answer = &client.answers[&id];
                        let address = (u32::from(id) * 311).to_be_bytes();
                        assert_eq!((answer[3] & 0xf, answer[7], answer.ends_with(&address)), (0, 1, true), "{id}");
                        continue;
                    }
                }];
                assert_eq!(rcode, expected, "{id}");
            }
        }
        assert_eq!(server_side.vnic().transmit_pool().in_use_count(), 0, "every frame is home");
    }
}
