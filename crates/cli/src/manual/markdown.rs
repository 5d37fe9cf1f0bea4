//! A page in Markdown, for the book.

use clap::{Arg, Command};
use std::fmt::Write as _;

/// How the names of such pages end.
pub const SUFFIX: &str = "md";

/// What `--help` says of a command.
pub fn page_of(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut page = format!("# {name}\n\n");
    if let Some(about) = command.get_long_about().or_else(|| command.get_about()) {
        let _ = writeln!(page, "{}\n", escaped(&about.to_string()));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = writeln!(page, "```text\n{}\n```\n", usage.trim_end());
    if command.has_subcommands() {
        page.push_str("## Commands\n\n");
        for below in shown(command) {
            let about = below.get_about().map_or_else(String::new, ToString::to_string);
            let _ = writeln!(page, "* [{0}]({1}.{SUFFIX}): {2}", below.get_name(), page_name(below), escaped(&about));
        }
        page.push('\n');
    }
    section(&mut page, "Arguments", command.get_positionals());
    let mut headings: Vec<&str> = Vec::new();
    let options = || command.get_arguments().filter(|argument| !argument.is_positional());
    for option in options() {
        let heading = option.get_help_heading().unwrap_or("Options");
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let under = |option: &&Arg| option.get_help_heading().unwrap_or("Options") == heading;
        section(&mut page, heading, options().filter(under));
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let examples = examples.strip_prefix("Examples:\n").unwrap_or(&examples);
        let _ = writeln!(page, "## Examples\n\n```text\n{}\n```", examples.trim_end());
    }
    page
}

/// The commands below one, without those that only processes of ours start.
pub fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// A page's name, without how it ends.
pub fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Arguments below a heading, each with what is said of it. Nothing, if none is to be shown.
fn section<'a>(page: &mut String, heading: &str, arguments: impl Iterator<Item = &'a Arg>) {
    let mut has_heading = false;
    for argument in arguments.filter(|argument| !argument.is_hide_set()) {
        if !has_heading {
            let _ = writeln!(page, "## {heading}\n");
            has_heading = true;
        }
        let said = argument.get_long_help().or_else(|| argument.get_help());
        let said = said.map_or_else(String::new, |text| escaped(&text.to_string()));
        // What a definition goes on with is as far in as it began.
        let said = said.replace('\n', "\n  ");
        let _ = writeln!(page, "{}\n: {said}{}\n", names(argument), values(argument));
    }
}

/// As it is typed: `-a`, `--address ADDRESS`.
fn names(argument: &Arg) -> String {
    if argument.is_positional() {
        return format!("`{argument}`");
    }
    let short = argument.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    // What it shows of itself is the long name, if it has one, and its values.
    format!("{short}`{argument}`")
}

/// What it may be, and what it is if nothing is said.
fn values(argument: &Arg) -> String {
    let mut text = String::new();
    if !argument.get_action().takes_values() {
        return text;
    }
    let listed = |values: Vec<String>| values.join(", ");
    let possible = argument.get_possible_values();
    let possible = possible.iter().filter(|value| !value.is_hide_set()).map(|value| format!("`{}`", value.get_name()));
    let possible = listed(possible.collect());
    if !possible.is_empty() && !argument.is_hide_possible_values_set() {
        let _ = write!(text, " One of {possible}.");
    }
    let default = argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy()));
    let default = listed(default.collect());
    if !default.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(text, " Default: {default}.");
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(text, " Otherwise what the environment's `{}` says.", variable.to_string_lossy());
    }
    text
}

/// Words of ours mean what they look like: no sign in them is Markdown's, but for what is between backticks.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (part, text) in text.split('`').enumerate() {
        let is_code = part % 2 == 1;
        if is_code {
            let _ = write!(escaped, "`{text}`");
            continue;
        }
        for sign in text.chars() {
            if "\\*_<>[]#|".contains(sign) {
                escaped.push('\\');
            }
            escaped.push(sign);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let mut command = Command::new("qanat").subcommand(
            Command::new("water")
                .about("Draw *water* from <a well>")
                .after_help("Examples:\n  qanat water --depth 3   # deep")
                .arg(
                    Arg::new("depth").long("depth").short('d').value_name("METRES").default_value("2").help("How deep"),
                )
                .arg(Arg::new("well").required(true).help("Which `*` well"))
                .arg(Arg::new("secret").long("secret").hide(true)),
        );
        command.build();
        command
    }

    #[test]
    fn a_page_has_what_help_says() {
        let command = command();
        let water = shown(&command).next().expect("the one that was added");
        assert_eq!(page_name(water), "qanat-water");
        let page = page_of(water);
        for part in [
            "# qanat water\n\nDraw \\*water\\* from \\<a well\\>\n",
            "```text\nqanat water [OPTIONS] <well>\n```\n",
            "## Arguments\n\n`<well>`\n: Which `*` well\n",
            "## Options\n\n`-d`, `--depth <METRES>`\n: How deep Default: `2`.\n",
            "## Examples\n\n```text\n  qanat water --depth 3   # deep\n```\n",
        ] {
            assert!(page.contains(part), "{part:?} is missing:\n{page}");
        }
        assert!(!page.contains("secret"), "{page}");
    }

    #[test]
    fn a_page_of_commands_leads_to_each() {
        let mut command = command();
        command.build();
        assert!(page_of(&command).contains("* [water](qanat-water.md): Draw \\*water\\*"), "{}", page_of(&command));
    }
}
