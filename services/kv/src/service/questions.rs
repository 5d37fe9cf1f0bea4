//! Questions of an export, one at a time. As with clients, no answer tells of what a crash may undo: it waits for the log.

use crate::engine::state::State;
use crate::export::answers::{Question, Told, answer};
use crate::export::keys::KvDesk;
use qanat::Doorbell;
use qanat_export::questions::{Answer, Asked};
use qanat_store::Position;

/// An answer that waits until a record is durable.
#[derive(Debug)]
struct Held {
    gate: Position,
    asked: Asked<Question, Told>,
    answer: Answer<Told>,
}

/// Where questions come from.
#[derive(Debug)]
pub struct Questions {
    desk: KvDesk,
    doorbell: Doorbell,
    held: Option<Held>,
}

impl Questions {
    /// At this desk, when the doorbell was rung.
    pub fn new(desk: KvDesk, doorbell: Doorbell) -> Questions {
        Questions { desk, doorbell, held: None }
    }

    /// What rings.
    pub fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// Takes a question, of which at most one waits, and answers it, now or when `gate` is durable. An answer that waits yet is of a
    /// reader who has given up.
    pub fn hear(&mut self, state: &State, gate: Option<Position>) {
        self.doorbell.take();
        let Some(asked) = self.desk.take() else { return };
        let answer = answer(state, asked.question());
        match gate {
            Some(gate) => self.held = Some(Held { gate, asked, answer }),
            None => asked.answer(answer),
        }
    }

    /// Gives the answer that waits, if its record is durable.
    pub fn release(&mut self, is_durable: impl Fn(Position) -> bool) {
        if let Some(Held { asked, answer, .. }) = self.held.take_if(|held| is_durable(held.gate)) {
            asked.answer(answer);
        }
    }

    /// The log has failed: what waits for it is not told.
    pub fn disappoint(&mut self) {
        self.held = None;
    }
}
