//! The ids of branches.

use loom_spi::ExecutionId;
use xxhash_rust::xxh3::Xxh3;

/// The longest key, in bytes: as long as a label of the registry may be.
const MAX_KEY_BYTES: usize = 255;
/// Stands before the hash, and in no key that is taken as it is.
const HASH_MARK: char = '~';
/// The hash: 128 bits in hexadecimal.
const HASH_DIGITS: usize = 32;

/// The id of the branch that `parent` calls `key`: the same each time, and another one for every other
/// parent or key.
///
/// It is `parent/key` where that is an id and cannot be read in another way. Otherwise, because it would be
/// longer than an id may be or the key contains `/` or `~`, it is as much of that as fits, then `~` and the
/// XXH3-128 of both parts in 32 hexadecimal digits.
///
/// ```
/// use loom_graph_executor::child_id;
/// use loom_spi::ExecutionId;
///
/// let parent = ExecutionId::new("incident-42")?;
/// assert_eq!(child_id(&parent, "metrics")?.as_str(), "incident-42/metrics");
/// assert_ne!(child_id(&parent, "a/b")?, child_id(&child_id(&parent, "a")?, "b")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`InvalidNodeKey`] when the key is empty, longer than 255 bytes or contains a control character.
pub fn child_id(parent: &ExecutionId, key: &str) -> Result<ExecutionId, InvalidNodeKey> {
    ChildIds::of(parent).child(key)
}

/// The execution of a node's attempt, where `first` is that of its first one: the same each time, and the id of no
/// branch ([`child_id`]) and no other attempt.
///
/// It is `first~2` for the second attempt and so on, or, where that would be longer than an id may be, as much of `first` as
/// fits, then `~` and the XXH3-128 of both parts in 32 hexadecimal digits. Attempts are counted from 1: the first, and
/// 0, is `first` itself.
///
/// ```
/// use loom_graph_executor::attempt_id;
/// use loom_spi::ExecutionId;
///
/// let first = ExecutionId::new("incident-42/metrics")?;
/// assert_eq!(attempt_id(&first, 1), first);
/// assert_eq!(attempt_id(&first, 3).as_str(), "incident-42/metrics~3");
/// # Ok::<(), loom_spi::InvalidExecutionId>(())
/// ```
#[must_use]
pub fn attempt_id(first: &ExecutionId, attempt: u32) -> ExecutionId {
    if attempt <= 1 {
        return first.clone();
    }
    let mut id = format!("{first}{HASH_MARK}{attempt}");
    if id.len() > ExecutionId::MAX_BYTES {
        // No key begins with this, so it is the hash of no branch.
        let hash = hash(first.as_str(), &format!("\0{attempt}"));
        id.truncate(id.floor_char_boundary(ExecutionId::MAX_BYTES - HASH_DIGITS - 1));
        id.push_str(&format!("{HASH_MARK}{hash:032x}"));
    }
    // The beginning of an id and printable characters, within the limit: it is one.
    ExecutionId::new(id).unwrap_or_else(|_| first.clone())
}

/// Derives the ids of many branches of one parent.
pub(crate) struct ChildIds<'a> {
    parent: &'a str,
    /// The parent, a slash, and whatever is tried out.
    buffer: String,
}

impl<'a> ChildIds<'a> {
    pub(crate) fn of(parent: &'a ExecutionId) -> Self {
        let parent = parent.as_str();
        Self {
            parent,
            buffer: format!("{parent}/"),
        }
    }

    pub(crate) fn child(&mut self, key: &str) -> Result<ExecutionId, InvalidNodeKey> {
        // Most keys are of this kind, which is checked without decoding.
        let is_plain = !key.is_empty() && key.bytes().all(is_plain);
        if !is_plain {
            check_characters(key)?;
        }
        // Neither part has a control character from here on, so only the length can be wrong.
        let too_long = || InvalidNodeKey::TooLong { bytes: key.len() };
        if key.len() > MAX_KEY_BYTES {
            return Err(too_long());
        }
        let id = &mut self.buffer;
        id.truncate(self.parent.len() + 1);
        id.push_str(key);
        let is_unambiguous = is_plain || !key.contains(['/', HASH_MARK]);
        if is_unambiguous && id.len() <= ExecutionId::MAX_BYTES {
            return ExecutionId::new(id).map_err(|_| too_long());
        }
        let kept = &id[..id.floor_char_boundary(ExecutionId::MAX_BYTES - HASH_DIGITS - 1)];
        let hashed = format!("{kept}{HASH_MARK}{:032x}", hash(self.parent, key));
        ExecutionId::new(hashed).map_err(|_| too_long())
    }
}

/// Printable ASCII that means nothing in an id.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'}') && byte != b'/'
}

fn check_characters(key: &str) -> Result<(), InvalidNodeKey> {
    if key.is_empty() {
        return Err(InvalidNodeKey::Empty);
    }
    match key.char_indices().find(|(_, c)| c.is_control()) {
        Some((offset, found)) => Err(InvalidNodeKey::ControlCharacter { offset, found }),
        None => Ok(()),
    }
}

fn hash(parent: &str, key: &str) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(parent.as_bytes());
    // No id and no key contains it.
    hash.update(&[0]);
    hash.update(key.as_bytes());
    hash.digest128()
}

/// Why a text is no key of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNodeKey {
    /// It has no bytes.
    #[error("it is empty: expected 1 to 255 bytes")]
    Empty,
    /// It has too many bytes.
    #[error("it has {bytes} bytes: expected at most 255")]
    TooLong {
        /// The length that was found, in bytes.
        bytes: usize,
    },
    /// It has a control character.
    #[error("it has the control character {found:?} at byte {offset}: expected printable text")]
    ControlCharacter {
        /// Where it stands, in bytes from the start.
        offset: usize,
        /// The character.
        found: char,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> ExecutionId {
        ExecutionId::new(text).unwrap()
    }

    fn child(parent: &str, key: &str) -> String {
        child_id(&id(parent), key).unwrap().to_string()
    }

    #[test]
    fn a_plain_child_is_readable() {
        assert_eq!(child("incident-42", "metrics"), "incident-42/metrics");
        assert_eq!(child("a/b~c", "d"), "a/b~c/d");
    }

    #[test]
    fn ids_are_the_same_on_every_machine_and_in_every_version() {
        assert_eq!(child("p", "a/b"), "p/a/b~dac4c1521495ae4eaab7958b2684de8a");
        let long = format!("p/{}~3c7e41e28d6118ec40378a076c989013", "k".repeat(220));
        assert_eq!(child("p", &"k".repeat(255)), long);
    }

    #[test]
    fn the_longest_id_that_fits_is_left_as_it_is() {
        let parent = "p".repeat(250);
        assert_eq!(child(&parent, "1234"), format!("{parent}/1234"));
        let hashed = child(&parent, "12345");
        assert_eq!(hashed.len(), 255);
        assert!(hashed.starts_with(&"p".repeat(222)));
    }

    #[test]
    fn ids_of_graphs_nested_a_thousand_deep_stay_within_the_limit_and_apart() {
        let (mut left, mut right) = (id("root"), id("root"));
        for depth in 0..1000 {
            left = child_id(&left, if depth == 0 { "left" } else { "node" }).unwrap();
            right = child_id(&right, if depth == 0 { "right" } else { "node" }).unwrap();
            assert_ne!(left, right, "at depth {depth}");
        }
        assert!(left.as_str().starts_with("root/left/node/"));
    }

    #[test]
    fn characters_are_not_torn_where_an_id_is_cut() {
        assert!(child(&"é".repeat(127), "key").contains("é~"));
    }

    #[test]
    fn attempts_have_ids_that_are_readable_stable_and_within_the_limit() {
        assert_eq!(attempt_id(&id("p/k"), 2).as_str(), "p/k~2");
        assert_eq!(attempt_id(&id("p/k"), 12).as_str(), "p/k~12");
        let long = id(&"k".repeat(254));
        let later: Vec<_> = (2..40).map(|n| attempt_id(&long, n)).collect();
        assert!(later.iter().all(|id| id.as_str().len() == 255));
        let distinct: std::collections::HashSet<_> = later.iter().collect();
        assert_eq!(distinct.len(), later.len());
        assert_eq!(
            later[0].as_str(),
            format!("{}~{}", "k".repeat(222), "0c79a12df67f166c1301d834c7da3a0d")
        );
    }

    #[test]
    fn keys_that_are_no_keys_are_refused() {
        let refused = |key: &str| child_id(&id("p"), key).unwrap_err();
        assert_eq!(refused(""), InvalidNodeKey::Empty);
        assert_eq!(
            refused(&"k".repeat(256)),
            InvalidNodeKey::TooLong { bytes: 256 }
        );
        let control = InvalidNodeKey::ControlCharacter {
            offset: 1,
            found: '\n',
        };
        assert_eq!(refused("a\nb"), control);
    }

    proptest! {
        /// Few letters, so that texts which look alike come up: slashes and marks in both parts.
        #[test]
        fn no_two_pairs_of_parent_and_key_share_an_id(
            pairs in proptest::collection::hash_set(("[a/~]{1,4}", "[a/~]{1,4}"), 2..200)
        ) {
            let mut seen = HashMap::new();
            for (parent, key) in pairs {
                let branch = child(&parent, &key);
                let earlier = seen.insert(branch.clone(), (parent.clone(), key.clone()));
                prop_assert_eq!(earlier, None, "and {:?}", (parent, key));
                for attempt in 2..4 {
                    let later = attempt_id(&id(&branch), attempt).to_string();
                    let earlier = seen.insert(later, (branch.clone(), attempt.to_string()));
                    prop_assert_eq!(earlier, None, "and attempt {} of {}", attempt, branch);
                }
            }
        }
    }
}
