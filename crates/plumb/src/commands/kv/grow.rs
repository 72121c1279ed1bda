//! A larger file or device under a store.

use std::process::ExitCode;

use betree::Database;
use clap::Args;
use units::ByteSize;

use super::super::Done;
use super::store::{self, StoreFlags};

#[derive(Args)]
#[command(after_help = "Examples:
  plumb kv grow fruit.kv --size 2GiB     # lengthens the file
  plumb kv grow /dev/vg/fruit            # takes what the device has become larger")]
pub struct GrowArguments {
    #[command(flatten)]
    store: StoreFlags,
    /// Lengthen the file to this size first
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
}

/// Takes into use what there is behind the store's end.
pub fn grow(arguments: &GrowArguments) -> Done {
    let path = &arguments.store.store;
    // What is no store is not lengthened.
    drop(arguments.store.open_to_read()?);
    let file = store::file(path, arguments.size.map(|size| size.0))?;
    let fault = |error| arguments.store.fault(&error);
    let database = Database::open(file, arguments.store.options()).map_err(fault)?;
    let grown = database.grow().map_err(fault)?;
    let capacity = ByteSize(database.stats().capacity_bytes);
    match grown {
        0 => println!("{}: {capacity} as before", path.display()),
        _ => println!("{}: {} larger, {capacity} now", path.display(), ByteSize(grown)),
    }
    Ok(ExitCode::SUCCESS)
}
