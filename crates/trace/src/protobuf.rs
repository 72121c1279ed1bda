//! The protobuf wire format, as far as a trace needs it.
//!
//! <https://protobuf.dev/programming-guides/encoding/>

/// A message being built.
#[derive(Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

/// Wire types.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

impl Message {
    pub(crate) fn uint(mut self, field: u32, value: u64) -> Self {
        self.key(field, VARINT);
        self.varint(value);
        self
    }

    pub(crate) fn fixed64(mut self, field: u32, value: u64) -> Self {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn text(self, field: u32, value: &str) -> Self {
        self.length_delimited(field, value.as_bytes())
    }

    pub(crate) fn message(self, field: u32, value: &Self) -> Self {
        self.length_delimited(field, &value.bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn length_delimited(mut self, field: u32, value: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(value.len() as u64);
        self.bytes.extend_from_slice(value);
        self
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.varint(u64::from(field) << 3 | wire_type);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_encoding_guide() {
        // The guide's own examples: field 1 = 150, field 2 = "testing", field 3 = {1: 150}.
        let inner = Message::default().uint(1, 150);
        assert_eq!(inner.as_bytes(), [0x08, 0x96, 0x01]);
        assert_eq!(Message::default().text(2, "testing").as_bytes(), b"\x12\x07testing");
        assert_eq!(Message::default().message(3, &inner).as_bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(Message::default().fixed64(16, 1).as_bytes(), [0x81, 0x01, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Message::default().uint(1, u64::MAX).as_bytes().len(), 11);
    }
}
