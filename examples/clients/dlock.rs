//! A lock that `dlock hold` holds for this program, at most until its end. Needs 64-bit Linux, and dlock in PATH.
//!     let mut lock = Lock::new("report", &["--ttl=6s"], || eprintln!("lost")); // in another thread
//!     lock.lock()?;
//!     while lock.valid() { work_for_a_moment(lock.token); }
//!     lock.unlock()?;
use std::io::{BufRead, BufReader, Error, Result};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, atomic::{AtomicU64, Ordering::SeqCst}};
use std::{thread, time::Duration};

pub struct Lock {
    pub token: u64,
    command: Command,
    on_lost: Arc<dyn Fn() + Send + Sync>,
    stop_at_ms: Arc<AtomicU64>, // 0 after the loss and after unlock()
    dlock: Option<(Child, thread::JoinHandle<bool>)>,
}
impl Lock {
    pub fn new(name: &str, options: &[&str], on_lost: impl Fn() + Send + Sync + 'static) -> Self {
        let mut command = Command::new("dlock");
        // In a process group of its own, dlock does not get the Ctrl-C that stops this program.
        command.args(["hold", name, "--json"]).args(options).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { token: 0, command, on_lost: Arc::new(on_lost), stop_at_ms: Arc::default(), dlock: None }
    }
    /// Waits until the lock is held.
    pub fn lock(&mut self) -> Result<()> {
        self.start("forever").map(|_| ())
    }
    /// Returns false if others held the lock for this time.
    pub fn try_lock(&mut self, wait: Duration) -> Result<bool> {
        self.start(&format!("{}ms", wait.as_millis()))
    }
    /// Returns true if the lock is held. Only reads the clock, so this is right even if dlock is frozen or dead.
    pub fn valid(&self) -> bool {
        boot_time_ms() < self.stop_at_ms.load(SeqCst)
    }
    /// Releases the lock. Fails if the lock was lost before the server confirmed its release.
    pub fn unlock(&mut self) -> Result<()> {
        let was_held = self.stop_at_ms.swap(0, SeqCst) > 0;
        let (mut dlock, reader) = self.dlock.take().expect("lock() comes before unlock()");
        let status = dlock.wait()?; // closes stdin first
        let is_released = reader.join().unwrap_or(false) && status.success();
        (was_held && is_released).then_some(()).ok_or(Error::other("the lock was lost"))
    }
    fn start(&mut self, wait: &str) -> Result<bool> {
        let mut dlock = self.command.env("DLOCK_OPT_WAIT", wait).spawn()?;
        let mut lines = BufReader::new(dlock.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let Some(granted) = lines.find(|line| event(line) == "granted") else {
            return match dlock.wait()? {
                status if status.code() == Some(75) && wait != "forever" => Ok(false),
                status => Err(Error::other(format!("dlock: {status}"))),
            };
        };
        self.token = granted.split_once(r#""token":"#).and_then(|(_, rest)| number(rest)).unwrap_or(0);
        let stop_at_ms = Arc::new(AtomicU64::new(stop_at(&granted).unwrap_or(0)));
        self.stop_at_ms = stop_at_ms.clone();
        let on_lost = self.on_lost.clone();
        let reader = thread::spawn(move || {
            for line in lines.take_while(|line| event(line) != "lost") {
                match (event(&line), stop_at(&line)) {
                    ("released", _) => return true,
                    ("renewed", Some(at)) => _ = stop_at_ms.fetch_update(SeqCst, SeqCst, |it| (it > 0).then_some(at)),
                    _ => {}
                }
            }
            if stop_at_ms.swap(0, SeqCst) > 0 {
                on_lost();
            }
            false
        });
        self.dlock = Some((dlock, reader));
        Ok(true)
    }
}
/// Returns the name of the event in `line`, which begins with {"event":"NAME".
fn event(line: &str) -> &str {
    line.split('"').nth(3).unwrap_or("")
}
/// Returns the field stop_at_ms of an event. It is the last text like this, also if a lock has the same name.
fn stop_at(line: &str) -> Option<u64> {
    number(line.rsplit_once(r#""stop_at_ms":"#)?.1)
}
/// Returns the number at the beginning of `text`.
fn number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
/// Returns CLOCK_BOOTTIME, which std cannot read. In some containers, /proc/uptime is another clock.
fn boot_time_ms() -> u64 {
    unsafe extern "C" { fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32; }
    let mut time = [0; 2];
    // SAFETY: this function of the C library, which std uses too, writes seconds and nanoseconds.
    assert_eq!(unsafe { clock_gettime(7, &mut time) }, 0);
    (time[0] * 1000 + time[1] / 1_000_000) as u64
}
