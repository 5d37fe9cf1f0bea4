//! `qanat disk`: disks, of the daemon's or of one's own, divided into areas.

mod add;
mod asked;
mod bench;
mod change;
mod device;
pub mod list;
mod place;
mod prepare;
mod size;

pub use place::{Place as DiskPlace, PlaceArguments, name as area_name};

use clap::{Args, Subcommand};

/// Divide files and devices into storage areas, the daemon's by its policy or one's own, and see what they can do
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo qanat disk add fast --file /var/lib/qanat/fast.img --size 4G    the daemon has a disk
  qanat disk create logs --on fast --size 512M         an area on it, by the policy: reserved, zeroed, recorded on the disk
  qanat disk list                                      the daemon's disks, and one's own areas
  qanat disk prepare my.img --size 1G                  a file of one's own becomes a disk (a block device: no --size)
  qanat disk create logs --on ./my.img --size 256M     an area on it
  qanat disk bench logs --on ./my.img                  what it can do
A disk that is no daemon's is whoever's the file or device is: nothing else is asked for, no daemon, no root.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Add(add::AddArguments),
    Remove(add::RemoveArguments),
    Prepare(prepare::Arguments),
    Create(change::CreateArguments),
    Grow(change::GrowArguments),
    Delete(change::DeleteArguments),
    Limit(change::LimitArguments),
    #[command(visible_alias = "status")]
    List(list::Arguments),
    Bench(bench::Arguments),
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.action {
        Action::Add(arguments) => add::add(arguments),
        Action::Remove(arguments) => add::remove(arguments),
        Action::Prepare(arguments) => prepare::run(arguments),
        Action::Create(arguments) => change::create(arguments),
        Action::Grow(arguments) => change::grow(arguments),
        Action::Delete(arguments) => change::delete(arguments),
        Action::Limit(arguments) => change::limit(arguments),
        Action::List(arguments) => list::run(arguments),
        Action::Bench(arguments) => bench::run(arguments),
    }
}
