//! What a service may have done: sending, and the end.

use crate::tcp::config::TcpConfig;
use crate::tcp::connection::Connection;
use crate::tcp::disposition::Disposition;
use crate::tcp::env::Env;
use crate::tcp::state::State;
use bytes::Bytes;
use qanat_api::{CloseReason, CommandError, Source};
use std::rc::Rc;

impl Connection {
    fn may_send(&self, config: &TcpConfig) -> Result<(), CommandError> {
        if !self.lifecycle.state().sends() || self.lifecycle.is_fin_queued() {
            return Err(CommandError::NotSending);
        }
        if self.queue.len() >= config.send_pieces_max {
            return Err(CommandError::Full);
        }
        Ok(())
    }

    /// Queues lent bytes.
    ///
    /// # Errors
    /// [`CommandError::NotSending`] after a shutdown or close; [`CommandError::Full`].
    pub fn send(&mut self, bytes: Bytes, config: &TcpConfig) -> Result<(), CommandError> {
        self.may_send(config)?;
        self.queue.push_bytes(bytes);
        self.is.output_wanted = true;
        Ok(())
    }

    /// Queues bytes, which are the connection's from now on.
    ///
    /// # Errors
    /// As [`send`](Connection::send).
    pub fn send_owned(&mut self, bytes: Box<[u8]>, config: &TcpConfig) -> Result<(), CommandError> {
        self.may_send(config)?;
        self.queue.push_owned(bytes);
        self.is.output_wanted = true;
        Ok(())
    }

    /// Queues a range of a source.
    ///
    /// # Errors
    /// As [`send`](Connection::send).
    pub fn send_source(
        &mut self,
        source: Rc<dyn Source>,
        stamp: u64,
        offset: u64,
        length: u64,
        config: &TcpConfig,
    ) -> Result<(), CommandError> {
        self.may_send(config)?;
        self.queue.push_source(source, stamp, offset, length);
        self.is.output_wanted = true;
        Ok(())
    }

    /// FIN after everything queued; receiving goes on.
    ///
    /// # Errors
    /// [`CommandError::NotSending`] if it was shut down before.
    pub fn shutdown(&mut self) -> Result<(), CommandError> {
        if self.lifecycle.is_fin_queued() || !self.lifecycle.state().sends() {
            return Err(CommandError::NotSending);
        }
        self.lifecycle.queue_fin();
        self.is.output_wanted = true;
        Ok(())
    }

    /// As [`shutdown`](Connection::shutdown), and the service takes no more data. In SYN-SENT the connection is simply
    /// deleted (RFC 9293 §3.10.4).
    pub fn close(&mut self, env: &mut Env<'_>) -> Disposition {
        match self.lifecycle.state() {
            State::Closed => return Disposition::Keep,
            State::SynSent => return self.finish(CloseReason::Aborted, env),
            _ => {}
        }
        let _ = self.shutdown();
        self.lifecycle.orphan();
        if self.lifecycle.state() == State::FinWait2 {
            self.timers.set_idle(env.now + env.config.fin_wait_2);
        }
        Disposition::Keep
    }

    /// Resets the connection. The RST goes out with the next `output`, which then reports the end; in SYN-SENT there is
    /// nobody to reset.
    pub fn abort(&mut self, env: &mut Env<'_>) -> Disposition {
        self.fail(CloseReason::Aborted, env)
    }
}
