//! The words of the text format, line by line, without comments and blank lines.

use super::{DecodeError, DecodeProblem, Location, PlanFormat, eight};
use crate::ShardId;

/// A text, and how far it has been read.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// The line being read: its number, and where it starts.
    line: usize,
    start: usize,
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
            line: 0,
            start: 0,
            token: 0,
            at: 0,
            unread: false,
            ended: false,
        }
    }

    /// Goes to the next line that says something; false at the end.
    #[inline]
    pub(super) fn next_line(&mut self) -> Result<bool, DecodeError> {
        if self.unread {
            self.unread = false;
            return Ok(true);
        }
        loop {
            if self.line > 0 {
                self.skip_line();
            }
            if self.at >= self.text.len() {
                // Errors point behind the last line.
                self.line += usize::from(!self.ended);
                self.ended = true;
                (self.start, self.token) = (self.at, self.at);
                return Ok(false);
            }
            self.line += 1;
            (self.start, self.token) = (self.at, self.at);
            self.skip_spaces();
            if self.peek().is_some() {
                self.refuse_conflict()?;
                return Ok(true);
            }
        }
    }

    /// Goes behind what is left of the line.
    #[inline]
    fn skip_line(&mut self) {
        let rest = self.bytes();
        let left = match rest.first() {
            Some(b'\n') => 0,
            _ => rest
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap_or(rest.len()),
        };
        self.at = (self.at + left + 1).min(self.text.len());
    }

    /// Reads the present line once more.
    pub(super) const fn unread_line(&mut self) {
        self.unread = true;
        self.restart_line();
    }

    /// Goes back to the start of the present line.
    pub(super) const fn restart_line(&mut self) {
        self.at = self.start;
    }

    /// First and last bucket, source and destination of the line at hand, if it is a run as we write
    /// it. Otherwise nothing is read. Source and destination are the same if it is settled.
    #[inline]
    pub(super) fn run(&mut self) -> Option<(u32, u32, ShardId, ShardId)> {
        let mut rest = self.bytes();
        let mut number = |before: &str, max: u32| -> Option<u32> {
            let digits = rest.strip_prefix(before.as_bytes())?;
            let (number, len) = eight::decimal(digits);
            let number = u32::try_from(number?).ok()?;
            if len == 0 || number > max {
                return None;
            }
            rest = digits.get(len..)?;
            Some(number)
        };
        let shard = |id| u16::try_from(id).ok().map(ShardId);
        let first = number("", u32::MAX)?;
        let last = number("-", u32::MAX).unwrap_or(first);
        let to = number(": ", u32::from(u16::MAX))?;
        let (from, to) = match number(" -> ", u32::from(u16::MAX)) {
            Some(next) if next == to => return None,
            Some(next) => (to, next),
            None => (to, to),
        };
        if rest.first() != Some(&b'\n') {
            return None;
        }
        self.at = self.text.len() - rest.len();
        Some((first, last, shard(from)?, shard(to)?))
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

    #[inline]
    pub(super) fn expect(&mut self, word: &str) -> Result<(), DecodeError> {
        if self.eat(word) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{word}`")))
        }
    }

    /// Takes `word` if it is next. One that ends in a letter must not be part of a longer word,
    /// unless it is a single letter: `v1`.
    #[inline]
    pub(super) fn eat(&mut self, word: &str) -> bool {
        self.skip_spaces();
        let Some(rest) = self.bytes().strip_prefix(word.as_bytes()) else {
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

    /// Goes back to the word that was read last.
    pub(super) const fn unread_word(&mut self) {
        self.at = self.token;
    }

    #[inline]
    pub(super) fn number(&mut self, max: u64) -> Result<u64, DecodeError> {
        self.skip_spaces();
        match eight::decimal(self.bytes()) {
            (_, 0) => Err(self.expected("a number")),
            (Some(number), digits) if number <= max => {
                self.token = self.at;
                self.at += digits;
                Ok(number)
            }
            _ => Err(self.expected(&format!("a number up to {max}"))),
        }
    }

    /// Whether a number is next.
    pub(super) fn at_digit(&self) -> bool {
        self.peek().is_some_and(|byte| byte.is_ascii_digit())
    }

    #[inline]
    pub(super) fn end_of_line(&mut self) -> Result<(), DecodeError> {
        self.skip_spaces();
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(self.expected("the end of the line"))
        }
    }

    #[inline]
    fn skip_spaces(&mut self) {
        while let Some(b' ' | b'\t') = self.bytes().first() {
            self.at += 1;
        }
    }

    /// The byte where the next word is looked for; none at the end of the line and at a comment.
    #[inline]
    fn peek(&self) -> Option<u8> {
        match *self.bytes() {
            [] | [b'\n' | b'#', ..] | [b'\r'] | [b'\r', b'\n', ..] => None,
            [byte, ..] => Some(byte),
        }
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The rest of the line, without its comment.
    fn rest(&self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let line = rest.split(['\n', '#']).next().unwrap_or_default();
        line.trim_ascii_end()
    }

    /// Says what is found where the next word was looked for.
    #[cold]
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
