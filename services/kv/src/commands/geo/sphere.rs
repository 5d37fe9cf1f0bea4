//! Distances on the earth, taken as a sphere, in metres.

use crate::commands::geo::cell::Position;

/// The radius of the earth, as Redis has it.
pub const RADIUS_METERS: f64 = 6_372_797.560_856;

/// Degrees of an angle in radians.
pub fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

/// Radians of an angle in degrees.
pub fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

/// Between two latitudes, along a meridian.
pub fn between_latitudes(one: f64, other: f64) -> f64 {
    RADIUS_METERS * (radians(other) - radians(one)).abs()
}

/// Between two places: the haversine formula.
pub fn between((longitude, latitude): Position, (other_longitude, other_latitude): Position) -> f64 {
    let east = ((radians(other_longitude) - radians(longitude)) / 2.0).sin();
    if east == 0.0 {
        return between_latitudes(latitude, other_latitude);
    }
    let (one, other) = (radians(latitude), radians(other_latitude));
    let north = ((other - one) / 2.0).sin();
    let chord = north * north + one.cos() * other.cos() * east * east;
    2.0 * RADIUS_METERS * chord.sqrt().asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_known() {
        let quarter = RADIUS_METERS * std::f64::consts::FRAC_PI_2;
        assert!((between((0.0, 0.0), (90.0, 0.0)) - quarter).abs() < 1e-3);
        assert!((between((10.0, 0.0), (10.0, -45.0)) - quarter / 2.0).abs() < 1e-3);
        assert_eq!(between((10.0, 20.0), (10.0, 20.0)), 0.0);
        assert_eq!(degrees(radians(12.5)), 12.5);
    }
}
