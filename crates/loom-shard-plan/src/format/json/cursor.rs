//! The tokens of a JSON document, and what is said when another one was expected.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::DecodeProblem;
use crate::format::{InvalidPlan, eight};

/// A document, and how far it has been read.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Where the key starts that was read last.
    key: usize,
}

/// What is wrong, where, and in which field.
#[derive(Debug)]
pub(super) struct Fault {
    /// Bytes before it.
    pub(super) at: usize,
    pub(super) problem: DecodeProblem,
    /// From the innermost part to the outermost.
    fields: Vec<Field>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    Key(&'static str),
    Item(usize),
}

pub(super) type Read<T> = Result<T, Box<Fault>>;

impl Fault {
    #[cold]
    pub(super) fn new(at: usize, problem: DecodeProblem) -> Box<Self> {
        Box::new(Self {
            at,
            problem,
            fields: Vec::new(),
        })
    }

    #[cold]
    pub(super) fn invalid(at: usize, problem: InvalidPlan) -> Box<Self> {
        Self::new(at, problem.into())
    }

    /// The same, as part of something.
    #[cold]
    pub(super) fn within(mut self: Box<Self>, field: Field) -> Box<Self> {
        self.fields.push(field);
        self
    }

    /// For instance `placements[3].first`; empty for the document itself.
    pub(super) fn path(&self) -> String {
        let mut path = String::new();
        for field in self.fields.iter().rev() {
            // Writing to a String cannot fail.
            let _ = match field {
                Field::Key(key) if path.is_empty() => write!(path, "{key}"),
                Field::Key(key) => write!(path, ".{key}"),
                Field::Item(item) => write!(path, "[{item}]"),
            };
        }
        path
    }
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            key: 0,
        }
    }

    /// Where the next token starts.
    pub(super) fn here(&mut self) -> usize {
        self.peek();
        self.at
    }

    pub(super) const fn key(&self) -> usize {
        self.key
    }

    pub(super) const fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// The first byte of the next token.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other,
            }
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes a sign if it is next.
    #[inline]
    fn eat(&mut self, sign: u8) -> bool {
        let is_next = self.peek() == Some(sign);
        self.at += usize::from(is_next);
        is_next
    }

    /// Calls `member` for every key of an object, in order, when its value is next. Gives the place
    /// of the object's end.
    #[inline]
    pub(super) fn object(
        &mut self,
        what: &str,
        mut member: impl FnMut(&mut Self, &str) -> Read<()>,
    ) -> Read<usize> {
        if !self.eat(b'{') {
            return Err(self.expected(what));
        }
        if self.eat(b'}') {
            return Ok(self.at - 1);
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in double quotes"));
            }
            self.key = self.at;
            let key = self.string()?;
            if !self.eat(b':') {
                return Err(self.expected("`:`"));
            }
            member(self, &key)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(self.at - 1);
                }
                _ => return Err(self.expected("`,` or `}`")),
            }
        }
    }

    /// Calls `item` for every item of an array, when it is next. Gives the place of the array's end.
    #[inline]
    pub(super) fn array(
        &mut self,
        what: &str,
        mut item: impl FnMut(&mut Self) -> Read<()>,
    ) -> Read<usize> {
        if !self.eat(b'[') {
            return Err(self.expected(what));
        }
        if self.eat(b']') {
            return Ok(self.at - 1);
        }
        for index in 0.. {
            item(self).map_err(|fault| fault.within(Field::Item(index)))?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.expected("`,` or `]`")),
            }
        }
        self.at += 1;
        Ok(self.at - 1)
    }

    /// A whole number up to `max`, in decimal digits and in nothing else.
    #[inline]
    pub(super) fn number(&mut self, what: &str, max: u64) -> Read<u64> {
        let first = self.peek();
        let start = self.at;
        let (number, digits) = eight::decimal(self.bytes());
        self.at += digits;
        let is_padded = digits > 1 && first == Some(b'0');
        let is_fraction = matches!(self.byte(), Some(b'.' | b'e' | b'E'));
        let is_whole = digits > 0 && !is_padded && !is_fraction;
        match number {
            Some(number) if number <= max && is_whole => Ok(number),
            _ => {
                self.at = start;
                Err(self.expected(what))
            }
        }
    }

    /// The numbers of an object that is written exactly as we write it: each behind its own text, then
    /// `end`. Otherwise nothing is read.
    #[inline]
    pub(super) fn exactly<const N: usize>(
        &mut self,
        texts: [&str; N],
        end: &str,
    ) -> Option<[u32; N]> {
        let mut at = self.at;
        let mut numbers = [0; N];
        for (number, text) in numbers.iter_mut().zip(texts) {
            let bytes = self.text.as_bytes().get(at..)?;
            let bytes = bytes.strip_prefix(text.as_bytes())?;
            let (value, digits) = eight::decimal(bytes);
            if digits == 0 || (digits > 1 && bytes.first() == Some(&b'0')) {
                return None;
            }
            *number = u32::try_from(value?).ok()?;
            at += text.len() + digits;
        }
        let rest = self.text.as_bytes().get(at..)?;
        rest.starts_with(end.as_bytes()).then(|| {
            self.at = at + end.len();
            numbers
        })
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self) -> Read<bool> {
        self.peek();
        for (word, value) in [("true", true), ("false", false)] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.expected("`true` or `false`"))
    }

    /// A text.
    pub(super) fn text(&mut self, what: &str) -> Read<Cow<'a, str>> {
        match self.peek() {
            Some(b'"') => self.string(),
            _ => Err(self.expected(what)),
        }
    }

    /// A text that starts here.
    #[inline]
    fn string(&mut self) -> Read<Cow<'a, str>> {
        let start = self.at;
        let inside = self.text.as_bytes().get(start + 1..).unwrap_or_default();
        let end = start + 1 + eight::plain(inside);
        if self.text.as_bytes().get(end) == Some(&b'"') {
            self.at = end + 1;
            let plain = self.text.get(start + 1..end).unwrap_or_default();
            return Ok(Cow::Borrowed(plain));
        }
        self.escaped(start)
    }

    /// A text with escapes, which keys and names can have and no writer gives them.
    #[cold]
    fn escaped(&mut self, start: usize) -> Read<Cow<'a, str>> {
        let literal = self.literal(start);
        match serde_json::from_str(literal) {
            Ok(text) => {
                self.at = start + literal.len();
                Ok(Cow::Owned(text))
            }
            Err(_) => {
                self.at = start;
                Err(self.expected("a text of one line as JSON writes it"))
            }
        }
    }

    /// A text from its opening to its closing quotes, or to the end of the document.
    fn literal(&self, start: usize) -> &'a str {
        let rest = self.text.get(start..).unwrap_or_default();
        let mut is_escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            ends
        });
        rest.get(..end.map_or(rest.len(), |end| end + 2))
            .unwrap_or_default()
    }

    /// Goes behind a value without a look at it. False if the document ends before.
    pub(super) fn skip(&mut self) -> bool {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                None => return false,
                Some(b'"') => {
                    self.at += self.literal(self.at).len();
                }
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                }
                Some(b'}' | b']' | b',') if depth == 0 => return true,
                Some(b'}' | b']') => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b':') => self.at += 1,
                // No token: the reader that comes here later says so.
                Some(..b' ') => return false,
                Some(_) => {
                    while self.byte().is_some_and(|byte| {
                        byte > b' '
                            && !matches!(byte, b'"' | b',' | b':' | b'{' | b'}' | b'[' | b']')
                    }) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return true;
            }
        }
    }

    /// Nothing but white space is left.
    pub(super) fn end(&mut self) -> Read<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end, since the plan is complete")),
        }
    }

    #[inline]
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Says what is next instead.
    #[cold]
    pub(super) fn expected(&mut self, what: &str) -> Box<Fault> {
        self.peek();
        let found = self.found();
        let message = format!("expected {what}, found {found}");
        Fault::new(self.at, DecodeProblem::Syntax(message))
    }

    fn found(&self) -> String {
        let short = |text: &str| {
            let start: String = text.chars().take(40).collect();
            let more = if start.len() < text.len() { "…" } else { "" };
            format!("`{}{more}`", start.escape_debug())
        };
        let rest = self.rest();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '+' | '-' | '.' | '_');
        match rest.chars().next() {
            None => "the end of the document".to_owned(),
            Some('{') => "an object".to_owned(),
            Some('[') => "an array".to_owned(),
            Some('}') => "the end of the object".to_owned(),
            Some(']') => "the end of the array".to_owned(),
            Some('"') => {
                let literal = self.literal(self.at);
                let inside = literal.get(1..).unwrap_or_default();
                match inside.strip_suffix('"') {
                    Some(inside) => format!("the text {}", short(inside)),
                    None => format!("a text that does not end, {}", short(inside)),
                }
            }
            Some(first) if is_word(first) => {
                short(rest.split(|c| !is_word(c)).next().unwrap_or_default())
            }
            Some(other) => format!("`{}`", other.escape_debug()),
        }
    }
}

/// Line and column of a byte, both from 1, the column in bytes.
pub(super) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    let line = before.split(|byte| *byte == b'\n').count();
    let column = before
        .iter()
        .rev()
        .take_while(|byte| **byte != b'\n')
        .count()
        + 1;
    (line, column)
}
