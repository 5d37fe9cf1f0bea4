//! COMMAND: what commands there are.

use crate::engine::access::categories::{Categories, of_command, of_subcommand};
use crate::engine::access::uses::uses;
use crate::engine::call::Call;
use crate::engine::command::{Command, Keys, NO_KEYS, all, commands, find};
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::scan::matches;
use crate::engine::subcommands;
use crate::resp::number::integer;
use crate::resp::reply::Reply;
use crate::resp::request::Args;

commands! { "server":
    "command", -1, [], NO_KEYS, "2.8.13", "Returns detailed information about all commands." => command;
}

fn tell(reply: &mut Reply, command: &Command) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let counted = command.keys.are_counted().then_some("movablekeys");
    let flags: Vec<&str> = command.flags.names().chain(counted).collect();
    reply.set(flags.len());
    flags.into_iter().for_each(|flag| reply.simple(flag));
    command.keys.told().into_iter().for_each(|number| reply.integer(number));
    let categories: Vec<&str> = of_command(command).names().collect();
    reply.set(categories.len());
    categories.into_iter().for_each(|name| reply.simple(&format!("@{name}")));
    // Tips, key specifications and subcommands: none are told.
    (0..3).for_each(|_| reply.array(0));
}

fn document(reply: &mut Reply, command: &Command) {
    reply.bulk(command.name.as_bytes());
    reply.map(3);
    for (field, text) in [("summary", command.summary), ("since", command.since), ("group", command.group)] {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
}

fn command(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, table) = (call.args, all());
    let named = || args.from(2).map(|name| find(name)).collect::<Vec<_>>();
    if args.len() == 1 || args.is(1, "INFO") && args.len() == 2 {
        call.reply.array(table.len());
        table.iter().for_each(|command| tell(call.reply, command));
    } else if args.is(1, "INFO") {
        let found = named();
        call.reply.array(found.len());
        for command in found {
            match command {
                Some(command) => tell(call.reply, command),
                None => call.reply.null(),
            }
        }
    } else if args.is(1, "DOCS") {
        let found = match args.len() {
            2 => table.to_vec(),
            _ => named().into_iter().flatten().collect(),
        };
        call.reply.map(found.len());
        found.into_iter().for_each(|command| document(call.reply, command));
    } else if args.is(1, "COUNT") && args.len() == 2 {
        call.reply.length(table.len());
    } else if args.is(1, "LIST") && (args.len() == 2 || args.len() == 5 && args.is(2, "FILTERBY")) {
        list(call)?;
    } else if args.is(1, "GETKEYS") {
        if args.len() < 4 {
            return Err(help::arity("command", "getkeys"));
        }
        keys(call, false)?;
    } else if args.is(1, "GETKEYSANDFLAGS") {
        if args.len() < 4 {
            return Err(help::arity("command", "getkeysandflags"));
        }
        keys(call, true)?;
    } else if args.is(1, "LIST") {
        return Err(Fault::Syntax);
    } else if args.is(1, "HELP") && args.len() == 2 {
        let lines = [
            ("(no subcommand)", "Return details about all commands."),
            ("COUNT", "Return the total number of commands in this server."),
            ("DOCS [<command-name> ...]", "Return documentation details about multiple commands."),
            ("GETKEYS <full-command>", "Return the keys from a full command."),
            ("GETKEYSANDFLAGS <full-command>", "Return the keys and the access flags from a full command."),
            ("INFO [<command-name> ...]", "Return details about multiple commands."),
            ("LIST [FILTERBY (ACLCAT|PATTERN) <filter>]", "Return a list of all commands in this server."),
        ];
        help::answer(call, "COMMAND", &lines);
    } else {
        return Err(help::unknown(call, "COMMAND"));
    }
    Ok(())
}

/// Whether a name of these categories is to be listed.
type Filter<'a> = dyn Fn(&str, Categories) -> bool + 'a;

fn list(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, table) = (call.args, all());
    let wanted = args.at(4);
    let is_wanted: Box<Filter<'_>> = match args.len() {
        2 => Box::new(|_, _| true),
        _ if args.is(3, "PATTERN") => Box::new(|name, _| matches(wanted, name.as_bytes())),
        _ if args.is(3, "ACLCAT") => {
            let category = Categories::named(wanted).unwrap_or_default();
            Box::new(move |_, own| own.meets(category))
        }
        // There are no modules.
        _ if args.is(3, "MODULE") => Box::new(|_, _| false),
        _ => return Err(Fault::Syntax),
    };
    let mut found: Vec<&str> = Vec::new();
    for command in table {
        let subs = subcommands::ALL.get(subcommands::of(command.name)).unwrap_or_default();
        let subs = subs.iter().map(|sub| (*sub, of_subcommand(sub)));
        let all = [(command.name, of_command(command))].into_iter().chain(subs);
        found.extend(all.filter(|(name, own)| is_wanted(name, *own)).map(|(name, _)| name));
    }
    call.reply.array(found.len());
    found.into_iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

/// Whether there are as many keys as the arguments say, and one at least.
fn is_counted_right(keys: Keys, args: &Args<'_>) -> bool {
    let place = match keys {
        Keys::Counted(place) => place,
        Keys::TargetAndCounted => 2,
        _ => return true,
    };
    let count = integer(args.at(place)).and_then(|count| usize::try_from(count).ok());
    count.is_some_and(|count| count > 0 && count < args.len().saturating_sub(place))
}

/// `has_uses`: it is told what the command does with each.
fn keys(call: &mut Call<'_>, has_uses: bool) -> Result<(), Fault> {
    let (text, ranges) = call.args.joined(2);
    let args = Args::new(&text, &ranges);
    let command = find(args.at(0)).ok_or(Fault::Said("ERR Invalid command specified"))?;
    if !command.takes(args.len()) {
        return Err(Fault::Said("ERR Invalid number of arguments specified for command"));
    }
    let mut places: Vec<usize> = command.keys.places(&args).collect();
    if command.keys == Keys::None {
        return Err(Fault::Said("ERR The command has no key arguments"));
    }
    if places.is_empty() || !is_counted_right(command.keys, &args) {
        // A script has as many as it says, or none.
        if command.group != "scripting" {
            return Err(Fault::Said("ERR Invalid arguments specified for command"));
        }
        places.clear();
    }
    call.reply.array(places.len());
    for (index, place) in places.into_iter().enumerate() {
        if !has_uses {
            call.reply.bulk(args.at(place));
            continue;
        }
        call.reply.array(2);
        call.reply.bulk(args.at(place));
        let words = uses(command, &args, index == 0).split(' ');
        call.reply.set(words.clone().count());
        words.for_each(|word| call.reply.simple(word));
    }
    Ok(())
}
