//! The zone everybody serves, and the questions asked of it: random names, the same every time, in a directory that is
//! removed with this.

use crate::harness::HarnessError;
use crate::harness::scratch::Scratch;
use crate::harness::topology::SERVER_KERNEL;
use qanat_nic::Random;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The zone's name.
pub const APEX: &str = "bench.example";
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const LABEL_LENGTHS: std::ops::RangeInclusive<u64> = 4..=12;
/// Decides the names.
const SEED: u64 = 1;

fn label(random: &mut Random) -> String {
    let length = LABEL_LENGTHS.start() + random.below(LABEL_LENGTHS.end() - LABEL_LENGTHS.start() + 1);
    let letter = |random: &mut Random| char::from(LETTERS[random.below(LETTERS.len() as u64) as usize]);
    (0..length).map(|_| letter(random)).collect()
}

/// A master file and a file of questions: an address of each name.
pub struct BenchZone {
    directory: Scratch,
    /// Names beside the apex and its server.
    pub names: usize,
}

impl BenchZone {
    /// Writes the files of a zone of `names` names.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(names: usize) -> Result<BenchZone, HarnessError> {
        let zone = BenchZone { directory: Scratch::create(&format!("dns-{names}"))?, names };
        let (master, questions) = contents(names);
        zone.directory.write("zone", &master)?;
        zone.directory.write("questions", &questions)?;
        Ok(zone)
    }

    /// Where servers may leave what they leave.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The master file.
    pub fn master(&self) -> PathBuf {
        self.directory().join("zone")
    }

    /// The questions, `NAME TYPE` a line.
    pub fn questions(&self) -> PathBuf {
        self.directory().join("questions")
    }

    /// Writes another file beside them.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, HarnessError> {
        self.directory.write(name, text)
    }
}

fn contents(names: usize) -> (String, String) {
    let mut master = format!(
        "$ORIGIN {APEX}.\n$TTL 3600\n@ SOA ns1 hostmaster 1 3600 900 1209600 300\n@ NS ns1\nns1 A {SERVER_KERNEL}\n"
    );
    let mut questions = String::new();
    let (mut random, mut seen) = (Random::new(SEED), HashSet::from(["ns1".to_owned()]));
    for number in 0..names {
        let label = loop {
            let label = label(&mut random);
            if seen.insert(label.clone()) {
                break label;
            }
        };
        let [_, b, c, d] = (number as u32).to_be_bytes();
        // Writing to a string can't fail.
        let _ = writeln!(master, "{label} A 10.{b}.{c}.{d}");
        let _ = writeln!(questions, "{label}.{APEX}. A");
    }
    (master, questions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::dns::queries::{Queries, QueryOptions};

    #[test]
    fn the_same_zone_every_time() {
        let (master, questions) = contents(1_000);
        assert_eq!(contents(1_000), (master.clone(), questions.clone()));
        assert_eq!(master.lines().count(), 1_005);
        let asked = Queries::parse(&questions, &QueryOptions::default()).unwrap();
        assert_eq!(asked.len(), 1_000);
        let different: HashSet<&str> = questions.lines().collect();
        assert_eq!(different.len(), 1_000);
        let zone = BenchZone::create(3).unwrap();
        let directory = zone.directory().to_owned();
        assert!(zone.master().exists() && zone.questions().exists());
        drop(zone);
        assert!(!directory.exists());
    }
}
