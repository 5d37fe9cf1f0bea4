//! [`tls`]: a peer that says anything, at any time, to the layer of TLS, below a service that does anything.
//!
//! The first byte says when the input begins to be heard: at once, or after a handshake of TLS 1.3 or 1.2. Then each step is a byte that says
//! what is done, and what that takes. After TLS 1.3's handshake the keys of the peer are ours, so records of any content can come that are
//! sealed as they should be.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use qanat_api::double::{Double, Sent, Told};
use qanat_api::{Chunk, CloseReason, CommandError, Commands, ConnectionId, Event, ListenOptions, ListenerId};
use qanat_nic::{Pool, Region, Time};
use qanat_tls::{Loaded, TlsLayer, TlsSettings};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, ConnectionTrafficSecrets, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

const PORT: u16 = 443;
/// Steps of an input that are taken.
const STEPS_MAX: usize = 64;
const FRAMES: u32 = 64;
/// What a record has besides its content.
const OVERHEAD_BYTES: usize = 22;

/// Takes any certificate: what is tried is the server.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_tls12_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// Made once: keys cost time.
struct Fixed {
    server: Loaded,
    clients: [Arc<ClientConfig>; 2],
}

fn fixed() -> Fixed {
    let settings = TlsSettings { names: vec!["localhost".to_owned()], ..TlsSettings::default() };
    let client = |version| {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).expect("known");
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Trusting));
        let mut config = builder.with_no_client_auth();
        config.enable_secret_extraction = true;
        // Each input is as the first one.
        config.resumption = rustls::client::Resumption::disabled();
        Arc::new(config)
    };
    Fixed { server: settings.load(None).expect("a certificate"), clients: [client(&TLS13), client(&TLS12)] }
}

thread_local! {
    static FIXED: Fixed = fixed();
}

/// The keys of the peer's records.
struct Key {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Key {
    fn of(client: ClientConnection) -> Option<Key> {
        let (sequence, ConnectionTrafficSecrets::Aes128Gcm { key, iv }) = client.dangerous_extract_secrets().ok()?.tx
        else {
            return None;
        };
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key.as_ref().get(..16)?).ok()?);
        Some(Key { key, iv: iv.as_ref().try_into().ok()?, sequence })
    }

    fn record(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        let [high, low] = ((content.len() + OVERHEAD_BYTES - 5) as u16).to_be_bytes();
        let header = [23, 3, 3, high, low];
        let mut sealed = [content, &[kind]].concat();
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut sealed).expect("short");
        [header.as_slice(), &sealed].concat()
    }
}

struct Bench {
    layer: TlsLayer,
    stack: Double,
    id: ConnectionId,
    receive: Pool,
    /// What the service has.
    held: Vec<Chunk>,
    heard_closed: bool,
}

impl Bench {
    fn new(server: &Loaded) -> Bench {
        let region = Region::new(FRAMES + 1, 2_048).expect("memory");
        let mut stack = Double::new(Time::ZERO, region.pool(1).expect("it has them"));
        let mut layer = TlsLayer::new(Arc::clone(&server.config), vec![PORT], 1).expect("memory");
        let local = format!("192.0.2.1:{PORT}").parse().expect("an address");
        let listener: ListenerId = layer.over(&mut stack).listen(local, ListenOptions::default()).expect("free");
        let id = ConnectionId::new(0, 0);
        stack.connections.insert(id, Told::default());
        let receive = region.pool(FRAMES).expect("it has them");
        let mut bench = Bench { layer, stack, id, receive, held: Vec::new(), heard_closed: false };
        let peer = "192.0.2.7:4711".parse().expect("an address");
        bench.event(Event::Accepted { connection: id, listener, peer });
        bench
    }

    fn event(&mut self, event: Event) {
        self.layer.take(event);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(event) = self.layer.next(&mut self.stack) {
            match event {
                Event::Data { chunk, .. } => {
                    assert!(
                        !chunk.bytes().is_empty() && !self.heard_closed,
                        "content that there is, and before the end"
                    );
                    self.held.push(chunk);
                }
                Event::PeerClosed { .. } => {
                    assert!(!std::mem::replace(&mut self.heard_closed, true), "an end is told once");
                }
                _ => {}
            }
        }
    }

    fn command(&mut self, give: impl FnOnce(&mut dyn Commands)) {
        give(&mut self.layer.over(&mut self.stack));
        self.settle();
    }

    fn data(&mut self, bytes: &[u8], cut: usize) {
        for part in bytes.chunks(cut) {
            // A window that is shut is not written into.
            let Some(mut frame) = self.receive.allocate(0) else { return };
            frame.append_bytes(part).expect("short");
            self.event(Event::Data { connection: self.id, chunk: Chunk::new(frame) });
        }
    }

    /// What the stack was given, which is acknowledged.
    fn sent(&mut self) -> Vec<u8> {
        let Some(told) = self.stack.connections.get_mut(&self.id) else { return Vec::new() };
        let sent = std::mem::take(&mut told.sent);
        let bytes: Vec<u8> = sent
            .iter()
            .flat_map(|piece| match piece {
                Sent::Bytes(bytes) => bytes.to_vec(),
                Sent::Prepared { .. } => panic!("nothing leaves that is not sealed"),
            })
            .collect();
        if !bytes.is_empty() {
            self.event(Event::Acked { connection: self.id, bytes: bytes.len() as u32 });
        }
        bytes
    }

    /// A handshake with a client that does as it should.
    fn shake_hands(&mut self, client: &mut ClientConnection) {
        for _ in 0..4 {
            let mut out = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut out).expect("memory");
            }
            self.data(&out, 1_448);
            let bytes = self.sent();
            client.read_tls(&mut bytes.as_slice()).expect("memory");
            client.process_new_packets().expect("the server does as it should");
        }
        assert!(!client.is_handshaking());
    }
}

/// See the module.
pub fn tls(data: &[u8]) {
    let Some((when, mut rest)) = data.split_first() else { return };
    let (mut bench, client) = FIXED.with(|fixed| {
        let mut bench = Bench::new(&fixed.server);
        let client = fixed.clients.get(usize::from(when % 3).wrapping_sub(1)).map(|config| {
            let name = ServerName::try_from("localhost").expect("a name");
            let mut client = ClientConnection::new(Arc::clone(config), name).expect("a client");
            bench.shake_hands(&mut client);
            client
        });
        (bench, client)
    });
    let mut key = client.and_then(Key::of).filter(|_| when % 3 == 1);
    let (id, mut cut) = (bench.id, 1_448);
    for _ in 0..STEPS_MAX {
        let Some((step, more)) = rest.split_first() else { break };
        let (count, more) = more.split_first().map_or((0, more), |(count, more)| (usize::from(*count), more));
        let (bytes, after) = more.split_at(more.len().min(count));
        rest = after;
        match step % 10 {
            // A record of any type, short or as long as can be.
            0 | 1 => {
                if let (Some(key), Some((kind, content))) = (&mut key, bytes.split_first()) {
                    let long = content.repeat(if step & 0x80 != 0 { 1 + 16_400 / content.len().max(1) } else { 1 });
                    let record = key.record(*kind, &long);
                    bench.data(&record, cut);
                }
            }
            2 | 3 => bench.data(bytes, cut),
            4 => cut = 1 + count * 8,
            5 => {
                if let Some(chunk) = bench.held.pop() {
                    bench.command(|commands| commands.consume(id, chunk));
                }
            }
            6 => {
                let bytes = Bytes::from(bytes.repeat(200));
                bench.command(|commands| {
                    let _ = commands.send(id, bytes);
                });
            }
            7 => drop(bench.sent()),
            8 => bench.event(Event::PeerClosed { connection: id }),
            _ => bench.command(|commands| match count % 3 {
                0 => assert!(commands.shutdown(id) != Err(CommandError::Full)),
                1 => assert!(commands.close(id) != Err(CommandError::Full)),
                _ => assert!(commands.abort(id) != Err(CommandError::Full)),
            }),
        }
    }
    bench.event(Event::Closed { connection: id, why: CloseReason::ResetByPeer });
    for chunk in std::mem::take(&mut bench.held) {
        bench.command(|commands| commands.consume(id, chunk));
    }
    bench.stack.connections.clear();
    assert!(!bench.layer.is_encrypted(id));
    assert_eq!((bench.receive.in_use_count(), bench.layer.frames_in_use()), (0, 0), "everything is given back");
}
