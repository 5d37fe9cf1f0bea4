//! Lua's patterns, as Lua 5.1 matches them; but the steps and the depth of a match are bounded, and so are the time and the stack that a
//! script's pattern can take.

/// Captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// Matches in matches.
const DEPTH_MAX: usize = 200;
/// Steps of one search. A script pays for each.
const STEPS_MAX: u64 = 100_000_000;

/// What a capture is, from where it begins.
#[derive(Clone, Copy, Debug)]
enum Length {
    Open,
    Position,
    Of(usize),
}

/// What was captured.
#[derive(Clone, Copy, Debug)]
pub enum Captured<'a> {
    /// A part of the text.
    Text(&'a [u8]),
    /// A place in it, from one on.
    Place(usize),
}

/// A search in a text.
#[derive(Debug)]
pub struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, Length)>,
    depth: usize,
    /// Steps taken so far.
    pub steps: u64,
    steps_max: u64,
}

type Matched = Result<Option<usize>, &'static str>;

impl<'a> Matcher<'a> {
    /// Of a pattern without its anchor. `steps`: what is left of those that may be taken.
    pub fn new(text: &'a [u8], pattern: &'a [u8], steps: u64) -> Matcher<'a> {
        Matcher { text, pattern, captures: Vec::new(), depth: 0, steps: 0, steps_max: steps.min(STEPS_MAX) }
    }

    /// Where a match that begins here ends.
    ///
    /// # Errors
    /// The pattern is none; or the match takes too long.
    pub fn at(&mut self, start: usize) -> Matched {
        self.captures.clear();
        self.depth = 0;
        self.matched(start, 0)
    }

    /// The first match that begins at `start` or behind it: its beginning and end.
    ///
    /// # Errors
    /// As [`Matcher::at`].
    pub fn find(&mut self, start: usize, is_anchored: bool) -> Result<Option<(usize, usize)>, &'static str> {
        for begin in start..=self.text.len() {
            if let Some(end) = self.at(begin)? {
                return Ok(Some((begin, end)));
            }
            if is_anchored {
                break;
            }
        }
        Ok(None)
    }

    /// How many captures a match has; a pattern without any captures all of it.
    pub fn count(&self) -> usize {
        self.captures.len()
    }

    /// A capture of the last match, which lies at `whole`.
    ///
    /// # Errors
    /// There is none of this index, or it was not closed.
    pub fn capture(&self, index: usize, whole: (usize, usize)) -> Result<Captured<'a>, &'static str> {
        let part = |start: usize, end: usize| Captured::Text(self.text.get(start..end).unwrap_or_default());
        match self.captures.get(index) {
            None if index == 0 => Ok(part(whole.0, whole.1)),
            None => Err("invalid capture index"),
            Some((start, Length::Of(length))) => Ok(part(*start, start + length)),
            Some((start, Length::Position)) => Ok(Captured::Place(start + 1)),
            Some((_, Length::Open)) => Err("unfinished capture"),
        }
    }

    /// The text of a match.
    pub fn whole(&self, (begin, end): (usize, usize)) -> &'a [u8] {
        self.text.get(begin..end).unwrap_or_default()
    }

    fn step(&mut self) -> Result<(), &'static str> {
        self.steps += 1;
        if self.steps > self.steps_max { Err("pattern takes too many steps") } else { Ok(()) }
    }

    fn sign(&self, place: usize) -> Option<u8> {
        self.pattern.get(place).copied()
    }

    /// Where the class that begins at a place of the pattern ends.
    fn class_end(&self, place: usize) -> Result<usize, &'static str> {
        match self.sign(place) {
            Some(b'%') => match self.sign(place + 1) {
                Some(_) => Ok(place + 2),
                None => Err("malformed pattern (ends with '%')"),
            },
            Some(b'[') => {
                let mut at = place + 1 + usize::from(self.sign(place + 1) == Some(b'^'));
                // The first sign of a set may be a bracket.
                loop {
                    let sign = self.sign(at).ok_or("malformed pattern (missing ']')")?;
                    at += 1;
                    if sign == b'%' {
                        self.sign(at).ok_or("malformed pattern (missing ']')")?;
                        at += 1;
                    }
                    if self.sign(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(place + 1),
        }
    }

    /// Whether a set, from its bracket to the one before `end`, has this byte.
    fn set(&self, byte: u8, place: usize, end: usize) -> bool {
        let last = end - 1;
        let is_not = self.sign(place + 1) == Some(b'^');
        let mut at = place + 1 + usize::from(is_not);
        while at < last {
            let sign = self.sign(at).unwrap_or_default();
            if sign == b'%' {
                at += 1;
                if class(byte, self.sign(at).unwrap_or_default()) {
                    return !is_not;
                }
            } else if self.sign(at + 1) == Some(b'-') && at + 2 < last {
                at += 2;
                if (sign..=self.sign(at).unwrap_or_default()).contains(&byte) {
                    return !is_not;
                }
            } else if sign == byte {
                return !is_not;
            }
            at += 1;
        }
        is_not
    }

    /// Whether the class at a place of the pattern takes the byte at a place of the text.
    fn single(&mut self, at: usize, place: usize, end: usize) -> Result<bool, &'static str> {
        self.step()?;
        let Some(byte) = self.text.get(at).copied() else { return Ok(false) };
        Ok(match self.sign(place) {
            Some(b'.') => true,
            Some(b'%') => class(byte, self.sign(place + 1).unwrap_or_default()),
            Some(b'[') => self.set(byte, place, end),
            sign => sign == Some(byte),
        })
    }

    fn matched(&mut self, at: usize, place: usize) -> Matched {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("pattern too complex");
        }
        let found = self.matched_here(at, place);
        self.depth -= 1;
        found
    }

    fn matched_here(&mut self, mut at: usize, mut place: usize) -> Matched {
        loop {
            self.step()?;
            match (self.sign(place), self.sign(place + 1)) {
                (None, _) => return Ok(Some(at)),
                (Some(b'('), Some(b')')) => return self.opened(at, place + 2, Length::Position),
                (Some(b'('), _) => return self.opened(at, place + 1, Length::Open),
                (Some(b')'), _) => return self.closed(at, place + 1),
                (Some(b'$'), None) => return Ok((at == self.text.len()).then_some(at)),
                (Some(b'%'), Some(b'b')) => {
                    let Some(next) = self.balanced(at, place + 2)? else { return Ok(None) };
                    (at, place) = (next, place + 4);
                }
                (Some(b'%'), Some(b'f')) => {
                    place += 2;
                    if self.sign(place) != Some(b'[') {
                        return Err("missing '[' after '%f' in pattern");
                    }
                    let end = self.class_end(place)?;
                    let before = at.checked_sub(1).and_then(|before| self.text.get(before)).copied().unwrap_or(0);
                    let here = self.text.get(at).copied().unwrap_or(0);
                    if self.set(before, place, end) || !self.set(here, place, end) {
                        return Ok(None);
                    }
                    place = end;
                }
                (Some(b'%'), Some(digit)) if digit.is_ascii_digit() => {
                    let Some(next) = self.repeated(at, digit)? else { return Ok(None) };
                    (at, place) = (next, place + 2);
                }
                _ => {
                    let end = self.class_end(place)?;
                    match self.sign(end) {
                        Some(b'?') => {
                            if self.single(at, place, end)?
                                && let Some(found) = self.matched(at + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            place = end + 1;
                        }
                        Some(b'*') => return self.most(at, place, end),
                        Some(b'+') => {
                            return if self.single(at, place, end)? { self.most(at + 1, place, end) } else { Ok(None) };
                        }
                        Some(b'-') => return self.least(at, place, end),
                        _ => {
                            if !self.single(at, place, end)? {
                                return Ok(None);
                            }
                            (at, place) = (at + 1, end);
                        }
                    }
                }
            }
        }
    }

    fn most(&mut self, at: usize, place: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.single(at + count, place, end)? {
            count += 1;
        }
        loop {
            if let Some(found) = self.matched(at + count, end + 1)? {
                return Ok(Some(found));
            }
            let Some(fewer) = count.checked_sub(1) else { return Ok(None) };
            count = fewer;
        }
    }

    fn least(&mut self, mut at: usize, place: usize, end: usize) -> Matched {
        loop {
            if let Some(found) = self.matched(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(at, place, end)? {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn opened(&mut self, at: usize, place: usize, length: Length) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err("too many captures");
        }
        let count = self.captures.len();
        self.captures.push((at, length));
        let found = self.matched(at, place)?;
        if found.is_none() {
            self.captures.truncate(count);
        }
        Ok(found)
    }

    fn closed(&mut self, at: usize, place: usize) -> Matched {
        let open = self.captures.iter().rposition(|(_, length)| matches!(length, Length::Open));
        let index = open.ok_or("invalid pattern capture")?;
        if let Some((start, length)) = self.captures.get_mut(index) {
            *length = Length::Of(at - *start);
        }
        let found = self.matched(at, place)?;
        if found.is_none()
            && let Some((_, length)) = self.captures.get_mut(index)
        {
            *length = Length::Open;
        }
        Ok(found)
    }

    fn balanced(&mut self, at: usize, place: usize) -> Matched {
        let (Some(opens), Some(closes)) = (self.sign(place), self.sign(place + 1)) else {
            return Err("unbalanced pattern");
        };
        if self.text.get(at) != Some(&opens) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (index, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.step()?;
            if *byte == closes {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if *byte == opens {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// What an earlier capture has, once more.
    fn repeated(&mut self, at: usize, digit: u8) -> Matched {
        let index = usize::from(digit).checked_sub(usize::from(b'1')).ok_or("invalid capture index")?;
        let Some((start, Length::Of(length))) = self.captures.get(index).copied() else {
            return Err("invalid capture index");
        };
        self.steps += length as u64 / 16;
        let captured = self.text.get(start..start + length).unwrap_or_default();
        let is_same = self.text.get(at..).is_some_and(|rest| rest.starts_with(captured));
        Ok(is_same.then_some(at + length))
    }
}

/// Whether a class such as `%a` takes a byte.
fn class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}
