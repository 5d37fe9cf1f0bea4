//! [`Shape`]: a circle or a rectangle on the earth, and the cells that may have places in it.

use crate::commands::geo::cell::{Bounds, Cell, Position, STEPS_MAX};
use crate::commands::geo::sphere::{RADIUS_METERS, between, between_latitudes, degrees, radians};

/// Half of the map's side, in metres. Redis has this number.
const MERCATOR_METERS: f64 = 20_037_726.37;
/// Nearer to a pole than this latitude cells are narrow, so larger ones are taken.
const POLAR: [f64; 2] = [66.0, 80.0];

/// How large a shape is, in the unit that was asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Extent {
    /// A circle of this radius.
    Circle(f64),
    /// A rectangle of this width and height.
    Rectangle(f64, f64),
}

/// A shape.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Its middle.
    pub center: Position,
    /// How large it is.
    pub extent: Extent,
    /// Metres of its unit.
    pub unit_meters: f64,
}

impl Shape {
    /// How far a place is from the middle, in metres, if it lies within.
    pub fn distance(&self, place: Position) -> Option<f64> {
        match self.extent {
            Extent::Circle(radius) => {
                let distance = between(self.center, place);
                (distance <= radius * self.unit_meters).then_some(distance)
            }
            Extent::Rectangle(width, height) => {
                let is_near = between_latitudes(place.1, self.center.1) <= height * self.unit_meters / 2.0
                    && between(place, (self.center.0, place.1)) <= width * self.unit_meters / 2.0;
                is_near.then(|| between(self.center, place))
            }
        }
    }

    /// What it covers at most.
    fn bounds(&self) -> Bounds {
        let (half_width, half_height) = match self.extent {
            Extent::Circle(radius) => (radius, radius),
            Extent::Rectangle(width, height) => (width / 2.0, height / 2.0),
        };
        let (longitude, latitude) = self.center;
        let north = degrees(self.unit_meters * half_height / RADIUS_METERS);
        // A degree of longitude is shortest at the side that is nearer to a pole.
        let nearest = if latitude < 0.0 { latitude - north } else { latitude + north };
        let east = degrees(self.unit_meters * half_width / RADIUS_METERS / radians(nearest).cos());
        Bounds { longitudes: (longitude - east, longitude + east), latitudes: (latitude - north, latitude + north) }
    }

    /// How often the map is halved so that nine cells cover the shape.
    fn steps(&self) -> u32 {
        let mut reach = self.unit_meters
            * match self.extent {
                Extent::Circle(radius) => radius,
                Extent::Rectangle(width, height) => {
                    (width / 2.0 * (width / 2.0) + height / 2.0 * (height / 2.0)).sqrt()
                }
            };
        if reach == 0.0 {
            return STEPS_MAX;
        }
        let mut steps = -1;
        while reach < MERCATOR_METERS {
            reach *= 2.0;
            steps += 1;
        }
        let latitude = self.center.1.abs();
        steps -= POLAR.iter().filter(|edge| latitude > **edge).count() as i32;
        steps.clamp(1, STEPS_MAX as i32) as u32
    }

    /// The cells that may have places in it, in the order in which Redis looks at them: the middle one first.
    pub fn cells(&self) -> Vec<Cell> {
        let wanted = self.bounds();
        let mut steps = self.steps();
        let mut center = Cell::of(self.center, steps);
        let is_short = center.beside(0, 1).bounds().latitudes.1 < wanted.latitudes.1
            || center.beside(0, -1).bounds().latitudes.0 > wanted.latitudes.0
            || center.beside(1, 0).bounds().longitudes.1 < wanted.longitudes.1
            || center.beside(-1, 0).bounds().longitudes.0 > wanted.longitudes.0;
        if steps > 1 && is_short {
            steps -= 1;
            center = Cell::of(self.center, steps);
        }
        let own = center.bounds();
        // Sides to which the middle one reaches far enough. Of few large cells all are taken.
        let is_enough = |east: i32, north: i32| {
            steps >= 2
                && (north < 0 && own.latitudes.0 < wanted.latitudes.0
                    || north > 0 && own.latitudes.1 > wanted.latitudes.1
                    || east < 0 && own.longitudes.0 < wanted.longitudes.0
                    || east > 0 && own.longitudes.1 > wanted.longitudes.1)
        };
        const SIDES: [(i32, i32); 8] = [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells = vec![center];
        for (east, north) in SIDES.into_iter().filter(|(east, north)| !is_enough(*east, *north)) {
            let cell = center.beside(east, north);
            // Around a small map one may be on both sides.
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::geo::cell::score;
    use proptest::prelude::*;

    proptest! {
        /// Whatever lies within a shape lies in one of its cells. Shapes that reach around the map or over a pole are not looked at: for
        /// those Redis' cells may be too few, and so these are.
        #[test]
        fn the_cells_cover_the_shape(
            center in (-100.0..100.0_f64, -60.0..60.0_f64),
            offset in (-1.0..1.0_f64, -1.0..1.0_f64),
            size in 0.1..1_000_000.0_f64,
            is_circle in any::<bool>(),
        ) {
            let extent = if is_circle { Extent::Circle(size) } else { Extent::Rectangle(size, size / 3.0) };
            let shape = Shape { center, extent, unit_meters: 1.0 };
            let reach = degrees(size / RADIUS_METERS);
            let place = (center.0 + offset.0 * reach, center.1 + offset.1 * reach);
            let found = score(place);
            let cells = shape.cells();
            prop_assert!(cells.len() <= 9);
            if shape.distance(place).is_some() {
                let is_covered = cells.iter().any(|cell| (cell.scores().0..cell.scores().1).contains(&found));
                prop_assert!(is_covered, "{:?} {:?}", place, cells);
            }
        }
    }

    #[test]
    fn extents_of_any_size_have_cells() {
        for size in [0.0, 1e-300, 1.0, 1e7, 1e300, f64::INFINITY] {
            for latitude in [-85.0, -70.0, 0.0, 85.0] {
                let shape = Shape { center: (180.0, latitude), extent: Extent::Circle(size), unit_meters: 1.0 };
                assert!((1..=9).contains(&shape.cells().len()));
            }
        }
    }
}
