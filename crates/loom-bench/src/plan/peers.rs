//! The crates a user would otherwise pick, each as its documentation shows it.

use std::hash::{BuildHasherDefault, DefaultHasher, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// Routes an id to one of N nodes.
pub(crate) struct Peer {
    /// The crate and, where there is a choice, the hash function.
    pub(crate) name: &'static str,
    /// Whether it spreads over any N; the slot table does not move by itself.
    pub(crate) moves_by_itself: bool,
    /// Builds a router to that many nodes.
    pub(crate) build: fn(u32) -> Router,
}

/// From an id to a node.
pub(crate) type Router = Box<dyn Fn(&'static str) -> u32>;

/// All of them.
pub(crate) const PEERS: &[Peer] = &[
    Peer {
        name: "hash-rings maglev (SipHash)",
        moves_by_itself: true,
        build: hash_rings_maglev,
    },
    Peer {
        name: "maglev (SipHash)",
        moves_by_itself: true,
        build: maglev,
    },
    Peer {
        name: "anchorhash (SipHash)",
        moves_by_itself: true,
        build: anchor,
    },
    Peer {
        name: "anchorhash (given XXH3)",
        moves_by_itself: true,
        build: anchor_xxh3,
    },
    Peer {
        name: "jumpch (XXH3)",
        moves_by_itself: true,
        build: jumpch,
    },
    Peer {
        name: "jump-consistent-hash (XXH3)",
        moves_by_itself: true,
        build: jump,
    },
    Peer {
        name: "hashring (SipHash)",
        moves_by_itself: true,
        build: ring,
    },
    Peer {
        name: "hrw-hash (rendezvous)",
        moves_by_itself: true,
        build: rendezvous,
    },
    Peer {
        name: "CRC16 slots, 16384",
        moves_by_itself: false,
        build: slots,
    },
];

fn hash_rings_maglev(nodes: u32) -> Router {
    // The ring borrows its nodes; they are few and live as long as the program.
    let names: &'static [u32] = Box::leak((0..nodes).collect::<Vec<_>>().into_boxed_slice());
    let ring = hash_rings::maglev::Ring::new(names.iter().collect());
    Box::new(move |id| *ring.get_node(&id))
}

fn maglev(nodes: u32) -> Router {
    use maglev::ConsistentHasher as _;
    let ring = maglev::Maglev::new(0..nodes);
    Box::new(move |id| ring.get(&id).copied().unwrap_or_default())
}

/// Room to grow, which anchorhash wants to know in advance.
const ANCHOR_CAPACITY: u16 = 128;

fn anchor(nodes: u32) -> Router {
    // Its default hash function, with fixed keys, so that two of them agree.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let anchor: anchorhash::AnchorHash<&'static str, u32, _> =
        anchorhash::Builder::with_hasher(hasher)
            .with_resources(0..nodes)
            .build(ANCHOR_CAPACITY);
    Box::new(move |id| anchor.get_resource(id).copied().unwrap_or_default())
}

fn anchor_xxh3(nodes: u32) -> Router {
    let hasher = BuildHasherDefault::<AsIs>::default();
    let anchor: anchorhash::AnchorHash<u64, u32, _> = anchorhash::Builder::with_hasher(hasher)
        .with_resources(0..nodes)
        .build(ANCHOR_CAPACITY);
    Box::new(move |id| {
        anchor
            .get_resource(xxh3_64(id.as_bytes()))
            .copied()
            .unwrap_or_default()
    })
}

/// Passes on a key that is a hash already: the fastest that anchorhash can be given.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

fn jumpch(nodes: u32) -> Router {
    Box::new(move |id| jumpch::hash(xxh3_64(id.as_bytes()), nodes))
}

fn jump(nodes: u32) -> Router {
    Box::new(move |id| jump_consistent_hash::hash(xxh3_64(id.as_bytes()), nodes as usize))
}

fn ring(nodes: u32) -> Router {
    // Points a node are the user's choice; more are fairer and slower.
    let mut ring = hashring::HashRing::new();
    for node in 0..nodes {
        for point in 0..40_u32 {
            ring.add((node, point));
        }
    }
    Box::new(move |id| ring.get(&id).map_or(0, |(node, _)| *node))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Node(u32);

impl hrw_hash::HrwNode for Node {}

fn rendezvous(nodes: u32) -> Router {
    let nodes = hrw_hash::HrwNodes::new((0..nodes).map(Node));
    Box::new(move |id| nodes.sorted(&id).next().map_or(0, |node| node.0))
}

fn slots(nodes: u32) -> Router {
    // What Redis Cluster does: CRC16 (XMODEM) of the key into 16384 slots, and a table.
    let table: Vec<u32> = (0..16_384).map(|slot| slot % nodes).collect();
    Box::new(move |id| {
        let slot = crc16::State::<crc16::XMODEM>::calculate(id.as_bytes());
        table[usize::from(slot) % table.len()]
    })
}
