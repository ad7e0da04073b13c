//! Platforms that boot instances.

#[cfg(all(unix, feature = "os-process"))]
mod os_process;

#[cfg(all(unix, feature = "os-process"))]
pub use self::os_process::OsProcess;
