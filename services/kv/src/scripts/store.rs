//! [`Scripts`]: scripts that are remembered, functions of libraries that were loaded, and the Lua state in which both lie. It is in memory
//! only, and can be made again from texts.

use crate::scripts::bounds::{Bounds, SCRIPTS_BYTES_MAX, SCRIPTS_MAX};
use bytes::Bytes;
use indexmap::IndexMap;
use mlua::{Function, Lua};
use std::collections::{HashMap, HashSet};

/// A function that a library has registered.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: Vec<&'static str>,
}

/// A script that is remembered.
#[derive(Clone, Debug)]
pub struct Script {
    /// Its text, without its shebang.
    pub text: Bytes,
    /// Its flags, if it has a shebang.
    pub flags: Option<Vec<&'static str>>,
}

/// A library as it was loaded.
#[derive(Clone, Debug)]
pub struct Library {
    /// The text that it was loaded from.
    pub text: Bytes,
    /// Its functions.
    pub functions: Vec<Registered>,
}

/// A Lua state, and the functions of its prelude.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the prelude says what its functions do")]
pub struct Host {
    pub lua: Lua,
    /// Its memory before any script.
    pub idle_bytes: usize,
    pub compile: Function,
    pub forget: Function,
    pub eval: Function,
    pub load: Function,
    pub keep: Function,
    pub drop: Function,
    pub call: Function,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Scripts {
    /// What a run may use.
    pub bounds: Bounds,
    /// The Lua state, once it is needed.
    pub host: Option<Host>,
    scripts: IndexMap<String, Script>,
    bytes: usize,
    /// Those that the state has compiled.
    pub compiled: HashSet<String>,
    /// Whose functions can be called.
    pub libraries: IndexMap<String, Library>,
    /// Libraries of functions, by the functions' names in small letters.
    pub functions: HashMap<String, String>,
    /// The version of the keyspace's libraries that these are of.
    pub version: Option<u64>,
}

impl Scripts {
    /// A script, by the name of its text.
    pub fn get(&self, name: &str) -> Option<&Script> {
        self.scripts.get(name)
    }

    /// How many are remembered.
    pub fn count(&self) -> usize {
        self.scripts.len()
    }

    /// Remembers a script; the oldest ones are forgotten for it.
    pub fn put(&mut self, name: &str, script: Script) {
        self.bytes += script.text.len();
        if let Some(before) = self.scripts.insert(name.to_owned(), script) {
            self.bytes -= before.text.len();
        }
        while self.scripts.len() > SCRIPTS_MAX || self.bytes > SCRIPTS_BYTES_MAX {
            let Some((oldest, script)) = self.scripts.shift_remove_index(0) else { break };
            self.bytes -= script.text.len();
            self.compiled.remove(&oldest);
            if let Some(host) = &self.host {
                // One that stays compiled does no harm.
                let _ = host.forget.call::<()>(oldest);
            }
        }
    }

    /// Forgets all scripts, and the Lua state: libraries are loaded again when they are needed.
    pub fn flush(&mut self) {
        self.scripts.clear();
        self.bytes = 0;
        self.reset();
    }

    /// Forgets the Lua state.
    pub fn reset(&mut self) {
        self.host = None;
        self.compiled.clear();
        self.libraries.clear();
        self.functions.clear();
        self.version = None;
    }
}
