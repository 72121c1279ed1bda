//! A line's fields, each with the column it begins in.

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unexpected {
    /// Column in bytes, counted from 1.
    pub(super) column: usize,
    /// What the format has there.
    pub(super) expected: String,
    /// What is there.
    pub(super) found: String,
}

/// A part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// Its bytes.
    pub(super) text: &'a [u8],
    /// Column of the first, counted from 1.
    pub(super) column: usize,
}

/// Takes a line apart from left to right.
pub(super) struct Fields<'a> {
    line: &'a [u8],
    /// Where the next field begins; `None` after the last cell.
    at: Option<usize>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: Some(0) }
    }

    /// The next word between blanks.
    pub(super) fn word(&mut self) -> Option<Field<'a>> {
        let from = self.at?;
        let start = from + self.line[from..].iter().position(|byte| !is_blank(*byte))?;
        let length = self.line[start..].iter().position(|byte| is_blank(*byte));
        let end = length.map_or(self.line.len(), |length| start + length);
        self.at = Some(end);
        Some(Field { text: &self.line[start..end], column: start + 1 })
    }

    /// The next cell between commas, blanks around it left out.
    pub(super) fn cell(&mut self) -> Option<Field<'a>> {
        let start = self.at?;
        let length = self.line[start..].iter().position(|byte| *byte == b',');
        let end = length.map_or(self.line.len(), |length| start + length);
        self.at = length.map(|_| end + 1);
        let cell = &self.line[start..end];
        let leading = cell.iter().take_while(|byte| is_blank(**byte)).count();
        Some(Field { text: cell.trim_ascii(), column: start + leading + 1 })
    }

    /// The next word, or an error naming what is missing.
    pub(super) fn need_word(&mut self, expected: &str) -> Result<Field<'a>, Unexpected> {
        self.word().ok_or_else(|| self.missing(expected))
    }

    /// The next cell, or an error naming what is missing.
    pub(super) fn need_cell(&mut self, expected: &str) -> Result<Field<'a>, Unexpected> {
        self.cell().ok_or_else(|| self.missing(expected))
    }

    /// The error of a line that ends too early.
    pub(super) fn missing(&self, expected: &str) -> Unexpected {
        let column = self.line.len() + 1;
        Unexpected { column, expected: expected.to_owned(), found: "the end of the line".to_owned() }
    }
}

impl<'a> Field<'a> {
    /// The error of a field that is not what it should be.
    pub(super) fn unexpected(&self, expected: impl Into<String>) -> Unexpected {
        Unexpected { column: self.column, expected: expected.into(), found: quoted(self.text) }
    }

    /// A whole number in decimal digits.
    pub(super) fn u64(&self, expected: &str) -> Result<u64, Unexpected> {
        decimal(self.text).ok_or_else(|| self.unexpected(expected))
    }

    /// A whole number times `unit`, where the product must fit too.
    pub(super) fn scaled(&self, unit: u64, expected: &str) -> Result<u64, Unexpected> {
        self.u64(expected)?.checked_mul(unit).ok_or_else(|| self.unexpected(expected))
    }

    /// A length in bytes: not zero, and with an end below 2^64.
    pub(super) fn length(&self, unit: u64, offset: u64) -> Result<u64, Unexpected> {
        let bytes = self.scaled(unit, "a length")?;
        if bytes == 0 || offset.checked_add(bytes).is_none() {
            return Err(self.unexpected("a length of at least 1 that ends below 2^64"));
        }
        Ok(bytes)
    }
}

/// A number in decimal digits; `None` for anything else and for 2^64 and more.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Text from the trace as an error shows it: short, and printable whatever it was.
pub(super) fn quoted(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    if text.is_empty() {
        return "nothing".to_owned();
    }
    let shown = &text[..text.len().min(SHOWN)];
    let dots = if text.len() > SHOWN { "..." } else { "" };
    format!("`{}{dots}`", shown.escape_ascii())
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_columns() {
        let mut fields = Fields::new(b"  8,0 \t 12");
        assert_eq!(fields.word(), Some(Field { text: b"8,0", column: 3 }));
        assert_eq!(fields.word(), Some(Field { text: b"12", column: 9 }));
        assert_eq!(fields.word(), None);
        assert_eq!(fields.missing("a sector").column, 11);
    }

    #[test]
    fn cells_may_be_empty() {
        let mut fields = Fields::new(b"a, b,,");
        let cells: Vec<_> =
            std::iter::from_fn(|| fields.cell()).map(|cell| (cell.text.to_vec(), cell.column)).collect();
        assert_eq!(cells, [(b"a".to_vec(), 1), (b"b".to_vec(), 4), (b"".to_vec(), 6), (b"".to_vec(), 7)]);
    }

    #[test]
    fn numbers() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1.0", b"0x10", b"1 "] {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
        assert_eq!(quoted(b"a\xffb"), "`a\\xffb`");
    }
}
