//! The cases, one group of them per file.

use crate::case::{Case, Net};

mod accept;
mod bind;
mod close;
mod connect;
mod control;
mod creation;
mod descriptors;
mod epoll;
mod fast_open;
mod files;
mod flow;
mod joined;
mod messages;
mod options;
mod order;
mod poll;
mod process;
mod receive;
mod select;
mod send;
mod shutdown;
mod signals;
mod stdio;
mod threads;
mod udp;
mod unsent;

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

const V4: &[Net] = &[Net::V4];
const V6: &[Net] = &[Net::V6];
const BOTH: &[Net] = &[Net::V4, Net::V6];
const EACH: &[Net] = &[Net::V4, Net::V6, Net::Dual];

impl Suite {
    /// One case for each of the nets.
    fn add(&mut self, nets: &[Net], name: &str, run: impl Fn(&Case) + Clone + 'static) {
        for net in nets {
            let name = format!("{}/{name}/{}", self.group, net.name());
            assert!(self.entries.iter().all(|entry| entry.name != name), "two cases are called {name}");
            self.entries.push(Entry { name, net: *net, run: Box::new(run.clone()) });
        }
    }
}

/// Puts a group's cases into a suite.
type Adds = fn(&mut Suite);

/// All, in their order.
pub fn all() -> Vec<Entry> {
    let groups: [(&'static str, Adds); 26] = [
        ("creation", creation::add),
        ("bind", bind::add),
        ("accept", accept::add),
        ("connect", connect::add),
        ("receive", receive::add),
        ("send", send::add),
        ("messages", messages::add),
        ("shutdown", shutdown::add),
        ("close", close::add),
        ("order", order::add),
        ("options", options::add),
        ("control", control::add),
        ("descriptors", descriptors::add),
        ("poll", poll::add),
        ("select", select::add),
        ("epoll", epoll::add),
        ("files", files::add),
        ("signals", signals::add),
        ("threads", threads::add),
        ("process", process::add),
        ("udp", udp::add),
        ("stdio", stdio::add),
        ("flow", flow::add),
        ("unsent", unsent::add),
        ("joined", joined::add),
        ("fast_open", fast_open::add),
    ];
    let mut suite = Suite { group: "", entries: Vec::new() };
    for (group, add) in groups {
        suite.group = group;
        add(&mut suite);
    }
    suite.entries
}
