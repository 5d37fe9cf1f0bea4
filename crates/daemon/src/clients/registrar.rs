//! The registrar: a thread that asks the machine's name service, so that the loop never does.
//!
//! A look-up can take seconds, or never end, when names come from another machine. Only clients that can't be judged without one
//! wait for it.

use crate::clients::peer::Peer;
use crate::error::{DaemonError, say};
use crate::policy::{Names, Policy, Rule, Standing, has_account};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::fs::{Metadata, metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

/// Questions that wait for the thread at most. Each is asked once, whoever waits for its answer.
const QUESTIONS_MAX: usize = 256;
/// An answer about an account is believed for so long.
const ACCOUNT_AGE_MAX: Duration = Duration::from_secs(60);
/// Accounts that are remembered at most.
const ACCOUNTS_MAX: usize = 4_096;
/// When one of these changes, names are looked up again. Names that come from elsewhere are looked up again by age.
const FILES: [&str; 3] = ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"];
/// Names are looked up again after so long, in the background.
const NAMES_AGE_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// What the policy's names are.
    Names(Stamp),
    /// Whether a user number is an account's.
    Account(u32),
}

pub(super) enum Reply {
    Names(Stamp, Names),
    Account(u32, bool),
}

/// What the files were: inode, size and time of change of each.
pub(super) type Stamp = [(u64, u64, i64, i64); FILES.len()];

fn stamp() -> Stamp {
    // What is no file, or can't be looked at, doesn't tell when it changes.
    let file = |path| metadata(path).ok().filter(Metadata::is_file);
    FILES.map(|path| file(path).map_or((0, 0, 0, 0), |file| (file.ino(), file.size(), file.mtime(), file.mtime_nsec())))
}

pub(super) struct Waiting {
    pub(super) groups: Vec<u32>,
    pub(super) question: Question,
    pub(super) until: Instant,
}

/// What is known of names, and who waits to be judged.
pub(crate) struct Registrar {
    questions: SyncSender<Question>,
    pub(super) replies: Receiver<Reply>,
    /// Written by the thread after each reply.
    pub(super) bell: Arc<OwnedFd>,
    /// Questions that are not answered yet.
    pub(super) asked: Vec<Question>,
    pub(super) names: Option<(Stamp, Instant, Names)>,
    accounts: HashMap<u32, (bool, Instant)>,
    /// By the token of the session.
    pub(super) waiting: HashMap<u64, Waiting>,
}

impl Registrar {
    /// Starts the thread. It ends with the process: a look-up that hangs can't be stopped.
    pub(crate) fn start(policy: &Policy) -> Result<Registrar, DaemonError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = Arc::new(bell.map_err(|error| say("make an event descriptor", error))?);
        let (questions, next) = sync_channel(QUESTIONS_MAX);
        let (answer, replies) = channel();
        let (rules, its_bell) = (policy.rule.clone(), Arc::clone(&bell));
        let run = move || answer_questions(&rules, &next, &answer, &its_bell);
        let started = std::thread::Builder::new().name("qanat-names".to_owned()).spawn(run);
        started.map_err(|error| format!("start a thread for names: {error}"))?;
        let (asked, names, accounts, waiting) = (Vec::new(), None, HashMap::new(), HashMap::new());
        Ok(Registrar { questions, replies, bell, asked, names, accounts, waiting })
    }

    /// The descriptor that the loop waits for.
    pub(crate) fn bell(&self) -> Result<OwnedFd, DaemonError> {
        self.bell.try_clone().map_err(|error| say("keep a descriptor", error))
    }

    /// Has something looked up, once. False: too much waits to be looked up.
    pub(super) fn ask(&mut self, question: Question) -> bool {
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
    pub(super) fn judge(&mut self, policy: &Policy, peer: Peer, groups: &[u32]) -> Result<Standing, Question> {
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

    pub(super) fn learn(&mut self, reply: Reply) -> Question {
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
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The session is gone.
    pub(crate) fn forget(&mut self, token: u64) {
        self.waiting.remove(&token);
    }
}

fn answer_questions(rules: &[Rule], next: &Receiver<Question>, answer: &Sender<Reply>, bell: &OwnedFd) {
    for question in next {
        let reply = match question {
            Question::Names(stamp) => Reply::Names(stamp, Names::of(rules)),
            Question::Account(user) => Reply::Account(user, has_account(user)),
        };
        if answer.send(reply).is_err() {
            return;
        }
        // A full counter has rung already.
        let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
    }
}
