//! What goes to the host.

use nvme::Status;
use nvme::tcp::{
    C2hData, Format, InitializeRequest, InitializeResponse, MAX_OFFENDING_BYTES, PDU_FORMAT_VERSION, Pdu,
    TerminateRequest, digest, encode,
};

use super::limits::Limits;
use crate::output::Output;
use crate::subsystem::Answer;

/// Appends a PDU without data.
pub(super) fn push(pdu: &Pdu, format: &Format, output: &mut Output) {
    let mut bytes = Vec::with_capacity(128);
    encode(pdu, 0, format, &mut bytes);
    output.push(&bytes);
}

/// The answer to ICReq, and how PDUs from and to the host look after it (TCP
/// 3.3.1): a digest is used if both ends want it, and each end's alignment holds
/// for the data that it receives.
pub(super) fn negotiate(request: &InitializeRequest, limits: &Limits) -> (InitializeResponse, Format, Format) {
    let digests = request.digests & limits.digests;
    let response = InitializeResponse {
        format_version: PDU_FORMAT_VERSION,
        alignment: limits.alignment,
        digests,
        max_h2c_data_bytes: limits.h2c_data_bytes,
    };
    let receives = Format { digests, alignment: limits.alignment };
    (response, receives, Format { digests, alignment: request.alignment })
}

/// Appends C2HTermReq with the header of the PDU that `offending` begins with.
pub(super) fn terminate(request: TerminateRequest, offending: &[u8], output: &mut Output) {
    let offending = &offending[..offending.len().min(MAX_OFFENDING_BYTES)];
    let mut bytes = Vec::with_capacity(24 + offending.len());
    encode(&Pdu::C2hTerminate(request), offending.len() as u32, &Format::default(), &mut bytes);
    bytes.extend_from_slice(offending);
    output.push(&bytes);
}

/// Appends a command's data, at most `data_limit` bytes, and its completion.
///
/// A success without a result needs no response capsule where the data can say so
/// (TCP 3.3.2.3): that takes a host without SQ flow control, since the capsule
/// would bring it the SQ head.
pub(super) fn answer(answer: Answer, data_limit: u32, format: &Format, output: &mut Output) {
    let mut entry = answer.entry();
    let Answer { cid, dw0, dw1, sqhd, status, mut data, .. } = answer;
    if status.status == Status::TRANSIENT_TRANSPORT_ERROR {
        // The same bytes sent again may well arrive.
        entry.status = u16::from(nvme::CompletionStatus { do_not_retry: false, ..status }).into();
    }
    if data.len() > data_limit as usize {
        debug_assert!(false, "an answer with more data than its command has room for");
        data = data[..data_limit as usize].into();
    }
    if !data.is_empty() {
        let plain = status == Status::SUCCESS.into() && dw0 == 0 && dw1 == 0;
        let success = plain && sqhd.is_none();
        // Within `data_limit`, so it fits.
        let length = data.len() as u32;
        let pdu = Pdu::C2hData(C2hData { command: cid, offset: 0, length, last: true, success });
        let mut bytes = Vec::with_capacity(160);
        let follows = encode(&pdu, 0, format, &mut bytes);
        output.push(&bytes);
        let sum = follows.digest.then(|| digest(&data));
        output.push_owned(data);
        if let Some(sum) = sum {
            output.push(&sum.to_le_bytes());
        }
        if success {
            return;
        }
    }
    push(&Pdu::CapsuleResponse(entry), format, output);
}
