//! GEOADD, GEOPOS, GEODIST, GEOHASH.

use crate::commands::geo::cell::{self, Position};
use crate::commands::geo::numbers::{self, answer_distance, answer_position};
use crate::commands::geo::sphere::between;
use crate::commands::sorted::{Options, put};
use crate::engine::call::Call;
use crate::engine::command::{ONE, commands};
use crate::engine::fault::Fault;

commands! { "geo":
    "geoadd", -5, [WRITE GROWS], ONE, "3.2.0", "Adds one or more members to a geospatial index. The key is created if it doesn't exist." => geoadd;
    "geopos", -2, [READ], ONE, "3.2.0", "Returns the longitude and latitude of members from a geospatial index." => geopos;
    "geodist", -4, [READ], ONE, "3.2.0", "Returns the distance between two members of a geospatial index." => geodist;
    "geohash", -2, [READ], ONE, "3.2.0", "Returns members from a geospatial index as geohash strings." => geohash;
}

fn geoadd(call: &mut Call<'_>) -> Result<(), Fault> {
    let (args, mut options, mut index) = (call.args, Options::default(), 2);
    while index < args.len() {
        match args.at(index).to_ascii_uppercase().as_slice() {
            b"NX" => options.is_nx = true,
            b"XX" => options.is_xx = true,
            b"CH" => options.tells_changed = true,
            _ => break,
        }
        index += 1;
    }
    let count = args.len() - index;
    if count == 0 || !count.is_multiple_of(3) || options.is_nx && options.is_xx {
        return Err(Fault::Syntax);
    }
    let places = (index..args.len()).step_by(3);
    let pairs = places.map(|index| Ok((cell::score(numbers::position(call, index)?), args.at(index + 2))));
    let pairs: Vec<(f64, &[u8])> = pairs.collect::<Result<_, Fault>>()?;
    put(call, pairs, &options)
}

/// The scores of the members from the second argument on, if they are there.
fn scores(call: &Call<'_>) -> Result<Vec<Option<f64>>, Fault> {
    let sorted = call.sorted(call.args.at(1))?;
    Ok(call.args.from(2).map(|member| sorted?.score(member)).collect())
}

fn geopos(call: &mut Call<'_>) -> Result<(), Fault> {
    let scores = scores(call)?;
    call.reply.array(scores.len());
    for score in scores {
        match score {
            Some(score) => answer_position(call.reply, cell::position(score)),
            None => call.reply.null_array(),
        }
    }
    Ok(())
}

fn geodist(call: &mut Call<'_>) -> Result<(), Fault> {
    let unit_meters = match call.args.len() {
        4 => 1.0,
        5 => numbers::unit(call.args.at(4))?,
        _ => return Err(Fault::Syntax),
    };
    let sorted = call.sorted(call.args.at(1))?;
    let place = |index: usize| -> Option<Position> { Some(cell::position(sorted?.score(call.args.at(index))?)) };
    match (place(2), place(3)) {
        (Some(one), Some(other)) => answer_distance(call.reply, between(one, other) / unit_meters),
        _ => call.reply.null(),
    }
    Ok(())
}

fn geohash(call: &mut Call<'_>) -> Result<(), Fault> {
    let scores = scores(call)?;
    call.reply.array(scores.len());
    for score in scores {
        call.reply.optional(score.map(cell::text).as_deref());
    }
    Ok(())
}
