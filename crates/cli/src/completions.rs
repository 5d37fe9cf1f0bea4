//! `qanat completions`: what a shell needs to know of this program, so that it completes what is typed.

use crate::say::say;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

/// Print the completions of this program for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  qanat completions bash > ~/.local/share/bash-completion/completions/qanat
  qanat completions zsh > ~/.zfunc/_qanat                 with fpath+=~/.zfunc before compinit
  qanat completions fish > ~/.config/fish/completions/qanat.fish
`make install` puts those of bash, zsh and fish where the shells find them.")]
pub struct Arguments {
    /// Which one
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints them. `program`: this program's commands and options.
pub fn run(arguments: &Arguments, mut program: Command) {
    let mut script = Vec::new();
    generate(arguments.shell, &mut program, "qanat", &mut script);
    say!("{}", String::from_utf8_lossy(&script));
}
