//! [`Weight`]: by what an element is put in order.

use crate::resp::number::double;
use bytes::Bytes;
use std::cmp::Ordering;

/// What an element is compared by.
#[derive(Clone, PartialEq, Debug)]
pub enum Weight {
    /// A number.
    Number(f64),
    /// Bytes. Nothing comes first.
    Text(Option<Bytes>),
}

impl Weight {
    /// The order of two elements with their weights. Elements of the same number are in the order of their bytes.
    pub fn compare(one: &(Weight, Bytes), other: &(Weight, Bytes)) -> Ordering {
        match (&one.0, &other.0) {
            (Weight::Number(a), Weight::Number(b)) => {
                a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| one.1.cmp(&other.1))
            }
            (Weight::Text(a), Weight::Text(b)) => a.cmp(b),
            // All weights of one SORT are of the same kind.
            _ => Ordering::Equal,
        }
    }
}

/// A number as C's `strtod` takes it; nothing is zero.
pub fn number(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.trim_ascii_start();
    // C says of a number that has not all its digits any more that it is out of range. SORT listens to it.
    double(text).filter(|number| !number.is_subnormal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        for (text, expected) in [
            ("", Some(0.0)),
            (" 1", Some(1.0)),
            ("1 ", None),
            (" ", None),
            ("+1.5e3", Some(1_500.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("nan", None),
            ("1e400", None),
            ("1e-400", None),
            ("1e-310", None),
            ("0e-400", Some(0.0)),
            ("-0", Some(-0.0)),
            ("x", None),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn equal_numbers_are_ordered_by_their_elements() {
        let number = |weight, element: &'static str| (Weight::Number(weight), Bytes::from_static(element.as_bytes()));
        let text = |weight: Option<&'static str>| {
            (Weight::Text(weight.map(|text| Bytes::from_static(text.as_bytes()))), Bytes::new())
        };
        assert_eq!(Weight::compare(&number(1.0, "b"), &number(1.0, "a")), Ordering::Greater);
        assert_eq!(Weight::compare(&number(1.0, "b"), &number(2.0, "a")), Ordering::Less);
        assert_eq!(Weight::compare(&text(None), &text(Some(""))), Ordering::Less);
        assert_eq!(Weight::compare(&text(Some("b")), &text(Some("ab"))), Ordering::Greater);
    }
}
