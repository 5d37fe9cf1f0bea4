//! Coordinates, distances and units as they are said, and as they are answered.

use crate::commands::geo::cell::{LATITUDES, LONGITUDES, Position};
use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::resp::number::double;
use crate::resp::reply::Reply;

/// Metres of a unit.
///
/// # Errors
/// As Redis words them.
pub fn unit(text: &[u8]) -> Result<f64, Fault> {
    match text.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1_000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1_609.34),
        _ => Err(Fault::Said("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

/// A longitude and the latitude behind it.
///
/// # Errors
/// As Redis words them.
pub fn position(call: &Call<'_>, index: usize) -> Result<Position, Fault> {
    let (longitude, latitude) = (call.double(index)?, call.double(index + 1)?);
    let is_within = |degrees: f64, (least, greatest): (f64, f64)| (least..=greatest).contains(&degrees);
    if is_within(longitude, LONGITUDES) && is_within(latitude, LATITUDES) {
        return Ok((longitude, latitude));
    }
    Err(Fault::Told(format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}")))
}

/// A radius, and the metres of the unit behind it.
///
/// # Errors
/// As Redis words them.
pub fn radius(call: &Call<'_>, index: usize) -> Result<(f64, f64), Fault> {
    let radius = double(call.args.at(index)).ok_or(Fault::Said("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(Fault::Said("ERR radius cannot be negative"));
    }
    Ok((radius, unit(call.args.at(index + 1))?))
}

/// A width, a height, and the metres of the unit behind them.
///
/// # Errors
/// As Redis words them.
pub fn sides(call: &Call<'_>, index: usize) -> Result<(f64, f64, f64), Fault> {
    let width = double(call.args.at(index)).ok_or(Fault::Said("ERR need numeric width"))?;
    let height = double(call.args.at(index + 1)).ok_or(Fault::Said("ERR need numeric height"))?;
    if width < 0.0 || height < 0.0 {
        return Err(Fault::Said("ERR height or width cannot be negative"));
    }
    Ok((width, height, unit(call.args.at(index + 2))?))
}

/// Answers a distance.
pub fn answer_distance(reply: &mut Reply, distance: f64) {
    reply.bulk(format!("{distance:.4}").as_bytes());
}

/// Answers a longitude and a latitude, with 17 digits at most behind the point.
pub fn answer_position(reply: &mut Reply, (longitude, latitude): Position) {
    reply.array(2);
    for degrees in [longitude, latitude] {
        let text = format!("{degrees:.17}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        reply.decimal(if text == "-0" { "0" } else { text });
    }
}
