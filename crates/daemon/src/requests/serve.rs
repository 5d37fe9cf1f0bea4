//! What each request does, and who may ask it.

use crate::clients::peer::{Identity, Peer, Role};
use crate::clients::porters::Beside;
use crate::daemon::{Daemon, Ending};
use crate::fence::injectors::Opener;
use crate::policy::{Rule, Standing};
use crate::requests::served::Served;
use qanat_control::protocol::{Answer, Request, Steered, VnicEnd};
use qanat_control::refusal::{Cause, Refusal};
use std::os::fd::OwnedFd;

impl Daemon {
    /// Does what is asked.
    pub(crate) fn serve(&mut self, role: Role, peer: Peer, request: Request, beside: Beside) -> Served {
        let (handle, files) = match beside {
            Beside::Nothing => (None, None),
            Beside::Handle(handle) => (Some(handle), None),
            Beside::Files(files) => (None, Some(files)),
        };
        let outcome = self.serve_with(role, peer, request, handle, files.as_ref().map_or(&[], |files| &files.files));
        files.into_iter().for_each(|files| self.release(files));
        outcome
    }

    fn serve_with(
        &mut self,
        role: Role,
        peer: Peer,
        request: Request,
        handle: Option<Identity>,
        files: &[OwnedFd],
    ) -> Served {
        match (role, request) {
            (Role::Session, Request::CreateVnic(wish)) => self.create_vnic(peer, wish),
            (Role::Session, Request::AttachNetCore { card, stack }) => self.attach_net_core(peer, card, stack),
            (Role::Session, Request::OpenVnic { vnic }) => {
                self.owned(peer, vnic)?;
                self.give_vnic(peer, vnic)
            }
            (Role::Session, Request::CreateFilter { direction, filters }) => {
                self.create_filter(peer, direction, filters)
            }
            (Role::Session, Request::DeleteVnic { vnic }) => {
                self.owned(peer, vnic)?;
                self.delete_vnic(vnic, VnicEnd::Deleted);
                Ok((Answer::Done, Vec::new()))
            }
            (Role::Session, Request::Status) => Ok((Answer::Status(self.whole_status(peer)?), Vec::new())),
            (Role::Session, Request::StatusPart { from }) => {
                let (status, next) = self.status_part(peer, from);
                Ok((Answer::StatusPart { status, next }, Vec::new()))
            }
            (Role::Session, Request::Disks { from }) => {
                let (disks, next) = self.disks_part(peer, from);
                Ok((Answer::Disks { disks, next }, Vec::new()))
            }
            (Role::Session, Request::Limits) => Ok((Answer::Limits(self.limits(peer)?), Vec::new())),
            (Role::Session, Request::Metrics) if peer.user == 0 => Ok((Answer::Text(self.metrics_text()), Vec::new())),
            (Role::Session, Request::MetricsPart { from }) if peer.user == 0 => {
                let (text, next) = self.metrics_part(from);
                Ok((Answer::TextPart { text, next }, Vec::new()))
            }
            (Role::Session, Request::Stop) if peer.user == 0 => {
                self.stopping = Some(Ending::Down);
                Ok((Answer::Done, Vec::new()))
            }
            (Role::Session, Request::Leave) if peer.user == 0 => {
                self.stopping = Some(Ending::Left);
                Ok((Answer::Done, Vec::new()))
            }
            (Role::Session, Request::AddNetCore { processor }) if peer.user == 0 => self.add_net_core(processor, peer),
            (Role::Session, Request::RemoveNetCore { processor }) if peer.user == 0 => {
                self.remove_net_core(processor, peer)
            }
            (Role::Session, Request::Reclaim) => self.reclaim(handle),
            (
                Role::Session,
                Request::Metrics
                | Request::MetricsPart { .. }
                | Request::Stop
                | Request::Leave
                | Request::AddNetCore { .. }
                | Request::RemoveNetCore { .. },
            ) => Err(Refusal::new(Cause::Forbidden, "only root may ask this: run with sudo")),
            (Role::Vnic(slot), Request::OpenQueue(wish)) => self.open_queue(slot, wish, files, Opener::Client),
            (Role::Vnic(slot), Request::Assign { queue }) => self.assign(slot, handle, queue),
            (Role::Vnic(slot), Request::Unassign) => {
                let number = self.presented_filter(handle)?;
                self.unassign_filter(slot, number)?;
                Ok((Answer::Done, Vec::new()))
            }
            (role, Request::AddFilter { vnic, direction, filter, queue }) => {
                let slot = self.target(role, peer, vnic)?;
                self.add_filter(slot, direction, Steered { filter, queue })
            }
            (role, Request::RemoveFilter { vnic, direction, filter }) => {
                let slot = self.target(role, peer, vnic)?;
                self.remove_filter(slot, direction, filter)
            }
            (role, Request::SetRate { vnic, direction, rate }) => {
                let slot = self.target(role, peer, vnic)?;
                self.set_rate(slot, direction, rate)
            }
            (Role::Vnic(_) | Role::Filter(_), _) => Err("this handle has no such request".into()),
            _ => Err("this is asked on a VNIC's handle, not on the control socket".into()),
        }
    }

    /// The VNIC a request is about: the handle's, or one of the peer's by number.
    fn target(&self, role: Role, peer: Peer, vnic: Option<u32>) -> Result<u32, Refusal> {
        match (role, vnic) {
            (Role::Vnic(slot), None) => Ok(slot),
            (Role::Session, Some(slot)) => self.owned(peer, slot).map(|()| slot),
            _ => Err("name the VNIC on the control socket, and none on a handle".into()),
        }
    }

    /// Others' VNICs and none look alike: their numbers are not to be found out.
    fn owned(&self, peer: Peer, slot: u32) -> Result<(), Refusal> {
        let vnic = self.vnics.get(&slot).filter(|vnic| peer.user == 0 || vnic.user == peer.user);
        vnic.map(|_| ()).ok_or_else(|| format!("user {} has no VNIC {slot}: see `qanat vnic list`", peer.user).into())
    }

    /// The rule of who asks, as it was judged when it connected.
    pub(crate) fn rule(&self, peer: Peer) -> Result<Rule, Refusal> {
        let user = peer.user;
        let rule = self.policy.rule_of(peer.standing).ok_or_else(|| {
            let text = format!(
                "no rule is for user {user} or one of its groups: add one; who was added to a group is in it from the next \
                 login on"
            );
            Refusal::new(Cause::NoRule, text)
        })?;
        match peer.standing {
            // Of such numbers one user may have many; whose they are, nobody could tell.
            Standing::NoAccount(_) => {
                let text = format!(
                    "rule \"{}\" is for members of groups, and user {user} is no account's and in no range of one's \
                     ({}): name the number among the rule's users",
                    rule.name,
                    self.policy.subordinate_users.display()
                );
                Err(Refusal::new(Cause::NoRule, text))
            }
            _ => Ok(rule.clone()),
        }
    }
}
