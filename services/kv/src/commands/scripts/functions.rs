//! FUNCTION: libraries of functions. They are durable: a library's text is a change.

use super::carrying;
use super::management::{NOT_BUSY, tell};
use crate::engine::call::Call;
use crate::engine::command::{NO_KEYS, commands};
use crate::engine::execute::admit_bytes;
use crate::engine::fault::Fault;
use crate::engine::help;
use crate::engine::scan::matches;
use crate::keyspace::change::Change;
use crate::scripts::bounds::{LIBRARIES_BYTES_MAX, LIBRARIES_MAX, TEXT_BYTES_MAX};
use crate::scripts::loader::{drop_library, keep, load, synchronize};
use crate::scripts::shebang::of_library;
use crate::scripts::store::{Library, Registered};
use bytes::Bytes;

commands! { "scripting":
    "function", -2, [], NO_KEYS, "7.0.0", "A container for function commands" => function;
}

/// What a library's record needs besides its bytes.
const RECORD_OVERHEAD: u64 = 8 << 10;

const HELP: [&str; 38] = [
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
    "HELP",
];

fn function(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, count) = (call.args, call.args.len());
    let counted = |sub: &str, is_right: bool| if is_right { Ok(()) } else { Err(help::arity("function", sub)) };
    if args.is(1, "LOAD") {
        counted("load", count >= 3)?;
        add(call)?;
    } else if args.is(1, "DELETE") {
        counted("delete", count == 3)?;
        delete(call)?;
    } else if args.is(1, "FLUSH") {
        if count > 3 {
            let why = "ERR unknown subcommand or wrong number of arguments for 'flush'. Try FUNCTION HELP.";
            return Err(Fault::Said(why));
        }
        if count == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC") {
            return Err(Fault::Said("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
        }
        flush(call)?;
    } else if args.is(1, "LIST") {
        list(call)?;
    } else if args.is(1, "DUMP") {
        counted("dump", count == 2)?;
        carrying::dump(call);
    } else if args.is(1, "RESTORE") {
        counted("restore", count >= 3)?;
        carrying::restore(call)?;
    } else if args.is(1, "STATS") {
        counted("stats", count == 2)?;
        statistics(call);
    } else if args.is(1, "KILL") {
        counted("kill", count == 2)?;
        return Err(NOT_BUSY);
    } else if args.is(1, "HELP") {
        counted("help", count == 2)?;
        tell(call, "FUNCTION", &HELP);
    } else {
        return Err(help::unknown(call, "FUNCTION"));
    }
    Ok(())
}

fn add(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, last) = (call.args, call.args.len() - 1);
    let mut replaces = false;
    for index in 2..last {
        if !args.is(index, "REPLACE") {
            let said = String::from_utf8_lossy(args.at(index));
            return Err(Fault::Told(format!("ERR Unknown option given: {said}")));
        }
        replaces = true;
    }
    let text = args.at(last);
    let (name, _) = of_library(text)?;
    let name = name.as_str();
    let libraries = &call.state.keyspace.libraries;
    let before = libraries.get(name.as_bytes()).map(Bytes::len);
    if before.is_some() && !replaces {
        return Err(Fault::Told(format!("ERR Library '{name}' already exists")));
    }
    let bytes = libraries.bytes() + text.len() - before.unwrap_or(0);
    let count = libraries.len() + usize::from(before.is_none());
    if text.len() > TEXT_BYTES_MAX || bytes > LIBRARIES_BYTES_MAX || count > LIBRARIES_MAX {
        return Err(Fault::Said("ERR there are too many libraries, or they are too long"));
    }
    admit_bytes(call.state, (name.len() + text.len()) as u64 + RECORD_OVERHEAD, true)?;
    synchronize(call.state);
    let functions = load(call.state, text)?;
    // A text that used up what it may has failed; but what was there before it may have to be loaded again.
    let owner = |function: &Registered| call.state.scripts.functions.get(&function.name.to_ascii_lowercase());
    if let Some(taken) = functions.iter().find(|function| owner(function).is_some_and(|owner| owner != name)) {
        return Err(Fault::Told(format!("ERR Function {} already exists", taken.name)));
    }
    keep(call.state, name, Bytes::copy_from_slice(text), functions)?;
    call.change(Change::PutLibrary { name: name.as_bytes(), text });
    call.state.scripts.version = Some(call.state.keyspace.libraries.version());
    call.reply.bulk(name.as_bytes());
    Ok(())
}

fn delete(call: &mut Call<'_>) -> Result<(), Fault> {
    let name = call.args.at(2);
    if call.state.keyspace.libraries.get(name).is_none() {
        return Err(Fault::Said("ERR Library not found"));
    }
    admit_bytes(call.state, name.len() as u64 + RECORD_OVERHEAD, false)?;
    call.change(Change::DeleteLibrary { name });
    drop_library(call.state, &String::from_utf8_lossy(name));
    call.reply.ok();
    Ok(())
}

fn flush(call: &mut Call<'_>) -> Result<(), Fault> {
    let names: Vec<Box<[u8]>> = call.state.keyspace.libraries.iter().map(|(name, _)| name.into()).collect();
    let bytes: usize = names.iter().map(|name| name.len() + 16).sum();
    admit_bytes(call.state, bytes as u64 + RECORD_OVERHEAD, false)?;
    for name in names {
        call.change(Change::DeleteLibrary { name: &name });
        drop_library(call.state, &String::from_utf8_lossy(&name));
    }
    call.reply.ok();
    Ok(())
}

fn list(call: &mut Call<'_>) -> Result<(), Fault> {
    let args = call.args;
    let (mut pattern, mut with_text, mut index) = (None, false, 2);
    while index < args.len() {
        if !with_text && args.is(index, "WITHCODE") {
            with_text = true;
        } else if pattern.is_none() && args.is(index, "LIBRARYNAME") {
            index += 1;
            if index >= args.len() {
                return Err(Fault::Said("ERR library name argument was not given"));
            }
            pattern = Some(args.at(index));
        } else {
            let said = String::from_utf8_lossy(args.at(index));
            return Err(Fault::Told(format!("ERR Unknown argument {said}")));
        }
        index += 1;
    }
    synchronize(call.state);
    let libraries = &call.state.scripts.libraries;
    let is_wanted = |name: &str| pattern.is_none_or(|pattern| matches(pattern, name.as_bytes()));
    let found: Vec<(&String, &Library)> = libraries.iter().filter(|(name, _)| is_wanted(name)).collect();
    let reply = &mut *call.reply;
    reply.array(found.len());
    for (name, library) in found {
        reply.map(if with_text { 4 } else { 3 });
        for (field, value) in [("library_name", name.as_str()), ("engine", "LUA")] {
            reply.bulk(field.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(function.name.as_bytes());
            reply.bulk(b"description");
            reply.optional(function.description.as_deref());
            reply.bulk(b"flags");
            reply.set(function.flags.len());
            function.flags.iter().for_each(|flag| reply.simple(flag));
        }
        if with_text {
            reply.bulk(b"library_code");
            reply.value(&library.text);
        }
    }
    Ok(())
}

fn statistics(call: &mut Call<'_>) {
    synchronize(call.state);
    let libraries = &call.state.scripts.libraries;
    let functions: usize = libraries.values().map(|library| library.functions.len()).sum();
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"running_script");
    reply.null();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for (field, count) in [("libraries_count", libraries.len()), ("functions_count", functions)] {
        reply.bulk(field.as_bytes());
        reply.length(count);
    }
}
