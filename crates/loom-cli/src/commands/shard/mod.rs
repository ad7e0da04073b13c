//! `loom shard …`.

mod abandon;
mod add;
mod ls;

pub(super) use self::abandon::run as abandon;
pub(super) use self::add::run as add;
pub(super) use self::ls::run as ls;
