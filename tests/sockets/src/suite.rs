//! A suite: cases with their names, in groups.

use crate::case::{Case, Net};

/// A case that can be run.
pub struct Entry {
    pub name: String,
    pub net: Net,
    pub run: Box<dyn Fn(&Case)>,
}

/// Where groups put their cases.
pub struct Suite {
    group: &'static str,
    entries: Vec<Entry>,
}

pub const V4: &[Net] = &[Net::V4];
pub const V6: &[Net] = &[Net::V6];
pub const BOTH: &[Net] = &[Net::V4, Net::V6];
pub const EACH: &[Net] = &[Net::V4, Net::V6, Net::Dual];

impl Suite {
    /// An empty one.
    pub fn new() -> Suite {
        Suite { group: "", entries: Vec::new() }
    }

    /// What is added from here on is of this group.
    pub fn begin(&mut self, group: &'static str) {
        self.group = group;
    }

    /// All cases, in the order in which they were added.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// One case for each of the nets.
    pub fn add(&mut self, nets: &[Net], name: &str, run: impl Fn(&Case) + Clone + 'static) {
        for net in nets {
            let name = format!("{}/{name}/{}", self.group, net.name());
            assert!(self.entries.iter().all(|entry| entry.name != name), "two cases are called {name}");
            self.entries.push(Entry { name, net: *net, run: Box::new(run.clone()) });
        }
    }
}
