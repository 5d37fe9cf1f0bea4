//! The registrar: a thread that asks the machine's name service, so that the loop never does.
//!
//! A look-up can take seconds, or never end, when names come from another machine. Who can't be judged without one waits for it,
//! and nobody else does.

use super::log::Event;
use super::{Daemon, Peer, tables};
use crate::names::{Names, has_account};
use crate::policy::{Policy, Standing};
use qanat_nic::foreign::peer_groups;
use rustix::event::epoll;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::fs::{Metadata, metadata};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

/// Questions that wait for the thread at most. Each is asked once, whoever waits for its answer.
const QUESTIONS_MAX: usize = 256;
/// So long somebody waits to be judged: less than a client waits for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer about an account is believed for so long.
const ACCOUNT_AGE_MAX: Duration = Duration::from_secs(60);
/// Accounts that are remembered at most.
const ACCOUNTS_MAX: usize = 4_096;
/// When one of these changes, names are looked up again. Names that come from elsewhere are looked up again by age.
const FILES: [&str; 3] = ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"];
/// Names are looked up again after so long, in the background.
const NAMES_AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// What the policy's names are.
    Names(Stamp),
    /// Whether a user number is an account's.
    Account(u32),
}

enum Reply {
    Names(Stamp, Names),
    Account(u32, bool),
}

/// What the files were: inode, size and time of change of each.
type Stamp = [(u64, u64, i64, i64); FILES.len()];

fn stamp() -> Stamp {
    // What is no file, or can't be looked at, doesn't tell when it changes.
    let file = |path| metadata(path).ok().filter(Metadata::is_file);
    FILES.map(|path| file(path).map_or((0, 0, 0, 0), |file| (file.ino(), file.size(), file.mtime(), file.mtime_nsec())))
}

struct Waiting {
    groups: Vec<u32>,
    question: Question,
    until: Instant,
}

/// What is known of names, and who waits to be judged.
pub(super) struct Registrar {
    questions: SyncSender<Question>,
    replies: Receiver<Reply>,
    /// Written by the thread after each reply.
    bell: Arc<OwnedFd>,
    /// Asked, and not answered yet.
    asked: Vec<Question>,
    names: Option<(Stamp, Instant, Names)>,
    accounts: HashMap<u32, (bool, Instant)>,
    /// By the token of the session.
    waiting: HashMap<u64, Waiting>,
}

impl Registrar {
    /// Starts the thread. It ends with the process: a look-up that hangs can't be stopped.
    pub(super) fn start(policy: &Policy) -> Result<Registrar, String> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(|error| tables::say("make an event descriptor", error))?);
        let (questions, next) = sync_channel(QUESTIONS_MAX);
        let (answer, replies) = channel();
        let (policy, its_bell) = (policy.clone(), Arc::clone(&bell));
        let run = move || answer_questions(&policy, &next, &answer, &its_bell);
        let started = std::thread::Builder::new().name("qanat-names".to_owned()).spawn(run);
        started.map_err(|error| format!("start a thread for names: {error}"))?;
        let (asked, names, accounts, waiting) = (Vec::new(), None, HashMap::new(), HashMap::new());
        Ok(Registrar { questions, replies, bell, asked, names, accounts, waiting })
    }

    /// The descriptor that the loop waits for.
    pub(super) fn bell(&self) -> Result<OwnedFd, String> {
        self.bell.try_clone().map_err(|error| tables::say("keep a descriptor", error))
    }

    /// Has something looked up, once. False: too much waits to be looked up.
    fn ask(&mut self, question: Question) -> bool {
        if self.asked.contains(&question) {
            return true;
        }
        match self.questions.try_send(question) {
            Ok(()) => {
                self.asked.push(question);
                true
            }
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// What somebody may have, or what has to be known first.
    fn judge(&mut self, policy: &Policy, peer: Peer, groups: &[u32]) -> Result<Standing, Question> {
        // Root has what rules give `root`, `*` and 0 whatever the name service says.
        let nobody = Names::default();
        let now = stamp();
        // Names that come from elsewhere may have changed: they are looked up again, and nobody waits for it.
        if self.names.as_ref().is_some_and(|(known, since, _)| *known == now && since.elapsed() > NAMES_AGE_MAX) {
            self.ask(Question::Names(now));
        }
        let names = match &self.names {
            Some((known, _, names)) if *known == now => names,
            _ if peer.user == 0 => &nobody,
            _ => return Err(Question::Names(now)),
        };
        let Some(grant) = policy.grant(names, peer.user, groups) else { return Ok(Standing::NoRule) };
        if !grant.is_for_members || peer.account.is_some() || peer.user == 0 {
            return Ok(Standing::Rule(grant.number));
        }
        match self.accounts.get(&peer.user) {
            Some((true, since)) if since.elapsed() < ACCOUNT_AGE_MAX => Ok(Standing::Rule(grant.number)),
            Some((false, since)) if since.elapsed() < ACCOUNT_AGE_MAX => Ok(Standing::NoAccount(grant.number)),
            _ => Err(Question::Account(peer.user)),
        }
    }

    fn learn(&mut self, reply: Reply) -> Question {
        match reply {
            Reply::Names(stamp, names) => {
                self.names = Some((stamp, Instant::now(), names));
                Question::Names(stamp)
            }
            Reply::Account(user, is_one) => {
                if self.accounts.len() >= ACCOUNTS_MAX {
                    self.accounts.clear();
                }
                self.accounts.insert(user, (is_one, Instant::now()));
                Question::Account(user)
            }
        }
    }

    /// Whether somebody waits whose patience may end.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The session is gone.
    pub(super) fn forget(&mut self, token: u64) {
        self.waiting.remove(&token);
    }
}

fn answer_questions(policy: &Policy, next: &Receiver<Question>, answer: &Sender<Reply>, bell: &OwnedFd) {
    for question in next {
        let reply = match question {
            Question::Names(stamp) => Reply::Names(stamp, Names::of(policy)),
            Question::Account(user) => Reply::Account(user, has_account(user)),
        };
        if answer.send(reply).is_err() {
            return;
        }
        // A full counter has rung already.
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}

impl Daemon {
    /// Judges somebody who has connected, now or when names are known. Until then nothing is read from the session.
    pub(super) fn register(&mut self, token: u64, peer: Peer) {
        let Some(endpoint) = self.endpoints.get(&token) else { return };
        // The groups of the process, as the kernel knows them: an account's list may have changed since it logged in.
        let mut groups = peer_groups(endpoint.fd.as_fd()).unwrap_or_default();
        groups.push(peer.group);
        self.admit(token, peer, groups, Instant::now() + PATIENCE);
    }

    fn admit(&mut self, token: u64, peer: Peer, groups: Vec<u32>, until: Instant) {
        match self.registrar.judge(&self.policy, peer, &groups) {
            Ok(standing) => {
                let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
                endpoint.peer.standing = standing;
                if endpoint.is_suspended {
                    self.resume(token);
                }
            }
            Err(question) if self.registrar.ask(question) => {
                self.registrar.waiting.insert(token, Waiting { groups, question, until });
                let Some(endpoint) = self.endpoints.get_mut(&token) else { return };
                endpoint.is_suspended = true;
                let data = epoll::EventData::new_u64(token);
                let _ = epoll::modify(&self.epoll, &endpoint.fd, data, epoll::EventFlags::RDHUP);
            }
            Err(_) => self.cut_off(token, "too many names wait to be looked up: try again in a moment"),
        }
    }

    /// The thread has answered.
    pub(super) fn attend_registrar(&mut self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.registrar.bell, &mut count);
        while let Ok(reply) = self.registrar.replies.try_recv() {
            let question = self.registrar.learn(reply);
            self.registrar.asked.retain(|asked| *asked != question);
            let theirs = |(token, waiting): (&u64, &Waiting)| (waiting.question == question).then_some(*token);
            let tokens: Vec<u64> = self.registrar.waiting.iter().filter_map(theirs).collect();
            for token in tokens {
                let Some(waiting) = self.registrar.waiting.remove(&token) else { continue };
                let Some(peer) = self.endpoints.get(&token).map(|endpoint| endpoint.peer) else { continue };
                self.admit(token, peer, waiting.groups, waiting.until);
            }
        }
        self.tell_of_what_is_in_vain();
    }

    /// What the policy says in vain is told once for each time its names are looked up after a change.
    fn tell_of_what_is_in_vain(&mut self) {
        let Some((_, _, names)) = &self.registrar.names else { return };
        let in_vain = names.in_vain(&self.policy);
        if in_vain != self.in_vain {
            for what in &in_vain {
                (self.log)(&Event::new("policy", "failed", what.to_string()));
            }
            self.in_vain = in_vain;
        }
    }

    /// Those who have waited too long.
    pub(super) fn look_after_unjudged(&mut self) {
        let now = Instant::now();
        let late = |(token, waiting): (&u64, &Waiting)| (waiting.until <= now).then_some(*token);
        let late: Vec<u64> = self.registrar.waiting.iter().filter_map(late).collect();
        for token in late {
            self.registrar.forget(token);
            self.cut_off(
                token,
                "this machine's name service does not answer, so nobody knows which rule is for this user: see nsswitch.conf(5), \
                 or name users and groups by number in the policy",
            );
        }
    }
}
