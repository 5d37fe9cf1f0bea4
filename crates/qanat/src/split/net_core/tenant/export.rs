//! A service's side of a card that goes from one net core to another. The service notices nothing: its rings, its memory and its
//! socket are the same, and what it says meanwhile waits in them.

use crate::split::memory::{self, Files, Memory};
use crate::split::net_core::lending::{Copies, Lending};
use crate::split::net_core::tenant::{Figures, Tenant};
use bytes::Bytes;
use qanat_abi::ring::Words;
use qanat_abi::{Consumer, Event as AbiEvent, Message, Mismatch, Producer, Rings};
use qanat_stack::{ConnectionId, UdpSocketId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Messages that wait, at most: more than a net core keeps.
const WAITING_MAX: usize = 1 << 19;

/// What the next net core must know of it.
#[derive(Serialize)]
pub(crate) struct TenantExport<'a> {
    who: (&'a str, i32, u32),
    /// Positions of both rings, events first, and batches of those.
    rings: (u32, u32, u64),
    answers: Vec<Words>,
    waiting: Vec<Words>,
    acked: Option<(ConnectionId, u32)>,
    is_starved: bool,
    lending: &'a Lending,
    sockets: &'a [Option<UdpSocketId>],
    connect_from: Option<SocketAddr>,
    figures: Figures,
}

/// As it is read.
#[derive(Deserialize)]
pub(crate) struct TenantImport {
    who: (String, i32, u32),
    rings: (u32, u32, u64),
    answers: Vec<Words>,
    waiting: Vec<Words>,
    acked: Option<(ConnectionId, u32)>,
    is_starved: bool,
    lending: Lending,
    sockets: Vec<Option<UdpSocketId>>,
    connect_from: Option<SocketAddr>,
    figures: Figures,
}

/// Why the belongings of a service can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BelongingsError {
    #[error("a descriptor of a service's is missing")]
    Missing,
    #[error("a service's rings: {0}")]
    Rings(Mismatch),
    #[error("a service's memory: {0}")]
    Memory(io::Error),
}

/// What comes beside it: its socket and its memory, opened.
pub(crate) struct Belongings {
    socket: OwnedFd,
    rings: Rings,
    memory: Memory,
}

impl Belongings {
    /// Of descriptors as [`Tenant::descriptors`] has them, of memory of so many bytes. It is still the other net core's.
    pub(crate) fn open(descriptors: Vec<OwnedFd>, lengths: [usize; 2]) -> Result<Belongings, BelongingsError> {
        let mut all = descriptors.into_iter();
        let mut next = || all.next().ok_or(BelongingsError::Missing);
        let (socket, files) = (next()?, [next()?, next()?, next()?]);
        let [control, ..] = &files;
        let rings = Rings::open(control.as_fd()).map_err(BelongingsError::Rings)?;
        let memory = memory::open(files, lengths, all.next()).map_err(BelongingsError::Memory)?;
        memory.files.set_anothers(true);
        Ok(Belongings { socket, rings, memory })
    }

    /// Small blocks, and large ones.
    pub(crate) fn memories(&self) -> &[Bytes; 2] {
        &self.memory.blocks
    }
}

fn words(said: &VecDeque<AbiEvent>) -> Vec<Words> {
    said.iter().map(Message::encode).collect()
}

fn said(words: Vec<Words>) -> Option<VecDeque<AbiEvent>> {
    if words.len() > WAITING_MAX {
        return None;
    }
    words.into_iter().map(|words| AbiEvent::decode(words).ok()).collect()
}

impl Tenant {
    pub(crate) fn export(&self) -> TenantExport<'_> {
        TenantExport {
            who: (&self.name, self.process, self.user),
            rings: (self.events.position(), self.commands.position(), self.events.batches()),
            answers: words(&self.answers),
            waiting: words(&self.waiting),
            acked: self.acked,
            is_starved: self.is_starved,
            lending: &self.lending,
            sockets: &self.sockets,
            connect_from: self.connect_from,
            figures: self.figures,
        }
    }

    /// Bytes of small blocks, and of large ones.
    pub(crate) fn memories(&self) -> [&Bytes; 2] {
        [&self.small, &self.large]
    }

    pub(crate) fn files(&self) -> &Arc<Files> {
        &self.files
    }

    /// Its socket, the files of its memory, and a lease if there is one.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        std::iter::once(self.socket.as_fd()).chain(self.files.descriptors()).collect()
    }

    /// Goes on with it; `None`: that can't be what a net core parted with, of a card of so many frames.
    pub(crate) fn resume(parted: TenantImport, own: Belongings, frames: u32, copies: &Copies) -> Option<Tenant> {
        let TenantImport { who: (name, process, user), rings: (events, commands, batches), mut lending, .. } = parted;
        if !lending.resume(frames, copies) {
            return None;
        }
        let Belongings { socket, rings, memory: Memory { blocks: [small, large], files } } = own;
        Some(Tenant {
            socket,
            name,
            process,
            user,
            events: Producer::resumed(rings.events, events, batches),
            commands: Consumer::resumed(rings.commands, commands),
            answers: said(parted.answers)?,
            waiting: said(parted.waiting)?,
            acked: parted.acked,
            is_starved: parted.is_starved,
            small,
            large,
            files,
            lending,
            sockets: parted.sockets,
            connect_from: parted.connect_from,
            figures: parted.figures,
        })
    }
}
