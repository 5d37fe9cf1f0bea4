//! Exit codes, in one place. docs/integration.md has the same table, which a test compares with this one.

/// It could not be done, or ended otherwise than asked for.
pub const FAILED: u8 = 1;
/// The command line is not understood.
pub const USAGE: u8 = 2;
/// A net core's link is gone: the next one waits for another peer.
pub const LINK_GONE: i32 = 75;
/// A net core was to have a card of the next daemon's, which refuses: there is to be no other.
pub const REFUSED: i32 = 77;
/// `qanat run`: the program has not begun.
pub const NOT_BEGUN: u8 = 125;
/// `qanat run`: the program can't be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// `qanat run`: there is no such program.
pub const NOT_FOUND: u8 = 127;

/// Told to stop a second time, by a signal: it stopped at once.
pub fn by_signal(signal: i32) -> ! {
    std::process::exit(128 + signal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

    fn document() -> String {
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/integration.md"))
            .expect("the document")
    }

    #[test]
    fn the_document_has_each_code() {
        let document = document();
        let table = document.split_once("## Exit codes").expect("a section").1;
        let table = table.split("\n## ").next().unwrap_or_default();
        let is_row = |row: &&str| !row.starts_with('-');
        let rows: Vec<&str> =
            table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next()).filter(is_row).collect();
        let codes = [
            0,
            FAILED.into(),
            USAGE.into(),
            LINK_GONE,
            REFUSED,
            NOT_BEGUN.into(),
            NOT_EXECUTABLE.into(),
            NOT_FOUND.into(),
        ];
        let codes = codes.map(|code: i32| code.to_string());
        let wanted: Vec<&str> =
            ["code"].into_iter().chain(codes.iter().map(String::as_str)).chain(["128 + n"]).collect();
        assert_eq!(rows, wanted);
        let mistake = clap::Command::new("qanat").error(clap::error::ErrorKind::InvalidValue, "");
        assert_eq!(mistake.exit_code(), i32::from(USAGE));
    }

    /// A number that is not written here would be in no table.
    #[test]
    fn no_other_file_has_a_code_of_its_own() {
        let mut wrong = Vec::new();
        look(Path::new(SOURCES), &mut wrong);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    fn look(directory: &Path, wrong: &mut Vec<String>) {
        for entry in directory.read_dir().expect("the sources").flatten().map(|entry| entry.path()) {
            if entry.is_dir() {
                look(&entry, wrong);
                continue;
            }
            let text = std::fs::read_to_string(&entry).expect("text");
            for line in text.lines().filter(|_| !entry.ends_with("exit.rs")) {
                let argument =
                    ["exit(", "ExitCode::from("].iter().find_map(|call| line.split_once(call)).map(|(_, rest)| rest);
                if argument
                    .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit() && letter != '0'))
                {
                    wrong.push(format!("{}: {}", entry.display(), line.trim()));
                }
            }
        }
    }
}
