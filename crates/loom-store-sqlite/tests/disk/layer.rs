//! A layer between SQLite and its own access to the system, which tells a [`Disk`] what is done. Files of other folders
//! pass through.

#![expect(
    unsafe_code,
    reason = "SQLite takes such a layer through its C interface only"
)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rusqlite::ffi::{
    SQLITE_IOERR, SQLITE_OK, sqlite3_file, sqlite3_filename, sqlite3_int64, sqlite3_io_methods,
    sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

use crate::disk::Disk;

static DISKS: Mutex<Vec<(PathBuf, Weak<Disk>)>> = Mutex::new(Vec::new());

/// Tells `disk` from now on what is done to files of `folder` that are opened.
pub(crate) fn follow(folder: &Path, disk: &Arc<Disk>) {
    static LAYER: OnceLock<Layer> = OnceLock::new();
    LAYER.get_or_init(install);
    let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    disks.retain(|(_, disk)| disk.strong_count() > 0);
    disks.push((folder.to_owned(), Arc::downgrade(disk)));
}

fn disk_of(path: &Path) -> Option<Arc<Disk>> {
    let disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = disks
        .iter()
        .rev()
        .find(|(folder, _)| path.parent() == Some(folder));
    found?.1.upgrade()
}

/// SQLite's own access to the system.
struct Layer(*mut sqlite3_vfs);
// SAFETY: SQLite's object is never changed after it was registered, and may be used from every thread.
unsafe impl Send for Layer {}
// SAFETY: as above.
unsafe impl Sync for Layer {}

static SYSTEM: OnceLock<Layer> = OnceLock::new();

fn system() -> *mut sqlite3_vfs {
    SYSTEM.get().map_or(ptr::null_mut(), |layer| layer.0)
}

/// What is at the beginning of a file object; the system's own object follows.
#[repr(C)]
struct Handle {
    methods: *const sqlite3_io_methods,
    /// From [`Box::into_raw`]; given back when the file is closed.
    followed: *mut Followed,
}

struct Followed {
    path: PathBuf,
    disk: Option<Arc<Disk>>,
}

fn install() -> Layer {
    // SAFETY: null asks for the default, which SQLite always has, and which lives for ever. The copy keeps what the
    // functions that are not replaced need; it lives for ever too, as SQLite demands of what is registered.
    unsafe {
        let system = sqlite3_vfs_find(ptr::null());
        assert!(!system.is_null());
        SYSTEM.get_or_init(|| Layer(system));
        let mut layer = ptr::read(system);
        layer.zName = c"loom-test-disk".as_ptr();
        layer.szOsFile += c_int::try_from(size_of::<Handle>()).unwrap();
        layer.pNext = ptr::null_mut();
        layer.xOpen = Some(open);
        layer.xDelete = Some(delete);
        let layer = Box::into_raw(Box::new(layer));
        assert_eq!(sqlite3_vfs_register(layer, 1), SQLITE_OK);
        Layer(layer)
    }
}

/// # Safety
/// `name` is null or a C string.
unsafe fn path_of(name: *const c_char) -> PathBuf {
    if name.is_null() {
        return PathBuf::new();
    }
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name) };
    OsStr::from_bytes(name.to_bytes()).into()
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite hands in `szOsFile` bytes for the object, and a name that is null or a C string.
    unsafe {
        let handle = file.cast::<Handle>();
        (*handle).methods = ptr::null();
        let Some(open) = (*system()).xOpen else {
            return SQLITE_IOERR;
        };
        let code = open(system(), name, real(file), flags, out_flags);
        if code == SQLITE_OK {
            let path = path_of(name.cast());
            let disk = disk_of(&path);
            (*handle).followed = Box::into_raw(Box::new(Followed { path, disk }));
            (*handle).methods = &raw const METHODS;
        }
        code
    }
}

unsafe extern "C" fn delete(_: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite hands in a C string; the call goes on to the system with what it came with.
    unsafe {
        let path = path_of(name);
        if let Some(Err(code)) = disk_of(&path).map(|disk| disk.delete(&path, sync != 0)) {
            return code;
        }
        match (*system()).xDelete {
            Some(delete) => delete(system(), name, sync),
            None => SQLITE_IOERR,
        }
    }
}

/// The system's object.
///
/// # Safety
/// `file` was handed to [`open`].
unsafe fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: it follows the handle, for which `szOsFile` was enlarged.
    unsafe { file.cast::<Handle>().add(1).cast() }
}

/// # Safety
/// `file` was opened by [`open`] and is not closed.
unsafe fn tell(
    file: *mut sqlite3_file,
    tell: impl FnOnce(&Disk, &Path) -> Result<(), c_int>,
) -> c_int {
    // SAFETY: `followed` lives from `open` to `close`.
    let followed = unsafe { &*(*file.cast::<Handle>()).followed };
    let told = followed
        .disk
        .as_ref()
        .map(|disk| tell(disk, &followed.path));
    told.and_then(Result::err).unwrap_or(SQLITE_OK)
}

/// Calls the system's method of an open file.
macro_rules! on_system {
    ($file:ident . $method:ident ( $($argument:expr),* )) => {{
        let real = real($file);
        match (*(*real).pMethods).$method {
            Some(method) => method(real, $($argument),*),
            None => SQLITE_IOERR,
        }
    }};
}

/// Methods that only pass on.
macro_rules! pass_on {
    ($($name:ident = $method:ident ( $($argument:ident : $type:ty),* );)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite calls it for files that are open, with arguments that are meant for the system.
            unsafe { on_system!(file.$method($($argument),*)) }
        }
    )*};
}

pass_on! {
    file_size = xFileSize(size: *mut sqlite3_int64);
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    check_reserved_lock = xCheckReservedLock(out: *mut c_int);
    file_control = xFileControl(operation: c_int, argument: *mut c_void);
    sector_size = xSectorSize();
    device_characteristics = xDeviceCharacteristics();
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void);
    shm_lock = xShmLock(offset: c_int, n: c_int, flags: c_int);
    shm_unmap = xShmUnmap(delete: c_int);
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: SQLite calls it for files that are open.
    unsafe {
        let real = real(file);
        if let Some(barrier) = (*(*real).pMethods).xShmBarrier {
            barrier(real);
        }
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls it once for a file that was opened; `followed` came from a box.
    unsafe {
        let code = on_system!(file.xClose());
        drop(Box::from_raw((*file.cast::<Handle>()).followed));
        code
    }
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    bytes: *mut c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and the call goes on to the system with what it came with.
    unsafe {
        match tell(file, |disk, _| disk.read()) {
            SQLITE_OK => on_system!(file.xRead(bytes, length, at)),
            code => code,
        }
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and SQLite hands in that many bytes.
    unsafe {
        let written =
            std::slice::from_raw_parts(bytes.cast::<u8>(), length.unsigned_abs() as usize);
        let told = tell(file, |disk, path| {
            disk.write(path, at.unsigned_abs(), written)
        });
        match told {
            SQLITE_OK => on_system!(file.xWrite(bytes, length, at)),
            code => code,
        }
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        match tell(file, |disk, path| {
            disk.truncate(path, length.unsigned_abs())
        }) {
            SQLITE_OK => on_system!(file.xTruncate(length)),
            code => code,
        }
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _: c_int) -> c_int {
    // What is left of a loss of power is made up here, so that the real disk may take its time.
    // SAFETY: the file is open.
    unsafe { tell(file, Disk::sync) }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Without memory-mapped reading, which is version 3.
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
