//! The order of keys, seen by their first bytes: as one number they tell most keys apart, in an instruction or two.

use std::cmp::Ordering;

/// Bytes that are one number.
const BYTES: usize = size_of::<u64>();

/// What a key begins with behind so many bytes, which all keys have in common. Of two keys the one that begins with less comes first;
/// of two that begin alike either may.
#[inline]
pub(crate) fn begins(key: &[u8], common: usize) -> u64 {
    let rest = key.get(common..).unwrap_or_default();
    match rest.first_chunk::<BYTES>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; BYTES];
            first[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(first)
        }
    }
}

/// As keys compare.
#[inline]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first_chunk::<BYTES>(), b.first_chunk::<BYTES>()) {
        (Some(first), Some(other)) if first != other => u64::from_be_bytes(*first).cmp(&u64::from_be_bytes(*other)),
        _ => a.cmp(b),
    }
}

/// How many bytes keys have in common that are not before the one and not behind the other.
pub(crate) fn common(start: &[u8], end: &[u8]) -> usize {
    start.iter().zip(end).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..12)
    }

    proptest! {
        #[test]
        fn it_is_the_order_of_keys(a in key(), b in key(), between in key()) {
            prop_assert_eq!(compare(&a, &b), a.cmp(&b));
            let (first, last) = if a <= b { (&a, &b) } else { (&b, &a) };
            let common = common(first, last);
            prop_assert!(begins(first, common) <= begins(last, common));
            if *first <= between && between <= *last {
                prop_assert_eq!(&between[..common], &first[..common]);
                prop_assert!(begins(first, common) <= begins(&between, common));
                prop_assert!(begins(&between, common) <= begins(last, common));
            }
        }
    }
}
