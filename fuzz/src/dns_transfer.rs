//! Transfers of zones: requests of any kind, signed or not, and answers of a primary gone mad.

use qanat_dns::image::Catalog;
use qanat_dns::name::Name;
use qanat_dns::service::CatalogPublisher;
use qanat_dns::transfer::config::{KeyTable, TransferConfig, ZoneTable};
use qanat_dns::transfer::incoming::{Incoming, Progress};
use qanat_dns::transfer::tsig::{Key, Signer};
use qanat_dns::transfer::{Control, Plan, Reply, Transfers, Versions, Way, walk};
use qanat_dns::zone::Zone;
use qanat_dns::zone::parse::read_text;
use std::path::Path;
use std::sync::{Arc, LazyLock};

const SECRET: &str = "AAAA";

fn zone(serial: u32) -> Zone {
    let text = format!("$TTL 60\n@ SOA ns host {serial} 2 3 4 30\n@ NS ns\nns A 192.0.2.{serial}\n");
    let apex = Name::absolute("a").expect("a name");
    read_text(&apex, Path::new("zone"), &text).expect("a zone").0
}

static VERSIONS: LazyLock<Versions> = LazyLock::new(|| {
    let versions = Versions::default();
    (1..=3).for_each(|serial| versions.put(Arc::new(zone(serial))));
    versions
});

fn config() -> TransferConfig {
    let key = KeyTable { name: "k".to_owned(), algorithm: None, secret: SECRET.to_owned() };
    let table = ZoneTable { allow_transfer: vec!["192.0.2.0/24".to_owned()], ..ZoneTable::default() };
    let apex = Name::absolute("a").expect("a name");
    TransferConfig::new(&[key], [(&apex, &table)]).expect("a configuration")
}

/// A request is answered by messages its reader understands, and bounded in number.
pub fn dns_transfer(data: &[u8]) {
    let publisher = CatalogPublisher::new(Catalog::default());
    let mut transfers =
        Transfers::new(Control::new(Plan { config: config(), ..Plan::default() }), VERSIONS.clone(), &publisher)
            .expect("transfers");
    let peer = std::net::SocketAddr::from(([192, 0, 2, 9], 53));
    for way in [Way::Tcp, Way::Udp(1_232)] {
        match transfers.request(data, (peer, way), &mut |request, _| request.to_vec()) {
            Reply::Nothing => {}
            Reply::Message(message) => assert!(way == Way::Tcp || message.len() <= 1_232.max(data.len() + 200)),
            Reply::Stream(mut outgoing) => {
                let mut count = 0;
                while let Some(message) = outgoing.next_message(0) {
                    walk::answers(&message).expect("an answer");
                    count += 1;
                    assert!(count <= 2, "a small zone");
                }
            }
        }
    }
    transfers.answered(data, peer);
    primary(data);
}

/// Whatever a primary sends is a zone or an error; its length before each message, as over TCP.
fn primary(data: &[u8]) {
    let key = Arc::new(Key::new("k", "hmac-sha256", SECRET).expect("a key"));
    let base = zone(1);
    for had in [None, Some(1)] {
        let mut verifier = Signer::for_request(&key).into_verifier();
        let mut incoming = Incoming::new(base.apex(), had);
        let mut rest = data;
        while let Some((length, after)) = rest.split_first_chunk::<2>() {
            let length = usize::from(u16::from_be_bytes(*length)).min(after.len());
            let (message, after) = after.split_at(length);
            rest = after;
            let _ = verifier.verify(&mut message.to_vec(), 0);
            let Ok(records) = walk::answers(message) else { break };
            match incoming.take(records) {
                Ok(Progress::More) => {}
                Ok(Progress::Done) => {
                    let _ = incoming.finish(Some(&base));
                    break;
                }
                Err(_) => break,
            }
        }
    }
}
