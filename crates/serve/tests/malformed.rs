//! Whatever a client sends, the server neither panics nor hangs, and serves on.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::OnceLock;

use crate::common::{Client, Served, Setting, info_request, request};
use proptest::collection::vec;
use proptest::prelude::*;

/// One server for every case: what one client breaks, the next would notice.
fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(|| Served::null(Setting::default(), 8))
}

/// Sends `pieces` one by one and reads until the server closes; the read
/// timeout of [`Served::connect`] makes a hang an error.
fn send(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = served().connect();
    for piece in pieces {
        // The server may have dropped the client already.
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server hangs: {error}"),
    }
    answer
}

fn still_serves() {
    let mut client = Client::go(served());
    assert_eq!(client.call(0, 0, 0, 512).0, 0);
}

/// A message that is mostly right: an option or a request with any field off.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let option = (any::<u32>(), 0..14u32, vec(any::<u8>(), 0..40), prop::bool::weighted(0.1)).prop_map(
        |(random, option, data, wrong_length)| {
            let length = if wrong_length { random } else { data.len() as u32 };
            let data = if option == 6 || option == 7 { info_request("ns1", &[3]) } else { data };
            let length = if option == 6 || option == 7 { data.len() as u32 } else { length };
            let mut bytes = b"IHAVEOPT".to_vec();
            bytes.extend_from_slice(&option.to_be_bytes());
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&data);
            bytes
        },
    );
    let request = (0..9u16, 0..32u16, any::<u64>(), 0..20_000u64, 0..70_000u32).prop_map(
        |(command, flags, cookie, sector, length)| {
            let mut bytes = request(command, flags, cookie, sector * 512, length / 512 * 512).to_vec();
            if command == 1 {
                bytes.resize(28 + length as usize / 512 * 512, 0x5a);
            }
            bytes
        },
    );
    prop_oneof![3 => option, 6 => request, 1 => vec(any::<u8>(), 0..100)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes(pieces in vec(vec(any::<u8>(), 0..200), 0..4)) {
        let answer = send(&pieces);
        prop_assert!(answer.is_empty() || answer.starts_with(b"NBDMAGIC"));
        still_serves();
    }

    #[test]
    fn nearly_right_messages(flags in 0..4u32, messages in vec(message(), 0..12), cut in 0..200usize) {
        let mut pieces = vec![flags.to_be_bytes().to_vec()];
        pieces.extend(messages);
        if let Some(last) = pieces.last_mut() {
            last.truncate(last.len().saturating_sub(cut));
        }
        send(&pieces);
        still_serves();
    }

    #[test]
    fn nearly_right_requests(messages in vec(message(), 0..12), cut in 0..200usize) {
        let mut pieces = vec![3u32.to_be_bytes().to_vec(), b"IHAVEOPT\0\0\0\x01\0\0\0\0".to_vec()];
        pieces.extend(messages);
        if let Some(last) = pieces.last_mut() {
            last.truncate(last.len().saturating_sub(cut));
        }
        send(&pieces);
        still_serves();
    }
}
