//! The functions by which a script reads and changes settings of `cjson`. Those of the library that all scripts share are forgotten when the
//! script ends; a library of a script's own (`cjson.new`) has its own ones.

use super::settings::{Invalid, Settings};
use crate::scripts::raised;
use crate::scripts::turn::Turn;
use mlua::{Lua, MultiValue, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// Where settings are.
#[derive(Clone, Debug)]
pub enum Place {
    /// Those of the library that all scripts share.
    Shared,
    /// Those of another library.
    Own(Rc<Cell<Settings>>),
}

impl Place {
    /// The settings.
    pub fn get(&self, lua: &Lua) -> Settings {
        match self {
            Place::Shared => lua.app_data_ref::<Turn>().map_or_else(Settings::default, |turn| turn.json),
            Place::Own(settings) => settings.get(),
        }
    }

    fn set(&self, lua: &Lua, settings: Settings) {
        match self {
            Place::Shared => {
                if let Some(mut turn) = lua.app_data_mut::<Turn>() {
                    turn.json = settings;
                }
            }
            Place::Own(own) => own.set(settings),
        }
    }
}

/// What a script has said to one of the functions.
struct Said<'a> {
    lua: &'a Lua,
    function: &'static str,
    values: &'a MultiValue,
}

impl Said<'_> {
    fn value(&self, index: usize) -> Option<&Value> {
        self.values.get(index).filter(|value| !value.is_nil())
    }

    /// An argument that is a number, if it is there.
    fn integer(&self, index: usize, least: i64, most: i64, setting: &mut i64) -> mlua::Result<()> {
        let Some(value) = self.value(index) else { return Ok(()) };
        let number = self.lua.coerce_number(value.clone())?;
        let number =
            number.ok_or_else(|| raised::of_type(self.lua, index + 1, self.function, "number", Some(value)))? as i64;
        if !(least..=most).contains(&number) {
            let why = format_args!("expected integer between {least} and {most}");
            return Err(raised::argument(self.lua, 1, self.function, why));
        }
        *setting = number;
        Ok(())
    }

    /// One that is true or false.
    fn boolean(&self, index: usize, setting: &mut bool) -> mlua::Result<()> {
        match self.value(index) {
            None => Ok(()),
            Some(Value::Boolean(is_true)) => {
                *setting = *is_true;
                Ok(())
            }
            other => self.word(index, other, &[("off", false), ("on", true)], setting),
        }
    }

    fn word<T: Copy>(
        &self,
        index: usize,
        value: Option<&Value>,
        words: &[(&str, T)],
        setting: &mut T,
    ) -> mlua::Result<()> {
        let text = match value {
            Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
                self.lua.coerce_string(value.cloned().unwrap_or_default())?
            }
            _ => None,
        };
        let text = text.ok_or_else(|| raised::of_type(self.lua, index + 1, self.function, "string", value))?;
        let text = text.to_string_lossy();
        let (_, found) = words.iter().find(|(word, _)| *word == text).ok_or_else(|| {
            raised::argument(self.lua, index + 1, self.function, format_args!("invalid option '{text}'"))
        })?;
        *setting = *found;
        Ok(())
    }

    fn invalid(&self, setting: &mut Invalid) -> mlua::Result<()> {
        match self.value(0) {
            None => Ok(()),
            Some(Value::Boolean(is_true)) => {
                *setting = if *is_true { Invalid::Written } else { Invalid::Refused };
                Ok(())
            }
            other => {
                let words = [("off", Invalid::Refused), ("on", Invalid::Written), ("null", Invalid::Null)];
                self.word(0, other, &words, setting)
            }
        }
    }
}

/// Takes what was said, if anything was, and gives what holds then.
type Change = fn(&Said<'_>, &mut Settings) -> mlua::Result<Vec<Value>>;

fn number(number: i64) -> Vec<Value> {
    vec![Value::Number(number as f64)]
}

/// The functions: name, how many arguments they take, and what they do.
const FUNCTIONS: [(&str, usize, Change); 7] = [
    ("encode_sparse_array", 3, |said, settings| {
        said.boolean(0, &mut settings.converts_sparse)?;
        said.integer(1, 0, i32::MAX.into(), &mut settings.sparse_ratio)?;
        said.integer(2, 0, i32::MAX.into(), &mut settings.sparse_safe)?;
        let numbers = [settings.sparse_ratio, settings.sparse_safe].into_iter().flat_map(number);
        Ok([Value::Boolean(settings.converts_sparse)].into_iter().chain(numbers).collect())
    }),
    ("encode_max_depth", 1, |said, settings| {
        said.integer(0, 1, i32::MAX.into(), &mut settings.encode_depth)?;
        Ok(number(settings.encode_depth))
    }),
    ("decode_max_depth", 1, |said, settings| {
        said.integer(0, 1, i32::MAX.into(), &mut settings.decode_depth)?;
        Ok(number(settings.decode_depth))
    }),
    ("encode_number_precision", 1, |said, settings| {
        said.integer(0, 1, 14, &mut settings.digits)?;
        Ok(number(settings.digits))
    }),
    ("encode_keep_buffer", 1, |said, settings| {
        said.boolean(0, &mut settings.keeps_buffer)?;
        Ok(vec![Value::Boolean(settings.keeps_buffer)])
    }),
    ("encode_invalid_numbers", 1, |said, settings| {
        said.invalid(&mut settings.encode_invalid)?;
        Ok(vec![match settings.encode_invalid {
            Invalid::Refused => Value::Boolean(false),
            Invalid::Written => Value::Boolean(true),
            Invalid::Null => Value::String(said.lua.create_string("null")?),
        }])
    }),
    ("decode_invalid_numbers", 1, |said, settings| {
        said.boolean(0, &mut settings.decodes_invalid)?;
        Ok(vec![Value::Boolean(settings.decodes_invalid)])
    }),
];

/// Puts the functions in a table.
///
/// # Errors
/// There is no memory.
pub fn install(lua: &Lua, table: &Table, place: &Place) -> mlua::Result<()> {
    for (function, most, change) in FUNCTIONS {
        let place = place.clone();
        let made = lua.create_function(move |lua, values: MultiValue| {
            if values.len() > most {
                return Err(raised::argument(lua, most + 1, function, "found too many arguments"));
            }
            let mut settings = place.get(lua);
            let told = change(&Said { lua, function, values: &values }, &mut settings)?;
            place.set(lua, settings);
            Ok(told.into_iter().collect::<MultiValue>())
        })?;
        table.raw_set(function, made)?;
    }
    Ok(())
}
