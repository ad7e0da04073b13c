//! How lists of cases become tests.
//!
//! Each suite names its cases once, in `suite!`; the suites are named once, in `__store_suites!`. The lists
//! of [`cases()`](crate::cases) and the tests of [`event_store!`](crate::event_store) both come from there.

/// Declares the cases of a suite: the list, and a hidden macro that makes a test of each.
macro_rules! suite {
    // `$d` is a dollar sign, which a macro cannot otherwise pass on to a macro that it declares.
    (($d:tt) $kind:ident $group:ident as $export:ident; $($case:ident,)*) => {
        pub(crate) const CASES: &[$crate::Case] = &[$(
            $crate::Case::new(
                stringify!($group),
                stringify!($case),
                $crate::case::Run::$kind(|cx| ::std::boxed::Box::pin($case(cx))),
            ),
        )*];

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $export {
            ($d test:ident $d factory:expr) => {
                mod $group {
                    #[allow(unused_imports)]
                    use super::*;

                    $(
                        #[test]
                        fn $case() {
                            $crate::__test::$d test($d factory, stringify!($group), stringify!($case));
                        }
                    )*
                }
            };
        }
    };
}
pub(crate) use suite;

/// The suites of an event store, handed to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __store_suites {
    ($then:ident ($($args:tt)*)) => {
        $crate::$then! { ($($args)*)
            [append __append]
            [read __read]
            [head __head]
            [list __list_order]
            [pages __pages]
            [routes __routes]
            [delete __delete]
            [limits __limits]
            [terminal __terminal]
            [fencing __fencing]
            [acquisitions __acquisitions]
            [leases __leases]
            [ledger __ledger]
            [epochs __epochs]
            [epoch_races __epoch_races]
            [branches __branches]
            [forgetting __forgetting]
            [sealing __sealing]
            [seal_refusals __seal_refusals]
            [sealed __sealed]
            [retiring __retiring]
            [records __records]
            [imports __imports]
            [imported_fences __imported_fences]
            [merges __merges]
            [comparisons __comparisons]
            [parts __parts]
            [arrivals __arrivals]
            [marks __marks]
            [move_epochs __move_epochs]
            [moves __moves]
            [concurrency __concurrency]
            [churn __churn]
            [fence_races __fence_races]
            [branch_races __branch_races]
            [seal_races __seal_races]
            [move_races __move_races]
            [cancellation __cancellation]
            [move_cancellation __move_cancellation]
            [durability __durability]
            [move_durability __move_durability]
            [errors __errors]
            [identifiers __identifiers]
            [capabilities __capabilities]
            [fuzz __fuzz]
        }
    };
}

/// The suites of a branch registry, handed to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __registry_suites {
    ($then:ident ($($args:tt)*)) => {
        $crate::$then! { ($($args)*)
            [branches __branches]
            [forgetting __forgetting]
            [branch_races __branch_races]
        }
    };
}

/// The suites of a dispatcher, handed to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatcher_suites {
    ($then:ident ($($args:tt)*)) => {
        $crate::$then! { ($($args)*)
            [dispatching __dispatching]
            [dispatch_cancellation __dispatch_cancellation]
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __list {
    (() $([$group:ident $export:ident])*) => {
        [$($crate::suites::$group::CASES),*].concat()
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    (($test:ident $factory:expr) $([$group:ident $export:ident])*) => {
        $($crate::$export! { $test $factory })*
    };
}

/// Makes a test of every case for an event store, in a module of the given name.
///
/// The second argument is an expression that makes a [`StoreFactory`](crate::StoreFactory); it is evaluated once for each
/// test. New versions of this crate add cases, and with them tests, without a change of this line.
///
/// ```
/// use loom_conformance::Subject;
/// use loom_store_memory::MemoryStore;
///
/// loom_conformance::event_store!(memory, || async { Ok(Subject::new(MemoryStore::new())) });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! event_store {
    ($name:ident, $factory:expr $(,)?) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__store_suites! { __tests(event_store $factory) }
        }
    };
}

/// Makes a test of every case for a branch registry that stands alone, in a module of the given name.
///
/// The second argument is an expression that makes a [`RegistryFactory`](crate::RegistryFactory); it is evaluated once
/// for each test.
///
/// ```
/// use std::sync::Arc;
/// use loom_spi::BranchRegistry;
/// use loom_store_memory::MemoryStore;
///
/// loom_conformance::branch_registry!(memory, || async {
///     Ok(Arc::new(MemoryStore::new()) as Arc<dyn BranchRegistry>)
/// });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! branch_registry {
    ($name:ident, $factory:expr $(,)?) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__registry_suites! { __tests(branch_registry $factory) }
        }
    };
}

/// Makes a test of every case for a dispatcher, in a module of the given name.
///
/// The second argument is an expression that makes a [`DispatcherFactory`](crate::DispatcherFactory); it is evaluated once
/// for each test. Which flows the dispatchers have to know stands at [`DispatcherSubject`](crate::DispatcherSubject).
///
/// ```ignore
/// loom_conformance::dispatcher!(local, || async { Ok(DispatcherSubject::new(store, first, second, runs)) });
/// ```
#[macro_export]
macro_rules! dispatcher {
    ($name:ident, $factory:expr $(,)?) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::__dispatcher_suites! { __tests(dispatcher $factory) }
        }
    };
}
