//! `loom plan show`.

use std::io::{self, IsTerminal as _};

use loom_shard_plan::ShardPlan;

use super::args::{Format, Show, When};
use super::emit::{encoded, replace, two_formats, warn};
use super::input::is_stream;
use super::map::{Colours, Map};
use super::summary::Summary;
use super::svg;
use crate::failure::Failure;
use crate::output::{Output, colour_wanted, write_stdout};

pub(crate) fn run(args: &Show, plan: &ShardPlan, output: Output) -> Result<(), Failure> {
    let terminal = io::stdout().is_terminal();
    if let Some(path) = &args.svg {
        let picture = svg::render(plan);
        if is_stream(path) {
            if output.json() || args.format.is_some() {
                return Err(
                    Failure::usage("stdout cannot have the picture and the plan")
                        .with_help("name a file for the picture: --svg OUT"),
                );
            }
            return write_stdout(picture.as_bytes());
        }
        replace(path, picture.as_bytes())?;
    }
    if let Some(format) = args.format {
        if output.json() {
            return Err(two_formats());
        }
        if format == Format::Bin && terminal {
            return Err(Failure::usage("a terminal cannot show the bytes of a plan")
                .with_help("redirect stdout to a file"));
        }
        return write_stdout(&encoded(plan, format));
    }
    let summary = Summary::of(plan);
    if output.json() {
        return output.print(&summary, |_| String::new());
    }
    let map = match args.map {
        When::Always => true,
        When::Auto => terminal,
        When::Never => false,
    };
    if !map {
        write_stdout(&encoded(plan, Format::Text))?;
        warn(plan);
        return Ok(());
    }
    let colours = Colours {
        on: terminal && colour_wanted(),
    };
    write_stdout(page(plan, &summary, colours).as_bytes())?;
    warn(plan);
    Ok(())
}

/// What a terminal shows.
fn page(plan: &ShardPlan, summary: &Summary, colours: Colours) -> String {
    let map = Map::of(plan);
    format!(
        "{}\nfingerprint {}\n\n{}\n{}",
        summary.headline(),
        summary.fingerprint,
        map.render(colours),
        summary.table(|index| map.label(index, colours))
    )
}

#[cfg(test)]
mod tests {
    use loom_shard_plan::RebalanceOptions;

    use super::*;

    #[test]
    fn a_terminal_shows_the_map_between_the_headline_and_the_shards() {
        let plan = ShardPlan::with_buckets(3, 256).unwrap();
        let plan = plan.rebalanced(4, RebalanceOptions::default()).unwrap();
        let summary = Summary::of(&plan);
        let plain = page(&plan, &summary, Colours { on: false });
        insta::assert_snapshot!("page", plain);
        let coloured = page(&plan, &summary, Colours { on: true });
        insta::assert_snapshot!("page_in_colour", coloured.replace('\u{1b}', "␛"));
    }
}
