//! The words of the text format, line by line, without comments and blank lines.

use super::{DecodeError, DecodeProblem, Location, PlanFormat};

/// A text, and how far it has been read.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// Where the next line starts.
    next: usize,
    /// The line being read: its number, its start, and its end without its comment.
    line: usize,
    start: usize,
    end: usize,
    /// Where the word that was read last starts, and where the next one is looked for.
    token: usize,
    at: usize,
    /// Read the same line once more.
    unread: bool,
    ended: bool,
}

impl<'a> Lines<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self {
            text,
            next: 0,
            line: 0,
            start: 0,
            end: 0,
            token: 0,
            at: 0,
            unread: false,
            ended: false,
        }
    }

    /// Goes to the next line that says something; false at the end.
    pub(super) fn next_line(&mut self) -> Result<bool, DecodeError> {
        if self.unread {
            self.unread = false;
            return Ok(true);
        }
        while let Some(rest) = self.text.get(self.next..).filter(|rest| !rest.is_empty()) {
            let length = rest
                .bytes()
                .position(|byte| byte == b'\n')
                .unwrap_or(rest.len());
            let line = rest.get(..length).unwrap_or_default();
            let content = line.split('#').next().unwrap_or_default().trim_ascii_end();
            self.line += 1;
            self.start = self.next;
            self.end = self.start + content.len();
            self.next = self.start + length + 1;
            (self.token, self.at) = (self.start, self.start);
            self.skip_spaces();
            if self.at < self.end {
                self.refuse_conflict()?;
                return Ok(true);
            }
        }
        // Errors point behind the last line.
        self.line += usize::from(!self.ended);
        self.ended = true;
        self.start = self.text.len();
        (self.end, self.token, self.at) = (self.start, self.start, self.start);
        Ok(false)
    }

    /// Reads the present line once more.
    pub(super) const fn unread_line(&mut self) {
        self.unread = true;
        self.at = self.start;
    }

    fn refuse_conflict(&self) -> Result<(), DecodeError> {
        match self.peek() {
            Some(b'<' | b'=' | b'>') => {
                let markers = ["<<<<<<<", "=======", ">>>>>>>"];
                match markers.iter().any(|marker| self.rest().starts_with(marker)) {
                    true => Err(self.expected("a plan without merge conflicts; resolve this one")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The next line, which starts with `word`.
    pub(super) fn keyword(&mut self, word: &str) -> Result<(), DecodeError> {
        self.next_line()?;
        self.expect(word)
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<(), DecodeError> {
        if self.eat(word) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{word}`")))
        }
    }

    /// Takes `word` if it is next. One that ends in a letter must not be part of a longer word,
    /// unless it is a single letter: `v1`.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let Some(rest) = self.rest().as_bytes().strip_prefix(word.as_bytes()) else {
            return false;
        };
        let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        if word.len() > 1 && is_letter(word.as_bytes().last()) && is_letter(rest.first()) {
            return false;
        }
        self.token = self.at;
        self.at += word.len();
        true
    }

    /// Everything up to the next space.
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_spaces();
        let word = self.rest().split([' ', '\t']).next().unwrap_or_default();
        self.token = self.at;
        self.at += word.len();
        word
    }

    pub(super) fn number(&mut self, max: u64) -> Result<u64, DecodeError> {
        self.skip_spaces();
        if !self.at_digit() {
            return Err(self.expected("a number"));
        }
        self.token = self.at;
        let mut number = Some(0_u64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number.and_then(|n| n.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        number.filter(|number| *number <= max).ok_or_else(|| {
            self.at = self.token;
            self.expected(&format!("a number up to {max}"))
        })
    }

    /// Whether a number is next.
    pub(super) fn at_digit(&self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit())
    }

    pub(super) fn end_of_line(&mut self) -> Result<(), DecodeError> {
        self.skip_spaces();
        if self.at == self.end {
            Ok(())
        } else {
            Err(self.expected("the end of the line"))
        }
    }

    fn skip_spaces(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The byte where the next word is looked for.
    fn peek(&self) -> Option<u8> {
        if self.at < self.end {
            self.text.as_bytes().get(self.at).copied()
        } else {
            None
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    /// Says what is found where the next word was looked for.
    pub(super) fn expected(&self, what: &str) -> DecodeError {
        let word = self
            .rest()
            .split([' ', '\t', ':', ','])
            .next()
            .unwrap_or_default();
        let found = match word {
            "" if self.rest().is_empty() && self.start == self.text.len() => "the end".to_owned(),
            "" if self.rest().is_empty() => "the end of the line".to_owned(),
            "" => self
                .rest()
                .chars()
                .take(1)
                .map(|c| format!("`{c}`"))
                .collect(),
            word => format!(
                "`{}`",
                word.chars().take(40).collect::<String>().escape_debug()
            ),
        };
        let message = format!("expected {what}, found {found}");
        self.error_at(self.at, DecodeProblem::Syntax(message))
    }

    /// Where the word that was read last starts.
    pub(super) const fn token(&self) -> usize {
        self.token
    }

    /// A problem with the word of the present line that starts there.
    pub(super) fn error_at(&self, at: usize, problem: DecodeProblem) -> DecodeError {
        DecodeError::new(PlanFormat::Text, self.location(at), problem)
    }

    /// Where the next word is looked for.
    pub(super) fn here(&self) -> Location {
        self.location(self.at)
    }

    /// The place of a word of the present line.
    pub(super) fn location(&self, at: usize) -> Location {
        let before = self.text.get(self.start..at).unwrap_or_default();
        Location::Line {
            line: self.line.max(1),
            column: before.chars().count() + 1,
        }
    }
}
