//! Where a file's pieces lie, as a picture: a line in the terminal, and a page that a browser shows.

mod cells;
mod grid;
mod html;
mod strip;

pub use cells::{Cell, cells};
pub use html::{Pictured, page};
pub use strip::{LEGEND, strip};
