//! Processes that are hard to see or to name: `/proc` is missing or hides them, their name is not text, a filter of system
//! calls refuses pidfds, or nobody reaps them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, is_alive, only_child, signal};
use testkit::holder::{Holder, operator_releases};
use testkit::servers::{Database, database};

const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

/// Returns `program` with `arguments`, which connects to `database` if it runs dlock.
fn program(database: &Database, program: &str, arguments: &[&str]) -> Dlock {
    Dlock::of(Path::new(program), arguments).env("DLOCK_URL", database.url())
}

#[test]
fn exec_refuses_to_start_without_its_own_proc() {
    let database = database();
    let gone = r#"umount -l /proc; exec "$@""#;
    let foreign = "/proc shows the processes of another process namespace";
    for (namespace, script, fact) in [
        ("--mount", gone, "/proc is not mounted"),
        ("--pid", r#""$@"; exit $?"#, foreign),
    ] {
        let run = |arguments: &[&str]| {
            let words = [namespace, "--fork", "sh", "-c", script, "sh", DLOCK];
            program(&database, "unshare", &words).args(arguments).run()
        };
        let outcome = run(&["exec", "-a", "init", "--", "echo", "ran"]);
        outcome.expect(78, "", fact);
        outcome.expect(78, "", "mount -t proc proc /proc");
        let doctor = run(&["doctor"]);
        assert!(doctor.stdout.contains(fact), "{doctor:?}");
    }
}

#[test]
fn processes_whose_name_is_not_text_die_with_dlock() {
    let database = database();
    let stage = Stage::new();
    // The kernel cuts the name after 15 bytes, in the middle of a character.
    let text = "#!/bin/sh\necho $$ > \"$1\"; while :; do sleep 1; done\n";
    let script = stage.write("миграция.sh", 0o755, text);
    let exec = Dlock::on(&database, ["exec", "-a", "init"]).env("script", script);
    let (holder, pid) = stage.start_told(exec, r#"setsid "$script" "$1" & wait"#);
    let name = fs::read(format!("/proc/{pid}/comm")).expect("the script runs");
    assert!(str::from_utf8(&name).is_err(), "{name:?}");
    holder.signal("KILL");
    eventually("the script is dead", || !is_alive(&pid));
}

#[test]
fn the_monitor_does_not_show_the_words_of_the_command() {
    let database = database();
    let holder = Holder::on(&database, &["--note", "password"]);
    let monitor = only_child(holder.running.pid());
    let words = fs::read(format!("/proc/{monitor}/cmdline")).expect("the monitor runs");
    let words = String::from_utf8(words).expect("the command line is text");
    assert_eq!(words.trim_end_matches('\0'), "lease-monitor init");
    holder.end().expect(3, "", "");
}

/// A Perl program that becomes a subreaper, runs the given program three times, and then prints the ids of its children,
/// which it has not reaped.
const REAPER: &str = r#"
    syscall(157, 36, 1, 0, 0, 0) == 0 or die "prctl: $!";
    system(@ARGV) for 1..3;
    open(F, "<", "/proc/self/task/$$/children") or die "children: $!";
    print <F>;
"#;

#[test]
fn no_zombie_remains_if_process_1_reaps_nothing() {
    let database = database();
    let leaves_none = |arguments: &[&str]| {
        let words = [&["-e", REAPER, DLOCK, "exec", "-q", "-a"], arguments].concat();
        let outcome = program(&database, "perl", &words).run();
        assert_eq!(outcome.stdout, "", "{outcome:?}");
    };
    leaves_none(&["free", "--", "true"]);
    leaves_none(&["free", "--", "/proc/version"]);
    let holder = Holder::on(&database, &[]);
    leaves_none(&["init", "-n", "--", "true"]);
    holder.end().expect(3, "", "");
}

#[test]
fn a_child_that_proc_hides_does_not_keep_the_lock() {
    let database = database();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dlock = folder.path().join("dlock");
    fs::copy(DLOCK, &dlock).expect("the program can be copied");
    for path in [folder.path(), &dlock] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).expect("the mode can be changed");
    }
    // A daemon that is not dumpable, like ssh-agent.
    let daemon = r#"
        use POSIX; fork and exit; POSIX::setsid();
        syscall(157, 4, 0, 0, 0, 0) == 0 or die "prctl: $!";
        open(STDOUT, ">/dev/null"); open(STDERR, ">/dev/null"); sleep(1000);
    "#;
    let script = r#"mount -t proc -o hidepid=2 proc /proc; cd /
        exec setpriv --reuid=65534 --clear-groups "$@""#;
    let words = ["--mount", "--pid", "--fork", "sh", "-c", script, "sh"];
    let outcome = program(&database, "unshare", &words)
        .arg(&dlock)
        .args(["exec", "-a", "init", "--", "perl", "-e", daemon])
        .run();
    let text = "killed 1 process that the command of init left running: ";
    outcome.expect(0, "", text);
}

/// A Perl program that runs the given program under a filter that refuses `pidfd_open(2)` with EPERM, as old profiles of
/// containers do.
const WITHOUT_PIDFD: &str = r#"
    my $filter = pack("SCCL" x 4, 0x20,0,0,0, 0x15,0,1,434, 0x06,0,0,0x00050001, 0x06,0,0,0x7fff0000);
    my $program = pack("Sx6P", 4, $filter);
    syscall(157, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
    syscall(157, 22, 2, $program, 0, 0) == 0 or die "seccomp: $!";
    exec(@ARGV) or die "exec: $!";
"#;

#[test]
fn a_grandchild_gets_the_stop_signal_without_pidfds() {
    let database = database();
    let stage = Stage::new();
    let stopped = stage.path("stopped");
    let grandchild = r#"trap 'echo stopped > "$stopped"; exit' TERM; echo up > "$1"; while :; do sleep 0.1; done"#;
    let command = r#"trap : TERM; setsid sh -c "$grandchild" sh "$1" & wait; wait"#;
    let words = ["-e", WITHOUT_PIDFD, DLOCK, "exec", "-a", "init", "--ttl=6s"];
    let exec = program(&database, "perl", &words)
        .env("grandchild", grandchild)
        .env("stopped", &stopped);
    let holder = stage.start(exec, command);
    operator_releases(&database);
    holder.wait().expect(76, "", "released by");
    let text = fs::read_to_string(&stopped).expect("the grandchild has got the signal");
    assert_eq!(text, "stopped\n");
}

#[test]
fn signals_that_the_kernel_refuses_are_reported() {
    let database = database();
    let stage = Stage::new();
    // The command of an unprivileged dlock becomes root through a set-user-id program, like sudo.
    let script = r#"mount -t tmpfs -o mode=755 tmpfs /mnt && cd /mnt
        cp "$1" dlock && cp "$(command -v setpriv)" become && chmod 4755 become; shift 2
        exec setpriv --reuid=65534 --clear-groups ./dlock exec -a init -- ./become --reuid=0 "$@""#;
    let words = ["--mount", "sh", "-c", script, "sh", DLOCK];
    let exec = program(&database, "unshare", &words);
    let holder = stage.start(exec, r#"echo up > "$1"; read word < "$2"; exit 3"#);
    holder.signal("TERM");
    let text = "cannot forward SIGTERM (15) to the command, because it runs as another user";
    holder.wait_for_output(text);
    holder.signal("TERM");
    let text = "runs as another user, so dlock cannot kill it; init is not released until";
    holder.wait_for_output(text);
    stage.let_go("on");
    let outcome = holder.wait();
    assert!(!outcome.stderr.contains("does not die"), "{outcome:?}");
}

#[test]
fn a_leftover_that_proc_no_longer_shows_is_reported_and_left_behind_on_request() {
    let database = database();
    let stage = Stage::new();
    let leftover = r#"echo $$ > "$1"; exec sleep 1000"#;
    let command = r#"umount -l /proc; setsid sh -c "$leftover" sh "$1" & read word < "$2""#;
    let exec = program(
        &database,
        "unshare",
        &["--mount", DLOCK, "exec", "-a", "init"],
    );
    let (mut holder, leftover) = stage.start_told(exec.env("leftover", leftover), command);
    stage.let_go("on");
    holder.wait_for_output("a process of the command, which /proc does not show, does not die");
    holder.signal("TERM");
    eventually("dlock ends", || holder.is_over());
    signal(leftover.parse().expect("an id"), "KILL");
    let outcome = holder.wait();
    outcome.expect(76, "", "is still alive and was left behind");
}
