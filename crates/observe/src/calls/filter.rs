//! The filter that stops a thread at the calls that matter: a program for the kernel's classic BPF (Documentation/userspace-api/
//! seccomp_filter.rst).

use libc::sock_filter;

use super::syscalls::{SYSCALLS, Syscall, When};

/// What a stop is for.
pub(super) const STOP_CALL: u32 = 0;
/// A call with another numbering than x86-64's.
pub(super) const STOP_FOREIGN: u32 = 1;

/// `AUDIT_ARCH_X86_64`, linux/audit.h.
const ARCHITECTURE: u32 = 0xc000_003e;
/// Numbers from here on are those of x32 (`__X32_SYSCALL_BIT`).
const X32: u32 = 0x4000_0000;

/// Places in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// The program.
pub(super) fn program() -> Vec<sock_filter> {
    let mut program = vec![
        load(ARCHITECTURE_AT),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        give(libc::SECCOMP_RET_TRACE | STOP_FOREIGN),
        load(NUMBER_AT),
        jump(libc::BPF_JGE, X32, 0, 1),
        give(libc::SECCOMP_RET_TRACE | STOP_FOREIGN),
    ];
    for syscall in SYSCALLS {
        let body = body(syscall);
        program.push(jump(libc::BPF_JEQ, syscall.number as u32, 0, body.len() as u8));
        program.extend(body);
    }
    program.push(give(libc::SECCOMP_RET_ALLOW));
    program
}

/// What is done at one call: stop where all conditions hold, else go on.
fn body(syscall: &Syscall) -> Vec<sock_filter> {
    let mut body = Vec::new();
    for when in syscall.when {
        match *when {
            When::Bits(argument, bits) => {
                body.push(load(ARGUMENTS_AT + 8 * argument));
                body.push(jump(libc::BPF_JSET, bits, 1, 0));
            }
            When::Is(argument, values) => {
                body.push(load(ARGUMENTS_AT + 8 * argument));
                for (number, value) in values.iter().enumerate() {
                    // Over the others and the return.
                    body.push(jump(libc::BPF_JEQ, *value, (values.len() - number) as u8, 0));
                }
            }
        }
        body.push(give(libc::SECCOMP_RET_ALLOW));
    }
    body.push(give(libc::SECCOMP_RET_TRACE | STOP_CALL));
    body
}

fn load(offset: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

fn jump(how: u32, value: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | how | libc::BPF_K) as u16, jt: if_so, jf: if_not, k: value }
}

fn give(what: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: what }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do: an interpreter of the few instructions.
    fn run(number: u32, architecture: u32, arguments: [u32; 6]) -> u32 {
        let program = program();
        let (mut at, mut value) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let code = u32::from(step.code);
            if code == libc::BPF_RET | libc::BPF_K {
                return step.k;
            } else if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
                value = match step.k {
                    NUMBER_AT => number,
                    ARCHITECTURE_AT => architecture,
                    offset => arguments[((offset - ARGUMENTS_AT) / 8) as usize],
                };
            } else {
                let holds = match code & 0xf0 {
                    libc::BPF_JEQ => value == step.k,
                    libc::BPF_JGE => value >= step.k,
                    libc::BPF_JSET => value & step.k != 0,
                    other => panic!("{other}"),
                };
                at += usize::from(if holds { step.jt } else { step.jf });
            }
        }
    }

    #[test]
    fn only_calls_that_matter_stop() {
        let stop = libc::SECCOMP_RET_TRACE | STOP_CALL;
        let allow = libc::SECCOMP_RET_ALLOW;
        let at = |number: libc::c_long, arguments| run(number as u32, ARCHITECTURE, arguments);
        assert_eq!(at(libc::SYS_write, [0; 6]), stop);
        assert_eq!(at(libc::SYS_io_submit, [0; 6]), stop);
        assert_eq!(at(libc::SYS_read, [0; 6]), allow);
        assert_eq!(at(libc::SYS_openat, [0, 0, libc::O_RDWR as u32, 0, 0, 0]), allow);
        assert_eq!(at(libc::SYS_openat, [0, 0, libc::O_DIRECTORY as u32, 0, 0, 0]), allow);
        assert_eq!(at(libc::SYS_openat, [0, 0, libc::O_TMPFILE as u32, 0, 0, 0]), stop);
        assert_eq!(at(libc::SYS_openat, [0, 0, libc::O_TRUNC as u32, 0, 0, 0]), stop);
        let map = |protection: i32, flags: i32| at(libc::SYS_mmap, [0, 0, protection as u32, flags as u32, 0, 0]);
        assert_eq!(map(libc::PROT_WRITE, libc::MAP_SHARED), stop);
        assert_eq!(map(libc::PROT_WRITE, libc::MAP_SHARED_VALIDATE), stop);
        assert_eq!(map(libc::PROT_WRITE, libc::MAP_PRIVATE), allow);
        assert_eq!(map(libc::PROT_READ, libc::MAP_SHARED), allow);
        assert_eq!(at(libc::SYS_ioctl, [0, FICLONE_AND_OTHERS[0], 0, 0, 0, 0]), stop);
        assert_eq!(at(libc::SYS_ioctl, [0, FICLONE_AND_OTHERS[1], 0, 0, 0, 0]), stop);
        assert_eq!(at(libc::SYS_ioctl, [0, 7, 0, 0, 0, 0]), allow);
        let foreign = libc::SECCOMP_RET_TRACE | STOP_FOREIGN;
        assert_eq!(run(1, 0x4000_0003, [0; 6]), foreign);
        assert_eq!(run(X32 | 1, ARCHITECTURE, [0; 6]), foreign);
    }

    const FICLONE_AND_OTHERS: [u32; 2] = [super::super::syscalls::FICLONE, super::super::syscalls::FICLONERANGE];
}
