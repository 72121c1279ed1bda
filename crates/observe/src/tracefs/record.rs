//! One line of `trace_pipe` with the option `fields` (Documentation/trace/ftrace.rst):
//!
//! ```text
//!               dd-9712    [001] ..... 16803.745162: iomap_dio_rw_begin: dev=0x700000 (7340032) ino=0xc (12) …
//! ```

/// The name of a task comes first, filled up to this many bytes; it may hold any byte.
const NAME_BYTES: usize = 16;

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The thread in which it came.
    pub thread: u32,
    /// When it came, in nanoseconds of the kernel's trace clock.
    pub time_ns: u64,
    /// The tracepoint's name.
    pub name: &'a str,
    fields: &'a str,
}

impl<'a> Record<'a> {
    /// The event of a line; `None` for comments and the kernel's own remarks.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let rest = std::str::from_utf8(line.get(NAME_BYTES..)?).ok()?.strip_prefix('-')?;
        let (thread, rest) = rest.split_once(' ')?;
        // Processor, flags and time: `[001] ..... 16803.745162: `.
        let (_, rest) = rest.split_once("] ")?;
        let (before, rest) = rest.split_once(": ")?;
        let time_ns = nanoseconds(before.rsplit_once(' ')?.1)?;
        let (name, fields) = rest.split_once(": ")?;
        Some(Self { thread: thread.parse().ok()?, time_ns, name, fields: fields.trim_end() })
    }

    /// A field that is a number.
    pub fn field(&self, name: &str) -> Option<u64> {
        let value = self.text(name)?;
        match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok(),
        }
    }

    /// A field as it is printed, up to the next space.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.fields.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Seconds with up to nine decimals, as nanoseconds.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let (whole, decimals) = seconds.split_once('.')?;
    let mut nine = decimals.bytes().chain(std::iter::repeat(b'0')).take(9);
    let decimals =
        nine.try_fold(0_u64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = b"              dd-9712    [001] ..... 16803.745162: iomap_dio_rw_begin: dev=0xfe00000 (266338304) ino=0x51003a (5308474) pos=0x0 (0) rwbs=RS";
        let record = Record::parse(line).unwrap();
        assert_eq!((record.thread, record.name), (9712, "iomap_dio_rw_begin"));
        assert_eq!(record.time_ns, 16_803_745_162_000);
        assert_eq!(record.field("dev"), Some(0xfe0_0000));
        assert_eq!(record.field("ino"), Some(5_308_474));
        assert_eq!(record.field("pos"), Some(0));
        assert_eq!((record.field("o"), record.text("rwbs")), (None, Some("RS")));
    }

    #[test]
    fn a_name_may_hold_anything() {
        let line = b"   a]: b: -1 \xff[0-42      [000] d..1. 1.5: mm_filemap_fault: i_ino=0x7 (7)";
        let record = Record::parse(line).unwrap();
        assert_eq!((record.thread, record.name, record.field("i_ino")), (42, "mm_filemap_fault", Some(7)));
    }

    #[test]
    fn remarks_are_no_events() {
        for line in ["# tracer: nop", "", "CPU:1 [LOST 3 EVENTS]", "##### CPU 1 buffer started ####"] {
            assert_eq!(Record::parse(line.as_bytes()), None, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(name in "\\PC{0,20}", rest in "(-[0-9]{1,11} +\\[000\\] ..... [0-9.]{1,9}: [a-z]{1,4}: )?\\PC{0,40}") {
            if let Some(record) = Record::parse(format!("{name}{rest}").as_bytes()) {
                record.field("a");
            }
        }
    }
}
