//! A store that can be reopened, whole and with losses.

use std::io::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use loom_conformance::{Need, Outcome, StoreFactory, Subject, cases, run_case};
use loom_spi::BoxError;

use crate::losses::Loss;
use crate::tape::Tape;

/// Makes stores that are reopened from what was recorded on a tape.
struct Taped(Option<Loss>);

#[async_trait]
impl StoreFactory for Taped {
    async fn create(&self) -> Result<Subject, BoxError> {
        let loss = self.0;
        let store = Arc::new(Tape::new());
        let tape = Arc::clone(&store);
        Ok(Subject::from_arc(store).with_reopen(move |_old| {
            let tape = Arc::clone(&tape);
            async move {
                tape.replay(loss).await?;
                Ok(tape as _)
            }
        }))
    }

    fn promises(&self) -> &[Need] {
        &[
            Need::Reopen,
            Need::Fencing,
            Need::Ledger,
            Need::Branches,
            Need::Relocation,
        ]
    }
}

fn durability() -> impl Iterator<Item = loom_conformance::Case> {
    cases()
        .into_iter()
        .filter(|case| ["durability", "move_durability"].contains(&case.group()))
}

#[test]
fn a_store_that_keeps_everything_passes() {
    let factory: Arc<dyn StoreFactory> = Arc::new(Taped(None));
    for case in durability() {
        let outcome = run_case(&factory, &case).outcome;
        assert_eq!(outcome, Outcome::Passed, "{}", case.path());
    }
}

#[test]
fn every_loss_is_noticed_by_the_case_that_it_names() {
    let mut table = String::new();
    for (loss, name) in Loss::ALL {
        let factory: Arc<dyn StoreFactory> = Arc::new(Taped(Some(loss)));
        let case = durability()
            .find(|case| case.name() == name)
            .expect("a case of this name");
        match run_case(&factory, &case).outcome {
            Outcome::Failed { message } => {
                table += &format!("{:19} {name}\n    {message}\n", format!("{loss:?}"));
            }
            other => panic!("{loss:?}: {name} {other}"),
        }
    }
    std::io::stdout()
        .write_all(table.as_bytes())
        .expect("stdout");
}
