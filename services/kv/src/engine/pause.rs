//! [`Pause`]: clients have to wait (`CLIENT PAUSE`). A client that waits is not read from, so what it sends meanwhile waits in its receive
//! window, which is bounded.

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pause {
    /// Until then (Unix, ms).
    until_ms: i64,
    /// Those that only read wait, too.
    is_of_all: bool,
}

impl Pause {
    /// Clients wait until then. A pause that is there already is not made shorter, and not one of writes only.
    pub fn begin(&mut self, now_ms: i64, until_ms: i64, is_of_all: bool) {
        let was_there = self.is_on(now_ms);
        self.is_of_all = is_of_all || was_there && self.is_of_all;
        self.until_ms = if was_there { until_ms.max(self.until_ms) } else { until_ms };
    }

    /// Clients go on.
    pub fn end(&mut self) {
        *self = Pause::default();
    }

    /// Whether some clients wait. Keys do not expire, and none goes for want of memory, while it is so.
    pub fn is_on(&self, now_ms: i64) -> bool {
        now_ms < self.until_ms
    }

    /// Whether a command has to wait, which may write, or only reads.
    pub fn holds(&self, now_ms: i64, may_write: bool) -> bool {
        self.is_on(now_ms) && (self.is_of_all || may_write)
    }
}

#[cfg(test)]
mod tests {
    use super::Pause;

    #[test]
    fn a_pause_is_not_made_shorter_and_ends_by_itself() {
        let mut pause = Pause::default();
        pause.begin(0, 100, false);
        assert!(pause.holds(50, true) && !pause.holds(50, false));
        pause.begin(50, 60, true);
        assert!(pause.holds(99, false) && !pause.is_on(100));
        pause.begin(200, 300, false);
        assert!(!pause.holds(250, false));
        pause.end();
        assert!(!pause.is_on(250));
    }
}
