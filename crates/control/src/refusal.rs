//! A refusal: what the daemon says when it does not do what it was asked. Its text is for people, and names the rule and the remedy. Its
//! cause is for programs, so that nobody looks for words in texts, which have names in them that users choose.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Somebody has what was asked for, an address say.
    Taken,
    /// The user has as many as may be had.
    Full,
    /// The user's rule does not allow it.
    Forbidden,
    /// No rule is for the user.
    NoRule,
    /// The daemon knows nothing of that handle: its object is gone.
    Forgotten,
    /// There can't be such a card of the provider that was asked for; there may be one of another.
    Provider,
    /// Anything else, and whatever a later daemon distinguishes.
    #[default]
    #[serde(other)]
    Other,
}

/// What the daemon says.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{text}")]
#[serde(from = "Form", into = "Form")]
pub struct Refusal {
    /// For programs.
    pub cause: Cause,
    /// For people.
    pub text: String,
}

/// On the wire a refusal of no particular cause is its text. It was so before there were causes, so every version understands a daemon
/// that speaks another one.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Whole(Whole),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    cause: Cause,
    text: String,
}

impl From<Form> for Refusal {
    fn from(form: Form) -> Refusal {
        match form {
            Form::Text(text) => text.into(),
            Form::Whole(Whole { cause, text }) => Refusal { cause, text },
        }
    }
}

impl From<Refusal> for Form {
    fn from(Refusal { cause, text }: Refusal) -> Form {
        match cause {
            Cause::Other => Form::Text(text),
            cause => Form::Whole(Whole { cause, text }),
        }
    }
}

impl Refusal {
    /// One of this cause.
    pub fn new(cause: Cause, text: impl Into<String>) -> Refusal {
        Refusal { cause, text: text.into() }
    }
}

impl From<String> for Refusal {
    fn from(text: String) -> Refusal {
        Refusal::new(Cause::Other, text)
    }
}

impl From<&str> for Refusal {
    fn from(text: &str) -> Refusal {
        text.to_owned().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(refusal: &Refusal) -> String {
        serde_json::to_string(refusal).expect("JSON")
    }

    #[test]
    fn a_cause_goes_beside_the_text_and_comes_back() {
        for cause in [
            Cause::Taken,
            Cause::Full,
            Cause::Forbidden,
            Cause::NoRule,
            Cause::Forgotten,
            Cause::Provider,
            Cause::Other,
        ] {
            let refusal = Refusal::new(cause, "address 10.0.0.1 is taken");
            assert_eq!(serde_json::from_str::<Refusal>(&json(&refusal)).unwrap(), refusal);
        }
        let full = Refusal::new(Cause::Full, "8 cards");
        assert_eq!(json(&full), r#"{"cause":"full","text":"8 cards"}"#);
    }

    #[test]
    fn other_versions_say_a_text_and_understand_one() {
        let plain = Refusal::from("the daemon speaks version 9");
        assert_eq!(json(&plain), "\"the daemon speaks version 9\"");
        assert_eq!(serde_json::from_str::<Refusal>("\"the daemon speaks version 9\"").unwrap(), plain);
        let later = r#"{"cause":"of-a-later-daemon","text":"no"}"#;
        assert_eq!(serde_json::from_str::<Refusal>(later).unwrap(), Refusal::from("no"));
    }
}
