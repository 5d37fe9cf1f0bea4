//! [`Store`]: a keyspace with clients, whose requests are lines of words.

use qanat_kv::commands::serving;
use qanat_kv::engine::execute::execute;
use qanat_kv::engine::settings::Settings;
use qanat_kv::engine::state::State;
use qanat_kv::keyspace::space::Keyspace;
use qanat_kv::resp::reply::Reply;
use qanat_kv::resp::request::{Request, Step};
use qanat_kv::table::table;
use std::net::SocketAddr;

/// See the module.
pub struct Store {
    pub state: State,
    reply: Reply,
}

impl Store {
    /// With `clients`, in the slots from zero on, and room for everything.
    pub fn new(clients: usize) -> Store {
        Store::over(Keyspace::default(), clients)
    }

    pub fn over(keyspace: Keyspace, clients: usize) -> Store {
        let settings = Settings {
            has_log: true,
            durability: Default::default(),
            clients_max: 10,
            port: 6379,
            timeout_s: 0,
            operating: Default::default(),
        };
        table();
        let mut state = State::new(settings, 1);
        state.keyspace = keyspace;
        state.keyspace.now_ms = 1_000_000;
        (state.log.room, state.log.room_to_shrink) = (1 << 40, 1 << 40);
        (0..clients).for_each(|slot| state.sessions.insert(slot, SocketAddr::from(([10, 77, 0, 1], 4_000)), 0));
        Store { state, reply: Reply::default() }
    }

    /// What a client hears when it says these bytes.
    pub fn say(&mut self, client: usize, bytes: &[u8]) -> String {
        let mut request = Request::default();
        let Ok(Step::Complete(used)) = request.advance(bytes, 1 << 20) else { panic!("{}", bytes.escape_ascii()) };
        assert_eq!(used, bytes.len());
        execute(&mut self.state, client, request.args(bytes), &mut self.reply);
        serving::serve(&mut self.state);
        let heard: Vec<u8> = self.reply.take().flat_map(|bytes| bytes.to_vec()).collect();
        text(&heard).trim_end().to_owned()
    }

    /// The same, for a request of these words.
    pub fn ask<W: AsRef<[u8]>>(&mut self, client: usize, words: &[W]) -> String {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words.iter().map(AsRef::as_ref) {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.say(client, &request)
    }

    /// The same, of the first client, for a line as it is typed.
    pub fn line(&mut self, line: &str) -> String {
        self.say(0, format!("{line}\r\n").as_bytes())
    }

    /// Each line is answered so. An answer's ends of lines are blanks.
    pub fn hears(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            assert_eq!(self.line(line), *expected, "{line}");
        }
    }

    /// What others were sent.
    pub fn others(&mut self) -> Vec<(usize, String)> {
        let outbox = std::mem::take(&mut self.state.outbox);
        outbox.into_iter().map(|(slot, bytes, _)| (slot, text(&bytes))).collect()
    }
}

/// An answer to read: ends of lines are blanks, and what is no letter is escaped.
fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\r\\n", " ").replace("\\'", "'")
}

/// All that a keyspace has, as text that is the same if it is.
pub fn contents(keyspace: &Keyspace) -> Vec<String> {
    use qanat_kv::keyspace::dump;
    let mut all = Vec::new();
    for number in 0..16 {
        for (key, entry) in keyspace.database(number).iter() {
            // Places may differ: order counts in lists only.
            let mut parts = Vec::new();
            dump::changes(key, entry, |change| parts.push(format!("{change:?}")));
            if entry.value.kind() != "list" {
                parts.sort();
            }
            all.push(format!("{number}: {parts:?}"));
        }
    }
    all.extend(keyspace.libraries.iter().map(|library| format!("library: {library:?}")));
    all.sort();
    all
}
