//! `lru_crawler metadump` and `mgdump`: all items, some at a time.

use crate::engine::state::Engine;
use crate::items::item::Item;
use crate::output::Output;
use crate::pending::{Kind, Listing};

/// Items that are looked at in one go.
const STEP_ITEMS: usize = 1_000;

/// Tells of some items; the rest, if there is one.
pub fn list(mut listing: Listing, engine: &Engine, output: &mut Output) -> Option<Listing> {
    let (items, next) = engine.items.walk(listing.at, STEP_ITEMS);
    for (_, item) in items.filter(|(_, item)| engine.is_live(item)) {
        match listing.kind {
            Kind::Meta => put_meta(item, engine, output),
            Kind::Commands => {
                output.put(b"mg ");
                put_encoded(item.key(), output);
                output.put(b"\r\n");
            }
        }
    }
    let Some(next) = next else {
        output.line(if listing.kind == Kind::Meta { "END" } else { "EN" });
        return None;
    };
    listing.at = next;
    Some(listing)
}

fn put_meta(item: &Item, engine: &Engine, output: &mut Output) {
    let clock = engine.clock;
    output.put(b"key=");
    put_encoded(item.key(), output);
    let expiry = if item.expires_s == 0 { -1 } else { clock.unix_of(item.expires_s) };
    let line = format!(
        " exp={expiry} la={} cas={} fetch={} cls=1 size={}\n",
        clock.unix_of(item.used_s),
        item.cas,
        if item.marks.is_fetched { "yes" } else { "no" },
        item.nominal_bytes(),
    );
    output.put(line.as_bytes());
}

/// Writes a key as a part of a URI, so that it is one word of one line (RFC 3986 §2.1).
fn put_encoded(key: &[u8], output: &mut Output) {
    for byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => output.put(&[*byte]),
            _ => output.put(format!("%{byte:02X}").as_bytes()),
        }
    }
}
