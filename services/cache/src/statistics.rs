//! What `stats` tells, by the names that memcached has for it.

use crate::engine::state::Engine;
use crate::items::item::Segment;

/// The version whose protocols are spoken, as clients read it, and who speaks them.
pub const VERSION: &str = concat!("1.6.18-qanat-", env!("CARGO_PKG_VERSION"));

/// Figures of a kind; `None`: there is no such kind.
pub fn of(kind: &[u8], engine: &Engine) -> Option<Vec<(String, String)>> {
    let figures = match kind {
        b"" => general(engine),
        b"settings" => settings(engine),
        b"items" => items(engine),
        b"slabs" => slabs(engine),
        b"sizes" => vec![("sizes_status".to_owned(), "disabled".to_owned())],
        b"conns" => Vec::new(),
        _ => return None,
    };
    Some(figures)
}

fn pairs<const N: usize>(figures: [(&str, u64); N]) -> impl Iterator<Item = (String, String)> {
    figures.map(|(name, value)| (name.to_owned(), value.to_string())).into_iter()
}

fn general(engine: &Engine) -> Vec<(String, String)> {
    let (items, clock, connections) = (&engine.items, &engine.clock, &engine.connections);
    let counts = engine.recent_counts();
    let mut figures: Vec<(String, String)> = pairs([
        ("pid", u64::from(std::process::id())),
        ("uptime", u64::from(clock.uptime_s())),
        ("time", clock.unix_s().max(0) as u64),
    ])
    .collect();
    figures.push(("version".to_owned(), VERSION.to_owned()));
    figures.extend(pairs([
        ("pointer_size", u64::from(usize::BITS)),
        ("max_connections", engine.settings.connections_max as u64),
        ("curr_connections", connections.open),
        ("total_connections", connections.total),
        ("rejected_connections", connections.rejected),
        ("slow_connections_closed", connections.slow),
        ("cmd_get", counts.get_commands),
        ("cmd_set", counts.set_commands),
        ("cmd_flush", counts.flush_commands),
        ("cmd_touch", counts.touch_commands),
        ("cmd_meta", counts.meta_commands),
        ("get_hits", counts.get_hits),
        ("get_misses", counts.get_commands.saturating_sub(counts.get_hits)),
        ("get_expired", counts.get_expired),
        ("get_flushed", counts.get_flushed),
        ("delete_misses", counts.delete_misses),
        ("delete_hits", counts.delete_hits),
        ("incr_misses", counts.incr_misses),
        ("incr_hits", counts.incr_hits),
        ("decr_misses", counts.decr_misses),
        ("decr_hits", counts.decr_hits),
        ("cas_misses", counts.cas_misses),
        ("cas_hits", counts.cas_hits),
        ("cas_badval", counts.cas_badval),
        ("touch_hits", counts.touch_hits),
        ("touch_misses", counts.touch_commands.saturating_sub(counts.touch_hits)),
        ("store_too_large", counts.store_too_large),
        ("store_no_memory", counts.store_no_memory),
        ("auth_cmds", counts.auth_commands),
        ("auth_errors", counts.auth_errors),
        ("bytes_read", connections.input_bytes),
        ("bytes_written", connections.output_bytes),
        ("limit_maxbytes", items.bytes_max()),
        ("accepting_conns", 1),
        ("threads", 1),
        ("hash_bytes", items.buckets() as u64 * 4),
        ("hash_is_expanding", 0),
        ("curr_items", items.len() as u64),
        ("total_items", counts.stored),
        ("bytes", items.bytes()),
        ("memory_in_use", items.memory()),
        ("memory_in_flight", items.detached()),
        ("evictions", items.evicted),
        ("reclaimed", counts.reclaimed),
        ("crawler_items_checked", counts.crawled),
    ]));
    figures
}

fn settings(engine: &Engine) -> Vec<(String, String)> {
    let settings = &engine.settings;
    let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let mut figures: Vec<(String, String)> = pairs([
        ("maxbytes", engine.items.bytes_max()),
        ("maxconns", settings.connections_max as u64),
        ("item_size_max", settings.item_max as u64),
        ("idle_timeout", u64::from(settings.idle_timeout_s)),
        ("num_threads", 1),
    ])
    .collect();
    let words = [
        ("evictions", "on".to_owned()),
        ("cas_enabled", yes_no(true)),
        ("flush_enabled", yes_no(settings.may_flush)),
        ("dump_enabled", yes_no(settings.may_dump)),
        ("auth_enabled_ascii", yes_no(!settings.users.is_empty())),
        ("binding_protocol", "auto-negotiate".to_owned()),
        ("lru_segmented", yes_no(true)),
        ("hash_algorithm", "siphash13".to_owned()),
    ];
    figures.extend(words.map(|(name, value)| (name.to_owned(), value)));
    figures
}

/// All items are of one class: memory has no slabs.
fn items(engine: &Engine) -> Vec<(String, String)> {
    let items = &engine.items;
    if items.is_empty() {
        return Vec::new();
    }
    let count = |segment| items.segment(segment).count;
    let oldest = items.oldest(Segment::Cold).next().map_or(0, |item| engine.clock.now_s().saturating_sub(item.used_s));
    let figures = pairs([
        ("number", items.len() as u64),
        ("number_hot", count(Segment::Hot)),
        ("number_warm", count(Segment::Warm)),
        ("number_cold", count(Segment::Cold)),
        ("age", u64::from(oldest)),
        ("mem_requested", items.bytes()),
        ("evicted", items.evicted),
        ("outofmemory", engine.counts.store_no_memory),
        ("reclaimed", engine.counts.reclaimed),
    ]);
    figures.map(|(name, value)| (format!("items:1:{name}"), value)).collect()
}

fn slabs(engine: &Engine) -> Vec<(String, String)> {
    let items = &engine.items;
    pairs([("1:used_chunks", items.len() as u64), ("active_slabs", 1), ("total_malloced", items.memory())]).collect()
}
