//! [`Meter`]: what a function that is written in Rust pays for while it goes on. It is one instruction to Lua, however long it takes.

use crate::scripts::turn::spend;
use mlua::Lua;

/// The clock is looked at after so many steps.
const STEPS: u64 = 1_000;
/// What a table costs. One whose fields are all gone still has their places, and to walk over these takes long.
const TABLE_STEPS: u64 = 100;

/// See the module.
#[derive(Debug)]
pub struct Meter<'a> {
    lua: &'a Lua,
    steps: u64,
}

impl<'a> Meter<'a> {
    /// Of a function that begins.
    pub fn new(lua: &'a Lua) -> Meter<'a> {
        Meter { lua, steps: 0 }
    }

    /// So many steps more.
    ///
    /// # Errors
    /// The run has used what it may: the script ends.
    pub fn steps(&mut self, steps: u64) -> mlua::Result<()> {
        self.steps += steps;
        if self.steps < STEPS {
            return Ok(());
        }
        spend(self.lua, std::mem::take(&mut self.steps))
    }

    /// One step more.
    ///
    /// # Errors
    /// As [`Meter::steps`].
    pub fn step(&mut self) -> mlua::Result<()> {
        self.steps(1)
    }

    /// A table is walked through.
    ///
    /// # Errors
    /// As [`Meter::steps`].
    pub fn table(&mut self) -> mlua::Result<()> {
        self.steps(TABLE_STEPS)
    }
}
