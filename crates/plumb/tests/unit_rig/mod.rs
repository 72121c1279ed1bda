//! What a unit of systemd says.
#![allow(dead_code)]

/// The values of a key, one for each of its lines, which a backslash continues.
pub fn values(unit: &str, key: &str) -> Vec<String> {
    let joined = unit.replace("\\\n", " ");
    joined.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=').map(str::to_owned)).collect()
}

/// The value of a key that is there once.
pub fn value(unit: &str, key: &str) -> String {
    let mut values = values(unit, key);
    assert_eq!(values.len(), 1, "{key}: {values:?}");
    values.remove(0)
}
