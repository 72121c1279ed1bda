//! Instructions of BPF (RFC 9669), as many as the programs of this house need.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::tracefs::Field;

/// A register: `R0` has results, `R1` to `R5` arguments, `R6` to `R9` outlive calls, and
/// `FRAME` points behind 512 bytes of stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the numbers are the names
pub enum Register {
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    R6 = 6,
    R7 = 7,
    R8 = 8,
    R9 = 9,
    Frame = 10,
}

/// A function of the kernel's (`___BPF_FUNC_MAPPER` of `linux/bpf.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Helper {
    /// `R1` map, `R2` key: address of the value or 0.
    MapLookup = 1,
    /// `R1` map, `R2` key, `R3` value, `R4` flags: 0 or an error.
    MapUpdate = 2,
    /// `R1` map, `R2` key.
    MapDelete = 3,
    /// Nanoseconds since the boot.
    KtimeGetNs = 5,
    /// Process (thread group) in the upper half, thread in the lower.
    GetCurrentPidTgid = 14,
    /// `R1` level: the group of the current task at that depth, or 0.
    GetCurrentAncestorCgroupId = 123,
    /// `R1` ring, `R2` record, `R3` its bytes, `R4` flags: 0, or an error where there is no room.
    RingOutput = 130,
}

/// `BPF_NOEXIST`: an update only adds.
pub const NOEXIST: i32 = 1;

/// A place in the program that jumps go to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Label(usize);

#[derive(Clone, Copy, Default)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A program in the making.
#[derive(Default)]
pub struct Program {
    instructions: Vec<Instruction>,
    labels: usize,
    placed: BTreeMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Program {
    fn put(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) -> &mut Self {
        let registers = (to as u8) | (from << 4);
        self.instructions.push(Instruction { code, registers, offset, immediate });
        self
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) -> &mut Self {
        self.put(0xbf, to, from as u8, 0, 0)
    }

    /// `to = value`, with its sign.
    pub fn set(&mut self, to: Register, value: i32) -> &mut Self {
        self.put(0xb7, to, 0, 0, value)
    }

    /// `to = value`, all 64 bits.
    pub fn set_wide(&mut self, to: Register, value: u64) -> &mut Self {
        self.wide(to, 0, value as u32 as i32, (value >> 32) as u32 as i32)
    }

    /// `to` = the map of this descriptor (`BPF_PSEUDO_MAP_FD`), which has to be open when the program is loaded.
    pub fn set_map(&mut self, to: Register, map: BorrowedFd<'_>) -> &mut Self {
        self.wide(to, 1, map.as_raw_fd(), 0)
    }

    fn wide(&mut self, to: Register, from: u8, low: i32, high: i32) -> &mut Self {
        self.put(0x18, to, from, 0, low).put(0, Register::R0, 0, 0, high)
    }

    /// `to += value`
    pub fn add(&mut self, to: Register, value: i32) -> &mut Self {
        self.put(0x07, to, 0, 0, value)
    }

    /// `to >>= bits`, without sign.
    pub fn shift_right(&mut self, to: Register, bits: i32) -> &mut Self {
        self.put(0x77, to, 0, 0, bits)
    }

    /// `to <<= bits`
    pub fn shift_left(&mut self, to: Register, bits: i32) -> &mut Self {
        self.put(0x67, to, 0, 0, bits)
    }

    /// `to <<= by`, the lowest six bits of it.
    pub fn shift_left_by(&mut self, to: Register, by: Register) -> &mut Self {
        self.put(0x6f, to, by as u8, 0, 0)
    }

    /// `to ^= bits`, of which the upper half is all ones if the highest bit is one.
    pub fn exclusive_or(&mut self, to: Register, bits: i32) -> &mut Self {
        self.put(0xa7, to, 0, 0, bits)
    }

    /// `to &= bits`, of which the upper half is all ones if the highest bit is one.
    pub fn and(&mut self, to: Register, bits: i32) -> &mut Self {
        self.put(0x57, to, 0, 0, bits)
    }

    /// `to` = the field of the record at `record`, filled up with zeros.
    pub fn load(&mut self, to: Register, record: Register, field: Field) -> &mut Self {
        let code = match field.size_bytes {
            1 => 0x71,
            2 => 0x69,
            4 => 0x61,
            _ => 0x79,
        };
        // `Format` has no offsets beyond a page.
        let offset = i16::try_from(field.offset_bytes).unwrap_or(i16::MAX);
        self.put(code, to, record as u8, offset, 0)
    }

    /// `to` = the eight bytes at `at` + `offset`.
    pub fn fetch(&mut self, to: Register, at: Register, offset: i16) -> &mut Self {
        self.put(0x79, to, at as u8, offset, 0)
    }

    /// Eight bytes of `from` to `at` + `offset`.
    pub fn store(&mut self, at: Register, offset: i16, from: Register) -> &mut Self {
        self.put(0x7b, at, from as u8, offset, 0)
    }

    /// Four bytes.
    pub fn store_word(&mut self, at: Register, offset: i16, from: Register) -> &mut Self {
        self.put(0x63, at, from as u8, offset, 0)
    }

    /// Adds `from` to the eight bytes at `at` + `offset`, at once for all processors.
    pub fn atomic_add(&mut self, at: Register, offset: i16, from: Register) -> &mut Self {
        self.put(0xdb, at, from as u8, offset, 0)
    }

    /// Sets in the eight bytes at `at` + `offset` the bits that `from` has, at once for all processors.
    pub fn atomic_or(&mut self, at: Register, offset: i16, from: Register) -> &mut Self {
        self.put(0xdb, at, from as u8, offset, 0x40)
    }

    /// Clears in the eight bytes at `at` + `offset` the bits that `from` has not, at once for all processors.
    pub fn atomic_and(&mut self, at: Register, offset: i16, from: Register) -> &mut Self {
        self.put(0xdb, at, from as u8, offset, 0x50)
    }

    /// Calls a function.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.put(0x85, Register::R0, 0, 0, helper as i32)
    }

    /// Ends the program with 0: the event goes no further.
    pub fn exit(&mut self) -> &mut Self {
        self.set(Register::R0, 0).put(0x95, Register::R0, 0, 0, 0)
    }

    /// A new label, which is to be placed once.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// The label means the next instruction.
    pub fn place(&mut self, label: Label) -> &mut Self {
        self.placed.insert(label, self.instructions.len());
        self
    }

    fn jump_by(&mut self, code: u8, left: Register, right: u8, value: i32, label: Label) -> &mut Self {
        self.jumps.push((self.instructions.len(), label));
        self.put(code, left, right, 0, value)
    }

    /// Goes to `label`.
    pub fn jump(&mut self, label: Label) -> &mut Self {
        self.jump_by(0x05, Register::R0, 0, 0, label)
    }

    /// Goes to `label` if `left == value`.
    pub fn jump_if_equal(&mut self, left: Register, value: i32, label: Label) -> &mut Self {
        self.jump_by(0x15, left, 0, value, label)
    }

    /// Goes to `label` if `left >= value`, both without sign.
    pub fn jump_if_at_least(&mut self, left: Register, value: i32, label: Label) -> &mut Self {
        self.jump_by(0x35, left, 0, value, label)
    }

    /// Goes to `label` if the registers are the same.
    pub fn jump_if_same(&mut self, left: Register, right: Register, label: Label) -> &mut Self {
        self.jump_by(0x1d, left, right as u8, 0, label)
    }

    /// Goes to `label` if `left != value`.
    pub fn jump_unless_equal(&mut self, left: Register, value: i32, label: Label) -> &mut Self {
        self.jump_by(0x55, left, 0, value, label)
    }

    /// Goes to `label` if the registers differ.
    pub fn jump_unless_same(&mut self, left: Register, right: Register, label: Label) -> &mut Self {
        self.jump_by(0x5d, left, right as u8, 0, label)
    }

    /// The instructions as bpf(2) takes them; `None` if a label was not placed or is too far.
    pub fn finish(mut self) -> Option<Vec<u64>> {
        for (at, label) in &self.jumps {
            let target = *self.placed.get(label)?;
            let distance = i64::try_from(target).ok()? - i64::try_from(*at).ok()? - 1;
            self.instructions.get_mut(*at)?.offset = i16::try_from(distance).ok()?;
        }
        let bits = self.instructions.iter().map(|instruction| {
            u64::from(instruction.code)
                | u64::from(instruction.registers) << 8
                | u64::from(instruction.offset as u16) << 16
                | u64::from(instruction.immediate as u32) << 32
        });
        Some(bits.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against encodings of RFC 9669 written out by hand.
    #[test]
    fn instructions_are_encoded() {
        let mut program = Program::default();
        let end = program.label();
        program
            .copy(Register::R6, Register::R1)
            .load(Register::R7, Register::R6, Field { offset_bytes: 16, size_bytes: 4, is_signed: false })
            .jump_unless_equal(Register::R7, -1, end)
            .set_wide(Register::R1, 0x1122_3344_5566_7788)
            .atomic_add(Register::R0, 8, Register::R1)
            .atomic_or(Register::R0, 8, Register::R1)
            .atomic_and(Register::R0, 0, Register::R1)
            .shift_left_by(Register::R1, Register::R2)
            .exclusive_or(Register::R1, -1)
            .jump_if_at_least(Register::R8, 6, end)
            .place(end)
            .exit();
        let expected: [u64; 13] = [
            0x0000_0000_0000_16bf,
            0x0000_0000_0010_6761,
            0xffff_ffff_0008_0755,
            0x5566_7788_0000_0118,
            0x1122_3344_0000_0000,
            0x0000_0000_0008_10db,
            0x0000_0040_0008_10db,
            0x0000_0050_0000_10db,
            0x0000_0000_0000_216f,
            0xffff_ffff_0000_01a7,
            0x0000_0006_0000_0835,
            0x0000_0000_0000_00b7,
            0x0000_0000_0000_0095,
        ];
        assert_eq!(program.finish().unwrap(), expected);
    }

    #[test]
    fn a_label_that_is_nowhere_is_an_error() {
        let mut program = Program::default();
        let end = program.label();
        program.jump(end).exit();
        assert!(program.finish().is_none());
    }
}
