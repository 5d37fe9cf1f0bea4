//! `qanat disk`: disks of one's own, divided into areas.

mod bench;
mod change;
mod list;
mod place;
mod prepare;
mod size;

pub use place::{PlaceArguments, name as area_name};

use clap::{Args, Subcommand};

/// Divide a file or device into storage areas, and see what it can do
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat disk prepare fast.img --size 1G              a file becomes a disk (a block device: no --size)
  qanat disk create logs --on fast.img --size 256M   an area: reserved, zeroed, recorded on the disk
  qanat disk list --on fast.img                      the areas, and what is free
  qanat disk bench logs --on fast.img                what it can do
A disk is whoever's the file or device is: nothing else is asked for, no daemon, no root.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Prepare(prepare::Arguments),
    Create(change::CreateArguments),
    Grow(change::GrowArguments),
    Delete(change::DeleteArguments),
    List(list::Arguments),
    Bench(bench::Arguments),
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.action {
        Action::Prepare(arguments) => prepare::run(arguments),
        Action::Create(arguments) => change::create(arguments),
        Action::Grow(arguments) => change::grow(arguments),
        Action::Delete(arguments) => change::delete(arguments),
        Action::List(arguments) => list::run(arguments),
        Action::Bench(arguments) => bench::run(arguments),
    }
}
