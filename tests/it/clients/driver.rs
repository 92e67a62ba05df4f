//! Runs commands of the test `tests/it/clients.rs` on two locks of the example client. Arguments: NAME NAME OPTION...

#[path = "../../../examples/clients/dlock.rs"]
mod dlock;

use std::env;
use std::io::{self, BufRead};
use std::time::Duration;

use dlock::Lock;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (names, options) = arguments.split_at(2);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut first = Lock::new(&names[0], &options, || println!("lost"));
    let mut second = Lock::new(&names[1], &options, || println!("2:lost"));
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (lock, command) = match line.strip_prefix("2:") {
            Some(command) => (&mut second, command),
            None => (&mut first, line.as_str()),
        };
        match command.split_once(' ').unwrap_or((command, "")) {
            ("lock", _) => {
                lock.lock()?;
                println!("ok");
            }
            ("try", seconds) => {
                let seconds = seconds.parse().expect("a number of seconds");
                println!("{}", lock.try_lock(Duration::from_secs(seconds))?);
            }
            ("unlock", _) => match lock.unlock() {
                Ok(()) => println!("ok"),
                Err(error) => println!("error: {error}"),
            },
            ("valid", _) => println!("{}", lock.valid()),
            ("token", _) => println!("{}", lock.token),
            _ => break,
        }
    }
    Ok(())
}
