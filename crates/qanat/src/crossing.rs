//! The emulated crossing: a service in the linked placement that enters the kernel as often as if the network were there.
//!
//! “The Case Against User-Level Networking” (Magoutis, Seltzer and Gabber, section VI-B) puts a null system call with the same arguments
//! after each call of a library at user level. What the service is slowed down by is what its own stack saves of crossings alone, with all
//! else the same. Calls are the commands that change something, and the receipt of each event. Nothing is copied on the way.

use crate::service::{Context, Service};
use crate::start_error::StartError;
use qanat_api::{Chunk, ConnectionId, Event, UdpSocketId};
use std::net::SocketAddr;

/// A service whose calls cross. Give it to a [`Runtime`](crate::Runtime) in place of the service. It changes nothing in the other
/// placements, whose calls leave the process anyway.
#[derive(Debug)]
pub struct Crossing<'a, S>(pub &'a mut S);

impl<S: Service> Service for Crossing<'_, S> {
    fn start(&mut self, context: &mut Context<'_>) -> Result<(), StartError> {
        self.0.start(&mut context.crossing())
    }

    #[inline]
    fn handle(&mut self, event: Event, context: &mut Context<'_>) {
        self.0.handle(event, &mut received(context));
    }

    #[inline]
    fn datagram(&mut self, socket: UdpSocketId, peer: SocketAddr, chunk: Chunk, context: &mut Context<'_>) {
        self.0.datagram(socket, peer, chunk, &mut received(context));
    }

    #[inline]
    fn turn_ended(&mut self, context: &mut Context<'_>) {
        self.0.turn_ended(&mut context.crossing());
    }

    fn doorbell(&mut self, token: u64, context: &mut Context<'_>) {
        self.0.doorbell(token, &mut context.crossing());
    }

    fn leave(&mut self, connection: ConnectionId, context: &mut Context<'_>) -> bool {
        self.0.leave(connection, &mut context.crossing())
    }

    fn stop(&mut self, context: &mut Context<'_>) {
        self.0.stop(&mut context.crossing());
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// An event has been received, by a call that has no arguments.
#[inline]
fn received<'c>(context: &'c mut Context<'_>) -> Context<'c> {
    let context = context.crossing();
    context.cross([0; 4]);
    context
}
