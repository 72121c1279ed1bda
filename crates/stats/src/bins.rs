//! Counts of times in bins of three significant digits, kept in pieces.

/// log2 of the values told apart in the first bins: 2,048 keep three digits apart
/// in every octave above.
const EXACT_BITS: u32 = 11;
/// Bins of an octave.
const PER_OCTAVE: usize = 1 << (EXACT_BITS - 1);
/// Bins counted in one piece.
const PER_PIECE: usize = 16;
/// The place of a piece without counts.
const NOWHERE: u16 = u16::MAX;

/// How often each value was counted, exactly below 2,048 and within 0.1 % above.
///
/// The bins are those of a high dynamic range histogram of three significant
/// digits. Bins that neighbour each other share a piece of memory, which is taken
/// with the first count in one of them: what was never counted takes 2 bytes for
/// 16 bins, and a hundred values take at most 13 KB wherever they lie.
#[derive(Clone, Default)]
pub(crate) struct Bins {
    /// Where each piece lies in `pieces`.
    places: Vec<u16>,
    pieces: Vec<[u64; PER_PIECE]>,
}

/// The bin of a value.
#[inline]
fn index_of(value: u64) -> usize {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(EXACT_BITS);
    // The top bit alone makes up for the octave that lies below the first.
    octave as usize * PER_OCTAVE + (value >> octave) as usize
}

/// The smallest and the largest value of a bin.
fn ends_of(index: usize) -> (u64, u64) {
    let octave = (index / PER_OCTAVE).saturating_sub(1);
    let low = ((index - octave * PER_OCTAVE) as u64) << octave;
    // Grouped so that the end of the last bin, u64::MAX, does not overflow on the way.
    (low, low + ((1 << octave) - 1))
}

impl Bins {
    /// Counts `value` so many `times`.
    #[inline]
    pub fn add(&mut self, value: u64, times: u64) {
        let index = index_of(value);
        let piece = match self.places.get(index / PER_PIECE) {
            Some(&place) if place != NOWHERE => &mut self.pieces[usize::from(place)],
            _ => self.new_piece(index / PER_PIECE),
        };
        piece[index % PER_PIECE] += times;
    }

    #[cold]
    fn new_piece(&mut self, number: usize) -> &mut [u64; PER_PIECE] {
        if self.places.len() <= number {
            self.places.resize(number + 1, NOWHERE);
        }
        // 55 octaves of 64 pieces each: below NOWHERE whatever the values.
        self.places[number] = self.pieces.len() as u16;
        self.pieces.push([0; PER_PIECE]);
        let last = self.pieces.len() - 1;
        &mut self.pieces[last]
    }

    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (number, piece) in other.in_order() {
            let mine = match self.places.get(number) {
                Some(&place) if place != NOWHERE => &mut self.pieces[usize::from(place)],
                _ => self.new_piece(number),
            };
            for (mine, theirs) in mine.iter_mut().zip(piece) {
                *mine += theirs;
            }
        }
    }

    /// Pieces with counts, ascending.
    fn in_order(&self) -> impl Iterator<Item = (usize, &[u64; PER_PIECE])> {
        let taken = self.places.iter().enumerate().filter(|(_, place)| **place != NOWHERE);
        taken.map(|(number, place)| (number, &self.pieces[usize::from(*place)]))
    }

    /// Smallest value, largest value and count of each bin in use, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let counts = self.in_order().flat_map(|(number, piece)| (number * PER_PIECE..).zip(piece));
        counts.filter(|(_, count)| **count > 0).map(|(index, count)| {
            let (low, high) = ends_of(index);
            (low, high, *count)
        })
    }

    /// Bytes of memory that the counts take.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<u16>() + self.pieces.capacity() * size_of::<[u64; PER_PIECE]>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..5_000_u64,
            Just(u64::MAX),
            (0..64_u32, 0.0..1.0_f64).prop_map(|(bits, part)| {
                let low = 1_u64 << bits;
                low + ((low - 1) as f64 * part) as u64
            })
        ]
    }

    proptest! {
        /// Against the HdrHistogram crate, of three digits as well.
        #[test]
        fn bins_are_those_of_hdrhistogram(
            values in prop::collection::vec((value(), 1..5_u64), 0..200),
            more in prop::collection::vec((value(), 1..5_u64), 0..200),
        ) {
            let mut oracle = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            let (mut bins, mut others) = (Bins::default(), Bins::default());
            for (value, times) in &values {
                oracle.record_n(*value, *times).unwrap();
                bins.add(*value, *times);
            }
            for (value, times) in &more {
                oracle.record_n(*value, *times).unwrap();
                others.add(*value, *times);
            }
            bins.merge(&others);
            let expected: Vec<_> = oracle
                .iter_recorded()
                .map(|step| {
                    let value = step.value_iterated_to();
                    // The crate ends the last bin one too low: what it counts there may be u64::MAX.
                    let high = oracle.highest_equivalent(value);
                    let high = if high == u64::MAX - 1 { u64::MAX } else { high };
                    (oracle.lowest_equivalent(value), high, step.count_at_value())
                })
                .collect();
            prop_assert_eq!(bins.iter().collect::<Vec<_>>(), expected);
        }
    }

    /// A job that did a hundred I/Os must not take a megabyte for its figures.
    #[test]
    fn memory_follows_what_was_counted() {
        assert_eq!(Bins::default().bytes(), 0);
        let mut bins = Bins::default();
        for octave in 0..40 {
            for part in 0..25 {
                bins.add((1 << octave) + (part << octave) / 25, 1);
            }
        }
        assert!(bins.bytes() < 1_000 * 2 * PER_PIECE * 8, "{} bytes for 1,000 values", bins.bytes());
    }
}
