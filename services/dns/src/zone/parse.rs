//! Master files (RFC 1035 section 5, RFC 2308 section 4), with `$INCLUDE` and BIND's `$GENERATE`.

use super::builder::ZoneBuilder;
use super::error::LineError;
use super::lexer::{EntryStart, Lexer, Token};
use super::problem::{PROBLEMS_MAX, Place, Problem, ZoneError};
use super::records::Zone;
use super::rtype::{self, type_name, type_of};
use super::time::TTL_MAX;
use super::{data, generate, time};
use crate::name::{self, Name};
use qanat::control::regular_file as file;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files within files.
const INCLUDE_DEPTH_MAX: usize = 10;
/// Files of one zone, each as often as it is included.
const FILES_MAX: usize = 10_000;
/// Bytes of all of them: beyond what a zone of 4 GiB takes as text.
const BYTES_MAX: u64 = 16 << 30;
/// Entries between two reports of progress.
const REPORT_ENTRIES: usize = 16_384;

/// How far reading has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Bytes of the zone's file read.
    pub bytes: u64,
    /// Bytes it has.
    pub bytes_total: u64,
    /// Records found.
    pub records: u64,
}

/// Reads the zone `apex` from the file at `path`. Gives it with what is odd about it; `report` hears how far it is.
///
/// # Errors
/// Every problem found (the first hundred), each with its place and remedy.
pub fn read_file(
    apex: &Name,
    path: &Path,
    report: &mut dyn FnMut(Progress),
) -> Result<(Zone, Vec<Problem>), ZoneError> {
    let mut parser = Parser::new(ZoneBuilder::new(apex), report);
    parser.file(path, 0);
    parser.finish()
}

/// Reads a copy of a primary's zone. What makes the zone ambiguous is the primary's affair, and here it is only a warning.
///
/// # Errors
/// As [`read_file`].
pub fn read_copy(apex: &Name, path: &Path) -> Result<(Zone, Vec<Problem>), ZoneError> {
    let mut report = |_| {};
    let mut parser = Parser::new(ZoneBuilder::copy(apex), &mut report);
    parser.file(path, 0);
    parser.finish()
}

/// Reads a zone from text. Files that it includes are looked for beside `path`.
///
/// # Errors
/// As [`read_file`].
pub fn read_text(apex: &Name, path: &Path, text: &str) -> Result<(Zone, Vec<Problem>), ZoneError> {
    let mut report = |_| {};
    let mut parser = Parser::new(ZoneBuilder::new(apex), &mut report);
    let file = Arc::new(path.to_owned());
    parser.text(&file, text, 0);
    parser.finish()
}

/// The name a file's SOA record has, if it can be told without knowing the zone's: written whole, or by `$ORIGIN`.
pub fn guess_apex(path: &Path) -> Option<Name> {
    let text = String::from_utf8(file::read(path, BYTES_MAX).ok()?).ok()?;
    let mut lexer = Lexer::new(&text);
    let mut tokens = Vec::new();
    let mut origin: Option<Name> = None;
    for _ in 0..1_000 {
        lexer.next_entry(&mut tokens).ok()??;
        match tokens.as_slice() {
            [directive, name, ..] if directive.text.eq_ignore_ascii_case("$ORIGIN") => {
                origin = Name::parse(name.text, origin.as_ref()).ok();
            }
            [owner, rest @ ..] if rest.iter().take(3).any(|token| token.text.eq_ignore_ascii_case("SOA")) => {
                return Name::parse(owner.text, origin.as_ref()).ok().map(|name| name.to_lowercase());
            }
            _ => {}
        }
    }
    None
}

struct Parser<'r> {
    builder: ZoneBuilder,
    report: &'r mut dyn FnMut(Progress),
    origin: Vec<u8>,
    owner: Vec<u8>,
    default_ttl: Option<u32>,
    last_ttl: Option<u32>,
    /// Numbers of records that come before the SOA record and have no TTL. They get the minimum of the SOA record.
    without_ttl: Vec<u32>,
    files: usize,
    /// Bytes that may still be read.
    bytes_left: u64,
    file: u16,
    path: Arc<PathBuf>,
    line: u32,
    data: Vec<u8>,
    entries: usize,
}

impl<'r> Parser<'r> {
    fn new(builder: ZoneBuilder, report: &'r mut dyn FnMut(Progress)) -> Parser<'r> {
        Parser {
            origin: builder.apex().wire().to_vec(),
            builder,
            report,
            owner: Vec::new(),
            default_ttl: None,
            last_ttl: None,
            without_ttl: Vec::new(),
            files: 0,
            bytes_left: BYTES_MAX,
            file: 0,
            path: Arc::default(),
            line: 0,
            data: Vec::new(),
            entries: 0,
        }
    }

    fn finish(mut self) -> Result<(Zone, Vec<Problem>), ZoneError> {
        if let Some(first) = self.without_ttl.first().copied() {
            // There is no SOA record, either, which is said as well.
            let place = self.builder.place_of(first);
            self.builder.problem(place, "no TTL: write one, or $TTL at the file's beginning".to_owned(), false);
        }
        self.builder.finish()
    }

    fn error(&mut self, message: String) {
        let place = Place { file: Some(Arc::clone(&self.path)), line: self.line };
        self.builder.problem(place, message, false);
    }

    fn warning(&mut self, message: String) {
        let place = Place { file: Some(Arc::clone(&self.path)), line: self.line };
        self.builder.problem(place, message, true);
    }

    fn file(&mut self, path: &Path, depth: usize) {
        let read = if self.files < FILES_MAX {
            file::read(path, self.bytes_left)
        } else {
            Err(std::io::Error::other(format!("more than {FILES_MAX} files in one zone")))
        };
        match read {
            Ok(bytes) => {
                self.files += 1;
                self.bytes_left = self.bytes_left.saturating_sub(bytes.len() as u64);
                let file = Arc::new(path.to_owned());
                match String::from_utf8(bytes) {
                    Ok(text) => self.text(&file, &text, depth),
                    // Bytes that are not UTF-8 stand for themselves, as Latin-1 does it.
                    Err(error) => {
                        let text: String =
                            error
                                .into_bytes()
                                .into_iter()
                                .map(|byte| {
                                    if byte.is_ascii() { char::from(byte).to_string() } else { format!("\\{byte:03}") }
                                })
                                .collect();
                        self.text(&file, &text, depth);
                    }
                }
            }
            Err(error) if depth == 0 => {
                let place = Place { file: Some(Arc::new(path.to_owned())), line: 0 };
                let text = format!("{error}: name a regular file that this user may read");
                self.builder.problem(place, text, false);
            }
            Err(error) => self.error(format!("{}: {error}; a relative path starts at this file's", path.display())),
        }
    }

    fn text(&mut self, file: &Arc<PathBuf>, text: &str, depth: usize) {
        self.path = Arc::clone(file);
        self.file = self.builder.add_file(file);
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            match lexer.next_entry(&mut tokens) {
                Ok(None) => break,
                Ok(Some(start)) => self.entry(start, &tokens, depth),
                Err(error) => {
                    self.line = error.line;
                    self.error(error.what.to_owned());
                }
            }
            self.entries += 1;
            if self.entries.is_multiple_of(REPORT_ENTRIES) && depth == 0 {
                self.report(lexer.offset(), text.len());
            }
            if self.builder.error_count() >= PROBLEMS_MAX {
                self.error("too many errors: is this a master file at all?".to_owned());
                break;
            }
        }
        if depth == 0 {
            self.report(text.len(), text.len());
        }
    }

    fn report(&mut self, bytes: usize, total: usize) {
        let records = self.builder.record_count() as u64;
        (self.report)(Progress { bytes: bytes as u64, bytes_total: total as u64, records });
    }

    fn entry(&mut self, start: EntryStart, tokens: &[Token<'_>], depth: usize) {
        self.line = start.line;
        let outcome = match tokens.first() {
            Some(first) if !start.indented && !first.quoted && first.text.starts_with('$') => {
                self.directive(tokens, depth)
            }
            _ => self.record(start.indented, tokens),
        };
        if let Err(error) = outcome {
            self.error(error.to_string());
        }
    }

    fn directive(&mut self, tokens: &[Token<'_>], depth: usize) -> Result<(), LineError> {
        let words: Vec<&str> = tokens.iter().map(|token| token.text).collect();
        match (words.first().map(|word| word.to_ascii_uppercase()).as_deref(), words.get(1..).unwrap_or_default()) {
            (Some("$ORIGIN"), [name]) => self.origin = self.name(name)?,
            (Some("$TTL"), [ttl]) => {
                self.default_ttl = Some(self.ttl(ttl)?);
            }
            (Some("$INCLUDE"), [path]) => self.include(path, None, depth)?,
            (Some("$INCLUDE"), [path, origin]) => {
                let origin = self.name(origin)?;
                self.include(path, Some(origin), depth)?;
            }
            (Some("$GENERATE"), [range, pattern, rest @ ..]) if rest.len() >= 2 => {
                self.generate(range, pattern, tokens.get(3..).unwrap_or_default())?;
            }
            (Some(word), _) => {
                return Err(LineError::Directive(word.to_owned()));
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// RFC 2181 section 8: a TTL with its highest bit set is as zero.
    fn ttl(&mut self, text: &str) -> Result<u32, LineError> {
        if let Some(seconds) = time::parse(text) {
            return Ok(seconds);
        }
        text.parse::<u32>().map_err(|_| LineError::Ttl(text.to_owned()))?;
        self.warning(format!("the TTL {text} is taken for 0 (RFC 2181 section 8): write at most {TTL_MAX}"));
        Ok(0)
    }

    fn name(&self, text: &str) -> Result<Vec<u8>, LineError> {
        let mut wire = Vec::new();
        name::parse_into(text, Some(&self.origin), &mut wire)
            .map_err(|error| LineError::Name { text: text.to_owned(), error })?;
        Ok(wire)
    }

    fn include(&mut self, path: &str, origin: Option<Vec<u8>>, depth: usize) -> Result<(), LineError> {
        if depth >= INCLUDE_DEPTH_MAX {
            return Err(LineError::IncludedTooDeep(INCLUDE_DEPTH_MAX));
        }
        let whole = self.path.parent().map_or_else(|| PathBuf::from(path), |directory| directory.join(path));
        // RFC 1035 section 5.1: what a file sets is over with it.
        let (own_origin, own_owner) = (self.origin.clone(), self.owner.clone());
        let (own_path, own_file, own_line) = (Arc::clone(&self.path), self.file, self.line);
        if let Some(origin) = origin {
            self.origin = origin;
        }
        self.file(&whole, depth + 1);
        (self.origin, self.owner, self.path) = (own_origin, own_owner, own_path);
        (self.file, self.line) = (own_file, own_line);
        Ok(())
    }

    fn generate(&mut self, range: &str, pattern: &str, rest: &[Token<'_>]) -> Result<(), LineError> {
        let mut owner = String::new();
        let mut texts: Vec<String> = vec![String::new(); rest.len()];
        // Data in one pair of quotes is all of a record's, as BIND reads it: `MX "10 mail$"`.
        let whole = rest.split_last().filter(|(data, before)| data.quoted && before.iter().all(|token| !token.quoted));
        let whole = whole.filter(|(_, before)| before.last().is_some_and(|word| type_of(word.text).is_some()));
        for value in generate::range(range)? {
            generate::substitute(pattern, value, &mut owner)?;
            for (text, token) in texts.iter_mut().zip(rest) {
                generate::substitute(token.text, value, text)?;
            }
            let mut tokens = vec![Token { text: &owner, quoted: false, joined: false }];
            tokens.extend(texts.iter().zip(rest).map(|(text, token)| Token { text, ..*token }));
            let data = texts.last().filter(|_| whole.is_some()).map(|text| generate::unquoted(text));
            if let Some(data) = &data {
                tokens.pop();
                let mut words = Vec::new();
                Lexer::new(data).next_entry(&mut words).map_err(|error| LineError::Lexical(error.what))?;
                tokens.append(&mut words);
            }
            self.record(false, &tokens)?;
        }
        Ok(())
    }

    fn record(&mut self, indented: bool, tokens: &[Token<'_>]) -> Result<(), LineError> {
        let mut rest = tokens;
        if !indented && let [first, after @ ..] = rest {
            self.owner.clear();
            name::parse_into(first.text, Some(&self.origin), &mut self.owner)
                .map_err(|error| LineError::Name { text: first.text.to_owned(), error })?;
            rest = after;
        }
        if self.owner.is_empty() {
            return Err(LineError::NoOwner);
        }
        let mut ttl = None;
        let mut class_given = false;
        let rtype = loop {
            let [word, after @ ..] = rest else {
                return Err(LineError::NoType);
            };
            rest = after;
            if !class_given && ["IN", "CLASS1"].iter().any(|class| word.text.eq_ignore_ascii_case(class)) {
                class_given = true;
            } else if ttl.is_none() && word.text.starts_with(|first: char| first.is_ascii_digit()) {
                ttl = Some(self.ttl(word.text)?);
            } else if let Some(rtype) = type_of(word.text) {
                break rtype;
            } else if ["CH", "HS", "CS"].iter().any(|class| word.text.eq_ignore_ascii_case(class)) {
                return Err(LineError::Class(word.text.to_owned()));
            } else {
                return Err(LineError::UnknownType(word.text.to_owned()));
            }
        };
        self.add(rtype, ttl, rest)
    }

    fn add(&mut self, rtype: u16, ttl: Option<u32>, tokens: &[Token<'_>]) -> Result<(), LineError> {
        if matches!(rtype, 0 | rtype::OPT | 128..=255) {
            return Err(LineError::NoDataType(type_name(rtype)));
        }
        let mut data = std::mem::take(&mut self.data);
        let scanned = data::scan(rtype, tokens, &self.origin, &mut data);
        let outcome = scanned.map_err(|error| LineError::Data { rtype: type_name(rtype), error }).and_then(|()| {
            if let Some(explicit) = ttl {
                self.last_ttl = Some(explicit);
            }
            // RFC 2308 section 4; before $TTL there was the last one's.
            let mut known = ttl.or(self.default_ttl).or(self.last_ttl);
            if known.is_none() && rtype == rtype::SOA {
                // RFC 1035 section 5.1 as NSD and BIND read it: where no TTL is written, the zone's minimum holds.
                known = data.last_chunk().map(|last| u32::from_be_bytes(*last));
                self.default_ttl = known;
                for record in std::mem::take(&mut self.without_ttl) {
                    self.builder.set_ttl(record, known.unwrap_or_default());
                }
            }
            if !name::is_within(&self.owner, self.builder.apex().wire()) {
                let owner = name::Presentation(&self.owner).to_string();
                let apex = self.builder.apex().to_string();
                self.warning(format!("{owner} is outside of the zone {apex}, and left out: does its name lack a dot?"));
                return Ok(());
            }
            let ttl = known.unwrap_or_else(|| {
                self.without_ttl.push(self.builder.record_count() as u32);
                0
            });
            let owner = std::mem::take(&mut self.owner);
            let outcome = self.builder.add_at(&owner, rtype, ttl, &data, (self.file, self.line));
            self.owner = owner;
            outcome.map_err(LineError::Record)
        });
        self.data = data;
        outcome
    }
}

#[cfg(test)]
mod tests;
