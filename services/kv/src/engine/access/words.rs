//! Words of users' rules: how a line is cut into them, and which words in parentheses are one rule.

/// Bytes of an error's part that is repeated.
const REPEATED_BYTES: usize = 128;

/// A parenthesis is not closed: the word that opens it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Unmatched parenthesis in acl selector starting at '{0}'.")]
pub struct Unmatched(pub String);

/// A word as errors repeat it.
pub fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word.get(..word.len().min(REPEATED_BYTES)).unwrap_or_default()).into_owned()
}

/// The words of a line.
pub fn of_line(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Rules from words: those from one that begins with `(` to one that ends with `)` are one rule.
///
/// # Errors
/// [`Unmatched`].
pub fn rules<'a>(words: impl Iterator<Item = &'a [u8]>) -> Result<Vec<Vec<u8>>, Unmatched> {
    let mut rules: Vec<Vec<u8>> = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    let mut first: &[u8] = &[];
    for word in words {
        let whole = match open.take() {
            Some(before) => [before.as_slice(), b" ", word].concat(),
            None if word.starts_with(b"(") => {
                first = word;
                word.to_vec()
            }
            None => {
                rules.push(word.to_vec());
                continue;
            }
        };
        match word.ends_with(b")") {
            true => rules.push(whole),
            false => open = Some(whole),
        }
    }
    match open {
        Some(_) => Err(Unmatched(shown(first))),
        None => Ok(rules),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_parentheses_is_one_rule() {
        let merged = |line: &str| {
            let rules = rules(of_line(line.as_bytes()))?;
            Ok(rules.iter().map(|rule| String::from_utf8_lossy(rule).into_owned()).collect::<Vec<_>>())
        };
        assert_eq!(
            merged(" on  (~a +get) >p (+b)\r"),
            Ok(vec!["on".into(), "(~a +get)".into(), ">p".into(), "(+b)".into()])
        );
        assert_eq!(merged("on (~a +get"), Err(Unmatched("(~a".to_owned())));
        assert_eq!(merged(""), Ok(vec![]));
    }
}
