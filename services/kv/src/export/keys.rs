//! The parts of a store's export, which ask the core.

use crate::export::answers::{Question, Told};
use bytes::Bytes;
use qanat_export::parts::{Listing, Part};
use qanat_export::questions::{Asker, Desk, desk};
use qanat_export::tree::{Entry, Kind, Page, TreeError};

/// Where the core finds questions.
pub type KvDesk = Desk<Question, Told>;
/// Who asks.
pub type KvAsker = Asker<Question, Told>;

/// Keys as files.
struct Keys(KvAsker);

fn content(asker: &KvAsker, question: Question) -> Result<Bytes, TreeError> {
    match asker.ask(question)? {
        Told::Content(content) => Ok(content),
        Told::Names(..) => Err(TreeError::Broken),
    }
}

impl Listing for Keys {
    fn page(&mut self, cookie: u64) -> Result<Page, TreeError> {
        match self.0.ask(Question::Names((cookie != 0).then_some(cookie)))? {
            Told::Names(names, next) => {
                let entries = names.into_iter().map(|name| Entry { name, kind: Kind::File }).collect();
                Ok(Page { entries, next })
            }
            Told::Content(_) => Err(TreeError::Broken),
        }
    }

    fn content(&mut self, name: &[u8]) -> Result<Bytes, TreeError> {
        content(&self.0, Question::File(name.to_vec()))
    }
}

/// Who asks, and the desk for [`KvService::with_desk`](crate::service::KvService::with_desk); `ring` wakes the core.
pub fn open_desk(ring: impl Fn() + Send + Sync + 'static) -> (KvAsker, KvDesk) {
    desk(ring)
}

/// `keys/` and `slowlog`.
pub fn parts(asker: &KvAsker) -> Vec<(String, Part)> {
    let (keys, slow) = (asker.clone(), asker.clone());
    vec![
        ("keys".to_owned(), Part::Listing(Box::new(Keys(keys)))),
        ("slowlog".to_owned(), Part::File(Box::new(move || content(&slow, Question::SlowLog)))),
    ]
}
