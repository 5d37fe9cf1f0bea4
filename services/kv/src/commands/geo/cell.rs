//! [`Cell`]: a rectangle of the map, which is halved so many times in each direction. A place is the middle of the smallest one in which it lies.
//!
//! ```text
//!  score:  52 bits: lat0 long0 lat1 long1 …, the lowest bits first
//! ```

/// How often a place's cell was halved in each direction.
pub const STEPS_MAX: u32 = 26;
/// Degrees of longitude: the least and the greatest.
pub const LONGITUDES: (f64, f64) = (-180.0, 180.0);
/// Degrees of latitude: those of the Mercator projection as a square.
pub const LATITUDES: (f64, f64) = (-85.051_128_78, 85.051_128_78);
/// The same, as geohash strings have them.
const ALL_LATITUDES: (f64, f64) = (-90.0, 90.0);
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// Letters of a geohash string. The last one is always the first of the alphabet: there are bits for ten.
const LETTERS: u32 = 11;

/// A longitude and a latitude, in degrees.
pub type Position = (f64, f64);

/// A cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// How many cells are west of it.
    pub longitude: u32,
    /// How many are south of it.
    pub latitude: u32,
    /// How often it was halved.
    pub steps: u32,
}

/// What a cell covers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// The least longitude and the greatest.
    pub longitudes: (f64, f64),
    /// The least latitude and the greatest.
    pub latitudes: (f64, f64),
}

/// Bits at every second place, the lowest one first.
fn spread(bits: u32) -> u64 {
    const MASKS: [(u32, u64); 5] = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    MASKS.iter().fold(u64::from(bits), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// The bits at every second place.
fn gathered(bits: u64) -> u32 {
    const MASKS: [(u32, u64); 5] = [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ];
    MASKS.iter().fold(bits & 0x5555_5555_5555_5555, |bits, (shift, mask)| (bits | bits >> shift) & mask) as u32
}

/// A score as bits. Those of other sorted sets may be anything: a negative one is taken as C takes it.
fn bits_of(score: f64) -> u64 {
    const BEYOND: f64 = 18_446_744_073_709_551_616.0;
    if score < 0.0 {
        score as i64 as u64
    } else if score < BEYOND {
        score as u64
    } else {
        0
    }
}

impl Cell {
    /// The cell in which a place lies.
    pub fn of((longitude, latitude): Position, steps: u32) -> Cell {
        Cell::within((longitude, latitude), LATITUDES, steps)
    }

    fn within((longitude, latitude): Position, latitudes: (f64, f64), steps: u32) -> Cell {
        let place = |degrees: f64, (least, greatest): (f64, f64)| {
            ((degrees - least) / (greatest - least) * f64::from(1_u32 << steps)) as u32
        };
        Cell { longitude: place(longitude, LONGITUDES), latitude: place(latitude, latitudes), steps }
    }

    /// Its bits: those of both directions in turn.
    fn bits(self) -> u64 {
        spread(self.latitude) | spread(self.longitude) << 1
    }

    /// Scores of the places that lie in it: the least one, and the one behind the greatest.
    pub fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEPS_MAX - self.steps.min(STEPS_MAX));
        let bits = self.bits();
        ((bits << shift) as f64, ((bits + 1) << shift) as f64)
    }

    /// What it covers.
    pub fn bounds(self) -> Bounds {
        let count = f64::from(1_u32 << self.steps);
        let between = |place: u32, (least, greatest): (f64, f64)| {
            let edge = |place: u32| least + f64::from(place) / count * (greatest - least);
            (edge(place), edge(place.wrapping_add(1)))
        };
        Bounds { longitudes: between(self.longitude, LONGITUDES), latitudes: between(self.latitude, LATITUDES) }
    }

    /// The one so many cells further to the east and to the north. Behind the last one is the first.
    pub fn beside(self, east: i32, north: i32) -> Cell {
        let mask = (1 << self.steps) - 1;
        let moved = |place: u32, by: i32| if by == 0 { place } else { place.wrapping_add_signed(by) & mask };
        Cell { longitude: moved(self.longitude, east), latitude: moved(self.latitude, north), steps: self.steps }
    }
}

/// The score of a place.
pub fn score(position: Position) -> f64 {
    Cell::of(position, STEPS_MAX).scores().0
}

/// The place of a score.
pub fn position(score: f64) -> Position {
    let bits = bits_of(score);
    let cell = Cell { longitude: gathered(bits >> 1), latitude: gathered(bits), steps: STEPS_MAX };
    let Bounds { longitudes, latitudes } = cell.bounds();
    let middle = |(from, to): (f64, f64), (least, greatest): (f64, f64)| ((from + to) / 2.0).min(greatest).max(least);
    (middle(longitudes, LONGITUDES), middle(latitudes, LATITUDES))
}

/// The geohash string of a score's place.
pub fn text(score: f64) -> Vec<u8> {
    let bits = Cell::within(position(score), ALL_LATITUDES, STEPS_MAX).bits();
    let letter = |index: u32| {
        // The bits of the last letter are not all there.
        let bits = (2 * STEPS_MAX).checked_sub(5 * (index + 1)).map_or(0, |shift| bits >> shift & 0x1f);
        ALPHABET.get(bits as usize).copied().unwrap_or_default()
    };
    (0..LETTERS).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scores_and_strings_are_those_of_redis() {
        let palermo = score((13.361389, 38.115556));
        assert_eq!(palermo, 3_479_099_956_230_698.0);
        assert_eq!(position(palermo), (13.361_389_338_970_184, 38.115_556_395_496_3));
        assert_eq!(text(palermo), b"sqc8b49rny0");
    }

    #[test]
    fn neighbours_go_around_the_map() {
        let cell = Cell { longitude: 0, latitude: 3, steps: 2 };
        assert_eq!(cell.beside(-1, 1), Cell { longitude: 3, latitude: 0, steps: 2 });
        assert_eq!(cell.beside(1, -1), Cell { longitude: 1, latitude: 2, steps: 2 });
    }

    proptest! {
        #[test]
        fn bits_are_spread_and_gathered(bits in any::<u32>()) {
            prop_assert_eq!(gathered(spread(bits)), bits);
            prop_assert_eq!(spread(bits) & 0xaaaa_aaaa_aaaa_aaaa, 0);
        }

        #[test]
        fn a_place_is_where_it_was(longitude in -180.0..180.0_f64, latitude in -85.0..85.0_f64, steps in 1..=STEPS_MAX) {
            let (found_longitude, found_latitude) = position(score((longitude, latitude)));
            prop_assert!((found_longitude - longitude).abs() < 1e-5 && (found_latitude - latitude).abs() < 1e-5);
            let (least, behind) = Cell::of((longitude, latitude), steps).scores();
            let score = score((longitude, latitude));
            prop_assert!(least <= score && score < behind);
        }

        /// A sorted set may have any scores.
        #[test]
        fn any_score_is_a_place(bits in any::<u64>()) {
            let (longitude, latitude) = position(f64::from_bits(bits));
            prop_assert!((-180.0..=180.0).contains(&longitude) && (-86.0..=86.0).contains(&latitude));
        }
    }
}
