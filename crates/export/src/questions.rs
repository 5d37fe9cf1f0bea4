//! Questions to a service's core, which is one thread and has other things to do. One waits at a time, and who asks waits no longer than
//! [`ANSWER_TIME_MAX`].

use crate::tree::TreeError;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an answer may take. It is less than what a mount may be silent ([`SILENCE_MAX`](crate::probe::SILENCE_MAX)): a service that is
/// busy keeps its export.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// What comes of a question.
pub type Answer<A> = Result<A, TreeError>;

/// A question that somebody waits with. Dropped, it is told that there is no answer.
pub struct Asked<Q, A> {
    question: Q,
    answer: SyncSender<Answer<A>>,
}

impl<Q, A> Asked<Q, A> {
    /// What is asked.
    pub fn question(&self) -> &Q {
        &self.question
    }

    /// Answers. Never blocks.
    pub fn answer(self, answer: Answer<A>) {
        // Who has given up needs no answer.
        let _ = self.answer.try_send(answer);
    }
}

impl<Q: std::fmt::Debug, A> std::fmt::Debug for Asked<Q, A> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Asked").field(&self.question).finish()
    }
}

/// Asks. Clones ask the same desk.
pub struct Asker<Q, A> {
    questions: SyncSender<Asked<Q, A>>,
    ring: Arc<dyn Fn() + Send + Sync>,
}

impl<Q, A> Clone for Asker<Q, A> {
    fn clone(&self) -> Asker<Q, A> {
        Asker { questions: self.questions.clone(), ring: Arc::clone(&self.ring) }
    }
}

/// Where questions wait for the core. Clones are the same desk, since a service may be made anew. A lock is taken once for each question
/// and nobody else wants it; without questions the data path meets neither.
pub struct Desk<Q, A> {
    questions: Arc<Mutex<Receiver<Asked<Q, A>>>>,
}

impl<Q, A> Clone for Desk<Q, A> {
    fn clone(&self) -> Desk<Q, A> {
        Desk { questions: Arc::clone(&self.questions) }
    }
}

impl<Q, A> std::fmt::Debug for Desk<Q, A> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Desk").finish_non_exhaustive()
    }
}

/// A desk, and who asks there; `ring` wakes the core.
pub fn desk<Q, A>(ring: impl Fn() + Send + Sync + 'static) -> (Asker<Q, A>, Desk<Q, A>) {
    let (questions, waiting) = sync_channel(1);
    (Asker { questions, ring: Arc::new(ring) }, Desk { questions: Arc::new(Mutex::new(waiting)) })
}

impl<Q, A> Asker<Q, A> {
    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// What the core says, or that it does not answer in time. While a question waits that was given up, others fail at once: a core
    /// that hangs does not make each reader wait.
    pub fn ask(&self, question: Q) -> Answer<A> {
        self.ask_for(question, ANSWER_TIME_MAX)
    }

    fn ask_for(&self, question: Q, patience: Duration) -> Answer<A> {
        let (answer, answered) = sync_channel(1);
        match self.questions.try_send(Asked { question, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return Err(TreeError::Unanswered),
        }
        (self.ring)();
        match answered.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(TreeError::Unanswered),
        }
    }
}

impl<Q, A> Desk<Q, A> {
    /// The question that waits, if there is one. Never blocks.
    pub fn take(&self) -> Option<Asked<Q, A>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    #[test]
    fn the_core_is_rung_for_and_answers() {
        let (rang, waits) = sync_channel(4);
        let (asker, desk) = desk::<u32, u32>(move || _ = rang.try_send(()));
        let core = std::thread::spawn(move || {
            for _ in 0..3 {
                waits.recv().expect("a ring");
                let asked = desk.take().expect("a question");
                let question = *asked.question();
                asked.answer(if question == 2 { Err(TreeError::Absent) } else { Ok(question * 2) });
            }
        });
        assert_eq!((asker.ask(1), asker.ask(2), asker.ask(3)), (Ok(2), Err(TreeError::Absent), Ok(6)));
        core.join().expect("it ends");
        // The desk is gone with its core.
        assert_eq!(asker.ask(4), Err(TreeError::Unanswered));
    }

    #[test]
    fn a_core_that_hangs_costs_one_reader_its_patience_and_the_others_nothing() {
        let rings = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&rings);
        let (asker, desk) = desk::<u32, u32>(move || _ = counted.fetch_add(1, Ordering::Relaxed));
        let patience = Duration::from_millis(50);
        assert_eq!(asker.ask_for(1, patience), Err(TreeError::Unanswered));
        let begun = Instant::now();
        assert_eq!(asker.ask_for(2, Duration::from_secs(60)), Err(TreeError::Unanswered));
        assert!(begun.elapsed() < Duration::from_secs(30) && rings.load(Ordering::Relaxed) == 1);
        // When it goes on, the old question is answered to nobody, and the next one is heard.
        desk.take().expect("the old question").answer(Ok(1));
        let answering = std::thread::spawn(move || {
            let until = Instant::now() + Duration::from_secs(10);
            while Instant::now() < until {
                if let Some(asked) = desk.take() {
                    let question = *asked.question();
                    asked.answer(Ok(question));
                    return Some(question);
                }
            }
            None
        });
        assert_eq!(asker.ask_for(3, Duration::from_secs(10)), Ok(3));
        assert_eq!(answering.join().expect("it ends"), Some(3));
    }
}
