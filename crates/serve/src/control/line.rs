//! Lines out of a stream of bytes, none longer than a limit.

/// A line that is too long; what follows is not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TooLong;

/// Bytes that came, and the lines in them.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// How far it was looked for its end.
    searched: usize,
    limit: usize,
}

impl Lines {
    /// Lines of at most `limit` bytes, their end not counted.
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, searched: 0, limit }
    }

    /// Adds what came. At most a line and one read's bytes are held, since the
    /// caller reads on only when no whole line is left.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = self.bytes.get(self.searched..).unwrap_or_default();
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return if self.searched - self.start > self.limit { Err(TooLong) } else { Ok(None) };
        };
        let (start, end) = (self.start, self.searched + length);
        (self.start, self.searched) = (end + 1, end + 1);
        if end - start > self.limit {
            return Err(TooLong);
        }
        Ok(self.bytes.get(start..end))
    }

    /// Whether a whole line is there.
    pub(super) fn has_line(&self) -> bool {
        self.bytes.get(self.searched..).is_some_and(|rest| rest.contains(&b'\n'))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However the bytes are cut into pieces, the lines are those of the text.
        #[test]
        fn pieces_make_the_same_lines(
            text in prop::collection::vec(prop_oneof![4 => any::<u8>(), 1 => Just(b'\n')], 0..200),
            cuts in prop::collection::vec(1..30_usize, 1..40),
            limit in 0..60_usize,
        ) {
            let mut lines = Lines::new(limit);
            let (mut found, mut failed) = (Vec::new(), false);
            let mut rest = &text[..];
            for cut in cuts.iter().cycle() {
                if rest.is_empty() || failed {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                rest = after;
                lines.push(piece);
                loop {
                    let has_line = lines.has_line();
                    match lines.next() {
                        Ok(Some(line)) => found.push(line.to_vec()),
                        Ok(None) => {
                            prop_assert!(!has_line);
                            break;
                        }
                        Err(TooLong) => {
                            failed = true;
                            break;
                        }
                    }
                }
                prop_assert!(lines.bytes.len() <= limit + 1 + 30);
            }
            let mut whole: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            let last = whole.pop().unwrap_or_default();
            let fit = whole.iter().take_while(|line| line.len() <= limit).count();
            prop_assert_eq!(&found, &whole[..fit].iter().map(|line| line.to_vec()).collect::<Vec<_>>());
            prop_assert_eq!(failed, fit < whole.len() || last.len() > limit);
        }
    }
}
