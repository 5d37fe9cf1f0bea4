//! How a connection ends: why, what the peer is told, and whether the service knows.
//!
//! All that changes this is here.

use qanat_api::CloseReason;

/// The end of a connection, as far as it is known.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Outcome {
    /// Why it was ended by this side; `None`: it was not.
    reason: Option<CloseReason>,
    /// What the network said of segments not acknowledged since.
    soft_error: Option<CloseReason>,
    /// A reset must go out.
    reset_wanted: bool,
    /// `Closed` was reported.
    is_reported: bool,
}

impl Outcome {
    /// This side ends the connection with a reset for the peer.
    pub(super) fn reset(&mut self, why: CloseReason) {
        self.reason = Some(why);
        self.reset_wanted = true;
    }

    /// Whether a reset must go out.
    pub(in crate::tcp) fn wants_reset(&self) -> bool {
        self.reset_wanted
    }

    /// The reset has been sent. Gives why.
    pub(in crate::tcp) fn reset_sent(&mut self) -> CloseReason {
        self.reset_wanted = false;
        self.reason.unwrap_or(CloseReason::Aborted)
    }

    /// `Closed` is to be reported: whether it was not before.
    pub(super) fn report(&mut self) -> bool {
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// What the network said of segments not acknowledged since.
    pub(in crate::tcp) fn soft_error(&self) -> Option<CloseReason> {
        self.soft_error
    }

    /// The network says why a segment did not arrive.
    pub(super) fn note_soft_error(&mut self, why: CloseReason) {
        self.soft_error = Some(why);
    }

    /// Something was acknowledged: what the network said before is over.
    #[inline]
    pub(in crate::tcp) fn forget_soft_error(&mut self) {
        self.soft_error = None;
    }
}
