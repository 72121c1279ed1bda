//! One thread of a server.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use zerocopy::IntoBytes;

use super::{Activity, Handler, Request};
use crate::abi::OutHeader;
use crate::agreement::MAX_TRANSFER_BYTES;
use crate::channel::{Channel, Received};
use crate::error::FuseError;
use crate::request::{HEADER_ROOM_BYTES, Parts, Shape};

/// Takes one request at a time and answers it.
pub(super) struct Worker {
    channel: Channel,
    shape: Shape,
    activity: Arc<Activity>,
}

impl Worker {
    pub(super) fn new(channel: Channel, shape: Shape, activity: &Arc<Activity>) -> Self {
        Self { channel, shape, activity: Arc::clone(activity) }
    }

    /// Serves until the connection is gone.
    pub(super) fn run(self, handler: &dyn Handler, say: &dyn Fn(&str)) -> Result<(), FuseError> {
        let failed = |error: io::Error| FuseError::protocol(format_args!("a request cannot be read: {error}"));
        let mut buffer = vec![0; HEADER_ROOM_BYTES + MAX_TRANSFER_BYTES as usize];
        let mut body = Vec::with_capacity(MAX_TRANSFER_BYTES as usize);
        loop {
            let length = match self.channel.receive(&mut buffer).map_err(failed)? {
                Received::Request(length) => length,
                Received::Nothing => continue,
                Received::Ended => return Ok(()),
            };
            let parts = Parts::of(buffer.get(..length).unwrap_or_default(), self.shape).map_err(FuseError::protocol)?;
            self.activity.begin();
            body.clear();
            let Done { answered, panicked } = answer(&parts, handler, &mut body, say);
            let connected = match answered {
                Some(answer) => self.reply(parts.header.unique, answer.map(|()| body.as_slice()), say),
                None => true,
            };
            self.activity.end(panicked);
            if !connected {
                return Ok(());
            }
        }
    }

    /// Sends an answer; says whether the connection is still there.
    fn reply(&self, unique: u64, answer: Result<&[u8], i32>, say: &dyn Fn(&str)) -> bool {
        let body = answer.unwrap_or_default();
        // A body is at most a transfer of 1 MiB and a header.
        let len = (size_of::<OutHeader>() + body.len()) as u32;
        let out = OutHeader { len, error: answer.err().map_or(0, |number| -number), unique };
        match self.channel.reply(out.as_bytes(), body) {
            Ok(connected) => connected,
            Err(error) => {
                // The caller must not wait for ever.
                say(&format!("the kernel took no answer of {} bytes ({error}); it is answered by EIO", body.len()));
                let out = OutHeader { len: size_of::<OutHeader>() as u32, error: -libc::EIO, unique };
                self.channel.reply(out.as_bytes(), &[]).unwrap_or(false)
            }
        }
    }
}

/// What became of a request.
pub(super) struct Done {
    /// The answer, if one is taken.
    pub(super) answered: Option<Result<(), i32>>,
    pub(super) panicked: bool,
}

/// Has a request answered, whatever the handler does.
pub(super) fn answer(parts: &Parts<'_>, handler: &dyn Handler, body: &mut Vec<u8>, say: &dyn Fn(&str)) -> Done {
    let operation = match parts.operation() {
        Ok(operation) => operation,
        Err(error) => {
            say(&format!("{error}; it is answered by EIO"));
            return Done { answered: Some(Err(libc::EIO)), panicked: false };
        }
    };
    let answered = operation.is_answered();
    let request = Request { node: parts.header.nodeid, caller: parts.caller(), operation };
    let (answer, panicked) = match catch_unwind(AssertUnwindSafe(|| handler.answer(&request, body))) {
        Ok(answer) => (answer, false),
        Err(panic) => {
            say(&format!("a request failed with EIO by a fault of this program ({}): {request:?}", text(&*panic)));
            (Err(libc::EIO), true)
        }
    };
    Done { answered: answered.then_some(answer), panicked }
}

/// What a panic said.
fn text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it did not say why")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::abi::{InHeader, opcode};
    use crate::request::Operation;

    struct Faulty;

    impl Handler for Faulty {
        fn answer(&self, request: &Request<'_>, body: &mut Vec<u8>) -> Result<(), i32> {
            match request.operation {
                Operation::StatFs => panic!("on purpose"),
                Operation::ReadLink => body.extend_from_slice(b"there"),
                _ => return Err(libc::ENOENT),
            }
            Ok(())
        }
    }

    fn asked(opcode: u32, body: &[u8]) -> (Option<Result<Vec<u8>, i32>>, bool, String) {
        let header = InHeader { len: (40 + body.len()) as u32, opcode, ..InHeader::default() };
        let bytes = [header.as_bytes(), body].concat();
        let said = Mutex::new(String::new());
        let mut answer_body = Vec::new();
        let parts = Parts::of(&bytes, Shape::default()).unwrap();
        let done = answer(&parts, &Faulty, &mut answer_body, &|line| said.lock().unwrap().push_str(line));
        (done.answered.map(|answer| answer.map(|()| answer_body)), done.panicked, said.into_inner().unwrap())
    }

    #[test]
    fn a_fault_costs_one_request() {
        let (answer, panicked, said) = asked(opcode::STATFS, &[]);
        assert!(answer == Some(Err(libc::EIO)) && panicked && said.contains("on purpose"), "{said}");
        assert_eq!(asked(opcode::READLINK, &[]), (Some(Ok(b"there".to_vec())), false, String::new()));
        assert_eq!(asked(opcode::SYNCFS, &[]).0, Some(Err(libc::ENOENT)));
        // Takes no answer.
        assert_eq!(asked(opcode::FORGET, &1_u64.to_ne_bytes()).0, None);
        // Cut off.
        let (answer, _, said) = asked(opcode::LOOKUP, b"no end");
        assert!(answer == Some(Err(libc::EIO)) && said.contains("cut off"), "{said}");
    }
}
