//! [`MetaFlags`]: what follows the key of a meta command: single letters, some with a value behind them.

use super::replies::BAD_FORMAT;
use super::words::Words;
use crate::engine::state::Engine;
use crate::items::item::KEY_BYTES_MAX;
use crate::number;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// Words of a meta command, at most.
const META_WORDS_MAX: usize = 18;
/// The longest opaque token, with its letter.
const OPAQUE_BYTES_MAX: usize = 32;
const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MetaFlags<'a> {
    /// The flags in their order, for answers come in the same.
    pub words: Vec<&'a [u8]>,
    pub key: Cow<'a, [u8]>,
    /// `b`: the key came in base64.
    pub is_binary: bool,
    /// `q`: the usual answer is not wanted.
    pub is_quiet: bool,
    /// `v`: the value is.
    pub wants_value: bool,
    /// `u`: the item is as little used as before.
    pub is_unused: bool,
    /// `I`.
    pub invalidates: bool,
    /// `M`.
    pub mode: Option<u8>,
    /// `C`.
    pub cas: Option<u64>,
    /// `F`.
    pub flags: u32,
    /// `T`, `N`, `R`: seconds of the cache's clock.
    pub expires_s: Option<u32>,
    pub vivify_s: Option<u32>,
    pub recache_s: Option<u32>,
    /// `J` and `D`.
    pub initial: u64,
    pub delta: Option<u64>,
}

impl<'a> MetaFlags<'a> {
    /// Flags of a command whose first flag is word `start`.
    ///
    /// # Errors
    /// What the client is told.
    pub fn parse(words: &Words<'a>, start: usize, engine: &Engine) -> Result<MetaFlags<'a>, &'static str> {
        if words.get(1).len() > KEY_BYTES_MAX {
            return Err(BAD_FORMAT);
        }
        if words.count() > META_WORDS_MAX {
            return Err("CLIENT_ERROR options flags are too long");
        }
        let mut flags = MetaFlags { key: Cow::Borrowed(words.get(1)), ..MetaFlags::default() };
        let mut seen = 0u128;
        let mut outcome = Ok(());
        for word in words.from(start) {
            let Some((letter, token)) = word.split_first() else { continue };
            let bit = 1u128.checked_shl(u32::from(*letter)).filter(|_| *letter < 127).unwrap_or(u128::MAX);
            if seen & bit != 0 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= bit;
            // Later ones are looked at, too: some of them say how the error is told.
            outcome = outcome.and(flags.take(*letter, token, engine)?);
            flags.words.push(word);
        }
        outcome.map(|()| flags)
    }

    /// Takes one. The outer error ends the command at once.
    fn take(&mut self, letter: u8, token: &[u8], engine: &Engine) -> Result<Result<(), &'static str>, &'static str> {
        let time = || number::signed_64(token).map(|said| engine.clock.expiry(said)).ok_or(BAD_TOKEN);
        let outcome = match letter {
            b'N' => time().map(|second| self.vivify_s = Some(second)),
            b'T' => time().map(|second| self.expires_s = Some(second)),
            b'R' => time().map(|second| self.recache_s = Some(second)),
            b'b' => self.decode(),
            b'O' if token.len() >= OPAQUE_BYTES_MAX => Err("CLIENT_ERROR opaque token too long"),
            b'l' | b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' | b'h' => Ok(()),
            b'v' => {
                self.wants_value = true;
                Ok(())
            }
            b'u' => {
                self.is_unused = true;
                Ok(())
            }
            b'q' => {
                self.is_quiet = true;
                Ok(())
            }
            b'I' => {
                self.invalidates = true;
                Ok(())
            }
            b'F' => number::unsigned_32(token).map(|flags| self.flags = flags).ok_or(BAD_FORMAT),
            b'C' => number::unsigned_64(token).map(|cas| self.cas = Some(cas)).ok_or(BAD_TOKEN),
            b'J' => number::unsigned_64(token)
                .map(|initial| self.initial = initial)
                .ok_or("CLIENT_ERROR invalid numeric initial value"),
            b'D' => number::unsigned_64(token)
                .map(|delta| self.delta = Some(delta))
                .ok_or("CLIENT_ERROR invalid numeric delta value"),
            b'M' => match token {
                [mode] => {
                    self.mode = Some(*mode);
                    Ok(())
                }
                _ => Err("CLIENT_ERROR incorrect length for M token"),
            },
            _ => return Err("CLIENT_ERROR invalid flag"),
        };
        Ok(outcome)
    }

    fn decode(&mut self) -> Result<(), &'static str> {
        let key = STANDARD.decode(&self.key).ok().filter(|key| !key.is_empty());
        self.key = Cow::Owned(key.ok_or("CLIENT_ERROR error decoding key")?);
        self.is_binary = true;
        Ok(())
    }
}
