//! Counted epochs: the closing write says how many blocks its epoch holds, so that the device knows it whole in whatever order and
//! through whichever queues they come.

use nvme::Closing;

use super::epochs::{Ending, Epochs};

pub(super) struct Counted;

impl Epochs for Counted {
    fn end(&self, closes: [bool; 2], blocks: [u32; 2]) -> Ending {
        let count = |index: usize| if closes[index] { blocks[index] } else { 0 };
        let closing = match (count(0), count(1)) {
            (0, 0) => Closing::None,
            (first_blocks, second_blocks) => Closing::Counted { first_blocks, second_blocks },
        };
        Ending { closing, closes, leaves_last: false }
    }

    fn pins(&self) -> bool {
        false
    }
}
