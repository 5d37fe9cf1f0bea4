//! All commands.

use crate::commands::{
    acl, bitfield, bits, clients, connection, databases, dumping, expiry, generic, geo, hashes, hyperloglog,
    introspection, lists, lolwut, observing, pubsub, saving, scanning, scripts, server, serving, sets, sorted,
    sorted_ranges, sorted_store, sorting, streams, strings, substrings, transactions,
};
use crate::engine::command::{Command, put_table};

const GROUPS: &[&[Command]] = &[
    acl::COMMANDS,
    bitfield::fields::COMMANDS,
    bits::COMMANDS,
    clients::COMMANDS,
    connection::COMMANDS,
    databases::COMMANDS,
    dumping::COMMANDS,
    expiry::COMMANDS,
    generic::COMMANDS,
    geo::members::COMMANDS,
    geo::searching::COMMANDS,
    hashes::COMMANDS,
    hyperloglog::counting::COMMANDS,
    hyperloglog::debugging::COMMANDS,
    introspection::COMMANDS,
    lists::COMMANDS,
    lolwut::COMMANDS,
    observing::latency::COMMANDS,
    observing::memory::COMMANDS,
    observing::monitor::COMMANDS,
    observing::object::COMMANDS,
    observing::slowlog::COMMANDS,
    pubsub::COMMANDS,
    saving::COMMANDS,
    scanning::COMMANDS,
    scripts::calls::COMMANDS,
    scripts::functions::COMMANDS,
    scripts::management::COMMANDS,
    server::COMMANDS,
    serving::COMMANDS,
    sets::COMMANDS,
    sorted::COMMANDS,
    sorted_ranges::COMMANDS,
    sorted_store::COMMANDS,
    sorting::sort::COMMANDS,
    streams::claims::COMMANDS,
    streams::entries::COMMANDS,
    streams::groups::COMMANDS,
    streams::inspection::COMMANDS,
    streams::pending::COMMANDS,
    streams::ranges::COMMANDS,
    streams::reading::COMMANDS,
    strings::COMMANDS,
    substrings::COMMANDS,
    transactions::COMMANDS,
];

/// All commands, by their names. To be called before any is executed.
pub fn table() -> &'static [&'static Command] {
    put_table(|| {
        let mut all: Vec<&'static Command> = GROUPS.iter().copied().flatten().collect();
        all.sort_unstable_by_key(|command| command.name);
        all
    })
}

#[cfg(test)]
mod tests {
    use super::table;
    use crate::engine::command::find;

    #[test]
    fn each_name_is_there_once_and_can_be_found() {
        assert!(table().is_sorted_by(|one, other| one.name < other.name));
        for command in table() {
            assert!(find(command.name.as_bytes()).is_some_and(|found| found.name == command.name), "{command:?}");
            assert!(command.arity != 0 && !command.summary.is_empty(), "{command:?}");
            assert_eq!(command.name, command.name.to_ascii_lowercase());
        }
    }
}
