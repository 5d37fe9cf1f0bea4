//! A filter that counts for a VNIC by its handle.

use crate::fence::rows::FilterRow;
use qanat_control::filter::{Direction, Filter};
use qanat_control::protocol::Steered;
use serde::{Deserialize, Serialize};

/// A filter that counts by its handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Assignment {
    pub(crate) direction: Direction,
    pub(crate) filters: Vec<Filter>,
    /// To be received by; `None`: by the flow.
    pub(crate) queue: Option<u32>,
    /// Of an address that this VNIC has.
    pub(crate) granted: Option<u32>,
    /// To that VNIC.
    pub(crate) diverted: Option<u32>,
}

impl Assignment {
    pub(crate) fn steered(&self) -> impl Iterator<Item = Steered> + '_ {
        self.filters.iter().map(|filter| Steered { filter: *filter, queue: self.queue })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = FilterRow> + '_ {
        let row = |filter: &Filter| FilterRow {
            filter: *filter,
            queue: self.queue.and_then(|queue| u8::try_from(queue).ok()),
            is_granted: self.granted.is_some(),
            diverted: self.diverted.and_then(|slot| u16::try_from(slot).ok()),
            link: None,
        };
        self.filters.iter().map(row)
    }
}
