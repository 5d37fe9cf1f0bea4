//! Messages to the operator.

use std::collections::VecDeque;

/// Messages to the operator kept until somebody reads them.
const LOG_MAX: usize = 256;

/// What the operator should know, until it is read.
#[derive(Default)]
pub(super) struct Log(VecDeque<String>);

impl Log {
    pub(super) fn say(&mut self, text: String) {
        if self.0.len() == LOG_MAX {
            self.0.pop_front();
        }
        self.0.push_back(text);
    }

    /// What was said since the last call.
    pub(super) fn take(&mut self) -> impl Iterator<Item = String> + '_ {
        self.0.drain(..)
    }
}
