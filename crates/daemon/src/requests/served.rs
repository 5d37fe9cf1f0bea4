//! What comes of a request.

use qanat_control::protocol::Answer;
use qanat_control::refusal::Refusal;
use std::os::fd::OwnedFd;

/// An answer and the descriptors that go with it.
pub(crate) type Served = Result<(Answer, Vec<OwnedFd>), Refusal>;

pub(crate) fn done() -> Served {
    Ok((Answer::Done, Vec::new()))
}
