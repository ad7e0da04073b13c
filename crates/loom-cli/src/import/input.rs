//! Where the lines come from: a file or stdin, plain or gzip.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::failure::Failure;

/// The longest line that is read: an event at the limit of a payload fits even if each of its bytes is
/// written as an escape of six.
const MAX_LINE_BYTES: usize = 8 << 20;

/// An open source of lines.
pub(crate) struct Input {
    name: String,
    reader: Box<dyn BufRead + Send>,
    bytes_total: Option<u64>,
    bytes_read: Arc<AtomicU64>,
    line: u64,
}

impl Input {
    /// Opens a file, or stdin for `-`. Gzip is recognised by its first two bytes (RFC 1952).
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Self::new("<stdin>".to_owned(), None, io::stdin());
        }
        let cannot = |error: io::Error| {
            let message = match error.kind() {
                ErrorKind::NotFound => format!("there is no file `{}`", path.display()),
                _ => format!("cannot read `{}`", path.display()),
            };
            Failure::usage(message).with_cause(error)
        };
        let file = File::open(path).map_err(cannot)?;
        let meta = file.metadata().map_err(cannot)?;
        if meta.is_dir() {
            return Err(Failure::usage(format!(
                "`{}` is a folder: expected a file of JSON lines",
                path.display()
            )));
        }
        let total = meta.is_file().then_some(meta.len());
        Self::new(path.display().to_string(), total, file)
    }

    fn new(
        name: String,
        bytes_total: Option<u64>,
        raw: impl Read + Send + 'static,
    ) -> Result<Self, Failure> {
        let bytes_read = Arc::new(AtomicU64::new(0));
        let counted = Counted {
            inner: raw,
            bytes: Arc::clone(&bytes_read),
        };
        let mut buffered = BufReader::with_capacity(1 << 16, counted);
        let start = buffered
            .fill_buf()
            .map_err(|error| Failure::failed(format!("cannot read {name}")).with_cause(error))?;
        let reader: Box<dyn BufRead + Send> = if start.starts_with(&[0x1f, 0x8b]) {
            Box::new(BufReader::with_capacity(
                1 << 16,
                MultiGzDecoder::new(buffered),
            ))
        } else {
            Box::new(buffered)
        };
        Ok(Self {
            name,
            reader,
            bytes_total,
            bytes_read,
            line: 0,
        })
    }

    #[cfg(test)]
    pub(super) fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new("f.jsonl".to_owned(), None, io::Cursor::new(bytes.into())).unwrap()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The length of the file as it lies on the disk, where it is known.
    pub(crate) fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// How much of it was read so far.
    pub(crate) fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_read)
    }

    /// The number of the line that was read last, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Bad input at the current line: `file:line:` and what is wrong.
    pub(super) fn fault(&self, message: impl std::fmt::Display) -> Failure {
        Failure::usage(format!("{}:{}:{message}", self.name, self.line))
    }

    /// Reads the next line that is not blank into `buffer`, without its end; `false` at the end of the input.
    pub(super) fn next_line(&mut self, buffer: &mut Vec<u8>) -> Result<bool, Failure> {
        loop {
            buffer.clear();
            self.line += 1;
            let most = MAX_LINE_BYTES as u64 + 1;
            let read = (&mut self.reader).take(most).read_until(b'\n', buffer);
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) => return Err(self.broken(error)),
            }
            if buffer.len() > MAX_LINE_BYTES {
                return Err(self.fault(format_args!(
                    " the line is longer than {MAX_LINE_BYTES} bytes: expected one event a line"
                )));
            }
            let text = buffer.trim_ascii_end().len();
            buffer.truncate(text);
            if !buffer.is_empty() {
                return Ok(true);
            }
        }
    }

    fn broken(&self, error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => self
                .fault(" the gzip data is cut off or damaged: expected a whole gzip file")
                .with_cause(error),
            _ => Failure::failed(format!(
                "cannot read {} after line {}",
                self.name, self.line
            ))
            .with_cause(error),
        }
    }
}

/// Counts what is read.
struct Counted<R> {
    inner: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
