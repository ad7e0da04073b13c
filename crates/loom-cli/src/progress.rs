//! How far a long command is, on stderr.

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::write_stderr;

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar when stderr is a terminal, nothing otherwise
    #[default]
    Auto,
    /// A line now and then, for logs
    Plain,
    /// Nothing
    Off,
}

/// A bar, lines, or nothing.
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: bool,
    lines: Lines,
}

impl Progress {
    /// Over `total` units of something, or an unknown number of them.
    pub(crate) fn new(mode: ProgressMode, verb: &'static str, total: Option<u64>) -> Self {
        let shown = mode == ProgressMode::Auto && io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target).with_prefix(verb);
        let template = if total.is_some() {
            "{prefix} {bar:20} {percent:>3}%  ETA {eta:<4}  {msg}"
        } else {
            "{prefix} {spinner}  {msg}  {elapsed}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        if shown {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self {
            bar,
            plain: mode == ProgressMode::Plain,
            lines: Lines::default(),
        }
    }

    /// `done` units are done; `message` says it in words.
    pub(crate) fn at(&self, done: u64, message: impl fmt::Display) {
        if self.plain {
            if self.lines.wanted() {
                write_stderr(&format!("{} {message}\n", self.bar.prefix()));
            }
        } else {
            self.bar.set_position(done);
            self.bar.set_message(message.to_string());
        }
    }

    /// How many of something were done a second since the beginning.
    pub(crate) fn rate(&self, done: u64) -> f64 {
        let seconds = self.bar.elapsed().as_secs_f64();
        if seconds > 0.0 {
            // Precise enough up to 2^52, which is for reading only.
            (done as f64) / seconds
        } else {
            0.0
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Which of the lines are printed: the first fifty, then one for each fiftieth more. A million are a few hundred
/// lines, and a short command shows every step.
#[derive(Debug, Default)]
struct Lines {
    heard: AtomicU64,
    next: AtomicU64,
}

impl Lines {
    fn wanted(&self) -> bool {
        let heard = self.heard.fetch_add(1, Ordering::Relaxed);
        let wanted = heard >= self.next.load(Ordering::Relaxed);
        if wanted {
            self.next.store(heard + heard / 50 + 1, Ordering::Relaxed);
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_steps_are_a_few_hundred_lines_and_a_few_steps_are_all_told() {
        let lines = Lines::default();
        assert_eq!((0..40).filter(|_| lines.wanted()).count(), 40);
        let more = (0..1_000_000).filter(|_| lines.wanted()).count();
        assert!((300..700).contains(&more), "{more}");
    }
}
