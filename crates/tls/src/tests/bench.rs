//! A connection: a client of rustls, the layer, and a service that is a closure.

use crate::{Loaded, Over, SelfSigned, TlsLayer, TlsSettings};
use qanat_api::double::{Double, Sent, Told};
use qanat_api::{Chunk, CloseReason, Commands, ConnectionId, Event, ListenOptions, ListenerId, Source};
use qanat_nic::{Pool, Region, Time};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// What the service does with an event.
pub type Handler = Box<dyn FnMut(Event, &mut Over<'_, Double>)>;

/// Sends back what comes, as it comes, and closes when the peer does.
pub fn echo() -> Handler {
    Box::new(|event, commands| match event {
        Event::Data { connection, chunk } => {
            let bytes = bytes::Bytes::copy_from_slice(chunk.bytes());
            commands.consume(connection, chunk);
            commands.send(connection, bytes).expect("few pieces");
        }
        Event::PeerClosed { connection } => commands.close(connection).expect("it is open"),
        _ => {}
    })
}

/// Files of a certificate for `names`, in a directory that lives as long.
pub struct Files {
    pub directory: tempfile::TempDir,
    pub chain: PathBuf,
    pub key: PathBuf,
}

impl Files {
    pub fn new(names: &[&str]) -> Files {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = SelfSigned::new(&names).expect("names");
        let directory = tempfile::tempdir().expect("a directory");
        let (chain, key) = (directory.path().join("chain.pem"), directory.path().join("key.pem"));
        std::fs::write(&chain, made.certificate).expect("written");
        std::fs::write(&key, made.key).expect("written");
        Files { directory, chain, key }
    }

    pub fn settings(&self) -> TlsSettings {
        let (chain, key) = (self.chain.clone(), self.key.clone());
        TlsSettings { certificates: vec![crate::CertificateFiles { chain, key, ocsp: None }], ..TlsSettings::default() }
    }

    /// A client that trusts it.
    pub fn client(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let bytes = std::fs::read(&self.chain).expect("it is there");
        roots.add(CertificateDer::from_pem_slice(&bytes).expect("PEM")).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions");
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.enable_secret_extraction = true;
        config
    }
}

/// See the module.
pub struct Bench {
    pub layer: TlsLayer,
    pub stack: Double,
    pub service: Handler,
    pub id: ConnectionId,
    pub client: ClientConnection,
    /// What the client has read.
    pub read: Vec<u8>,
    /// Why the client can't go on.
    pub failure: Option<rustls::Error>,
    /// Bytes of a chunk that comes.
    pub cut: usize,
    pub receive: Pool,
    listener: ListenerId,
}

pub const PORT: u16 = 443;

impl Bench {
    pub fn new(loaded: &Loaded, client: &Arc<ClientConfig>, service: Handler) -> Bench {
        let region = Region::new(128, 2_048).unwrap();
        let mut stack = Double::new(Time::ZERO, region.pool(1).unwrap());
        let mut layer = TlsLayer::new(Arc::clone(&loaded.config), vec![PORT], 4).unwrap();
        let local = format!("192.0.2.1:{PORT}").parse().unwrap();
        let listener = layer.over(&mut stack).listen(local, ListenOptions::default()).unwrap();
        let receive = region.pool(64).unwrap();
        let mut bench = Bench {
            layer,
            stack,
            service,
            id: ConnectionId::new(0, 0),
            client: new_client(client),
            read: Vec::new(),
            failure: None,
            cut: 1_448,
            receive,
            listener,
        };
        bench.accept(0);
        bench
    }

    /// The next connection, of the same client.
    pub fn again(&mut self, client: &Arc<ClientConfig>) {
        self.end();
        self.client = new_client(client);
        (self.read, self.failure) = (Vec::new(), None);
        self.accept(self.id.generation() + 1);
    }

    fn accept(&mut self, generation: u32) {
        self.id = ConnectionId::new(0, generation);
        self.stack.connections.insert(self.id, Told::default());
        let peer = "192.0.2.7:4711".parse().unwrap();
        self.event(Event::Accepted { connection: self.id, listener: self.listener, peer });
    }

    /// The connection is gone, and nothing of it is left.
    pub fn end(&mut self) {
        self.event(Event::Closed { connection: self.id, why: CloseReason::Finished });
        self.stack.connections.remove(&self.id);
        assert_eq!(self.receive.in_use_count(), 0, "all chunks are given back");
        assert!(!self.layer.is_encrypted(self.id));
    }

    pub fn event(&mut self, event: Event) {
        self.layer.take(event);
        self.settle();
    }

    /// Tells the service all that there is.
    pub fn settle(&mut self) {
        while let Some(event) = self.layer.next(&mut self.stack) {
            (self.service)(event, &mut self.layer.over(&mut self.stack));
        }
    }

    /// A command of the service's, out of any event.
    pub fn command(&mut self, give: impl FnOnce(&mut Over<'_, Double>)) {
        give(&mut self.layer.over(&mut self.stack));
        self.settle();
    }

    /// Bytes come from the peer.
    pub fn data(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(self.cut) {
            let mut frame = self.receive.allocate(0).expect("a frame: the layer gives them back");
            frame.append(part.len()).unwrap().copy_from_slice(part);
            self.event(Event::Data { connection: self.id, chunk: Chunk::new(frame) });
        }
    }

    /// What the stack was given to send, which the peer acknowledges.
    pub fn sent(&mut self) -> Vec<u8> {
        let told = self.stack.connections.get_mut(&self.id).expect("it is there");
        let sent = std::mem::take(&mut told.sent);
        let mut bytes = Vec::new();
        for piece in sent {
            match piece {
                Sent::Bytes(some) => bytes.extend_from_slice(&some),
                Sent::Prepared { .. } => panic!("what is sealed is no prepared object"),
            }
        }
        // In two halves: a record is acknowledged when its last byte is.
        for half in [bytes.len() / 2, bytes.len() - bytes.len() / 2].into_iter().filter(|half| *half > 0) {
            self.event(Event::Acked { connection: self.id, bytes: half as u32 });
        }
        bytes
    }

    /// Both sides go on until neither has anything to say.
    pub fn run(&mut self) {
        loop {
            let mut out = Vec::new();
            while self.client.wants_write() {
                self.client.write_tls(&mut out).expect("memory");
            }
            self.data(&out);
            let bytes = self.sent();
            self.client_takes(&bytes);
            if out.is_empty() && bytes.is_empty() {
                return;
            }
        }
    }

    pub fn client_takes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.failure.is_none() {
            self.client.read_tls(&mut bytes).expect("memory");
            match self.client.process_new_packets() {
                Ok(_) => {
                    let mut some = [0; 20_000];
                    while let Ok(count @ 1..) = self.client.reader().read(&mut some) {
                        self.read.extend_from_slice(&some[..count]);
                    }
                }
                Err(error) => self.failure = Some(error),
            }
        }
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.client.writer().write_all(bytes).expect("memory");
        self.run();
    }

    /// What the stack was told of the connection.
    pub fn told(&self) -> &Told {
        &self.stack.connections[&self.id]
    }
}

fn new_client(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("a.example.org").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
    client.set_buffer_limit(None);
    client
}

/// Each byte is made of its offset.
pub struct Offsets;

impl Offsets {
    pub fn byte(offset: u64) -> u8 {
        (offset ^ offset >> 8) as u8
    }
}

impl Source for Offsets {
    fn fill(&self, _: u64, offset: u64, target: &mut [u8]) -> qanat_api::Fill {
        target.iter_mut().zip(offset..).for_each(|(byte, offset)| *byte = Offsets::byte(offset));
        qanat_api::Fill::default()
    }
}
