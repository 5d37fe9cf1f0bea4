//! The card of a linked service. When the daemon that gave it ends, the next one is asked for another with the same addresses; the
//! service goes on with that, its connections reset. Whoever deletes the card wants the service to end.

use crate::host::addresses::names;
use crate::host::application::{Place, StackPlace};
use crate::host::attach::AttachArguments;
use crate::log;
use qanat::split::PATIENCE;
use qanat::{AttachError, Attachment, Runtime, RuntimeError};
use qanat_control::card_watch::{CardEnd, CardWatch, Standing, has_hung_up};
use qanat_control::client::ClientError;
use qanat_control::protocol::Fault;
use qanat_nic::af_xdp::PortRange;
use qanat_nic::{DESCRIPTORS_REMEDY, Vnic};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long a daemon that has taken a card away may take to say why.
const WORD_PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts, at first and at most: a service has its card within a second of the daemon's start.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_millis(800);
/// Between two looks at whether the service is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Why a service's run on a card ended, if not because it was to stop.
#[derive(Debug)]
pub enum Failure {
    /// The daemon's card is no more.
    CardGone,
    /// What is wrong, and the remedy.
    Other(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Other(text)
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Failure {
        match error {
            RuntimeError::CardGone => Failure::CardGone,
            other => Failure::Other(other.to_string()),
        }
    }
}

/// A card, of the daemon's or not.
pub struct Card {
    pub attachment: Attachment,
    /// Of a daemon's card. It is a thread's work: it begins when the service has given up its rights.
    watch: OnceLock<Arc<CardWatch>>,
    /// When the one before it was lost.
    lost_at: Option<Instant>,
}

/// What is wanted, each time.
struct Wish<'a> {
    attach: &'a AttachArguments,
    services: Vec<PortRange>,
    queues: u32,
}

/// Runs a service on a card, and on the next one each time the daemon ends and another comes, until it is told to stop.
///
/// # Errors
/// Why there is no card, or no other one, or what `run` says.
pub fn serve(
    attach: &AttachArguments,
    services: Vec<PortRange>,
    queues: u32,
    is_stopped: &dyn Fn() -> bool,
    mut run: impl FnMut(&Card) -> Result<(), Failure>,
) -> Result<(), String> {
    let wish = Wish { attach, services, queues };
    let mut card = Card::of(attach.open_queues(wish.services.clone(), queues)?, None);
    loop {
        match run(&card) {
            Ok(()) => return Ok(()),
            // A card that ends while its queue is opened fails in its own words.
            Err(Failure::Other(why)) if !card.has_ended() => return Err(why),
            Err(_) => {}
        }
        match wish.next(&card, is_stopped)? {
            Some(next) => card = next,
            None => return Ok(()),
        }
    }
}

impl Card {
    fn of(attachment: Attachment, lost_at: Option<Instant>) -> Card {
        Card { attachment, watch: OnceLock::new(), lost_at }
    }

    /// A service's place on one of its queues.
    pub fn place(&self, queue: u32) -> Place {
        let attachment = &self.attachment;
        let addresses = attachment.addresses();
        let may_have_six = attachment.config().autoconfiguration.is_some();
        Place {
            serves_six: may_have_six || addresses.iter().any(IpAddr::is_ipv6),
            addresses,
            interface: attachment.interface().to_owned(),
            driver: attachment.driver().to_owned(),
            stack: StackPlace::Linked,
            queue,
        }
    }

    /// What watches it; `None`: it is no daemon's.
    fn watcher(&self) -> Result<Option<&Arc<CardWatch>>, String> {
        let Some(vnic) = self.attachment.vnic() else { return Ok(None) };
        if self.watch.get().is_none() {
            let watch = CardWatch::start(vnic);
            let watch = watch.map_err(|error| {
                format!("watch the card: {error}; raise the limits, {DESCRIPTORS_REMEDY} or `ulimit -u`")
            })?;
            // One that another thread has started meanwhile is as good.
            let _ = self.watch.set(Arc::new(watch));
        }
        Ok(self.watch.get())
    }

    /// Has a runtime on it end when it does.
    pub fn watch(&self, runtime: &mut Runtime) -> Result<(), Failure> {
        let watched = self.watcher()?.map_or(Ok(()), |watch| runtime.watch_card(watch));
        watched.map_err(|error| Failure::Other(format!("doorbell: {error}")))
    }

    /// The service listens: says so, if there was a card before this one. Whether there was.
    pub fn tell_return(&self) -> bool {
        if let Some(lost_at) = self.lost_at {
            log::info!(
                "card-back",
                "{} has a card again, {}, after {:.1} s",
                names(&self.attachment.addresses()),
                self.attachment.interface(),
                lost_at.elapsed().as_secs_f64()
            );
        }
        self.lost_at.is_some()
    }

    /// Whether the card has ended, for a caller that has it without a runtime.
    pub fn is_lost(&self, vnic: &impl Vnic) -> bool {
        matches!(self.standing(), Standing::Ended(_)) || vnic.is_gone()
    }

    /// How that ends the service's run on it.
    pub fn failure(&self) -> Failure {
        let is_daemons = self.attachment.vnic().is_some();
        if is_daemons { RuntimeError::CardGone.into() } else { RuntimeError::InterfaceGone.into() }
    }

    fn standing(&self) -> Standing {
        self.watcher().ok().flatten().map_or(Standing::Held, |watch| watch.standing())
    }

    fn has_ended(&self) -> bool {
        match self.watch.get() {
            Some(watch) => matches!(watch.standing(), Standing::Ended(_)),
            // It isn't watched yet.
            None => self.attachment.vnic().is_some_and(has_hung_up),
        }
    }
}

impl Wish<'_> {
    /// Waits for the next daemon's card; `None`: the service was told to stop meanwhile.
    fn next(&self, lost: &Card, is_stopped: &dyn Fn() -> bool) -> Result<Option<Card>, String> {
        let lost_at = Instant::now();
        while lost.standing() == Standing::Held && lost_at.elapsed() < WORD_PATIENCE && !is_stopped() {
            std::thread::sleep(LOOK_INTERVAL);
        }
        if let Some(why) = is_final(lost.standing()) {
            return Err(format!("the card is gone, with all its connections: {why}"));
        }
        log::warning!(
            "card-lost",
            "the card of {} is gone, with all its connections: its daemon has ended; waiting for the daemon, at most {} s",
            names(&lost.attachment.addresses()),
            PATIENCE.as_secs()
        );
        let (mut pause, mut attempt_at) = (PAUSE, lost_at);
        let mut last = None;
        while lost_at.elapsed() < PATIENCE {
            if is_stopped() {
                return Ok(None);
            }
            if Instant::now() >= attempt_at {
                match self.attempt(lost) {
                    Ok(attachment) => return Ok(Some(Card::of(attachment, Some(lost_at)))),
                    Err(error) if !may_pass(self.attach, &error) => return Err(no_other(&error)),
                    Err(error) => {
                        log::debug!("card-attempt", "no card yet: {error}");
                        last = Some(error);
                    }
                }
                attempt_at = Instant::now() + pause;
                pause = (pause * 3 / 2).min(PAUSE_MAX);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        let last = last.map_or_else(String::new, |error| no_other(&error));
        Err(format!("{last} ({} s were waited for); then start the service again", PATIENCE.as_secs()))
    }

    /// Of a daemon only: as root this process could make a card of its own, which the policy would know nothing of.
    fn attempt(&self, lost: &Card) -> Result<Attachment, AttachError> {
        let attachment = self.attach.open_daemons(self.services.clone(), self.queues)?;
        match attachment.addresses() == lost.attachment.addresses() {
            true => Ok(attachment),
            // A number that another card has by now.
            false => {
                let text = format!("the card of that number has {} now", names(&attachment.addresses()));
                Err(ClientError::Refused(text.into()).into())
            }
        }
    }
}

/// Whether the next attempt to have a card of the daemon's may go better.
pub fn may_pass(attach: &AttachArguments, error: &AttachError) -> bool {
    match error {
        // A card that an administrator makes again has its number a moment later.
        AttachError::Control(ClientError::Refused(_)) if attach.vnic.is_some() => true,
        AttachError::Control(error @ ClientError::Refused(_)) => error.may_pass(),
        AttachError::Control(ClientError::Fault(Fault::Version(_))) => false,
        _ => true,
    }
}

/// What the end of a card says to a service that is to end with it; `None`: another daemon may give it another.
fn is_final(standing: Standing) -> Option<&'static str> {
    let Standing::Ended(CardEnd::Told(end)) = standing else { return None };
    end.to_holder()
}

fn no_other(error: &AttachError) -> String {
    format!("the card is gone, and there is no other: {error}")
}
