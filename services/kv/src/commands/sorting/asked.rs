//! [`Asked`]: what SORT is asked for.

use crate::commands::sorting::pattern::Pattern;
use crate::engine::call::Call;
use crate::engine::fault::Fault;
use crate::engine::guard::reads_all_keys;

/// See the module.
#[derive(Debug, Default)]
pub struct Asked<'a> {
    /// The greatest first.
    pub is_descending: bool,
    /// By bytes, not by numbers.
    pub is_alpha: bool,
    /// From this place on, and so many; negative: all.
    limit: Option<(i64, i64)>,
    /// What the elements are ordered by; none: by themselves.
    pub by: Option<Pattern<'a>>,
    /// What is answered for each element; none: the element.
    pub get: Vec<Pattern<'a>>,
    /// The key that is to have what is found.
    pub target: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    /// From the arguments. `may_store`: STORE is one.
    ///
    /// # Errors
    /// As Redis words them.
    pub fn parse(call: &Call<'a>, may_store: bool) -> Result<Asked<'a>, Fault> {
        let (args, mut asked, mut index) = (call.args, Asked::default(), 2);
        while index < args.len() {
            let more = args.len() - index - 1;
            let value = args.at(index + 1);
            index += match args.at(index).to_ascii_uppercase().as_slice() {
                b"ASC" => {
                    asked.is_descending = false;
                    1
                }
                b"DESC" => {
                    asked.is_descending = true;
                    1
                }
                b"ALPHA" => {
                    asked.is_alpha = true;
                    1
                }
                b"LIMIT" if more > 1 => {
                    asked.limit = Some((call.integer(index + 1)?, call.integer(index + 2)?));
                    3
                }
                b"STORE" if more > 0 && may_store => {
                    asked.target = Some(value);
                    2
                }
                // Keys that are named by elements are no arguments, so they were not judged.
                b"BY" if more > 0 && value.contains(&b'*') && !reads_all_keys(call.state, call.client, &args) => {
                    return Err(Fault::Said("ERR BY option of SORT denied due to insufficient ACL permissions."));
                }
                b"GET" if more > 0 && !reads_all_keys(call.state, call.client, &args) => {
                    return Err(Fault::Said("ERR GET option of SORT denied due to insufficient ACL permissions."));
                }
                b"BY" if more > 0 => {
                    asked.by(value);
                    2
                }
                b"GET" if more > 0 => {
                    asked.get.push(Pattern::of(value));
                    2
                }
                _ => return Err(Fault::Syntax),
            };
        }
        Ok(asked)
    }

    /// A name without `*` says that nothing is put in order. As with Redis, a pattern behind it does not change that.
    fn by(&mut self, text: &'a [u8]) {
        if self.by != Some(Pattern::Nothing) {
            self.by = Some(if text.contains(&b'*') { Pattern::of(text) } else { Pattern::Nothing });
        }
    }

    /// Whether the elements stay in their order.
    pub fn keeps_order(&self) -> bool {
        self.by == Some(Pattern::Nothing)
    }

    /// What is wanted of so many elements.
    pub fn range(&self, length: usize) -> std::ops::Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(length);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(length)
    }
}

#[cfg(test)]
mod tests {
    use super::Asked;

    #[test]
    fn limits_are_cut_to_what_there_is() {
        for (limit, expected) in [
            (None, 0..5),
            (Some((1, 2)), 1..3),
            (Some((-3, 2)), 0..2),
            (Some((3, 9)), 3..5),
            (Some((5, 1)), 5..5),
            (Some((9, 9)), 5..5),
            (Some((2, -1)), 2..5),
            (Some((2, 0)), 2..2),
            (Some((i64::MAX, i64::MIN)), 5..5),
        ] {
            assert_eq!(Asked { limit, ..Asked::default() }.range(5), expected, "{limit:?}");
        }
    }
}
