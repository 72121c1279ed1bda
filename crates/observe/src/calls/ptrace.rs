//! The system calls of a tracer, and of the one that is to be traced.

use std::io;

use libc::{c_int, c_long, pid_t, sock_filter, user_regs_struct};

/// A thread that is traced.
pub(super) type Tid = pid_t;

/// Why a thread reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// It has ended, with this status as `waitpid` has it.
    Ended(c_int),
    /// The filter stopped it before a call, for this.
    Filter,
    /// A call is over.
    CallOver,
    /// It has another program now; its number was this before.
    Exec(Tid),
    /// It has made another thread or process.
    Made(Tid),
    /// It was stopped by a signal, as a whole process.
    Group,
    /// It is about to get this signal.
    Signal(c_int),
    /// Any other: it has just been attached, or goes on after a stop.
    Other,
}

/// What is asked of every thread: all that it makes is traced too, and it dies with the tracer.
const OPTIONS: c_int = libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

/// How a stopped thread goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Go {
    /// Until something happens.
    On,
    /// Until the call that it is about to make is over, too.
    ToCallEnd,
    /// It stays stopped until a signal wakes its process.
    Listen,
}

/// Starts to trace a process.
pub(super) fn seize(tid: Tid) -> io::Result<()> {
    // SAFETY: the request takes two numbers.
    checked(unsafe { libc::ptrace(libc::PTRACE_SEIZE, tid, 0_usize, OPTIONS as usize) }).map(drop)
}

/// Lets a stopped thread go on, with a signal or 0. One that was killed meanwhile is no error: its end is reported.
pub(super) fn resume(tid: Tid, go: Go, signal: c_int) -> io::Result<()> {
    let request = match go {
        Go::On => libc::PTRACE_CONT,
        Go::ToCallEnd => libc::PTRACE_SYSCALL,
        Go::Listen => libc::PTRACE_LISTEN,
    };
    // SAFETY: the requests take two numbers.
    match checked(unsafe { libc::ptrace(request, tid, 0_usize, signal as usize) }) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
        _ => Ok(()),
    }
}

/// The registers of a stopped thread, `None` if it was killed meanwhile.
pub(super) fn registers(tid: Tid) -> io::Result<Option<user_regs_struct>> {
    // SAFETY: all-zero bytes are valid numbers.
    let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the request fills the structure.
    let done = checked(unsafe { libc::ptrace(libc::PTRACE_GETREGS, tid, 0_usize, &raw mut registers) });
    match done {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        done => done.map(|_| Some(registers)),
    }
}

/// The number that comes with an event.
pub(super) fn message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the request fills the number.
    checked(unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0_usize, &raw mut message) })?;
    Ok(message)
}

/// Waits for any thread that this thread traces, and for none of its process's other children; `None` if there are none.
pub(super) fn wait() -> io::Result<Option<(Tid, Stop)>> {
    let mut status = 0;
    loop {
        // SAFETY: the call fills the number.
        let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if tid >= 0 {
            return reason(tid, status).map(|reason| Some((tid, reason)));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            error => return Err(error),
        }
    }
}

/// Whether the process `tid` has ended, once it reports anything; it can still be waited for.
pub(super) fn will_end(tid: Tid) -> io::Result<bool> {
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    loop {
        // SAFETY: all-zero bytes are a valid `siginfo_t`.
        let mut report: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: the call fills the structure.
        if unsafe { libc::waitid(libc::P_PID, tid as libc::id_t, &raw mut report, options) } == 0 {
            return Ok(matches!(report.si_code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED));
        }
        match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(true),
            error => return Err(error),
        }
    }
}

/// What a status of `waitpid` means.
fn reason(tid: Tid, status: c_int) -> io::Result<Stop> {
    if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
        return Ok(Stop::Ended(status));
    }
    let signal = libc::WSTOPSIG(status);
    let made = || message(tid).map(|made| Stop::Made(made as Tid));
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Ok(Stop::CallOver),
        0 => Ok(Stop::Signal(signal)),
        libc::PTRACE_EVENT_SECCOMP => Ok(Stop::Filter),
        libc::PTRACE_EVENT_EXEC => message(tid).map(|former| Stop::Exec(former as Tid)),
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => made(),
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Ok(Stop::Group),
        _ => Ok(Stop::Other),
    }
    .or_else(|error: io::Error| match error.raw_os_error() {
        // Killed in this very stop: its end is reported next.
        Some(libc::ESRCH) => Ok(Stop::Other),
        _ => Err(error),
    })
}

/// Kills a process.
pub(super) fn kill(tid: Tid) {
    // SAFETY: the call takes two numbers. It fails only where the process has ended.
    unsafe { libc::kill(tid, libc::SIGKILL) };
}

/// Puts the calling process and all that it will make under a filter. Where only processes that can gain no privileges may do so,
/// it becomes one. It neither allocates nor locks.
pub(super) fn install(filter: &[sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let mode = libc::SECCOMP_MODE_FILTER as usize;
    // SAFETY: the kernel copies the program, which it does not write to.
    let install = || checked(c_long::from(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) }));
    if install().is_err() {
        // SAFETY: the call takes numbers.
        checked(c_long::from(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_usize, 0_usize, 0_usize, 0_usize) }))?;
        install()?;
    }
    Ok(())
}

fn checked(result: c_long) -> io::Result<c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
