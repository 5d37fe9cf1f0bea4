//! Medians and spread of a few repetitions.

use serde::{Deserialize, Serialize};

/// A measurement repeated.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// The middle one (mean of the two middle ones of an even number).
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Repetitions.
    pub count: usize,
}

impl Summary {
    /// Of `values`; not-a-numbers don't count. `None` if none is left.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let upper = *values.get(count / 2)?;
        let lower = *values.get((count - 1) / 2)?;
        Some(Summary { median: (lower + upper) / 2.0, min: *values.first()?, max: *values.last()?, count })
    }

    /// `value` by the median of `base`.
    pub fn relative(value: Option<Summary>, base: Option<Summary>) -> Option<Summary> {
        let base = base.map(|base| base.median).filter(|base| *base > 0.0)?;
        value.map(|value| Summary {
            median: value.median / base,
            min: value.min / base,
            max: value.max / base,
            count: value.count,
        })
    }

    /// Half the distance from smallest to largest, relative to the median: ±this.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / 2.0 / self.median.abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        let summary = Summary::of([5.0, 1.0, f64::NAN, 3.0]).unwrap();
        assert_eq!((summary.median, summary.min, summary.max, summary.count), (3.0, 1.0, 5.0, 3));
        assert!((summary.spread() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(Summary::of([4.0, 2.0]).unwrap().median, 3.0);
        assert_eq!(Summary::of([]), None);
        assert_eq!(Summary::of([0.0]).unwrap().spread(), 0.0);
    }
}
