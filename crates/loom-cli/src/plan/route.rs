//! `loom plan route`.

use std::io::{self, BufRead as _, BufReader, BufWriter, ErrorKind, Read as _, Write};

use loom_shard_plan::{ShardId, ShardPlan};
use loom_spi::ExecutionId;
use serde::Serialize;

use super::args::Route;
use super::input::{is_stream, read};
use crate::failure::Failure;
use crate::output::Output;

/// The longest line that is read from stdin: an id, and room to see that it is none.
const MAX_LINE: u64 = 4096;

/// Where one id goes.
#[derive(Debug, Serialize)]
struct Routed<'a> {
    id: &'a str,
    bucket: u32,
    shard: ShardId,
    migrating_from: Option<ShardId>,
}

impl<'a> Routed<'a> {
    fn new(plan: &ShardPlan, id: &'a ExecutionId) -> Self {
        let placement = plan.route_id(id.as_str());
        Self {
            id: id.as_str(),
            bucket: plan.bucket_of_id(id.as_str()),
            shard: placement.destination(),
            migrating_from: placement.source(),
        }
    }
}

pub(crate) fn run(args: &Route, output: Output) -> Result<(), Failure> {
    if args.ids.is_empty() && is_stream(&args.file) {
        return Err(
            Failure::usage("the plan and the ids cannot both be on stdin")
                .with_help("name a file for the plan, or give the ids as arguments"),
        );
    }
    let plan = read(&args.file)?;
    let mut rows = Rows::new(BufWriter::new(io::stdout().lock()), output.json());
    let done = if args.ids.is_empty() {
        from_stdin(&plan, &mut rows)
    } else {
        args.ids
            .iter()
            .try_for_each(|id| rows.row(&Routed::new(&plan, id)))
    };
    match done.and_then(|()| rows.end()) {
        Err(Stopped::Reader) | Ok(()) => Ok(()),
        Err(Stopped::Failure(failure)) => Err(failure),
    }
}

fn from_stdin(plan: &ShardPlan, rows: &mut Rows<impl Write>) -> Result<(), Stopped> {
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let read = input
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| Failure::failed("cannot read ids from stdin").with_cause(error))?;
        if read == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        rows.row(&Routed::new(
            plan,
            &id(text).map_err(|problem| {
                Failure::usage(format!("<stdin>:{number}: {problem}"))
                    .with_help("expected one execution id on each line")
            })?,
        ))?;
    }
    Ok(())
}

fn id(line: &[u8]) -> Result<ExecutionId, String> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not UTF-8 text".to_owned())?;
    ExecutionId::new(text).map_err(|error| error.to_string())
}

/// Why no further row is written.
enum Stopped {
    /// Whoever reads stdin has seen enough.
    Reader,
    Failure(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self::Reader,
            _ => Self::Failure(Failure::failed("cannot write to stdout").with_cause(error)),
        }
    }
}

/// Rows that are written as they come, however many there are: lines, or one JSON array.
struct Rows<W> {
    out: W,
    json: bool,
    first: bool,
}

impl<W: Write> Rows<W> {
    fn new(out: W, json: bool) -> Self {
        Self {
            out,
            json,
            first: true,
        }
    }

    fn row(&mut self, row: &Routed<'_>) -> Result<(), Stopped> {
        let first = std::mem::take(&mut self.first);
        if self.json {
            self.out
                .write_all(if first { b"[\n  " } else { b",\n  " })?;
            serde_json::to_writer(&mut self.out, row).map_err(io::Error::from)?;
            return Ok(());
        }
        if first {
            writeln!(self.out, "bucket  shard   from  id")?;
        }
        let from = row
            .migrating_from
            .map_or_else(|| "-".to_owned(), |shard| shard.to_string());
        writeln!(
            self.out,
            "{:>6}  {:>5}  {from:>5}  {}",
            row.bucket, row.shard, row.id
        )?;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stopped> {
        if self.json {
            self.out
                .write_all(if self.first { b"[]\n" } else { b"\n]\n" })?;
        }
        Ok(self.out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(json: bool, ids: &[&str]) -> String {
        let plan = ShardPlan::new(2).unwrap();
        let mut rows = Rows::new(Vec::new(), json);
        for id in ids {
            let id = ExecutionId::new(id).unwrap();
            assert!(rows.row(&Routed::new(&plan, &id)).is_ok());
        }
        assert!(rows.end().is_ok());
        String::from_utf8(rows.out).unwrap()
    }

    #[test]
    fn any_number_of_rows_is_one_json_document() {
        for ids in [&[][..], &["a"], &["a", "b \" c", "é"]] {
            let document: Vec<serde_json::Value> = serde_json::from_str(&rows(true, ids)).unwrap();
            let routed: Vec<_> = document.iter().map(|row| row["id"].as_str()).collect();
            assert_eq!(routed, ids.iter().copied().map(Some).collect::<Vec<_>>());
        }
        assert_eq!(rows(false, &[]), "");
    }

    #[test]
    fn a_line_that_is_no_id_is_refused() {
        for line in [&b""[..], b"a\tb", b"\xff", &[b'x'; 256]] {
            assert!(id(line).is_err(), "{line:?}");
        }
        assert!(id("é".as_bytes()).is_ok());
    }
}
