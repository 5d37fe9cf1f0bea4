//! [`Established`]: a connection of TLS 1.3 after its handshake. Its records are sealed and opened here; rustls keeps the secrets that new
//! keys are made of.

use crate::alert::{Alert, CLOSE_NOTIFY, USER_CANCELED};
use crate::key::RecordKey;
use crate::record::{ContentType, OVERHEAD_BYTES, RECORD_BYTES_MAX};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};

/// Records without content that may follow each other. They cost us work, and the peer next to nothing.
const EMPTY_RECORDS_MAX: u8 = 32;
/// New keys that the peer may take without any content between them.
const KEY_UPDATES_MAX: u8 = 32;
/// A key update: its type, its length, and whether one is asked for in return (RFC 8446, 4.6.3).
const KEY_UPDATE: u8 = 24;
const KEY_UPDATE_BYTES: usize = 5;
const NOT_REQUESTED: [u8; KEY_UPDATE_BYTES] = [KEY_UPDATE, 0, 0, 1, 0];

/// What was in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opened {
    /// So many bytes for the application.
    Data(usize),
    /// Nothing for it.
    Nothing,
    /// The peer has new keys now.
    NewKey,
    /// The peer sends no more.
    Closed,
    /// The peer can't go on.
    Failed,
}

/// See the module.
pub(crate) struct Established {
    secrets: KernelConnection<ServerConnectionData>,
    transmit: RecordKey,
    receive: RecordKey,
    /// The beginning of a handshake message that goes on in the next record.
    message: Vec<u8>,
    empty_records: u8,
    key_updates: u8,
    /// The peer wants new keys of us: one message is enough, however often it asks.
    is_update_due: bool,
}

impl Established {
    /// Takes a connection over. All that rustls had to say was sent, and all it had read was taken; `None`: it can't be taken over.
    pub(crate) fn new(connection: UnbufferedServerConnection) -> Option<Established> {
        let (keys, secrets) = connection.dangerous_into_kernel_connection().ok()?;
        Some(Established {
            secrets,
            transmit: RecordKey::new(keys.tx)?,
            receive: RecordKey::new(keys.rx)?,
            message: Vec::new(),
            empty_records: 0,
            key_updates: 0,
            is_update_due: false,
        })
    }

    /// Whether a record of such a length may come.
    pub(crate) fn check_length(bytes: usize) -> Result<(), Alert> {
        if bytes > RECORD_BYTES_MAX { Err(Alert::RecordOverflow) } else { Ok(()) }
    }

    /// Opens a whole record into `target`, which is as long as the record less header and tag, or longer.
    pub(crate) fn open(&mut self, record: &[u8], target: &mut [u8]) -> Result<Opened, Alert> {
        Established::check_length(record.len())?;
        if record.first() != Some(&ContentType::ApplicationData.number()) {
            return Err(Alert::UnexpectedMessage);
        }
        let (number, length) = self.receive.open(record, target)?;
        let content = target.get(..length).unwrap_or_default();
        let kind = ContentType::of(number).ok_or(Alert::UnexpectedMessage)?;
        // A message's parts follow each other.
        if kind != ContentType::Handshake && !self.message.is_empty() {
            return Err(Alert::UnexpectedMessage);
        }
        match kind {
            ContentType::ApplicationData if length == 0 => {
                self.empty_records += 1;
                if self.empty_records > EMPTY_RECORDS_MAX { Err(Alert::UnexpectedMessage) } else { Ok(Opened::Nothing) }
            }
            ContentType::ApplicationData => {
                (self.empty_records, self.key_updates) = (0, 0);
                Ok(Opened::Data(length))
            }
            ContentType::Alert => match *content {
                [_, 0] => Ok(Opened::Closed),
                [_, USER_CANCELED] => Ok(Opened::Nothing),
                [_, _] => Ok(Opened::Failed),
                _ => Err(Alert::DecodeError),
            },
            ContentType::Handshake if length == 0 => Err(Alert::UnexpectedMessage),
            ContentType::Handshake => self.handshake_message(length, target),
        }
    }

    /// Only a key update may come, in a record or in several, and nothing behind it under the old key.
    fn handshake_message(&mut self, length: usize, target: &[u8]) -> Result<Opened, Alert> {
        let content = target.get(..length).unwrap_or_default();
        if self.message.len() + length > KEY_UPDATE_BYTES {
            return Err(Alert::UnexpectedMessage);
        }
        self.message.extend_from_slice(content);
        match *self.message {
            [KEY_UPDATE, 0, 0, 1, asked @ (0 | 1)] => {
                self.message = Vec::new();
                self.key_updates += 1;
                if self.key_updates > KEY_UPDATES_MAX {
                    return Err(Alert::UnexpectedMessage);
                }
                self.is_update_due |= asked == 1;
                let secrets = self.secrets.update_rx_secret().map_err(|_| Alert::InternalError)?;
                self.receive = RecordKey::new(secrets).ok_or(Alert::InternalError)?;
                Ok(Opened::NewKey)
            }
            [KEY_UPDATE, 0, 0, 1, _] => Err(Alert::IllegalParameter),
            [KEY_UPDATE, ..] if self.message.len() < KEY_UPDATE_BYTES => Ok(Opened::Nothing),
            _ => Err(Alert::UnexpectedMessage),
        }
    }

    /// Whether a message of new keys goes before the next record.
    pub(crate) fn is_update_due(&self) -> bool {
        self.is_update_due || self.transmit.is_worn()
    }

    /// A record that says that new keys follow; from then on they are used.
    pub(crate) fn update(&mut self) -> Result<Vec<u8>, Alert> {
        let record = self.small(ContentType::Handshake, &NOT_REQUESTED)?;
        let secrets = self.secrets.update_tx_secret().map_err(|_| Alert::InternalError)?;
        self.transmit = RecordKey::new(secrets).ok_or(Alert::InternalError)?;
        self.is_update_due = false;
        Ok(record)
    }

    /// Seals content of the application into `target`: as long as the content and [`OVERHEAD_BYTES`]. See [`RecordKey::seal`].
    pub(crate) fn seal(&mut self, content: Option<&[u8]>, target: &mut [u8]) -> Result<(), Alert> {
        self.transmit.seal(ContentType::ApplicationData.number(), content, target)
    }

    /// A record that says that nothing more is sent.
    pub(crate) fn close_notify(&mut self) -> Result<Vec<u8>, Alert> {
        self.small(ContentType::Alert, &CLOSE_NOTIFY)
    }

    /// A record that says why this side can't go on.
    pub(crate) fn alert(&mut self, alert: Alert) -> Result<Vec<u8>, Alert> {
        self.small(ContentType::Alert, &alert.message())
    }

    fn small(&mut self, kind: ContentType, content: &[u8]) -> Result<Vec<u8>, Alert> {
        let mut record = vec![0; content.len() + OVERHEAD_BYTES];
        self.transmit.seal(kind.number(), Some(content), &mut record)?;
        Ok(record)
    }

    /// As if as many records were sealed as may be.
    #[cfg(test)]
    pub(crate) fn wear(&mut self) {
        self.transmit.wear();
    }
}
