//! What a client of the key-value store says: requests that come in pieces, cut anywhere, are understood as if they had come whole. What they do
//! is written down so that an empty keyspace becomes the same by it. And a record with any bytes is taken or refused.

use qanat_kv::commands::serving;
use qanat_kv::engine::execute::execute;
use qanat_kv::engine::operating::Operating;
use qanat_kv::engine::settings::{Durability, Settings};
use qanat_kv::engine::state::State;
use qanat_kv::keyspace::space::Keyspace;
use qanat_kv::resp::reply::Reply;
use qanat_kv::resp::request::{Request, Step};
use qanat_kv::table::table;
use std::net::SocketAddr;

const BULK_BYTES_MAX: usize = 1 << 16;

fn store() -> State {
    let settings = Settings {
        durability: Durability::Always,
        clients_max: 4,
        port: 6379,
        has_log: true,
        timeout_s: 0,
        operating: Operating::default(),
    };
    table();
    let mut state = State::new(settings, 1);
    state.keyspace.now_ms = 1_000_000;
    (state.log.room, state.log.room_to_shrink) = (1 << 30, 1 << 30);
    state.sessions.insert(0, SocketAddr::from(([10, 77, 0, 1], 4_000)), 0);
    state
}

/// What is heard when `input` comes in pieces of `piece` bytes, and what is there afterwards. As of one client, until it waits or ends.
fn talk(input: &[u8], piece: usize) -> (Vec<u8>, usize, usize) {
    let (mut state, mut reply, mut request) = (store(), Reply::default(), Request::default());
    let (mut copy, mut heard) = (Keyspace::default(), Vec::new());
    let (mut begins, mut come) = (0, 0);
    loop {
        let rest = input.get(begins..come).unwrap_or_default();
        match request.advance(rest, BULK_BYTES_MAX) {
            Ok(Step::Incomplete) if come == input.len() => break,
            Ok(Step::Incomplete) => come = (come + piece).min(input.len()),
            Ok(Step::Complete(used)) => {
                let args = request.args(rest);
                if !args.is_empty() {
                    execute(&mut state, 0, args, &mut reply);
                    serving::serve(&mut state);
                }
                begins += used;
                request.clear();
                assert!(copy.replay(state.keyspace.record()), "what was written is read");
                state.keyspace.clear_record();
            }
            Err(error) => {
                heard.extend_from_slice(error.to_string().as_bytes());
                break;
            }
        }
        heard.extend(reply.take().flat_map(|bytes| bytes.to_vec()));
        let session = state.sessions.get(0).expect("it is there");
        if session.blocked.is_some() || session.is_ending {
            break;
        }
    }
    assert_eq!((copy.len(), copy.bytes()), (state.keyspace.len(), state.keyspace.bytes()), "records give the same");
    (heard, copy.len(), copy.bytes())
}

/// The first byte says how the rest is cut.
pub fn kv(data: &[u8]) {
    let Some((first, input)) = data.split_first() else { return };
    let whole = talk(input, input.len().max(1));
    assert!(talk(input, usize::from(*first).max(1)) == whole, "it is the same however it comes");
    Keyspace::default().replay(input);
}
