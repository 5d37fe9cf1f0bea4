//! GEOSEARCH, GEOSEARCHSTORE, and what came before them: GEORADIUS, GEORADIUSBYMEMBER.

use crate::commands::geo::asked::{Asked, Form, Order};
use crate::commands::geo::cell::Position;
use crate::commands::geo::numbers::{answer_distance, answer_position};
use crate::commands::geo::search::{Found, within};
use crate::engine::call::Call;
use crate::engine::command::{Keys, ONE, TWO, commands};
use crate::engine::fault::Fault;
use crate::keyspace::change::Change;
use crate::keyspace::events::Kinds;

commands! { "geo":
    "geosearch", -7, [READ], ONE, "6.2.0", "Queries a geospatial index for members inside an area of a box or a circle." => |call| search(call, Form::Search);
    "geosearchstore", -8, [WRITE GROWS COPIES], TWO, "6.2.0", "Queries a geospatial index for members inside an area of a box or a circle, optionally stores the result."
        => |call| search(call, Form::SearchStore);
    "georadius", -6, [WRITE GROWS COPIES], STORED, "3.2.0", "Queries a geospatial index for members within a distance from a coordinate, optionally stores the result."
        => |call| search(call, Form::Coordinates(true));
    "georadiusbymember", -5, [WRITE GROWS COPIES], STORED, "3.2.0", "Queries a geospatial index for members within a distance from a member, optionally stores the result."
        => |call| search(call, Form::Member(true));
    "georadius_ro", -6, [READ], ONE, "3.2.10", "Returns members from a geospatial index that are within a distance from a coordinate."
        => |call| search(call, Form::Coordinates(false));
    "georadiusbymember_ro", -5, [READ], ONE, "3.2.10", "Returns members from a geospatial index that are within a distance from a member."
        => |call| search(call, Form::Member(false));
}

/// The first argument is a key, and so is what follows the last one of these words.
const STORED: Keys = Keys::Stored { from: 5, words: &["STORE", "STOREDIST"], skipped: &[] };

/// A member that is answered.
struct Answered {
    member: Box<[u8]>,
    score: f64,
    position: Position,
    /// In the unit that was asked for.
    distance: f64,
}

/// Those that are to be answered, in their order.
fn found(call: &Call<'_>, asked: &Asked<'_>, key: &[u8]) -> Result<Vec<Answered>, Fault> {
    let (Some(sorted), Some(shape)) = (call.sorted(key)?, asked.wanted()) else { return Ok(Vec::new()) };
    let most = if asked.count == 0 { usize::MAX } else { asked.count };
    let mut found: Vec<Found<'_>> = within(sorted, &shape, if asked.any { most } else { usize::MAX });
    match asked.sorted() {
        Some(Order::Ascending) => found.sort_by(|one, other| one.distance.total_cmp(&other.distance)),
        Some(Order::Descending) => found.sort_by(|one, other| other.distance.total_cmp(&one.distance)),
        None => {}
    }
    found.truncate(most);
    let answered = |Found { member, score, position, distance }: Found<'_>| Answered {
        member: member.into(),
        score,
        position,
        distance: distance / shape.unit_meters,
    };
    Ok(found.into_iter().map(answered).collect())
}

fn search(call: &mut Call<'_>, form: Form) -> Result<(), Fault> {
    let asked = Asked::parse(call, form)?;
    let found = found(call, &asked, call.args.at(form.source()))?;
    let Some(key) = asked.target else {
        answer(call, &asked, &found);
        return Ok(());
    };
    let was_there = call.make_way(key);
    for Answered { member, score, distance, .. } in &found {
        let score = if asked.stores_distance { *distance } else { *score };
        call.change(Change::SetScore { key, member, score });
    }
    let name = if form == Form::SearchStore { "geosearchstore" } else { "georadiusstore" };
    call.note_stored(Kinds::SORTED, name, key, (found.len(), was_there));
    call.reply.length(found.len());
    Ok(())
}

fn answer(call: &mut Call<'_>, asked: &Asked<'_>, found: &[Answered]) {
    let parts = [asked.with_distance, asked.with_hash, asked.with_position].into_iter().filter(|is_told| *is_told);
    let parts = parts.count();
    let reply = &mut *call.reply;
    reply.array(found.len());
    for Answered { member, score, position, distance } in found {
        if parts > 0 {
            reply.array(1 + parts);
        }
        reply.bulk(member);
        if asked.with_distance {
            answer_distance(reply, *distance);
        }
        if asked.with_hash {
            reply.integer(*score as i64);
        }
        if asked.with_position {
            answer_position(reply, *position);
        }
    }
}
