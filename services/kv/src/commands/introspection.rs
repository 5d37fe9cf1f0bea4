//! COMMAND: what commands there are.

use crate::engine::call::Call;
use crate::engine::command::{Command, NO_KEYS, all, commands};
use crate::engine::execute;
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::scan::matches;
use crate::engine::subcommands;
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
    reply.set(1);
    reply.simple(&format!("@{}", command.group));
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
    let named = || args.from(2).map(|name| execute::find(name)).collect::<Vec<_>>();
    if args.len() == 1 || args.is(1, "INFO") && args.len() == 2 {
        call.reply.array(table.len());
        table.iter().for_each(|command| tell(call.reply, command));
    } else if args.is(1, "INFO") {
        let found = named();
        call.reply.array(found.len());
        for command in found {
            match command {
                Some(command) => tell(call.reply, command),
                None => call.reply.null_array(),
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
    } else if args.is(1, "GETKEYS") && args.len() > 2 {
        keys(call)?;
    } else if args.is(1, "HELP") && args.len() == 2 {
        let lines = [
            ("(no subcommand)", "Return details about all commands."),
            ("COUNT", "Return the total number of commands in this server."),
            ("DOCS [<command-name> ...]", "Return documentation details about multiple commands."),
            ("GETKEYS <full-command>", "Return the keys from a full command."),
            ("INFO [<command-name> ...]", "Return details about multiple commands."),
            ("LIST [FILTERBY (ACLCAT|PATTERN) <filter>]", "Return a list of all commands in this server."),
        ];
        help::answer(call, "COMMAND", &lines);
    } else {
        return Err(help::unknown(call, "COMMAND"));
    }
    Ok(())
}

/// Whether a name of a group is to be listed.
type Filter<'a> = dyn Fn(&str, &str) -> bool + 'a;

fn list(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, table) = (call.args, all());
    let wanted = args.at(4);
    let is_wanted: Box<Filter<'_>> = match args.len() {
        2 => Box::new(|_, _| true),
        _ if args.is(3, "PATTERN") => Box::new(|name, _| matches(wanted, name.as_bytes())),
        _ if args.is(3, "ACLCAT") => Box::new(|_, group| wanted.eq_ignore_ascii_case(group.as_bytes())),
        // There are no modules.
        _ if args.is(3, "MODULE") => Box::new(|_, _| false),
        _ => return Err(Fault::Syntax),
    };
    let mut found: Vec<&str> = Vec::new();
    for command in table {
        let (name, group) = (command.name, command.group);
        let subs = subcommands::ALL.iter().copied().filter(|sub| sub.split('|').next() == Some(name));
        found.extend([name].into_iter().chain(subs).filter(|name| is_wanted(name, group)));
    }
    call.reply.array(found.len());
    found.into_iter().for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

fn keys(call: &mut Call<'_>) -> Result<(), Fault> {
    let texts: Vec<&[u8]> = call.args.from(2).collect();
    let command = execute::find(call.args.at(2)).ok_or(Fault::Said("ERR Invalid command specified"))?;
    if !command.takes(texts.len()) {
        return Err(Fault::Said("ERR Invalid number of arguments specified for command"));
    }
    let mut start = 0;
    let ranges: Vec<_> = texts
        .iter()
        .map(|text| {
            start += text.len();
            start - text.len()..start
        })
        .collect();
    let joined = texts.concat();
    let args = Args::new(&joined, &ranges);
    let places: Vec<usize> = command.keys.places(&args).collect();
    if places.is_empty() {
        return Err(Fault::Said("ERR The command has no key arguments"));
    }
    call.reply.array(places.len());
    places.into_iter().for_each(|place| call.reply.bulk(args.at(place)));
    Ok(())
}
