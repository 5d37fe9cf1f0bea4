//! [`Foreign`]: a connection that rustls has. That is each connection during its handshake, and one of TLS 1.2 for good.

use crate::alert::Alert;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus, WriteTraffic};
use rustls::{Error, HandshakeKind, ProtocolVersion, ServerConfig};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that came and that rustls is not done with: the longest message of a handshake (64 KiB), and one record more.
const GATHERED_BYTES_MAX: usize = (64 << 10) + (18 << 10);
/// Room for a message of the handshake before its length is known: most of a flight with one certificate.
const MESSAGE_BYTES: usize = 4_096;
/// Bytes by which TLS 1.2 makes a record's content longer at most.
const TLS12_OVERHEAD_BYTES: usize = 64;

/// What rustls wants done next.
#[derive(Debug)]
pub(crate) enum Step {
    /// These bytes are to be sent.
    Send(Vec<u8>),
    /// These are for the application.
    Data(Vec<u8>),
    /// The handshake is over, and content may be sent. It is told again and again, if there is nothing else.
    Ready,
    /// Nothing before more comes.
    Wait,
    /// The peer sends no more.
    Closed,
    /// The connection can't go on. These bytes are still to be sent: they say why.
    Failed(Error, Vec<u8>),
}

/// See the module.
pub(crate) struct Foreign {
    connection: UnbufferedServerConnection,
    /// What came, and rustls is not done with.
    gathered: Vec<u8>,
    /// Messages that are to be sent together.
    send: Vec<u8>,
    /// What rustls had to say when it was asked for something else.
    told: VecDeque<Step>,
}

impl Foreign {
    /// A new connection. The handshake's first message is the peer's.
    pub(crate) fn new(config: &Arc<ServerConfig>) -> Option<Foreign> {
        let connection = UnbufferedServerConnection::new(Arc::clone(config)).ok()?;
        Some(Foreign { connection, gathered: Vec::new(), send: Vec::new(), told: VecDeque::new() })
    }

    /// Takes what came. Returns whether there was room for it: a peer whose handshake is that long is none.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> bool {
        self.gathered.extend_from_slice(bytes);
        self.gathered.len() <= GATHERED_BYTES_MAX
    }

    /// What rustls is not done with: before its first step, all that came.
    pub(crate) fn first_bytes(&self) -> &[u8] {
        &self.gathered
    }

    /// What is to be done next.
    pub(crate) fn step(&mut self) -> Step {
        if let Some(step) = self.told.pop_front() {
            return step;
        }
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut self.gathered);
            let step = match state {
                Ok(ConnectionState::WriteTraffic(_)) => Some(Step::Ready),
                Ok(state) => said(state, &mut self.send),
                Err(error) => Some(Step::Failed(error, Vec::new())),
            };
            self.discard(discard);
            match step {
                // What came before the failure goes first, then the alert.
                Some(Step::Failed(error, _)) => return Step::Failed(error, self.last_words()),
                Some(step) => return step,
                None => {}
            }
        }
    }

    fn discard(&mut self, bytes: usize) {
        self.gathered.drain(..bytes.min(self.gathered.len()));
    }

    /// What rustls still has to say after a failure: the alert, as a rule.
    fn last_words(&mut self) -> Vec<u8> {
        // Ends: each round takes a message of those that rustls has. It is asked for nothing else any more.
        while self.connection.wants_write()
            && let UnbufferedStatus { state: Ok(ConnectionState::EncodeTlsData(message)), .. } =
                self.connection.process_tls_records(&mut self.gathered)
        {
            encode(message, &mut self.send);
        }
        std::mem::take(&mut self.send)
    }

    /// Whether the handshake went on with the secrets of an earlier connection.
    pub(crate) fn is_resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The protocol within that both sides agreed on (RFC 7301).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Whether it is TLS 1.3.
    pub(crate) fn is_tls13(&self) -> bool {
        self.connection.protocol_version() == Some(ProtocolVersion::TLSv1_3)
    }

    /// The connection, and what came and was not looked at.
    pub(crate) fn into_parts(self) -> (UnbufferedServerConnection, Vec<u8>) {
        (self.connection, self.gathered)
    }

    /// Seals content in one record of TLS 1.2.
    pub(crate) fn seal(&mut self, content: &[u8]) -> Result<Vec<u8>, Alert> {
        self.write(content.len() + TLS12_OVERHEAD_BYTES, |traffic, room| traffic.encrypt(content, room))
    }

    /// Says that nothing more is sent.
    pub(crate) fn close_notify(&mut self) -> Result<Vec<u8>, Alert> {
        self.write(TLS12_OVERHEAD_BYTES, |traffic, room| traffic.queue_close_notify(room))
    }

    /// Has rustls write what it writes when nothing else is to be done. Else that is put by for the next steps.
    fn write(
        &mut self,
        room: usize,
        mut write: impl FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<Vec<u8>, Alert> {
        let mut bytes = Vec::new();
        // Ends: each round takes something out of what was gathered, which is bounded, or of what rustls has to say about it.
        loop {
            let UnbufferedStatus { discard, state } = self.connection.process_tls_records(&mut self.gathered);
            let is_written = match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => Some(append(&mut bytes, room, |room| {
                    write(&mut traffic, room).map_err(|error| match error {
                        EncryptError::InsufficientSize(size) => Some(size.required_size),
                        EncryptError::EncryptExhausted => None,
                    })
                })),
                Ok(state) => match said(state, &mut self.send) {
                    Some(Step::Wait | Step::Failed(..)) => Some(false),
                    step => {
                        self.told.extend(step);
                        None
                    }
                },
                Err(_) => Some(false),
            };
            self.discard(discard);
            match is_written {
                Some(true) => return Ok(bytes),
                Some(false) => return Err(Alert::InternalError),
                None => {}
            }
        }
    }
}

/// What rustls says in any state but the one in which content is written. `None`: there is more to come.
fn said(state: ConnectionState<'_, '_, ServerConnectionData>, send: &mut Vec<u8>) -> Option<Step> {
    let failed = |what: &str| Some(Step::Failed(Error::General(what.to_owned()), Vec::new()));
    match state {
        ConnectionState::EncodeTlsData(message) => {
            if encode(message, send) {
                None
            } else {
                failed("a message was not written")
            }
        }
        ConnectionState::TransmitTlsData(transmit) => {
            transmit.done();
            Some(Step::Send(std::mem::take(send)))
        }
        ConnectionState::ReadTraffic(mut traffic) => match traffic.next_record()? {
            Ok(record) => Some(Step::Data(record.payload.to_vec())),
            Err(error) => Some(Step::Failed(error, Vec::new())),
        },
        ConnectionState::PeerClosed => Some(Step::Closed),
        // It is not asked for.
        ConnectionState::ReadEarlyData(_) => failed("data before the handshake"),
        _ => Some(Step::Wait),
    }
}

fn encode(mut message: EncodeTlsData<'_, ServerConnectionData>, to: &mut Vec<u8>) -> bool {
    append(to, MESSAGE_BYTES, |room| {
        message.encode(room).map_err(|error| match error {
            EncodeError::InsufficientSize(size) => Some(size.required_size),
            EncodeError::AlreadyEncoded => None,
        })
    })
}

/// Appends what `write` writes. It is told again if the room does not do, and says then how much it needs. Whether it was written.
fn append(to: &mut Vec<u8>, room: usize, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> bool {
    let before = to.len();
    to.resize(before + room, 0);
    let mut written = write(to.get_mut(before..).unwrap_or_default());
    if let Err(Some(needed)) = written {
        to.resize(before + needed, 0);
        written = write(to.get_mut(before..).unwrap_or_default());
    }
    to.truncate(before + written.unwrap_or_default());
    written.is_ok()
}
