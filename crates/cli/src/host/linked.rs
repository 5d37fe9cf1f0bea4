//! The linked placement: the stack is in the service's threads, a service and a runtime for each queue of a card, and again for the card
//! that comes after one that is lost.

use crate::host::addresses::AddressWatch;
use crate::host::application::{Application, Figures};
use crate::host::card::{self, Card, Failure};
use crate::host::hosted::{Hosted, Watchers};
use crate::host::instances::{self, Look};
use crate::host::meter::Meter;
use crate::host::place_figures::of_linked;
use crate::host::report::stack_report;
use crate::log;
use qanat::{Attachment, Storage};

/// Until the service is told to stop.
///
/// # Errors
/// Why there is no card, or why it can't be served on.
pub fn run<A: Application>(hosted: &Hosted<'_, A>, watchers: Watchers) -> Result<(), String> {
    let mut meter = Meter::new();
    let mut watchers = Some(watchers);
    let (attach, needs) = (&hosted.options.attach, &hosted.requirements);
    let mut storage = None;
    // To wait for the next card is to go on, too.
    let is_stopped = || {
        hosted.manager.is_alive();
        hosted.control.is_stopped()
    };
    let outcome = card::serve(attach, needs.ports.clone(), needs.queues, &is_stopped, |card| {
        hosted.control.begin()?;
        let notes = serve_on(hosted, card, &mut watchers, &mut storage, &mut meter)?;
        hosted.tell(&notes);
        Ok(())
    });
    if watchers.is_none() {
        hosted.finish();
    }
    outcome
}

/// On one card, until the service is to stop or the card is gone; news of the end is given back.
fn serve_on<A: Application>(
    hosted: &Hosted<'_, A>,
    card: &Card,
    watchers: &mut Option<Watchers>,
    storage: &mut Option<Storage>,
    meter: &mut Meter<A::Figures>,
) -> Result<Vec<String>, Failure> {
    let attachment = &card.attachment;
    let storage = match storage {
        Some(kept) => kept,
        // There are rights yet.
        none => none.insert(hosted.application.storage()?),
    };
    hosted.privilege.start_steward(Vec::new())?;
    hosted.privilege.prepare(hosted.files.places.clone());
    hosted.application.prepare(hosted.requirements.queues)?;
    let mut watch = AddressWatch::new(&attachment.addresses());
    let ready = || {
        hosted.privilege.make_sure()?;
        watchers.take().map_or(Ok(()), |watchers| hosted.begin(watchers))?;
        if !card.tell_return() {
            hosted.announce(&card.place(0))?;
        }
        Ok(())
    };
    instances::run(hosted, card, storage, ready, |look| {
        hosted.show(meter, &hosted.control.each(), || of_linked(look.runtime), &look.notes);
        watch.show(&hosted.printer, look.runtime);
        if look.report {
            report(hosted, attachment, look);
        }
    })
}

fn report<A: Application>(hosted: &Hosted<'_, A>, attachment: &Attachment, look: &Look<'_>) {
    let head = if hosted.requirements.queues > 1 { "queue 0:\n" } else { "" };
    let stack = head.to_owned() + &stack_report(look.runtime, Some(attachment));
    let (metrics, all) = (hosted.application.metrics(), A::Figures::sum(&hosted.control.each()));
    // By a thread of its own: standard error may block, the data path must not; and what the application tells may have to be waited
    // for.
    std::thread::spawn(move || {
        let own = metrics.map_or_else(String::new, |metrics| metrics(&all));
        log::report(&(own + &stack));
    });
}
