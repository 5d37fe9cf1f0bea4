//! [`Notices`]: what a controller says unasked while it is up: that the namespace has changed, which is then identified anew.
//!
//! ```text
//!  Listening ── Namespace Attribute Changed ──▶ Log (so that the next change is said, too) ──▶ Identify ──▶ Listening
//! ```
//! One admin command is under way at a time. It has no time-out: a controller that owes an answer says nothing more, and that is all.

use super::device::Device;
use super::queue::Violation;
use super::spec::{Command, IDENTIFY_BYTES, IdentifyNamespace, cns, event};
use super::transport::Transport;

/// Which command is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// None: the controller has no notices, or refused an event request.
    Deaf,
    Listening,
    Log,
    Identify,
}

/// The notices of a controller that is up.
#[derive(Debug)]
pub(super) struct Notices {
    step: Step,
    namespace: u32,
}

impl Notices {
    /// Listens if the controller `speaks`.
    pub(super) fn new<T: Transport>(device: &mut Device<T>, namespace: u32, speaks: bool) -> Notices {
        let mut notices = Notices { step: Step::Deaf, namespace };
        if speaks {
            notices.send(device, Step::Listening);
        }
        notices
    }

    fn send<T: Transport>(&mut self, device: &mut Device<T>, step: Step) {
        let page = device.identify.address();
        let command = match step {
            Step::Deaf => return,
            Step::Listening => Command::asynchronous_event_request(),
            Step::Log => Command::get_log_page(event::CHANGED_NAMESPACES, IDENTIFY_BYTES as u32, page),
            Step::Identify => Command::identify(cns::NAMESPACE, self.namespace, page),
        };
        device.identify.clear();
        self.step = if device.ask(command) { step } else { Step::Deaf };
    }

    /// Gets as far as it gets; what the namespace is now, if it was said to have changed.
    ///
    /// # Errors
    /// [`Violation`].
    pub(super) fn advance<T: Transport>(
        &mut self,
        device: &mut Device<T>,
    ) -> Result<Option<IdentifyNamespace>, Violation> {
        let Some(entry) = device.answer()? else { return Ok(None) };
        let is_success = entry.status.is_success();
        match self.step {
            Step::Deaf => {}
            Step::Listening if !is_success => self.step = Step::Deaf,
            Step::Listening => {
                let has_changed = event::is_namespace_changed(entry.result);
                self.send(device, if has_changed { Step::Log } else { Step::Listening });
            }
            // Whichever namespaces it lists: this one is identified.
            Step::Log => self.send(device, Step::Identify),
            Step::Identify => {
                let namespace = is_success.then(|| IdentifyNamespace::from_page(&device.identify.copy_page()));
                self.send(device, Step::Listening);
                return Ok(namespace);
            }
        }
        Ok(None)
    }
}
