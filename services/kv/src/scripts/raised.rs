//! [`Raised`]: errors that functions written in Rust raise in scripts, and what is made of any error.

use mlua::{Error, Lua, Value};
use std::fmt;

/// An error that a script gets.
#[derive(Clone, Debug)]
pub enum Raised {
    /// One of Redis', with its code: what `redis.call` raises.
    Code(String),
    /// One of Lua's: a text that says where it was raised.
    Text(String),
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Raised::Code(text) | Raised::Text(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Raised {}

/// An error with a code.
pub fn code(text: impl Into<String>) -> Error {
    Error::external(Raised::Code(text.into()))
}

/// An error of Lua, with the place of who called the function that raises it.
pub fn text(lua: &Lua, text: impl fmt::Display) -> Error {
    let place = lua.inspect_stack(1, |frame| {
        let line = frame.current_line()?;
        Some(format!("{}:{line}: ", frame.source().short_src.unwrap_or_default()))
    });
    Error::external(Raised::Text(format!("{}{text}", place.flatten().unwrap_or_default())))
}

/// An argument is none that the function takes.
pub fn argument(lua: &Lua, place: usize, function: &str, why: impl fmt::Display) -> Error {
    text(lua, format_args!("bad argument #{place} to '{function}' ({why})"))
}

/// An argument has another type.
pub fn of_type(lua: &Lua, place: usize, function: &str, expected: &str, found: Option<&Value>) -> Error {
    let found = found.map_or("no value", name_of);
    argument(lua, place, function, format_args!("{expected} expected, got {found}"))
}

/// A value that is a number.
pub fn number(value: Option<&Value>) -> Option<f64> {
    match value {
        Some(Value::Integer(number)) => Some(*number as f64),
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    }
}

/// A value's type as Lua names it.
pub fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// What an error says.
pub fn told(error: &Error) -> Raised {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => told(cause),
        Error::ExternalError(inner) => match inner.downcast_ref::<Raised>() {
            Some(raised) => raised.clone(),
            None => Raised::Text(inner.to_string()),
        },
        Error::MemoryError(_) => Raised::Text("not enough memory".to_owned()),
        Error::SyntaxError { message, .. } | Error::RuntimeError(message) => {
            // What called what in the state is nobody's business.
            let text = message.split_once("\nstack traceback:").map_or(message.as_str(), |(text, _)| text);
            Raised::Text(text.to_owned())
        }
        other => Raised::Text(other.to_string()),
    }
}
