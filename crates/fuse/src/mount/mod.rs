//! How a FUSE file system is mounted: where nobody sees it ([`hidden`]), or in a folder ([`folder`]), as root by the
//! kernel's own calls or by `fusermount3` ([`fusermount`]).

mod error;
mod folder;
mod fusermount;
mod hidden;
mod options;

pub use self::error::MountError;
pub use self::folder::FolderMount;
pub use self::hidden::Mount;
pub use self::options::{MountOptions, OptionError};
