//! What goes to stdout: one JSON document, or text for people.

use std::borrow::Cow;
use std::env;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use jiff::Timestamp as Moment;
use loom_spi::Timestamp;
use serde::Serialize;

use crate::failure::Failure;

/// How a command prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
    colour: bool,
}

/// What a text means, for its colour.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warn,
    Quiet,
    Strong,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            colour: io::stdout().is_terminal() && colour_wanted(),
        }
    }

    /// Whether the caller wants one JSON document and nothing else on stdout.
    pub(crate) fn json(self) -> bool {
        self.json
    }

    /// Prints the document where JSON is wanted, the text otherwise.
    pub(crate) fn print(
        self,
        document: &impl Serialize,
        text: impl FnOnce(Self) -> String,
    ) -> Result<(), Failure> {
        let text = if self.json {
            let mut json = serde_json::to_string_pretty(document)
                .map_err(|error| Failure::failed("cannot print the result").with_cause(error))?;
            json.push('\n');
            json
        } else {
            text(self)
        };
        write_stdout(text.as_bytes())
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> Cow<'_, str> {
        paint(self.colour, tone, text)
    }
}

/// Colours text where `colour` says so.
pub(crate) fn paint(colour: bool, tone: Tone, text: &str) -> Cow<'_, str> {
    if !colour {
        return Cow::Borrowed(text);
    }
    let code = match tone {
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Warn => "33",
        Tone::Quiet => "2",
        Tone::Strong => "1",
    };
    Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
}

/// The convention of <https://no-color.org>, and terminals that cannot.
pub(crate) fn colour_wanted() -> bool {
    env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes to stdout. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn write_stdout(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed("cannot write to stdout").with_cause(error))
        }
        _ => Ok(()),
    }
}

/// Writes to stderr, where nothing can be done about a failure.
pub(crate) fn write_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// `12345` as `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 shard`, `12,345 shards`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// As a shell wants it typed: quoted where it has to be.
pub(crate) fn typed(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

/// A duration in its largest unit, rounded up: `3 days`, `20 minutes`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_millis().div_ceil(1000).max(1);
    let (unit, noun) = match seconds {
        172_800.. => (86_400, "day"),
        7200.. => (3600, "hour"),
        120.. => (60, "minute"),
        _ => (1, "second"),
    };
    counted(
        u64::try_from(seconds.div_ceil(unit)).unwrap_or(u64::MAX),
        noun,
    )
}

/// A moment as RFC 3339 in UTC, or its milliseconds where no calendar reaches it.
pub(crate) fn moment(at: Timestamp) -> String {
    Moment::from_millisecond(at.as_millis()).map_or_else(
        |_| format!("{} ms", at.as_millis()),
        |moment| format!("{moment:.3}"),
    )
}

/// Text from a log, made safe for a terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// At most `most` characters of `text`.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let mut short: String = text.chars().take(most).collect();
    if text.chars().nth(most).is_some() {
        short.push('…');
    }
    short
}

/// Columns, aligned; numbers to the right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these headings; a heading that begins with `>` stands over a column of numbers.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self {
            right: headings.iter().map(|name| name.starts_with('>')).collect(),
            rows: vec![
                headings
                    .iter()
                    .map(|name| name.trim_start_matches('>').to_owned())
                    .collect(),
            ],
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    pub(crate) fn render(&self, output: Output) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut out = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&self.right) {
                // Writing to a String cannot fail.
                let _ = if right {
                    write!(line, "{cell:>width$}  ")
                } else {
                    write!(line, "{cell:<width$}  ")
                };
            }
            let line = line.trim_end();
            if index == 0 {
                out.push_str(&output.paint(Tone::Quiet, line));
            } else {
                out.push_str(line);
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_in_threes() {
        let written: Vec<String> = [0, 12, 999, 1000, 262_200, u64::MAX].map(count).into();
        assert_eq!(
            written,
            [
                "0",
                "12",
                "999",
                "1,000",
                "262,200",
                "18,446,744,073,709,551,615"
            ]
        );
        assert_eq!(counted(1, "shard"), "1 shard");
        assert_eq!(counted(0, "shard"), "0 shards");
    }

    #[test]
    fn every_moment_prints() {
        let at = |ms| moment(Timestamp::from_millis(ms));
        assert_eq!(at(1_286_004_039_266), "2010-10-02T07:20:39.266Z");
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(i64::MIN), "-9223372036854775808 ms");
    }

    #[test]
    fn a_log_cannot_steer_the_terminal() {
        assert_eq!(printable("plain é"), "plain é");
        assert_eq!(printable("a\u{1b}[2Jb\u{9b}"), "a\\u{1b}[2Jb\\u{9b}");
    }

    #[test]
    fn columns_line_up() {
        let plain = Output {
            json: false,
            colour: false,
        };
        let mut table = Table::new(&["name", ">n"]);
        table.row(["é".into(), "7".into()]);
        table.row(["longer".into(), "1,000".into()]);
        assert_eq!(
            table.render(plain),
            "name        n\né           7\nlonger  1,000\n"
        );
    }
}
