//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: a client that caches keys is told when they change.

use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::invalidation;
use crate::engine::state::State;
use crate::engine::tracking::prefixes::{PREFIX_BYTES_MAX, PREFIXES_MAX};
use crate::engine::tracking::tracker::{Choice, Tracker};
use std::collections::BTreeSet;

/// What is wanted: a tracker without what is kept of it, and prefixes.
struct Wanted<'a> {
    tracker: Tracker,
    prefixes: Vec<&'a [u8]>,
}

fn options<'a>(call: &Call<'a>) -> Result<Wanted<'a>, Fault> {
    let args = call.args;
    let mut wanted = Wanted { tracker: Tracker::default(), prefixes: Vec::new() };
    let (mut is_in, mut is_out, mut index) = (false, false, 3);
    while index < args.len() {
        let has_value = index + 1 < args.len();
        match args.at(index).to_ascii_uppercase().as_slice() {
            b"REDIRECT" if has_value => {
                index += 1;
                if wanted.tracker.redirect != 0 {
                    return Err(Fault::Said("ERR A client can only redirect to a single other client"));
                }
                let id = call.integer(index)?;
                let found = u64::try_from(id).ok().and_then(|id| Some((id, call.state.sessions.find(id)?)));
                let unknown = Fault::Said("ERR The client ID you want redirect to does not exist");
                (wanted.tracker.redirect, wanted.tracker.redirect_slot) = found.ok_or(unknown)?;
            }
            b"BCAST" => wanted.tracker.is_broadcast = true,
            b"OPTIN" => is_in = true,
            b"OPTOUT" => is_out = true,
            b"NOLOOP" => wanted.tracker.skips_own = true,
            b"PREFIX" if has_value => {
                index += 1;
                wanted.prefixes.push(args.at(index));
                if wanted.prefixes.len() > PREFIXES_MAX || args.at(index).len() > PREFIX_BYTES_MAX {
                    return Err(Fault::Said("ERR too many prefixes of one client, or a prefix that is too long"));
                }
            }
            _ => return Err(Fault::Syntax),
        }
        index += 1;
    }
    wanted.tracker.choice = match (is_in, is_out) {
        (true, true) => return Err(Fault::Said("ERR You can't specify both OPTIN mode and OPTOUT mode")),
        (true, false) => Choice::Chosen,
        (false, true) => Choice::NotLeftOut,
        (false, false) => Choice::All,
    };
    Ok(wanted)
}

/// Begins or ends to track.
///
/// # Errors
/// As Redis words them.
pub fn tracking(call: &mut Call<'_>) -> Result<(), Fault> {
    let wanted = options(call)?;
    match call.args.at(2).to_ascii_uppercase().as_slice() {
        b"ON" => begin(call, wanted)?,
        b"OFF" => invalidation::leave(call.state, call.client),
        _ => return Err(Fault::Syntax),
    }
    call.reply.ok();
    Ok(())
}

fn begin(call: &mut Call<'_>, wanted: Wanted<'_>) -> Result<(), Fault> {
    let Wanted { mut tracker, mut prefixes } = wanted;
    let client = call.client;
    if !tracker.is_broadcast && !prefixes.is_empty() {
        return Err(Fault::Said("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    let State { sessions, tracking, .. } = &mut *call.state;
    let Some(session) = sessions.get_mut(client) else { return Ok(()) };
    if session.tracker.as_ref().is_some_and(|before| before.is_broadcast != tracker.is_broadcast) {
        return Err(Fault::Said(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    let choice = session.tracker.as_ref().map_or(Choice::All, |before| before.choice);
    if tracker.is_broadcast && tracker.choice != Choice::All {
        return Err(Fault::Said("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    let switches =
        matches!((choice, tracker.choice), (Choice::Chosen, Choice::NotLeftOut) | (Choice::NotLeftOut, Choice::Chosen));
    if switches {
        return Err(Fault::Said(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    let is_new = session.tracker.is_none();
    let before = session.tracker.as_deref();
    if tracker.is_broadcast {
        let had = before.map(|before| &before.prefixes);
        overlap(&prefixes, had)?;
        if prefixes.is_empty() {
            prefixes.push(b"");
        }
        tracker.prefixes = had.cloned().unwrap_or_default();
        tracker.prefixes.extend(prefixes.iter().map(|prefix| Box::from(*prefix)));
        if tracker.prefixes.len() > PREFIXES_MAX {
            return Err(Fault::Said("ERR too many prefixes of one client, or a prefix that is too long"));
        }
        prefixes.iter().for_each(|prefix| tracking.prefixes.add(prefix, client));
    }
    let told = if tracker.redirect == 0 { client } else { tracker.redirect_slot };
    (tracker.keys, tracker.key_bytes) = before.map_or((0, 0), |before| (before.keys, before.key_bytes));
    session.tracker = Some(Box::new(tracker));
    session.is_told = true;
    sessions.get_mut(told).into_iter().for_each(|session| session.is_told = true);
    if is_new {
        invalidation::begin(call.state);
    }
    Ok(())
}

/// Whether prefixes of one client begin with each other: it would be told twice.
fn overlap(prefixes: &[&[u8]], had: Option<&BTreeSet<Box<[u8]>>>) -> Result<(), Fault> {
    let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    for (index, prefix) in prefixes.iter().enumerate() {
        // What is there already is no new prefix.
        if let Some(other) = had.into_iter().flatten().find(|other| overlaps(prefix, other)) {
            return Err(Fault::Told(format!(
                "ERR Prefix '{}' overlaps with an existing prefix '{}'. Prefixes for a single client must not overlap.",
                shown(prefix),
                shown(other)
            )));
        }
        if let Some(other) = prefixes.iter().skip(index + 1).find(|other| overlaps(prefix, other)) {
            return Err(Fault::Told(format!(
                "ERR Prefix '{}' overlaps with another provided prefix '{}'. Prefixes for a single client must not overlap.",
                shown(prefix),
                shown(other)
            )));
        }
    }
    Ok(())
}

/// Whether what the next command reads is noted.
///
/// # Errors
/// As Redis words them.
pub fn caching(call: &mut Call<'_>) -> Result<(), Fault> {
    let wants = match call.args.at(2).to_ascii_uppercase().as_slice() {
        b"YES" => Some(true),
        b"NO" => Some(false),
        _ => None,
    };
    let Some(tracker) = call.session().and_then(|session| session.tracker.as_mut()) else {
        return Err(Fault::Said(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        ));
    };
    match (wants, tracker.choice) {
        (None, _) => return Err(Fault::Syntax),
        (Some(true), Choice::Chosen) | (Some(false), Choice::NotLeftOut) => tracker.is_chosen = true,
        (Some(true), _) => {
            return Err(Fault::Said("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."));
        }
        (Some(false), _) => {
            return Err(Fault::Said("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."));
        }
    }
    call.reply.ok();
    Ok(())
}

/// Who is told instead; 0: the client itself, -1: it does not track.
fn redirect_of(call: &mut Call<'_>) -> i64 {
    call.session().and_then(|session| session.tracker.as_ref()).map_or(-1, |tracker| tracker.redirect as i64)
}

/// GETREDIR.
///
/// # Errors
/// There is none.
pub fn redirection(call: &mut Call<'_>) -> Result<(), Fault> {
    let redirect = redirect_of(call);
    call.reply.integer(redirect);
    Ok(())
}

/// TRACKINGINFO.
///
/// # Errors
/// There is none.
pub fn information(call: &mut Call<'_>) -> Result<(), Fault> {
    let redirect = redirect_of(call);
    let tracker = call.session().and_then(|session| session.tracker.clone());
    let flags: Vec<&str> = match &tracker {
        None => vec!["off"],
        Some(tracker) => [
            (true, "on"),
            (tracker.is_broadcast, "bcast"),
            (tracker.choice == Choice::Chosen, "optin"),
            (tracker.choice == Choice::Chosen && tracker.is_chosen, "caching-yes"),
            (tracker.choice == Choice::NotLeftOut, "optout"),
            (tracker.choice == Choice::NotLeftOut && tracker.is_chosen, "caching-no"),
            (tracker.skips_own, "noloop"),
            (tracker.is_broken, "broken_redirect"),
        ]
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, flag)| flag)
        .collect(),
    };
    let prefixes = tracker.map(|tracker| tracker.prefixes).unwrap_or_default();
    let reply = &mut *call.reply;
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirect);
    reply.bulk(b"prefixes");
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}
