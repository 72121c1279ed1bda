//! Cuts as values, for tests that look at one after the other in memory.

use crate::image::Image;
use crate::log::{Event, Log};
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
    match piece.bytes {
        Some(bytes) => image.write(piece.offset_bytes, bytes),
        None => image.zero(piece.offset_bytes, piece.len_bytes),
    }
}

/// The cuts of a log: one before its first entry and one after each that changes what a cut could leave.
pub struct Cuts<'a, R> {
    log: &'a Log,
    rule: R,
    next: usize,
    done: bool,
    durable: Image,
    mark: Option<u64>,
}

impl<'a, R: Rule> Cuts<'a, R> {
    /// The cuts of `log` over a device that was `before`.
    pub fn new(before: Image, log: &'a Log, rule: R) -> Self {
        Self { log, rule, next: 0, done: false, durable: before, mark: None }
    }

    /// Goes on until a cut could leave something new.
    fn step(&mut self) {
        let mut settled = Vec::new();
        while let Some(entry) = self.log.entries().get(self.next) {
            if let Event::Mark(value) = entry.event {
                self.mark = Some(value);
            }
            let changed = self.rule.step(self.next, &entry.event, &mut settled);
            self.next += 1;
            for write in settled.drain(..) {
                for piece in write.whole() {
                    put(&mut self.durable, piece);
                }
            }
            if changed {
                return;
            }
        }
        self.done = true;
    }
}

impl<R: Rule> Iterator for Cuts<'_, R> {
    type Item = Cut;

    fn next(&mut self) -> Option<Cut> {
        if self.done {
            return None;
        }
        let mut cut = Cut {
            entries: self.next,
            durable: self.durable.clone(),
            undecided: self.rule.undecided().into_iter().cloned().collect(),
            mark: None,
        };
        self.step();
        cut.mark = self.mark;
        Some(cut)
    }
}
