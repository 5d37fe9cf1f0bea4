//! `qanat completions`: what a shell needs to know of this program, so that it completes what is typed.

use crate::say::say;
use crate::version::VERSION;
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

/// The program without the commands that processes of ours start: they are nobody's to type.
fn typed(program: &Command) -> Command {
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("qanat").version(VERSION).args(program.get_arguments().cloned()).subcommands(commands)
}

/// Prints them. `program`: this program's commands and options.
pub fn run(arguments: &Arguments, program: &Command) {
    let mut script = Vec::new();
    generate(arguments.shell, &mut typed(program), "qanat", &mut script);
    say!("{}", String::from_utf8_lossy(&script));
}
