//! [`Turn`]: a run of a script: whose it is, what it may do, and what is left of what it may use.

use crate::engine::state::State;
use crate::scripts::bounds::{Bounds, HOOK_INSTRUCTIONS};
use crate::scripts::json::settings::Settings;
use crate::scripts::raised;
use crate::scripts::store::Registered;
use mlua::{Error, HookTriggers, Lua, VmState};
use std::time::Instant;

/// Why a script failed, and where.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The error.
    pub text: String,
    /// Its source and line.
    pub place: Option<(String, usize)>,
}

/// A run. It is kept in the Lua state, and has the store's state while a script runs: there is no other way to lend it to Lua without
/// `unsafe`.
#[derive(Debug)]
pub struct Turn {
    /// The store, while a script runs; an empty one otherwise.
    pub state: State,
    /// Whose script runs.
    pub client: usize,
    /// It may not write.
    pub is_read_only: bool,
    /// What commands answer is in version 3 of the protocol.
    pub is_three: bool,
    /// It has used what it may.
    pub is_over: bool,
    /// Instructions that are left.
    left: u64,
    until: Instant,
    /// Chance, as Redis has it.
    pub random: u64,
    /// What the library that is being loaded has registered; `None`: none is.
    pub loading: Option<Vec<Registered>>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// What it has told `cjson`.
    pub json: Settings,
}

impl Turn {
    /// While no script runs. `idle`: an empty store.
    pub fn idle(idle: State) -> Turn {
        Turn {
            state: idle,
            client: 0,
            is_read_only: true,
            is_three: false,
            is_over: false,
            left: 0,
            until: Instant::now(),
            random: 0,
            loading: None,
            failure: None,
            json: Settings::default(),
        }
    }

    /// A run begins. `chance`: what its random numbers begin with.
    pub fn begin(&mut self, client: usize, is_read_only: bool, bounds: Bounds, chance: u32) {
        (self.client, self.is_read_only, self.is_three, self.is_over) = (client, is_read_only, false, false);
        self.left = bounds.instructions;
        let now = Instant::now();
        self.until = now.checked_add(bounds.time).unwrap_or(now);
        (self.random, self.loading, self.failure) = (seed(chance), None, None);
        self.json = Settings::default();
    }

    /// Takes instructions from what is left.
    fn take(&mut self, instructions: u64) -> bool {
        self.left = self.left.saturating_sub(instructions);
        self.is_over |= self.left == 0 || Instant::now() >= self.until;
        !self.is_over
    }
}

/// What chance begins with.
pub fn seed(number: u32) -> u64 {
    u64::from(number) << 16 | 0x330e
}

fn spend_in(lua: &Lua, instructions: u64) -> Result<(), Error> {
    // No script runs while it can't be had.
    let Some(mut turn) = lua.app_data_mut::<Turn>() else { return Ok(()) };
    if turn.take(instructions) {
        return Ok(());
    }
    Err(raised::code("ERR The script was ended: it took more time than a script may. What it has written stays"))
}

/// Takes instructions from what the run may use.
///
/// # Errors
/// It has used them all: the script ends.
pub fn spend(lua: &Lua, instructions: u64) -> Result<(), Error> {
    let spent = spend_in(lua, instructions);
    if spent.is_err() {
        hook(lua, 1)?;
    }
    spent
}

/// Instructions that the run may still use.
pub fn left(lua: &Lua) -> u64 {
    lua.app_data_ref::<Turn>().map_or(0, |turn| turn.left)
}

/// Looks at the budget after so many instructions. Coroutines inherit it from who makes them.
///
/// # Errors
/// There is no memory.
pub fn hook(lua: &Lua, instructions: u32) -> Result<(), Error> {
    let triggers = HookTriggers::new().every_nth_instruction(instructions);
    lua.set_global_hook(triggers, move |lua, _| {
        let spent = spend_in(lua, u64::from(instructions));
        if spent.is_err() && instructions == HOOK_INSTRUCTIONS {
            // A script that catches the error gets it again at its next instruction.
            hook(lua, 1)?;
        }
        spent.map(|()| VmState::Continue)
    })
}
