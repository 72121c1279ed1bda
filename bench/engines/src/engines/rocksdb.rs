//! RocksDB: Debian's library, opened when the program runs, so that building needs none of it.

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use libloading::{Library, Symbol};

use crate::Result;
use crate::engine::Engine;
use crate::plan::Plan;

/// Its name in Debian 12; others link this to their own.
const LIBRARIES: [&str; 2] = ["librocksdb.so.7.8", "librocksdb.so"];

/// No compression, as the others.
const NO_COMPRESSION: c_int = 0;

pub struct RocksDb {
    library: Library,
    database: *mut c_void,
    write: *mut c_void,
    write_synced: *mut c_void,
    read: *mut c_void,
    column: *mut c_void,
    version: String,
}

type Error = *mut c_char;

/// Calls a function of the library by name and type.
macro_rules! call {
    ($library:expr, $name:literal, ($($type:ty),*) $(-> $result:ty)?, $($argument:expr),*) => {{
        // SAFETY: the name and type are those of RocksDB's C header of version 7.8, which has kept them since 5.0;
        // pointers come from the library's own functions or live as long as the call.
        unsafe {
            let function: Symbol<'_, unsafe extern "C" fn($($type),*) $(-> $result)?> = $library.get($name)?;
            function($($argument),*)
        }
    }};
}

impl RocksDb {
    pub fn open(folder: &Path, plan: &Plan) -> Result<Self> {
        // SAFETY: loading it runs its initializers, which a linked program would run as well.
        let found = LIBRARIES.iter().find_map(|name| unsafe { Library::new(name) }.ok());
        let library = found.ok_or("no RocksDB: `apt-get install librocksdb7.8`")?;
        let write_bytes = plan.write_bytes() as usize;
        let options = call!(library, b"rocksdb_options_create", () -> *mut c_void,);
        let set_size = |name: &[u8], bytes: usize| -> Result<()> {
            // SAFETY: as above; these functions all take the options and a size.
            unsafe {
                let function: Symbol<'_, unsafe extern "C" fn(*mut c_void, usize)> = library.get(name)?;
                function(options, bytes);
            }
            Ok(())
        };
        let set_number = |name: &[u8], number: c_int| -> Result<()> {
            // SAFETY: as above; these functions all take the options and a number.
            unsafe {
                let function: Symbol<'_, unsafe extern "C" fn(*mut c_void, c_int)> = library.get(name)?;
                function(options, number);
            }
            Ok(())
        };
        call!(library, b"rocksdb_options_set_create_if_missing", (*mut c_void, c_uchar), options, 1);
        set_size(b"rocksdb_options_set_write_buffer_size", write_bytes / 2)?;
        set_number(b"rocksdb_options_set_max_write_buffer_number", 2)?;
        set_number(b"rocksdb_options_set_compression", NO_COMPRESSION)?;
        set_number(b"rocksdb_options_set_max_background_jobs", 2)?;
        let open_max = (crate::measure::open_files_max() / 2).min(1 << 20) as c_int;
        set_number(b"rocksdb_options_set_max_open_files", open_max)?;
        call!(library, b"rocksdb_options_set_uint64add_merge_operator", (*mut c_void), options);
        let table = call!(library, b"rocksdb_block_based_options_create", () -> *mut c_void,);
        let cache = call!(library, b"rocksdb_cache_create_lru", (usize) -> *mut c_void, plan.cache_bytes as usize);
        let filter = call!(library, b"rocksdb_filterpolicy_create_bloom_full", (c_double) -> *mut c_void, 10.0);
        call!(library, b"rocksdb_block_based_options_set_block_cache", (*mut c_void, *mut c_void), table, cache);
        call!(library, b"rocksdb_block_based_options_set_filter_policy", (*mut c_void, *mut c_void), table, filter);
        call!(library, b"rocksdb_options_set_block_based_table_factory", (*mut c_void, *mut c_void), options, table);
        let path = CString::new(folder.join("store").to_string_lossy().as_bytes())?;
        let mut error: Error = null_mut();
        let (names, lists) = ([c"default".as_ptr()], [options.cast_const()]);
        let mut columns = [null_mut::<c_void>()];
        // The one way to a handle of the default column family, which deleting a range wants.
        let database = call!(
            library, b"rocksdb_open_column_families",
            (*mut c_void, *const c_char, c_int, *const *const c_char, *const *const c_void, *mut *mut c_void, *mut Error) -> *mut c_void,
            options, path.as_ptr(), 1, names.as_ptr(), lists.as_ptr(), columns.as_mut_ptr(), &raw mut error
        );
        checked(&library, error)?;
        let write = call!(library, b"rocksdb_writeoptions_create", () -> *mut c_void,);
        let write_synced = call!(library, b"rocksdb_writeoptions_create", () -> *mut c_void,);
        call!(library, b"rocksdb_writeoptions_set_sync", (*mut c_void, c_uchar), write_synced, 1);
        let read = call!(library, b"rocksdb_readoptions_create", () -> *mut c_void,);
        let [column] = columns;
        let version = installed_version().unwrap_or_else(|| "of unknown version".to_owned());
        Ok(Self { library, database, write, write_synced, read, column, version })
    }

    fn put_with(&mut self, options: *mut c_void, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error: Error = null_mut();
        call!(
            self.library,
            b"rocksdb_put",
            (*mut c_void, *mut c_void, *const u8, usize, *const u8, usize, *mut Error),
            self.database,
            options,
            key.as_ptr(),
            key.len(),
            value.as_ptr(),
            value.len(),
            &raw mut error
        );
        checked(&self.library, error)
    }

    /// A property that is a number; 0 where the version has none of that name.
    fn property(&self, name: &CStr) -> Result<u64> {
        let mut number = 0u64;
        call!(
            self.library, b"rocksdb_property_int", (*mut c_void, *const c_char, *mut u64) -> c_int,
            self.database, name.as_ptr(), &raw mut number
        );
        Ok(number)
    }
}

/// What Debian says is installed.
fn installed_version() -> Option<String> {
    let asked =
        std::process::Command::new("dpkg-query").args(["-W", "-f", "${Version}", "librocksdb7.8"]).output().ok()?;
    let version = String::from_utf8(asked.stdout).ok()?;
    asked.status.success().then_some(version)
}

/// The error that the library gave, which is freed.
fn checked(library: &Library, error: Error) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the library gives a string that ends with a zero, and leaves it to the caller.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    call!(library, b"rocksdb_free", (*mut c_void), error.cast());
    Err(text.into())
}

/// Bytes that the library gave, which are freed.
fn taken(library: &Library, bytes: *mut u8, len: usize) -> Result<Vec<u8>> {
    // SAFETY: the library says how many bytes there are, and leaves them to the caller.
    let own = unsafe { std::slice::from_raw_parts(bytes, len) }.to_vec();
    call!(library, b"rocksdb_free", (*mut c_void), bytes.cast());
    Ok(own)
}

impl Engine for RocksDb {
    fn version(&self) -> String {
        format!("RocksDB {}", self.version)
    }

    fn remarks(&self) -> &'static str {
        "counters are merges; a range is DeleteRange; 10 bits a key in filters; Debian's library has assertions on"
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(self.write, key, value)
    }

    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(self.write_synced, key, value)
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (mut error, mut len): (Error, usize) = (null_mut(), 0);
        let value = call!(
            self.library, b"rocksdb_get",
            (*mut c_void, *mut c_void, *const u8, usize, *mut usize, *mut Error) -> *mut u8,
            self.database, self.read, key.as_ptr(), key.len(), &raw mut len, &raw mut error
        );
        checked(&self.library, error)?;
        if value.is_null() { Ok(None) } else { taken(&self.library, value, len).map(Some) }
    }

    fn scan(&mut self, from: &[u8], rows: u64) -> Result<(u64, u64)> {
        let library = &self.library;
        let cursor = call!(library, b"rocksdb_create_iterator", (*mut c_void, *mut c_void) -> *mut c_void, self.database, self.read);
        call!(library, b"rocksdb_iter_seek", (*mut c_void, *const u8, usize), cursor, from.as_ptr(), from.len());
        // SAFETY: as in `call`; looked up once, as the loop is what is measured.
        let (valid, key, value, next) = unsafe {
            let valid: Symbol<'_, unsafe extern "C" fn(*mut c_void) -> c_uchar> = library.get(b"rocksdb_iter_valid")?;
            type Part = unsafe extern "C" fn(*mut c_void, *mut usize) -> *const u8;
            let key: Symbol<'_, Part> = library.get(b"rocksdb_iter_key")?;
            let value: Symbol<'_, Part> = library.get(b"rocksdb_iter_value")?;
            let next: Symbol<'_, unsafe extern "C" fn(*mut c_void)> = library.get(b"rocksdb_iter_next")?;
            (valid, key, value, next)
        };
        let mut found = (0, 0);
        // SAFETY: key and value are read while the iterator stands where it gave them.
        unsafe {
            while found.0 < rows && valid(cursor) != 0 {
                let mut lens = [0usize; 2];
                let key = key(cursor, &raw mut lens[0]);
                let value = value(cursor, &raw mut lens[1]);
                // Both are copied, as the other engines do.
                let own = [
                    std::slice::from_raw_parts(key, lens[0]).to_vec(),
                    std::slice::from_raw_parts(value, lens[1]).to_vec(),
                ];
                found = (
                    found.0 + 1,
                    found.1 + own.iter().map(|part| std::hint::black_box(part).len() as u64).sum::<u64>(),
                );
                next(cursor);
            }
        }
        let mut error: Error = null_mut();
        call!(library, b"rocksdb_iter_get_error", (*mut c_void, *mut Error), cursor, &raw mut error);
        call!(library, b"rocksdb_iter_destroy", (*mut c_void), cursor);
        checked(library, error).map(|()| found)
    }

    fn add(&mut self, key: &[u8], amount: u64) -> Result<()> {
        let mut error: Error = null_mut();
        let amount = amount.to_le_bytes();
        call!(
            self.library,
            b"rocksdb_merge",
            (*mut c_void, *mut c_void, *const u8, usize, *const u8, usize, *mut Error),
            self.database,
            self.write,
            key.as_ptr(),
            key.len(),
            amount.as_ptr(),
            amount.len(),
            &raw mut error
        );
        checked(&self.library, error)
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let mut error: Error = null_mut();
        call!(
            self.library,
            b"rocksdb_delete_range_cf",
            (*mut c_void, *mut c_void, *mut c_void, *const u8, usize, *const u8, usize, *mut Error),
            self.database,
            self.write,
            self.column,
            from.as_ptr(),
            from.len(),
            to.as_ptr(),
            to.len(),
            &raw mut error
        );
        checked(&self.library, error)
    }

    fn rest(&mut self) -> Result<()> {
        let options = call!(self.library, b"rocksdb_flushoptions_create", () -> *mut c_void,);
        let mut error: Error = null_mut();
        call!(
            self.library,
            b"rocksdb_flush",
            (*mut c_void, *mut c_void, *mut Error),
            self.database,
            options,
            &raw mut error
        );
        call!(self.library, b"rocksdb_flushoptions_destroy", (*mut c_void), options);
        checked(&self.library, error)?;
        let owed = [
            c"rocksdb.mem-table-flush-pending",
            c"rocksdb.num-running-flushes",
            c"rocksdb.compaction-pending",
            c"rocksdb.num-running-compactions",
        ];
        loop {
            let mut sum = 0;
            for name in owed {
                sum += self.property(name)?;
            }
            if sum == 0 {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    fn compact(&mut self) -> Result<()> {
        self.rest()?;
        call!(
            self.library,
            b"rocksdb_compact_range",
            (*mut c_void, *const u8, usize, *const u8, usize),
            self.database,
            null(),
            0,
            null(),
            0
        );
        self.rest()
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: as in `call`; nothing uses the database any more, and its column families go first.
        unsafe {
            type Gives = unsafe extern "C" fn(*mut c_void);
            if let Ok(destroy) = self.library.get::<Gives>(b"rocksdb_column_family_handle_destroy") {
                destroy(self.column);
            }
            if let Ok(close) = self.library.get::<Gives>(b"rocksdb_close") {
                close(self.database);
            }
        }
    }
}
