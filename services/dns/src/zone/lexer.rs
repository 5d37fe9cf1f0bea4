//! Master files cut into entries of tokens (RFC 1035 section 5.1): lines joined by parentheses, comments, quotes.

/// A token, as written: escapes are left to whoever knows what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) quoted: bool,
    /// It follows the one before without white space.
    pub(super) joined: bool,
}

/// Where an entry begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct EntryStart {
    /// Counted from 1.
    pub(super) line: u32,
    /// It begins with white space: its owner is the last one's.
    pub(super) indented: bool,
}

/// Why an entry could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LexicalError {
    pub(super) line: u32,
    pub(super) what: &'static str,
}

/// A walk over a file.
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        // A byte-order mark is no part of the first owner.
        let at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        Lexer { text, at, line: 1 }
    }

    /// Bytes read.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next entry that has tokens. After an error the walk goes on with the next line.
    pub(super) fn next_entry(&mut self, tokens: &mut Vec<Token<'a>>) -> Result<Option<EntryStart>, LexicalError> {
        tokens.clear();
        let mut start = EntryStart { line: self.line, indented: false };
        let mut depth = 0u32;
        let mut fresh = true;
        while let Some(byte) = self.peek() {
            if std::mem::take(&mut fresh) {
                start = EntryStart { line: self.line, indented: matches!(byte, b' ' | b'\t') };
            }
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    if depth == 0 {
                        if !tokens.is_empty() {
                            return Ok(Some(start));
                        }
                        fresh = true;
                    }
                }
                b';' => self.skip_line(),
                b'(' => {
                    self.at += 1;
                    depth += 1;
                }
                b')' => {
                    self.at += 1;
                    let Some(less) = depth.checked_sub(1) else {
                        return Err(self.give_up("a closing parenthesis without an opening one: take it out"));
                    };
                    depth = less;
                }
                b'"' => tokens.push(self.quoted()?),
                _ => tokens.push(self.plain()),
            }
        }
        if depth > 0 {
            let line = start.line;
            return Err(LexicalError { line, what: "a parenthesis opened here is never closed: close it" });
        }
        Ok((!tokens.is_empty()).then_some(start))
    }

    fn skip_line(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    }

    fn give_up(&mut self, what: &'static str) -> LexicalError {
        let line = self.line;
        self.skip_line();
        LexicalError { line, what }
    }

    fn plain(&mut self) -> Token<'a> {
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"' => break,
                b'\\' => {
                    self.at += 1;
                    if self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => self.at += 1,
            }
        }
        self.token(start, self.at, false)
    }

    fn quoted(&mut self) -> Result<Token<'a>, LexicalError> {
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(self.token(start, self.at - 1, true));
                }
                b'\n' => break,
                b'\\' => {
                    self.at += 1;
                    if self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => self.at += 1,
            }
        }
        Err(self.give_up("a quote opened on this line is not closed on it: close it"))
    }

    fn token(&self, start: usize, end: usize, quoted: bool) -> Token<'a> {
        // An escape may end inside of a character of several bytes: then the token goes on to its end.
        let mut end = end;
        while !self.text.is_char_boundary(end) && end < self.text.len() {
            end += 1;
        }
        let before = start.checked_sub(if quoted { 2 } else { 1 }).and_then(|at| self.text.as_bytes().get(at));
        let joined = before.is_some_and(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')'));
        Token { text: self.text.get(start..end).unwrap_or_default(), quoted, joined }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(u32, bool, Vec<String>)> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        let mut found = Vec::new();
        while let Some(start) = lexer.next_entry(&mut tokens).unwrap() {
            found.push((start.line, start.indented, tokens.iter().map(|token| token.text.to_owned()).collect()));
        }
        found
    }

    #[test]
    fn lines_comments_parentheses_quotes() {
        let text = "; only a comment\n\na A 1 ; x\n  B ( 2\n ; y\n 3 ) 4\nc TXT \"a; (b\" c\\;d\\\"e\r\nlast";
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            entries(text),
            [
                (3, false, strings(&["a", "A", "1"])),
                (4, true, strings(&["B", "2", "3", "4"])),
                (7, false, strings(&["c", "TXT", "a; (b", "c\\;d\\\"e"])),
                (8, false, strings(&["last"])),
            ]
        );
    }

    #[test]
    fn errors_name_the_line_and_the_walk_goes_on() {
        let mut lexer = Lexer::new("a \"x\nb )\nc 1\n( d\n");
        let mut tokens = Vec::new();
        assert_eq!(lexer.next_entry(&mut tokens).unwrap_err().line, 1);
        assert_eq!(lexer.next_entry(&mut tokens).unwrap_err().line, 2);
        assert_eq!(lexer.next_entry(&mut tokens).unwrap().map(|start| start.line), Some(3));
        assert_eq!(lexer.next_entry(&mut tokens).unwrap_err().line, 4);
        assert_eq!(lexer.next_entry(&mut tokens), Ok(None));
    }
}
