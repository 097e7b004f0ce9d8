//! Instructions of BPF (RFC 9669), and what puts them together.

use std::os::fd::{AsRawFd, BorrowedFd};

/// An instruction (`struct bpf_insn`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high one.
    registers: u8,
    offset: i16,
    value: i32,
}

/// A register. R0 is what is returned, R1 to R5 are arguments and lost by a call, R6 to R9 are kept, R10 is the end of the stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much is loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Size {
    /// Four bytes.
    Word = 0x00,
    /// Two bytes.
    Half = 0x08,
    /// One byte.
    Byte = 0x10,
    /// Eight bytes.
    Double = 0x18,
}

/// An operation on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Alu {
    Add = 0x00,
    Mul = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftRight = 0x70,
    Xor = 0xa0,
    Move = 0xb0,
}

/// When a jump is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
}

/// Classes and modes of instructions.
const LD_IMM64: u8 = 0x18;
const LDX_MEM: u8 = 0x61;
const STX_MEM: u8 = 0x63;
const STX_ATOMIC_DOUBLE: u8 = 0xdb;
const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The other operand is a register.
const BY_REGISTER: u8 = 0x08;
/// Where a constant is the descriptor of a map (`BPF_PSEUDO_MAP_FD`).
const MAP: u8 = 1;

/// A place in a program.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// Puts a program together. Jumps go to labels, which are placed before or after them.
#[derive(Debug, Default)]
pub struct Assembler {
    instructions: Vec<Instruction>,
    /// Where each label is.
    labels: Vec<Option<usize>>,
    /// Jumps whose offsets are still to be written.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, to: Register, from: u8, (offset, value): (i16, i32)) {
        self.instructions.push(Instruction { code, registers: from << 4 | to as u8, offset, value });
    }

    /// A label that is not placed yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Jumps to a label come here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.push(LDX_MEM | size as u8, to, from as u8, (offset, 0));
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) {
        self.push(STX_MEM | size as u8, to, from as u8, (offset, 0));
    }

    /// `*(to + offset) += from`, 64 bits, whoever else does so.
    pub fn add_atomically(&mut self, to: Register, offset: i16, from: Register) {
        self.push(STX_ATOMIC_DOUBLE, to, from as u8, (offset, 0));
    }

    /// `to = value`, 64 bits.
    pub fn constant(&mut self, to: Register, value: u64) {
        self.wide(to, 0, [value as u32, (value >> 32) as u32]);
    }

    /// `to` becomes a map.
    pub fn map(&mut self, to: Register, map: BorrowedFd<'_>) {
        self.wide(to, MAP, [map.as_raw_fd().cast_unsigned(), 0]);
    }

    fn wide(&mut self, to: Register, from: u8, [low, high]: [u32; 2]) {
        self.push(LD_IMM64, to, from, (0, low.cast_signed()));
        self.push(0, Register::R0, 0, (0, high.cast_signed()));
    }

    /// `to = to OPERATION value`
    pub fn alu(&mut self, operation: Alu, to: Register, value: i32) {
        self.push(ALU64 | operation as u8, to, 0, (0, value));
    }

    /// `to = to OPERATION from`
    pub fn alu_by(&mut self, operation: Alu, to: Register, from: Register) {
        self.push(ALU64 | BY_REGISTER | operation as u8, to, from as u8, (0, 0));
    }

    /// Goes on at a label.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP, Register::R0, 0, (0, 0));
    }

    /// Goes on at a label if the condition holds.
    pub fn jump_if(&mut self, condition: Condition, left: Register, right: i32, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP | condition as u8, left, 0, (0, right));
    }

    /// The same of two registers.
    pub fn jump_if_by(&mut self, condition: Condition, left: Register, right: Register, label: Label) {
        self.jumps.push((self.instructions.len(), label));
        self.push(JUMP | BY_REGISTER | condition as u8, left, right as u8, (0, 0));
    }

    /// Calls something of [`super::helper`].
    pub fn call(&mut self, helper: i32) {
        self.push(CALL, Register::R0, 0, (0, helper));
    }

    /// Returns R0.
    pub fn exit(&mut self) {
        self.push(EXIT, Register::R0, 0, (0, 0));
    }

    /// Returns a number.
    pub fn exit_with(&mut self, value: i32) {
        self.alu(Alu::Move, Register::R0, value);
        self.exit();
    }

    /// The program.
    ///
    /// # Panics
    /// If a label that is jumped to was not placed, or is too far away: programs are written here, and each of them is put together by a test.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in self.jumps {
            let target = self.labels[label.0].expect("a label that is jumped to is placed");
            let offset = target.cast_signed() - at.cast_signed() - 1;
            self.instructions[at].offset = i16::try_from(offset).expect("jumps are short");
        }
        self.instructions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(program: &[Instruction]) -> Vec<(u8, u8, i16, i32)> {
        program.iter().map(|it| (it.code, it.registers, it.offset, it.value)).collect()
    }

    #[test]
    fn instructions_are_those_of_the_kernel() {
        use Register::{R0, R1, R2, R10};
        let mut program = Assembler::default();
        program.load(Size::Word, R2, R1, 16);
        program.store(Size::Double, R10, -8, R2);
        program.add_atomically(R1, 24, R2);
        program.constant(R1, 0x1_0000_0002);
        program.alu(Alu::ShiftRight, R0, 3);
        program.alu_by(Alu::Xor, R0, R2);
        program.call(super::super::helper::REDIRECT_MAP);
        program.exit_with(-1);
        // As `bpf_insn` macros of the kernel make them (`include/linux/filter.h`).
        let expected = [
            (0x61, 0x12, 16, 0),
            (0x7b, 0x2a, -8, 0),
            (0xdb, 0x21, 24, 0),
            (0x18, 0x01, 0, 2),
            (0, 0, 0, 1),
            (0x77, 0x00, 0, 3),
            (0xaf, 0x20, 0, 0),
            (0x85, 0, 0, 51),
            (0xb7, 0, 0, -1),
            (0x95, 0, 0, 0),
        ];
        assert_eq!(words(&program.finish()), expected);
    }

    #[test]
    fn jumps_go_forth_and_back_to_labels() {
        let mut program = Assembler::default();
        let (again, end) = (program.label(), program.label());
        program.place(again);
        program.jump_if(Condition::NotEqual, Register::R1, 7, end);
        program.jump_if_by(Condition::Greater, Register::R1, Register::R2, again);
        program.jump(again);
        program.place(end);
        program.exit();
        let expected = [(0x55, 0x01, 2, 7), (0x2d, 0x21, -2, 0), (0x05, 0, -3, 0), (0x95, 0, 0, 0)];
        assert_eq!(words(&program.finish()), expected);
    }
}
