//! Paths below the folder that is looked at.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Names with slashes in between, from the folder that is looked at, which is the empty path itself. Any bytes: as text, those
/// that are not UTF-8 are written `\xNN`, and a backslash `\\`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FilePath(Vec<u8>);

impl FilePath {
    /// Of bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A name in this folder.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        let mut bytes = self.0.clone();
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    /// Its folder and its name, `None` of the empty path.
    pub fn split(&self) -> Option<(Self, &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => Some((
                Self(self.0.get(..slash).unwrap_or_default().to_vec()),
                self.0.get(slash + 1..).unwrap_or_default(),
            )),
            None => Some((Self::default(), &self.0)),
        }
    }

    /// The names on the way.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            if byte != b'\\' {
                bytes.push(byte);
                continue;
            }
            match rest.next()? {
                b'\\' => bytes.push(b'\\'),
                b'x' => {
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                    bytes.push(u8::try_from(high * 16 + low).ok()?);
                }
                _ => return None,
            }
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            formatter.write_str(&chunk.valid().replace('\\', "\\\\"))?;
            for byte in chunk.invalid() {
                write!(formatter, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{self}\"")
    }
}

impl From<&str> for FilePath {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl Serialize for FilePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FilePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} has a backslash that stands for nothing")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::FilePath;

    #[test]
    fn a_path_is_taken_apart() {
        let path = FilePath::from("a/b/c");
        let (folder, name) = path.split().unwrap();
        assert_eq!((folder.clone(), name), (FilePath::from("a/b"), b"c".as_slice()));
        assert_eq!(folder.join(name), path);
        assert_eq!(FilePath::from("a").split(), Some((FilePath::default(), b"a".as_slice())));
        assert_eq!(FilePath::default().split(), None);
        assert_eq!(FilePath::default().join(b"a"), FilePath::from("a"));
    }

    proptest! {
        #[test]
        fn any_bytes_survive_as_text(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let path = FilePath::new(bytes);
            let text = serde_json::to_string(&path).unwrap();
            prop_assert_eq!(serde_json::from_str::<FilePath>(&text).unwrap(), path);
        }
    }
}
