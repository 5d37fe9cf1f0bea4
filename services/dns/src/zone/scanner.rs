//! Tokens of a record's data as `domain` reads them. Relative names end at our origin.

use super::error::DataError;
use super::lexer::Token;
use crate::name::{self, NAME_BYTES_MAX};
use domain::base::Name;
use domain::base::charstr::{CharStr, CharStrBuilder};
use domain::base::scan::{ConvertSymbols, EntrySymbol, Scanner, ScannerError, StrError, Symbol, Symbols};
use domain::dep::octseq::builder::OctetsBuilder;
use domain::dep::octseq::str::Str;

/// Tokens of a record's data, read one after the other.
pub(super) struct DataScanner<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    origin: &'a [u8],
}

impl<'a> DataScanner<'a> {
    /// Reads `tokens`. Names that do not end with a dot are below `origin`.
    pub(super) fn new(tokens: &'a [Token<'a>], origin: &'a [u8]) -> DataScanner<'a> {
        DataScanner { tokens, at: 0, origin }
    }

    /// Checks that all tokens are read.
    ///
    /// # Errors
    /// There is one more.
    pub(super) fn end(&self) -> Result<(), DataError> {
        match self.tokens.get(self.at) {
            Some(token) => Err(DataError::Superfluous(token.text.to_owned())),
            None => Ok(()),
        }
    }

    /// What is left, all of it.
    pub(super) fn rest(&mut self) -> &'a [Token<'a>] {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        self.at = self.tokens.len();
        rest
    }

    pub(super) fn token(&mut self) -> Result<Token<'a>, StrError> {
        let token = self.tokens.get(self.at).copied().ok_or_else(StrError::end_of_entry)?;
        self.at += 1;
        Ok(token)
    }

    fn octets(&mut self) -> Result<Vec<u8>, StrError> {
        let token = self.token()?;
        let mut bytes = Vec::with_capacity(token.text.len());
        if !token.text.contains('\\') {
            bytes.extend_from_slice(token.text.as_bytes());
            return Ok(bytes);
        }
        for symbol in Symbols::new(token.text.chars()) {
            match symbol {
                // What is not ASCII stands for its bytes, as other servers take it.
                Symbol::Char(character) => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                symbol => bytes.push(symbol.into_octet().map_err(|_| StrError::custom("a character that is no byte"))?),
            }
        }
        Ok(bytes)
    }
}

impl Scanner for DataScanner<'_> {
    type Octets = Vec<u8>;
    type OctetsBuilder = Vec<u8>;
    type Name = Name<Vec<u8>>;
    type Error = StrError;

    fn has_space(&self) -> bool {
        false
    }

    fn continues(&mut self) -> bool {
        self.at < self.tokens.len()
    }

    fn scan_symbols<F>(&mut self, mut op: F) -> Result<(), StrError>
    where
        F: FnMut(Symbol) -> Result<(), StrError>,
    {
        for symbol in Symbols::new(self.token()?.text.chars()) {
            op(symbol)?;
        }
        Ok(())
    }

    fn scan_entry_symbols<F>(&mut self, mut op: F) -> Result<(), StrError>
    where
        F: FnMut(EntrySymbol) -> Result<(), StrError>,
    {
        while self.continues() {
            for symbol in Symbols::new(self.token()?.text.chars()) {
                op(symbol.into())?;
            }
            op(EntrySymbol::EndOfToken)?;
        }
        Ok(())
    }

    fn convert_token<C: ConvertSymbols<Symbol, StrError>>(&mut self, mut convert: C) -> Result<Vec<u8>, StrError> {
        let mut bytes = Vec::new();
        for symbol in Symbols::new(self.token()?.text.chars()) {
            if let Some(data) = convert.process_symbol(symbol)? {
                bytes.extend_from_slice(data);
            }
        }
        if let Some(data) = convert.process_tail()? {
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    }

    fn convert_entry<C: ConvertSymbols<EntrySymbol, StrError>>(&mut self, mut convert: C) -> Result<Vec<u8>, StrError> {
        let mut bytes = Vec::new();
        while self.continues() {
            for symbol in Symbols::new(self.token()?.text.chars()) {
                if let Some(data) = convert.process_symbol(symbol.into())? {
                    bytes.extend_from_slice(data);
                }
            }
            if let Some(data) = convert.process_symbol(EntrySymbol::EndOfToken)? {
                bytes.extend_from_slice(data);
            }
        }
        if let Some(data) = convert.process_tail()? {
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    }

    fn scan_octets(&mut self) -> Result<Vec<u8>, StrError> {
        self.octets()
    }

    fn scan_svcb_octets(&mut self) -> Result<Vec<u8>, StrError> {
        let mut bytes = self.octets()?;
        // `key="value"` is two tokens, and one parameter.
        if self.tokens.get(self.at).is_some_and(|token| token.quoted && token.joined) {
            bytes.extend_from_slice(&self.octets()?);
        }
        Ok(bytes)
    }

    fn scan_ascii_str<F, T>(&mut self, op: F) -> Result<T, StrError>
    where
        F: FnOnce(&str) -> Result<T, StrError>,
    {
        let bytes = self.octets()?;
        match std::str::from_utf8(&bytes) {
            Ok(text) if text.is_ascii() => op(text),
            _ => Err(StrError::custom("a character that is not ASCII")),
        }
    }

    fn scan_name(&mut self) -> Result<Name<Vec<u8>>, StrError> {
        let token = self.token()?;
        let mut wire = Vec::with_capacity(NAME_BYTES_MAX);
        name::parse_into(token.text, Some(self.origin), &mut wire).map_err(|error| match error {
            name::NameError::EmptyLabel => StrError::custom("a name with an empty label"),
            name::NameError::LabelTooLong => StrError::custom("a name with a label of more than 63 bytes"),
            name::NameError::TooLong => StrError::custom("a name of more than 255 bytes"),
            name::NameError::Escape => StrError::custom("a name with a bad escape"),
            name::NameError::NoOrigin => StrError::custom("a relative name without an origin"),
        })?;
        Name::from_octets(wire).map_err(|_| StrError::custom("not a name"))
    }

    fn scan_charstr(&mut self) -> Result<CharStr<Vec<u8>>, StrError> {
        let bytes = self.octets()?;
        if bytes.len() > 255 {
            return Err(StrError::custom("a text of more than 255 bytes: split it into several in quotes"));
        }
        let mut text = CharStrBuilder::<Vec<u8>>::new_vec();
        text.append_slice(&bytes).map_err(|_| StrError::custom("a text of more than 255 bytes"))?;
        Ok(text.finish())
    }

    fn scan_string(&mut self) -> Result<Str<Vec<u8>>, StrError> {
        let bytes = self.octets()?;
        Str::from_utf8(bytes).map_err(|_| StrError::custom("a text that is not UTF-8"))
    }

    fn scan_charstr_entry(&mut self) -> Result<Vec<u8>, StrError> {
        let mut bytes = Vec::new();
        while self.continues() {
            let text = self.scan_charstr()?;
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_slice());
        }
        Ok(bytes)
    }

    fn scan_opt_unknown_marker(&mut self) -> Result<bool, StrError> {
        // Handled before.
        Ok(false)
    }

    fn octets_builder(&mut self) -> Result<Vec<u8>, StrError> {
        Ok(Vec::new())
    }
}
