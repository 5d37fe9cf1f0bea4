//! What executes commands: sessions, settings, the state that commands work on, and how a command is known.

pub mod access;
pub mod call;
pub mod command;
pub mod description;
pub mod eviction;
pub mod execute;
pub mod fault;
pub mod guard;
pub mod help;
pub mod invalidation;
pub mod listening;
pub mod observed;
pub mod observer;
pub mod operating;
pub mod pause;
pub mod pool;
pub mod reading;
pub mod sampler;
pub mod scan;
pub mod session;
pub mod settings;
pub mod silence;
pub mod state;
pub mod subcommands;
pub mod tracking;
pub mod users;
