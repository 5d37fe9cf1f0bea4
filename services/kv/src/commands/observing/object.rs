//! OBJECT: how a value is kept, and when it was used.

use crate::engine::call::Call;
use crate::engine::command::{SECOND, commands};
use crate::engine::fault::Fault;
use crate::engine::help;

commands! { "generic":
    "object", -2, [READ], SECOND, "2.2.3", "A container for object introspection commands" => object;
}

const NOT_BY_FREQUENCY: Fault = Fault::Said(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);
const NOT_BY_TIME: Fault = Fault::Said(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

fn object(call: &mut Call<'_>) -> Result<(), Fault> {
    let sub = String::from_utf8_lossy(call.args.at(1)).to_ascii_lowercase();
    match (sub.as_str(), call.args.len()) {
        ("help", 2) => {
            let lines = [
                ("ENCODING <key>", "Return the kind of internal representation used in order to store the value."),
                ("FREQ <key>", "Return the access frequency index of the <key>, a logarithm of it."),
                ("IDLETIME <key>", "Return the idle time of the <key>, in seconds."),
                ("REFCOUNT <key>", "Return the number of references of the value: one."),
            ];
            help::answer(call, "OBJECT", &lines);
            return Ok(());
        }
        ("encoding" | "freq" | "idletime" | "refcount", 3) => {}
        ("help" | "encoding" | "freq" | "idletime" | "refcount", _) => return Err(help::arity("object", &sub)),
        _ => return Err(help::unknown(call, "OBJECT")),
    }
    let Call { state, reply, args, database, .. } = call;
    let keyspace = &state.keyspace;
    let (usage, now_ms) = (&keyspace.usage, keyspace.now_ms);
    let Some(entry) = keyspace.find(*database, args.at(2)) else {
        reply.null();
        return Ok(());
    };
    match sub.as_str() {
        "encoding" => reply.bulk(entry.value.encoding().as_bytes()),
        "refcount" => reply.integer(1),
        "freq" if !usage.is_lfu => return Err(NOT_BY_FREQUENCY),
        "freq" => reply.integer(i64::from(usage.frequency(entry.used.get(), now_ms))),
        _ if usage.is_lfu => return Err(NOT_BY_TIME),
        _ => reply.integer((usage.idle_ms(entry.used.get(), now_ms) / 1_000) as i64),
    }
    Ok(())
}
