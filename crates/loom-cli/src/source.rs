//! A text file that people write, and places in it.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// No file that people write by hand is longer than this; anything longer is the wrong file.
const MAX_BYTES: u64 = 4 << 20;

/// The text of a file, for messages that say where in it something is wrong.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads `path`, which is expected to hold `what`.
    pub(crate) fn read(path: &Path, what: &str) -> Result<Self, Failure> {
        let cannot = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::usage(format!("there is no {what} at `{}`", path.display()))
            }
            _ => Failure::usage(format!("cannot read the {what} `{}`", path.display()))
                .with_cause(error),
        };
        // Not by the length that the file claims: a device or a pipe claims none.
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(cannot)?;
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(cannot)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Failure::usage(format!(
                "`{}` is too long: expected a {what} of at most {MAX_BYTES} bytes",
                path.display()
            )));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(path, text)),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let lossy = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Err(Self::new(path, lossy).fault(at..at, "expected UTF-8 text"))
            }
        }
    }

    pub(crate) fn new(path: &Path, text: String) -> Self {
        Self {
            path: path.to_owned(),
            text,
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the text as TOML.
    pub(crate) fn parse_toml<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        toml::from_str(&self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = redact(error.message());
            let expected = match message.as_str() {
                text if text.contains("expected") => "",
                text if text.starts_with("missing field") => ": expected that key here",
                text if text.starts_with("duplicate key") => ": expected each key once",
                _ => ": expected TOML",
            };
            self.fault(span, &format!("{message}{expected}"))
        })
    }

    /// Bad input at a place: `file:line:column: what is wrong`.
    pub(crate) fn fault(&self, span: Range<usize>, message: &str) -> Failure {
        let (line, column) = self.position(span.start);
        Failure::usage(format!(
            "{}:{line}:{column}: {message}",
            self.path.display()
        ))
    }

    /// Line and column of a byte, both from 1; the column counts characters.
    fn position(&self, byte: usize) -> (usize, usize) {
        let before = self.text.get(..byte).unwrap_or(&self.text);
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        (line, before[start..].chars().count() + 1)
    }
}

/// Hides what stands between `://` and `@`: messages quote values, and a value may be a URL with a
/// password.
pub(crate) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        let end = tail
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '`' | '\'' | '/'))
            .unwrap_or(tail.len());
        rest = match tail[..end].rfind('@') {
            Some(sign) => {
                out.push_str("***");
                &tail[sign..]
            }
            None => tail,
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_by_line_and_column() {
        let source = Source::new(Path::new("f.toml"), "a = 1\nbé = 2\n".into());
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(6), (2, 1));
        assert_eq!(source.position(10), (2, 4));
        assert_eq!(source.position(999), (3, 1));
    }

    #[test]
    fn a_password_never_reaches_a_message() {
        assert_eq!(
            redact(r#"invalid type: string "postgres://u:p@ss@host/db", expected u16"#),
            r#"invalid type: string "postgres://***@host/db", expected u16"#
        );
        assert_eq!(redact("http://host/a@b and x"), "http://host/a@b and x");
        assert_eq!(redact("plain"), "plain");
    }
}
