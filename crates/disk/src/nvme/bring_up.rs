//! [`BringUp`]: the steps from a controller in any state to one with an I/O queue pair. It never waits: each call gets as far as it gets.

use super::device::Device;
use super::error::NvmeError;
use super::prp::TRANSFER_BYTES_MAX;
use super::spec::{
    ActiveNamespaces, Command, CompletionEntry, Configuration, ControllerStatus, IdentifyController, IdentifyNamespace,
    QueueSizes, cns, event, feature, register,
};
use super::transport::Transport;
use qanat_api::Geometry;
use qanat_nic::Time;
use std::time::Duration;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Disable,
    Disabled,
    Ready,
    Command(AdminStep),
    Up,
}

/// Which command is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AdminStep {
    IdentifyController,
    ActiveNamespaces,
    IdentifyNamespace,
    NumberOfQueues,
    CreateCompletionQueue,
    CreateSubmissionQueue,
    NamespaceNotices,
    DoorbellBuffers,
}

impl AdminStep {
    fn name(self) -> &'static str {
        match self {
            AdminStep::IdentifyController => "Identify Controller",
            AdminStep::ActiveNamespaces => "the list of active namespaces",
            AdminStep::IdentifyNamespace => "Identify Namespace",
            AdminStep::NumberOfQueues => "a queue pair for I/O (Set Features, Number of Queues)",
            AdminStep::CreateCompletionQueue => "Create I/O Completion Queue",
            AdminStep::CreateSubmissionQueue => "Create I/O Submission Queue",
            AdminStep::NamespaceNotices => "Set Features, Asynchronous Event Configuration",
            AdminStep::DoorbellBuffers => "Doorbell Buffer Config",
        }
    }
}

/// What a controller turned out to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The controller.
    pub controller: IdentifyController,
    /// The namespace's identifier.
    pub namespace_identifier: u32,
    /// The namespace.
    pub namespace: IdentifyNamespace,
    /// Both, as a device.
    pub geometry: Geometry,
}

/// A bring-up under way.
pub(super) struct BringUp {
    step: Step,
    /// When what is waited for is overdue, and how long that was.
    deadline: Time,
    patience: Duration,
    controller: IdentifyController,
    namespace_identifier: u32,
    namespace: IdentifyNamespace,
}

impl BringUp {
    pub(super) fn new() -> BringUp {
        BringUp {
            step: Step::Disable,
            deadline: Time::ZERO,
            patience: Duration::ZERO,
            controller: IdentifyController::default(),
            namespace_identifier: 0,
            namespace: IdentifyNamespace::default(),
        }
    }

    /// Gets as far as it gets; the identity once it is up.
    ///
    /// # Errors
    /// [`NvmeError`]; then the controller is not to be used, and must be stopped.
    pub(super) fn advance<T: Transport>(
        &mut self,
        device: &mut Device<T>,
        now: Time,
    ) -> Result<Option<Identity>, NvmeError> {
        loop {
            let before = self.step;
            match self.step {
                Step::Disable => self.disable(device, now),
                Step::Disabled => self.enable(device, now)?,
                Step::Ready => {
                    let status = status_of(device)?;
                    if status.is_failed() {
                        return Err(NvmeError::Failed);
                    }
                    if status.is_ready() {
                        self.start(device, AdminStep::IdentifyController, now)?;
                    }
                }
                Step::Command(step) => {
                    if let Some(entry) = device.answer()? {
                        self.answered(device, step, entry, now)?;
                    } else if status_of(device)?.is_failed() {
                        // It can't reach the queue, or won't: there will be no answer.
                        return Err(NvmeError::Failed);
                    }
                }
                Step::Up => return self.identity(device).map(Some),
            }
            if self.step == before {
                break;
            }
        }
        if now >= self.deadline { Err(self.overdue(device)) } else { Ok(None) }
    }

    fn overdue<T: Transport>(&self, device: &mut Device<T>) -> NvmeError {
        if let Err(error) = status_of(device) {
            return error;
        }
        let what = match self.step {
            Step::Disable | Step::Disabled => "stop",
            Step::Ready | Step::Up => "become ready",
            Step::Command(_) => "answer a command of bring-up",
        };
        NvmeError::TimedOut { what, milliseconds: self.patience.as_millis() as u64 }
    }

    fn wait(&mut self, step: Step, patience: Duration, now: Time) {
        self.step = step;
        self.patience = patience;
        self.deadline = now + patience;
    }

    fn disable<T: Transport>(&mut self, device: &mut Device<T>, now: Time) {
        device.transport.write32(register::CC, Configuration::DISABLED.bits());
        self.wait(Step::Disabled, device.capabilities.timeout(), now);
    }

    fn enable<T: Transport>(&mut self, device: &mut Device<T>, now: Time) -> Result<(), NvmeError> {
        if status_of(device)?.is_ready() {
            return Ok(());
        }
        device.reset_memory();
        let entries = device.admin.entries();
        let (submission, completion) = device.admin.addresses();
        let transport = &mut device.transport;
        transport.write32(register::AQA, QueueSizes { submission: entries, completion: entries }.bits());
        transport.write64(register::ASQ, submission);
        transport.write64(register::ACQ, completion);
        transport.write32(register::CC, Configuration::ENABLED.bits());
        self.wait(Step::Ready, device.capabilities.timeout(), now);
        Ok(())
    }

    /// Sends the command of a step.
    fn start<T: Transport>(&mut self, device: &mut Device<T>, step: AdminStep, now: Time) -> Result<(), NvmeError> {
        let page = device.identify.address();
        let (queue, entries) = (device.io.identifier(), device.io.entries());
        let (submission, completion) = device.io.addresses();
        let command = match step {
            AdminStep::IdentifyController => Command::identify(cns::CONTROLLER, 0, page),
            AdminStep::ActiveNamespaces => Command::identify(cns::ACTIVE_NAMESPACES, 0, page),
            AdminStep::IdentifyNamespace => Command::identify(cns::NAMESPACE, self.namespace_identifier, page),
            // One of each: the field counts from 0.
            AdminStep::NumberOfQueues => Command::set_feature(feature::NUMBER_OF_QUEUES, 0),
            AdminStep::CreateCompletionQueue => {
                Command::create_completion_queue(queue, entries, completion, device.transport.interrupt_vector())
            }
            AdminStep::CreateSubmissionQueue => Command::create_submission_queue(queue, entries, submission, queue),
            AdminStep::NamespaceNotices => {
                Command::set_feature(feature::ASYNCHRONOUS_EVENT_CONFIGURATION, event::NAMESPACE_NOTICES)
            }
            AdminStep::DoorbellBuffers => {
                let (values, event_indices) = device.doorbells.addresses();
                Command::doorbell_buffer_config(values, event_indices)
            }
        };
        if !device.ask(command) {
            return Err(NvmeError::Failed);
        }
        self.wait(Step::Command(step), device.options.time_out, now);
        Ok(())
    }

    /// A command is answered: what comes next.
    fn answered<T: Transport>(
        &mut self,
        device: &mut Device<T>,
        step: AdminStep,
        entry: CompletionEntry,
        now: Time,
    ) -> Result<(), NvmeError> {
        let wants_buffers = |controller: &IdentifyController| {
            controller.doorbell_buffers && device.options.shadow_doorbells && device.transport.wants_shadow_doorbells()
        };
        let is_success = entry.status.is_success();
        let next = match step {
            // Both can be done without.
            AdminStep::NamespaceNotices => {
                self.controller.namespace_notices = is_success;
                wants_buffers(&self.controller).then_some(AdminStep::DoorbellBuffers)
            }
            AdminStep::DoorbellBuffers => {
                if is_success {
                    device.doorbells.shadow(device.io.identifier());
                }
                None
            }
            _ if !is_success => return Err(NvmeError::Refused { what: step.name(), status: entry.status }),
            AdminStep::IdentifyController => {
                self.controller = IdentifyController::from_page(&device.identify.copy_page());
                match device.options.namespace {
                    Some(namespace) => {
                        self.namespace_identifier = namespace;
                        Some(AdminStep::IdentifyNamespace)
                    }
                    None => Some(AdminStep::ActiveNamespaces),
                }
            }
            AdminStep::ActiveNamespaces => {
                let page = device.identify.copy_page();
                let none = || NvmeError::Unsupported("the controller has no active namespace".to_owned());
                self.namespace_identifier = ActiveNamespaces::in_page(&page).next().ok_or_else(none)?;
                Some(AdminStep::IdentifyNamespace)
            }
            AdminStep::IdentifyNamespace => {
                self.namespace = IdentifyNamespace::from_page(&device.identify.copy_page());
                self.identity(device)?;
                Some(AdminStep::NumberOfQueues)
            }
            AdminStep::NumberOfQueues => Some(AdminStep::CreateCompletionQueue),
            AdminStep::CreateCompletionQueue => Some(AdminStep::CreateSubmissionQueue),
            AdminStep::CreateSubmissionQueue if self.controller.namespace_notices => Some(AdminStep::NamespaceNotices),
            AdminStep::CreateSubmissionQueue => wants_buffers(&self.controller).then_some(AdminStep::DoorbellBuffers),
        };
        let Some(next) = next else {
            self.step = Step::Up;
            return Ok(());
        };
        device.identify.clear();
        self.start(device, next, now)
    }

    /// What the controller is, if this driver can do with it.
    fn identity<T: Transport>(&self, device: &Device<T>) -> Result<Identity, NvmeError> {
        let (controller, namespace) = (&self.controller, &self.namespace);
        let unsupported = |text: String| Err(NvmeError::Unsupported(text));
        if namespace.blocks == 0 {
            return unsupported(format!("there is no namespace {}", self.namespace_identifier));
        }
        if !(9..=16).contains(&namespace.block_power) || namespace.metadata_bytes > 0 {
            let IdentifyNamespace { block_power, metadata_bytes, .. } = namespace;
            return unsupported(format!("blocks of 2^{block_power} bytes with {metadata_bytes} bytes of metadata"));
        }
        if !controller.write_zeroes {
            return unsupported("the controller has no Write Zeroes".to_owned());
        }
        let block_bytes = 1_u32 << namespace.block_power;
        let limit = controller.transfer_bytes_max().unwrap_or(u64::MAX).min(u64::from(TRANSFER_BYTES_MAX)) as u32;
        let transfer_bytes_max = device.options.transfer_bytes_max.min(limit);
        if transfer_bytes_max < block_bytes {
            return unsupported(format!("blocks of {block_bytes} bytes with transfers of {transfer_bytes_max}"));
        }
        let geometry = Geometry {
            block_bytes,
            blocks: namespace.blocks,
            atomic_bytes: atomic_blocks(controller, namespace).saturating_mul(block_bytes).min(1 << 30),
            volatile_cache: controller.volatile_cache,
            forced_unit_access: device.options.force_unit_access || !controller.volatile_cache,
            transfer_bytes_max: transfer_bytes_max / block_bytes * block_bytes,
            depth: device.options.depth,
        };
        Ok(Identity {
            controller: controller.clone(),
            namespace_identifier: self.namespace_identifier,
            namespace: *namespace,
            geometry,
        })
    }
}

/// Blocks, a power of two, that are written wholly or not at all from a multiple of themselves on.
fn atomic_blocks(controller: &IdentifyController, namespace: &IdentifyNamespace) -> u32 {
    let blocks = namespace.atomic_blocks.unwrap_or(controller.atomic_blocks).clamp(1, 1 << 16);
    let power = 1 << blocks.ilog2();
    let boundary = namespace.atomic_boundary;
    if namespace.atomic_offset == 0 && (boundary == 0 || boundary.is_multiple_of(power)) { power } else { 1 }
}

/// The controller's status, if there is a controller.
pub(super) fn status_of<T: Transport>(device: &mut Device<T>) -> Result<ControllerStatus, NvmeError> {
    let status = ControllerStatus::from_bits(device.transport.read32(register::CSTS));
    if status.is_absent() { Err(NvmeError::Absent) } else { Ok(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_units_are_powers_of_two_within_their_boundaries() {
        let controller = IdentifyController { atomic_blocks: 8, ..IdentifyController::default() };
        let of = |atomic_blocks_of, atomic_boundary, atomic_offset| {
            let namespace = IdentifyNamespace {
                atomic_blocks: atomic_blocks_of,
                atomic_boundary,
                atomic_offset,
                ..IdentifyNamespace::default()
            };
            atomic_blocks(&controller, &namespace)
        };
        assert_eq!((of(None, 0, 0), of(Some(7), 0, 0), of(Some(1), 0, 0)), (8, 4, 1));
        assert_eq!((of(Some(8), 16, 0), of(Some(8), 12, 0), of(Some(8), 0, 3)), (8, 1, 1));
    }
}
