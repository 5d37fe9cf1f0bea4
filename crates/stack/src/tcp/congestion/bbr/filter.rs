//! The largest of the values of a window.

/// The longest window.
const WINDOW_MAX: usize = 10;

/// The largest value of each time.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct WindowedMax {
    /// A time and its value, at the time's place.
    slots: [(u64, u64); WINDOW_MAX],
    largest: u64,
}

impl WindowedMax {
    /// The largest value.
    pub fn get(&self) -> u64 {
        self.largest
    }

    /// Takes a value at `time`, which never goes back, and forgets those that are `window` old or older, at most ten. Returns the largest.
    pub fn update(&mut self, value: u64, time: u64, window: u64) -> u64 {
        if let Some(slot) = self.slots.get_mut((time % WINDOW_MAX as u64) as usize) {
            *slot = if slot.0 == time { (time, slot.1.max(value)) } else { (time, value) };
        }
        let is_young = |(then, _): &&(u64, u64)| time.saturating_sub(*then) < window;
        self.largest = self.slots.iter().filter(is_young).map(|(_, value)| *value).max().unwrap_or(value);
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_is_forgotten_after_its_window() {
        let mut filter = WindowedMax::default();
        assert_eq!(filter.update(10, 0, 2), 10);
        assert_eq!(filter.update(5, 1, 2), 10);
        assert_eq!(filter.update(3, 2, 2), 5);
        assert_eq!(filter.update(1, 3, 2), 3);
        assert_eq!(filter.update(0, 30, 2), 0);
    }

    proptest! {
        #[test]
        fn it_is_a_value_of_the_window_and_never_less_than_the_last(values in proptest::collection::vec((0u64..100, 0u64..2), 1..60)) {
            let (mut filter, mut seen, mut time) = (WindowedMax::default(), Vec::new(), 0);
            for (value, step) in values {
                time += step;
                seen.push((value, time));
                let largest = filter.update(value, time, 3);
                prop_assert!(largest >= value);
                prop_assert!(seen.iter().any(|(value, at)| *value == largest && time - at < 3));
            }
        }
    }
}
