//! Cuts as values, for tests that look at one after the other in memory.

use crate::image::Image;
use crate::log::{Event, Log};
use crate::moments::Moments;
use crate::rules::Rule;
use crate::write::{LoggedWrite, Piece};

/// One moment at which the power goes.
#[derive(Clone, Debug)]
pub struct Cut {
    /// How many entries of the log had happened.
    pub entries: usize,
    /// The bytes that must have survived, and nothing newer.
    pub durable: Image,
    /// The newer writes in order of submission: any units of them may have survived.
    pub undecided: Vec<LoggedWrite>,
    /// The last mark before the next moment: what had been promised when the power went at the latest.
    pub mark: Option<u64>,
}

impl Cut {
    /// The bytes after the cut where exactly those units of undecided writes survived that `survives` says. Parts lie
    /// between multiples of `atomic_bytes` and are numbered through each write; it is asked in order of submission.
    pub fn image(&self, atomic_bytes: u32, mut survives: impl FnMut(&LoggedWrite, usize) -> bool) -> Image {
        let mut image = self.durable.clone();
        for write in &self.undecided {
            for piece in write.pieces(atomic_bytes, |part| survives(write, part)) {
                put(&mut image, piece);
            }
        }
        image
    }
}

fn put(image: &mut Image, piece: Piece<'_>) {
    let read = piece.visit(|at, len_bytes, bytes| match bytes {
        Some(bytes) => image.write(at, bytes),
        None => image.zero(at, len_bytes),
    });
    debug_assert!(read.is_ok(), "an image is made of a log in memory");
}

/// The cuts of a log: one before its first entry and one after each that changes what a cut could leave.
pub struct Cuts<'a, R> {
    log: &'a Log,
    moments: Moments<'a, R>,
    is_moment: bool,
    durable: Image,
    mark: Option<u64>,
}

impl<'a, R: Rule> Cuts<'a, R> {
    /// The cuts of `log` over a device that was `before`.
    pub fn new(before: Image, log: &'a Log, rule: R) -> Self {
        let mut moments = Moments::new(log, rule);
        let is_moment = moments.advance();
        Self { log, moments, is_moment, durable: before, mark: None }
    }
}

impl<R: Rule> Iterator for Cuts<'_, R> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        if !self.is_moment {
            return None;
        }
        let entries = self.moments.entries();
        let undecided = self.moments.undecided().into_iter().cloned().collect();
        let mut cut = Cut { entries, durable: self.durable.clone(), undecided, mark: None };
        self.is_moment = self.moments.advance();
        for write in self.moments.settled() {
            for piece in write.whole() {
                put(&mut self.durable, piece);
            }
        }
        for entry in self.log.entries().get(entries..self.moments.entries()).unwrap_or_default() {
            if let Event::Mark(value) = entry.event {
                self.mark = Some(value);
            }
        }
        cut.mark = self.mark;
        Some(cut)
    }
}
