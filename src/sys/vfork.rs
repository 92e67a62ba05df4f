//! A process that shares its parent's memory until it becomes another program, as after vfork(2): what
//! it does meanwhile.
//!
//! A process with a copy of the memory has to give that back when it becomes the program, which takes
//! the kernel 0.1 ms, and to fetch page by page what it touches before. Whoever waits for the lock pays
//! for both. As after vfork, there are rules for what is done here, since the parent goes on at the same
//! time with the same heap and the same `errno`: nothing is allocated or freed, nothing may panic, and no
//! call of the C library may fail. What can fail is asked of the kernel directly.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, setpgid};

use super::inherited;
use super::signal::Mask;
use super::startable::{Group, Streams};

/// The variable that the token is told in.
pub(super) const TOKEN: &str = "DLOCK_TOKEN";

/// Room for it with the longest token and what is between and behind.
pub(super) const VARIABLE: usize = TOKEN.len() + 1 + 20 + 1;

/// The word that carries no token: a grant's is at least 1.
pub(super) const NO_TOKEN: [u8; 8] = [0; 8];

/// Room for what is done here, which is a few calls deep and has no handlers of signals.
const STACK: usize = 64 * 1024;

/// What is shared: the memory, where [`execve`] can do without `errno`.
const SHARED: c_int = match cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
    true => libc::CLONE_VM,
    false => 0,
};

/// What the process needs to know. It is never freed: nobody can tell when the process has let go of it.
pub(super) struct Plan {
    /// The files that the program may be, in the order of `PATH`.
    pub(super) programs: Vec<CString>,
    /// Each of these ends with a null pointer.
    pub(super) arguments: Vec<*const c_char>,
    /// The same for a script that does not say what it is for: the shell, room for its name, and the rest.
    pub(super) script: Vec<*const c_char>,
    /// Begins with room for the token's variable.
    pub(super) environment: Vec<*const c_char>,
    pub(super) mask: Mask,
    pub(super) group: Group,
    pub(super) streams: Streams,
    pub(super) parent: Pid,
    /// Where the word comes from, and where to say why it was of no use.
    pub(super) word: RawFd,
    pub(super) failed: RawFd,
    /// The parent's ends of the two.
    pub(super) not_ours: [RawFd; 2],
    pub(super) variable: [u8; VARIABLE],
}

/// Starts the process.
///
/// # Errors
/// When the kernel gives none.
pub(super) fn start(plan: Plan) -> io::Result<Pid> {
    let plan: *mut Plan = Box::leak(Box::new(plan));
    let stack = Box::leak(Box::<[u8]>::new_uninit_slice(STACK)).as_mut_ptr_range();
    // As the processors want it.
    let top = stack.end.map_addr(|address| address & !15);
    // SAFETY: the function and the stack are the process's own from here on, and neither is ever freed.
    let mut pid = unsafe { clone(top, SHARED, plan) };
    if pid < 0 {
        // An emulator may know no such processes; a copy of everything serves as well.
        // SAFETY: as above, in another memory.
        pid = unsafe { clone(top, 0, plan) };
    }
    Pid::from_raw(pid)
        .filter(|_| pid > 0)
        .ok_or_else(io::Error::last_os_error)
}

unsafe fn clone(top: *mut MaybeUninit<u8>, flags: c_int, plan: *mut Plan) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::clone(run, top.cast(), flags | libc::SIGCHLD, plan.cast()) }
}

extern "C" fn run(plan: *mut c_void) -> c_int {
    // SAFETY: it is a plan, and ours alone.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    let errno = wait_and_run(plan);
    if errno != 0 {
        // SAFETY: nobody has closed it. Fails only if nobody is left to tell.
        let failed = unsafe { BorrowedFd::borrow_raw(plan.failed) };
        let _ = rustix::io::write(failed, &errno.to_ne_bytes());
    }
    // SAFETY: it runs no handlers and never returns.
    unsafe { libc::_exit(0) }
}

/// Waits for the word and becomes the command. Returns why it did not, 0 if it was never let go.
///
/// All that can be done before the word comes is.
fn wait_and_run(plan: &mut Plan) -> c_int {
    for fd in plan.not_ours {
        // SAFETY: this process's table of descriptors is its own, and nothing in it refers to them.
        unsafe { rustix::io::close(fd) };
    }
    // The parent may be dead already, and then its death is no news to the kernel.
    match set_parent_process_death_signal(Some(Signal::KILL)) {
        Ok(()) if getppid() == Some(plan.parent) => {}
        Ok(()) => return 0,
        Err(error) => return error.raw_os_error(),
    }
    if plan.streams == Streams::AsGiven {
        inherited::restore_streams();
    }
    inherited::restore_signals();
    if plan.group == Group::Own
        && let Err(error) = setpgid(None, None)
    {
        return error.raw_os_error();
    }
    let mut token = [0; 8];
    // SAFETY: nobody has closed it.
    let word = unsafe { BorrowedFd::borrow_raw(plan.word) };
    loop {
        match rustix::io::read(word, &mut token) {
            Ok(8) => break,
            Err(rustix::io::Errno::INTR) => {}
            // The parent has given it up.
            _ => return 0,
        }
    }
    let mut environment = plan.environment.as_ptr();
    if token == NO_TOKEN {
        environment = environment.wrapping_add(1);
    } else {
        write_token(&mut plan.variable, u64::from_ne_bytes(token));
        if let Some(first) = plan.environment.first_mut() {
            *first = plan.variable.as_ptr().cast();
        }
    }
    // Only now: a signal that a terminal sends while we wait is not the command's.
    if let Group::Shared(group) = plan.group
        && let Err(error) = setpgid(None, Some(group))
    {
        return error.raw_os_error();
    }
    plan.mask.apply();
    // SAFETY: the texts and the arrays of pointers to them are never freed.
    unsafe { become_command(plan, environment) }
}

/// The variable with `token`, as the C library has it.
fn write_token(variable: &mut [u8; VARIABLE], token: u64) {
    let mut digits = 1;
    let mut rest = token / 10;
    while rest > 0 {
        digits += 1;
        rest /= 10;
    }
    let name = TOKEN.bytes().chain([b'=']);
    let mut room = variable.iter_mut();
    for (letter, byte) in name.zip(&mut room) {
        *byte = letter;
    }
    let number = room.into_slice();
    if let Some(end) = number.get_mut(digits) {
        *end = 0;
    }
    let mut rest = token;
    for byte in number.iter_mut().take(digits).rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

/// Does what `execvpe(3)` of the C library does. Returns why it could not.
unsafe fn become_command(plan: &mut Plan, environment: *const *const c_char) -> c_int {
    let mut refused = libc::ENOENT;
    for program in &plan.programs {
        let program = program.as_ptr();
        // SAFETY: the caller's promise.
        let mut errno = unsafe { execve(program, plan.arguments.as_ptr(), environment) };
        if errno == libc::ENOEXEC {
            if let Some(name) = plan.script.get_mut(1) {
                *name = program;
            }
            let shell = plan.script.first().copied().unwrap_or(ptr::null());
            // SAFETY: as above.
            errno = unsafe { execve(shell, plan.script.as_ptr(), environment) };
        }
        match errno {
            libc::EACCES => refused = libc::EACCES,
            libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT => {}
            errno => return errno,
        }
    }
    refused
}

/// The system call, which returns its failure instead of leaving it in `errno`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn execve(
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    let result: libc::c_long;
    // SAFETY: the registers are those of the kernel's convention, and the caller promises the rest.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") libc::SYS_execve => result,
            in("rdi") program,
            in("rsi") arguments,
            in("rdx") environment,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") libc::SYS_execve,
            inlateout("x0") program => result,
            in("x1") arguments,
            in("x2") environment,
            options(nostack),
        );
    }
    c_int::try_from(-result).unwrap_or(libc::EINVAL)
}

/// The C library's, where nothing is [shared](SHARED).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn execve(
    program: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { libc::execve(program, arguments, environment) };
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::{VARIABLE, write_token};

    #[test]
    fn the_variable_is_a_text_of_c() {
        for (token, text) in [
            (1, "DLOCK_TOKEN=1"),
            (90, "DLOCK_TOKEN=90"),
            (u64::MAX, "DLOCK_TOKEN=18446744073709551615"),
        ] {
            let mut variable = [b'x'; VARIABLE];
            write_token(&mut variable, token);
            let end = variable.iter().position(|byte| *byte == 0);
            let end = end.expect("it ends");
            assert_eq!(&variable[..end], text.as_bytes());
        }
    }
}
