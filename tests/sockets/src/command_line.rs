//! The command line.

use crate::case::World;
use std::path::PathBuf;

/// What it says.
#[derive(Debug, Default)]
pub struct Options {
    pub control: Option<PathBuf>,
    pub address: String,
    pub peer: String,
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Only what comes after this case.
    pub from: Option<String>,
    pub limit_s: Option<u64>,
    /// One of so many parts of all cases, so that several subjects can share them.
    pub part: Option<(usize, usize)>,
    /// A file that names, a line each, cases that hang: those are given up soon.
    pub hanging: Option<PathBuf>,
    pub list: bool,
    pub expected: Option<PathBuf>,
    pub update: bool,
    pub times: Option<u32>,
    pub prefix: Vec<String>,
}

pub fn parse(words: &mut impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--control" => options.control = Some(value()?.into()),
            "--address" => options.address = value()?,
            "--peer" => options.peer = value()?,
            "--filter" => options.filter = Some(value()?),
            "--from" => options.from = Some(value()?),
            "--limit" => options.limit_s = Some(value()?.parse().map_err(|_| "--limit takes seconds")?),
            "--part" => {
                let text = value()?;
                let part = text.split_once('/').and_then(|(part, all)| Some((part.parse().ok()?, all.parse().ok()?)));
                options.part = Some(part.filter(|(part, all)| part < all).ok_or("--part takes I/N, from 0/N on")?);
            }
            "--hanging" => options.hanging = Some(value()?.into()),
            "--times" => options.times = Some(value()?.parse().map_err(|_| "--times takes a number")?),
            "--expected" => options.expected = Some(value()?.into()),
            "--update" => options.update = true,
            "--list" => options.list = true,
            // The form of a line of the subject's; it has no other.
            "--json" => {}
            "--" => options.prefix = words.by_ref().collect(),
            _ => return Err(format!("unknown: {word}")),
        }
    }
    Ok(options)
}

impl Options {
    pub fn world(&self) -> Result<World, String> {
        let (here4, here6) = self.address.split_once(',').ok_or("--address takes V4,V6")?;
        let (there4, there6) = self.peer.split_once(',').ok_or("--peer takes V4,V6")?;
        let wrong = |_| "that is no address".to_owned();
        Ok(World {
            here4: here4.parse().map_err(wrong)?,
            here6: here6.parse().map_err(wrong)?,
            there4: there4.parse().map_err(wrong)?,
            there6: there6.parse().map_err(wrong)?,
        })
    }
}
