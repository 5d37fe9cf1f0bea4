//! The cases, one group of them per file.

use crate::suite::{Entry, Suite};

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
    let mut suite = Suite::new();
    for (group, add) in groups {
        suite.begin(group);
        add(&mut suite);
    }
    suite.into_entries()
}
