//! [`Words`]: the words of a line.

/// Words that a line may have, but for those that take any number of keys.
pub const WORDS_MAX: usize = 23;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    words: [&'a [u8]; WORDS_MAX],
    count: usize,
}

impl<'a> Words<'a> {
    /// Of a line without its end. What is behind the last that it may have is not looked at.
    #[inline]
    pub fn of(line: &'a [u8]) -> Words<'a> {
        let mut words = Words { words: [&[]; WORDS_MAX], count: 0 };
        for word in split(line).take(WORDS_MAX) {
            words.words[words.count] = word;
            words.count += 1;
        }
        words
    }

    /// How many there are, the command's among them.
    pub fn count(&self) -> usize {
        self.count
    }

    /// One of them; none: empty.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.words.get(index).copied().unwrap_or_default()
    }

    /// From one on.
    pub fn from(&self, index: usize) -> &[&'a [u8]] {
        self.words.get(index..self.count).unwrap_or_default()
    }

    /// Whether the last says that no answer is wanted.
    pub fn says_noreply(&self) -> bool {
        self.count > 1 && self.get(self.count - 1) == b"noreply"
    }
}

/// The words of a line. Only blanks divide them.
pub fn split(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}
