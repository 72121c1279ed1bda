//! Swept values in tables and JSON: numbers where all of a key's values are numbers.

use units::ByteSize;

use super::{Cell, Kind};

/// A swept key and what its values are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Swept {
    key: String,
    kind: Kind,
    /// Whether they are sizes with a suffix, such as `4k`.
    sizes: bool,
}

impl Swept {
    /// The swept keys of points that are given by their keys and values as
    /// text; every point has the same keys.
    pub fn of<'a>(points: impl Iterator<Item = &'a [(String, String)]>) -> Vec<Self> {
        let mut keys: Vec<Self> = Vec::new();
        for (index, parameters) in points.enumerate() {
            if index == 0 {
                let new = |(key, _): &(String, String)| Self { key: key.clone(), kind: Kind::Integer, sizes: true };
                keys = parameters.iter().map(new).collect();
            }
            for (known, (_, value)) in keys.iter_mut().zip(parameters) {
                known.kind = match known.kind {
                    Kind::Integer if value.parse::<u64>().is_ok() => Kind::Integer,
                    Kind::Integer | Kind::Float if float(value).is_some() => Kind::Float,
                    _ => Kind::Text,
                };
                known.sizes &= value.parse::<ByteSize>().is_ok();
            }
        }
        keys
    }

    /// The key as it stands in the spec.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its columns: the values, and for sizes with a suffix their bytes.
    pub(super) fn columns(&self) -> Vec<(String, Kind)> {
        let mut columns = vec![(self.key.clone(), self.kind)];
        columns.extend(self.has_bytes().then(|| (format!("{}_bytes", self.key), Kind::Integer)));
        columns
    }

    /// The cells of a value, one for each column.
    pub(super) fn cells(&self, value: &str) -> Vec<Cell> {
        let cell = match self.kind {
            Kind::Integer => value.parse().ok().map(Cell::Integer),
            Kind::Float => float(value).map(Cell::Float),
            Kind::Text => Some(Cell::Text(value.to_owned())),
        };
        let mut cells = vec![cell.unwrap_or(Cell::Empty)];
        let bytes = || value.parse::<ByteSize>().map_or(Cell::Empty, |size| Cell::Integer(size.0));
        cells.extend(self.has_bytes().then(bytes));
        cells
    }

    /// A value in JSON.
    pub fn json(&self, value: &str) -> serde_json::Value {
        match self.kind {
            Kind::Integer => value.parse::<u64>().map_or_else(|_| value.into(), Into::into),
            Kind::Float => float(value).map_or_else(|| value.into(), Into::into),
            Kind::Text => value.into(),
        }
    }

    fn has_bytes(&self) -> bool {
        self.sizes && self.kind == Kind::Text
    }
}

/// A number; `inf` and `nan` are words here.
fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Swept {
        let points: Vec<_> = values.iter().map(|value| vec![("key".to_owned(), (*value).to_owned())]).collect();
        Swept::of(points.iter().map(Vec::as_slice)).remove(0)
    }

    #[test]
    fn numbers_are_numbers() {
        for (values, kind, sizes) in [
            (&["1", "32"][..], Kind::Integer, false),
            (&["1", "0.5"], Kind::Float, false),
            (&["0.5", "1"], Kind::Float, false),
            (&["-1", "1"], Kind::Float, false),
            (&["4k", "16k"], Kind::Text, true),
            (&["512", "4k"], Kind::Text, true),
            (&["1", "auto"], Kind::Text, false),
            (&["auto", "1"], Kind::Text, false),
            (&["nan", "inf"], Kind::Text, false),
            (&["true", "false"], Kind::Text, false),
            (&[""], Kind::Text, false),
        ] {
            let swept = of(values);
            assert_eq!((swept.kind, swept.has_bytes()), (kind, sizes), "{values:?}");
            for value in values {
                assert_eq!(swept.columns().len(), swept.cells(value).len());
                assert!(swept.cells(value).iter().all(|cell| *cell != Cell::Empty), "{value}");
                assert_eq!(swept.json(value).is_number(), kind != Kind::Text, "{value}");
            }
        }
        assert_eq!(of(&["512", "4k"]).cells("4k"), [Cell::Text("4k".to_owned()), Cell::Integer(4096)]);
        assert!(Swept::of(std::iter::empty()).is_empty());
    }
}
