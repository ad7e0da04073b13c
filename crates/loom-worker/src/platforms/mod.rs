//! Platforms that boot instances.

#[cfg(feature = "cloud-run")]
mod cloud_run;
#[cfg(all(unix, feature = "os-process"))]
mod os_process;

#[cfg(feature = "cloud-run")]
pub use self::cloud_run::CloudRun;
#[cfg(all(unix, feature = "os-process"))]
pub use self::os_process::OsProcess;
