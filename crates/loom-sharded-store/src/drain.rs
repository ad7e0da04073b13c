//! What migrating buckets still hold on their sources.

use std::fmt;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use loom_shard_plan::ShardId;
use loom_spi::{
    ExecutionId, List, ListCursor, Operation, Records, RouteFilter, StoreError, StoreErrorKind,
};

use crate::ShardedStore;
use crate::core::restarting;
use crate::routing::{Routing, Sides};
use crate::shard::Side;

/// How many executions of a bucket a report counts before it says "or more".
const COUNTED: usize = 256;
/// How many of them it names.
const NAMED: usize = 5;
/// How many buckets are asked about at once.
const AT_ONCE: usize = 8;

impl ShardedStore {
    /// Whether nothing of a bucket is left on its source, and if something is, what and where: one indexed
    /// range query.
    ///
    /// A bucket that is not migrating has no source and is drained.
    ///
    /// # Errors
    /// `InvalidArgument` when there is no such bucket or no plan, `Unavailable` when the source cannot
    /// be reached, and the other refusals of [`EventStore::list`](loom_spi::EventStore::list).
    ///
    /// # Cancel safety
    /// Reads change nothing.
    pub async fn is_bucket_drained(&self, bucket: u32) -> Result<BucketDrain, StoreError> {
        let drain: Result<BucketDrain, StoreError> =
            restarting!(self.core, |routing| drain_of(&routing, bucket).await);
        match drain {
            // No shard was asked, so that the plan by which this is so may have been replaced.
            Ok(drain) if drain.source.is_none() && self.core.follow_newest().await? => {
                restarting!(self.core, |routing| drain_of(&routing, bucket).await)
            }
            drain => drain,
        }
    }

    /// What every migrating bucket still holds on its source: one indexed range query per bucket.
    ///
    /// # Errors
    /// The refusals of [`EventStore::list`](loom_spi::EventStore::list), and `Unavailable` when a source
    /// cannot be reached. Without a plan the report is empty.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    pub async fn drain_report(&self) -> Result<DrainReport, StoreError> {
        let report: Result<DrainReport, StoreError> =
            restarting!(self.core, |routing| report_of(&routing, None).await);
        match report {
            // As above.
            Ok(report) if report.buckets.is_empty() && self.core.follow_newest().await? => {
                restarting!(self.core, |routing| report_of(&routing, None).await)
            }
            report => report,
        }
    }

    /// A page of what a migrating bucket still holds on its source, in list order, and where to go on. None
    /// when the bucket is not migrating.
    ///
    /// # Errors
    /// As [`is_bucket_drained`](Self::is_bucket_drained), and `InvalidArgument` when the limit is 0.
    ///
    /// # Cancel safety
    /// Reads change nothing.
    pub async fn left_to_drain(
        &self,
        bucket: u32,
        cursor: Option<ListCursor>,
        limit: usize,
    ) -> Result<(Vec<ExecutionId>, Option<ListCursor>), StoreError> {
        restarting!(self.core, |routing| match sides_of(&routing, bucket) {
            Err(error) => Err(error),
            Ok((_, None)) => Ok((Vec::new(), None)),
            Ok((filter, Some(sides))) => {
                sides.source.left(filter, cursor.clone(), limit).await
            }
        })
    }
}

/// What one bucket still holds on its source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketDrain {
    /// The bucket.
    pub bucket: u32,
    /// The shard that is being drained; `None` when the bucket is not migrating.
    pub source: Option<ShardId>,
    /// How many executions are left there: exact up to 256, and at least this many if `more` is set.
    pub left: usize,
    /// Whether there are more than `left`.
    pub more: bool,
    /// The first few of them, in list order.
    pub executions: Vec<ExecutionId>,
}

impl BucketDrain {
    /// Whether nothing is left, so that the bucket may settle.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.left == 0
    }
}

impl fmt::Display for BucketDrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(source) = self.source.filter(|_| !self.is_drained()) else {
            return write!(f, "bucket {} is drained", self.bucket);
        };
        let more = if self.more { " or more" } else { "" };
        write!(
            f,
            "bucket {} still has {}{more} execution(s) on shard {source}: ",
            self.bucket, self.left
        )?;
        for (place, id) in self.executions.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}`{id}`")?;
        }
        if self.executions.len() < self.left {
            f.write_str(", …")?;
        }
        Ok(())
    }
}

/// What every migrating bucket still holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainReport {
    /// One entry for every migrating bucket, ascending.
    pub buckets: Vec<BucketDrain>,
}

impl DrainReport {
    /// The buckets that may settle.
    pub fn drained(&self) -> impl Iterator<Item = u32> + '_ {
        self.buckets
            .iter()
            .filter(|bucket| bucket.is_drained())
            .map(|bucket| bucket.bucket)
    }

    /// The buckets that hold something back.
    pub fn undrained(&self) -> impl Iterator<Item = &BucketDrain> + '_ {
        self.buckets.iter().filter(|bucket| !bucket.is_drained())
    }
}

/// What `bucket` holds on its source under one routing.
pub(crate) async fn drain_of(routing: &Routing, bucket: u32) -> Result<BucketDrain, StoreError> {
    let (filter, sides) = sides_of(routing, bucket)?;
    let Some(sides) = sides else {
        return Ok(BucketDrain {
            bucket,
            source: None,
            left: 0,
            more: false,
            executions: Vec::new(),
        });
    };
    let source = sides.source;
    let (mut executions, mut next) = source.left(filter, None, COUNTED).await?;
    while executions.is_empty()
        && let Some(cursor) = next
    {
        // A page may be empty and not the last.
        (executions, next) = source.left(filter, Some(cursor), COUNTED).await?;
    }
    let (left, more) = (executions.len(), next.is_some());
    executions.truncate(NAMED);
    let source = Some(source.id());
    Ok(BucketDrain {
        bucket,
        source,
        left,
        more,
        executions,
    })
}

/// The report of some buckets, or of all that migrate.
pub(crate) async fn report_of(
    routing: &Routing,
    buckets: Option<Vec<u32>>,
) -> Result<DrainReport, StoreError> {
    let Some(plan) = routing.plan() else {
        return Ok(DrainReport::default());
    };
    let buckets =
        buckets.unwrap_or_else(|| plan.migrating().map(|migration| migration.bucket).collect());
    let buckets = stream::iter(buckets)
        .map(|bucket| drain_of(routing, bucket))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    Ok(DrainReport { buckets })
}

type OfBucket<'a> = (RouteFilter, Option<Sides<'a>>);

/// What selects a bucket's executions, and its two sides if it migrates.
pub(crate) fn sides_of(routing: &Routing, bucket: u32) -> Result<OfBucket<'_>, StoreError> {
    let buckets = routing.plan().map_or(0, |plan| plan.bucket_count());
    let filter = RouteFilter::new(u64::from(buckets), u64::from(bucket)).map_err(|error| {
        let reason = match buckets {
            0 => "the store routes without a plan and has no buckets".to_owned(),
            _ => format!("there is no bucket {bucket}: expected 0 to {}", buckets - 1),
        };
        let kind = StoreErrorKind::InvalidArgument { reason };
        StoreError::new(Operation::Drain, kind).with_source(error)
    })?;
    Ok((filter, routing.sides_of_bucket(bucket)))
}

impl Side<'_> {
    /// What the shard holds of a bucket. A shard that can list records is asked for those, so that fences
    /// and lineage without a log count too.
    async fn left(
        self,
        filter: RouteFilter,
        cursor: Option<ListCursor>,
        limit: usize,
    ) -> Result<(Vec<ExecutionId>, Option<ListCursor>), StoreError> {
        if self.store().capabilities().relocation.is_none() {
            let page = self
                .list(List::new(limit).with_route(filter).with_cursor(cursor))
                .await?;
            let ids = page.executions.into_iter().map(|execution| execution.id);
            return Ok((ids.collect(), page.next));
        }
        let request = Records::new(limit).with_route(filter).with_cursor(cursor);
        let page = self.records(request).await?;
        let ids = page.records.into_iter().map(|record| record.id);
        Ok((ids.collect(), page.next))
    }
}
