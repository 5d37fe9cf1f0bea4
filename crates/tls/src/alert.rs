//! Alerts: how one side tells the other that it ends, or why it can't go on (RFC 8446, 6).

/// Why a connection can't go on, as the peer is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Alert {
    /// A message came that may not come here.
    #[error("a message came that may not come here")]
    UnexpectedMessage,
    /// A record was changed on its way, or is of other keys.
    #[error("a record was changed on its way, or is of other keys")]
    BadRecordMac,
    /// A record is longer than may be.
    #[error("a record is longer than may be")]
    RecordOverflow,
    /// A message can't be read.
    #[error("a message can't be read")]
    DecodeError,
    /// A message says what it may not.
    #[error("a message says what it may not")]
    IllegalParameter,
    /// This side can't go on.
    #[error("this side can't go on")]
    InternalError,
}

/// The alert that says that nothing more is sent: it is no error.
pub(crate) const CLOSE_NOTIFY: [u8; 2] = [1, 0];
/// An alert that closes the connection before it began, from a peer that gave up.
pub(crate) const USER_CANCELED: u8 = 90;

impl Alert {
    /// The message: fatal, and its number.
    pub(crate) const fn message(self) -> [u8; 2] {
        let number = match self {
            Alert::UnexpectedMessage => 10,
            Alert::BadRecordMac => 20,
            Alert::RecordOverflow => 22,
            Alert::IllegalParameter => 47,
            Alert::DecodeError => 50,
            Alert::InternalError => 80,
        };
        [2, number]
    }
}
