//! Claims about everything that is wrong before the command can run: names, options, files, servers, accounts.
//!
//! Each time dlock says why in one line, with the status of the table, prints nothing else, does not run the command,
//! and leaves the lock to whoever comes next.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mysql::prelude::Queryable;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::command::{Stage, heard, tell};
use crate::dlock::{Dlock, eventually};
use crate::network::{local, resolving};
use crate::proxy::{Port, Proxy, packet};
use crate::servers::{Database, Flavour, Server, shared};

/// More than a run may take that has a lease of 3 s and tries the server once: its limits are two tries of 0.5 s.
const SOON: Duration = Duration::from_secs(5);

/// Which form a complaint has.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// One line with `dlock: ` in front.
    Line,
    /// The words of the command line's grammar, which show how to type it.
    Usage,
}

/// `dlock exec` of `action` on `database`, which tries once.
fn exec(database: &Database, action: &str) -> Dlock {
    Dlock::on(
        database,
        ["exec", "--nonblock", "--db-wait", "0", "--action", action],
    )
}

/// Asserts that `dlock`, which lacks the command still, refuses to run it, with `status` and because of `why`.
#[track_caller]
fn refused(dlock: Dlock, form: Form, status: i32, why: &str) {
    let stage = Stage::new();
    let mark = stage.path("ran");
    let outcome = dlock.arg("--").arg("touch").arg(&mark).run();
    outcome.expect(status, "", why);
    let formed = match form {
        Form::Line => outcome.stderr.starts_with("dlock: ") && outcome.stderr.lines().count() == 1,
        Form::Usage => outcome.stderr.starts_with("error: "),
    };
    assert!(formed && outcome.stderr.ends_with('\n'), "{outcome:#?}");
    assert!(!mark.exists(), "the command ran: {outcome:#?}");
}

/// Asserts that the lock `action` is to be had at once.
#[track_caller]
fn free(database: &Database, action: &str) {
    exec(database, action)
        .arg("--")
        .arg("true")
        .run()
        .expect(0, "", "");
}

/// The actions that have a row.
#[track_caller]
fn actions(database: &Database) -> Vec<String> {
    let rows: Vec<Vec<u8>> = database
        .admin_conn()
        .query("SELECT action FROM dlock_lock")
        .expect("the table is there");
    rows.iter()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

#[track_caller]
fn set_up(server: &Server, name: &str) -> Database {
    let database = server.database(name);
    Dlock::on(&database, ["setup"])
        .run()
        .expect(0, "", "in place");
    database
}

#[test]
fn a_name_that_is_no_name_is_refused() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour), "names");
        let long = "x".repeat(256);
        let wide = "é".repeat(128);
        let names: [(&[u8], &str); 8] = [
            (b"", "the name is empty"),
            (long.as_bytes(), "256 bytes, 255 are allowed"),
            (wide.as_bytes(), "256 bytes, 255 are allowed"),
            (b"a\nb", "control character"),
            (b"a\tb", "control character"),
            (b"a\x7f", "control character"),
            ("a\u{9b}".as_bytes(), "control character"),
            (b"a\xffb", "UTF-8"),
        ];
        for (name, why) in names {
            let name = OsStr::from_bytes(name);
            let run = || Dlock::on(&database, ["exec", "--nonblock"]);
            refused(run().arg("--action").arg(name), Form::Usage, 64, why);
            if !name.is_empty() {
                refused(run().env("DLOCK_ACTION", name), Form::Usage, 64, why);
            }
        }
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        // The longest that is one, and what a shell or SQL would trip over.
        for name in [
            &"é".repeat(127),
            &"x".repeat(255),
            "a b",
            "'; --",
            "-",
            "%",
            "größe 数",
        ] {
            let run = Dlock::on(&database, ["exec", "--nonblock"]).arg(format!("--action={name}"));
            run.arg("--").arg("true").run().expect(0, "", "");
        }
        assert_eq!(actions(&database).len(), 7, "{flavour}");
    }
}

#[test]
fn names_are_compared_as_bytes() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("bytes");
        let stage = Stage::new();
        let (ready, go) = (stage.fifo("ready"), stage.fifo("go"));
        let command = format!("echo up >{}; read -r _ <{}", ready.display(), go.display());
        let holder = Dlock::on(
            &database,
            ["exec", "-a", "Init", "--", "sh", "-c", &command],
        )
        .start();
        assert_eq!(heard(&ready), "up");
        for other in ["init", "Init ", "Ínit", "INIT"] {
            free(&database, other);
        }
        refused(exec(&database, "Init"), Form::Line, 75, "Init is held by");
        tell(&go, "on");
        holder.wait().expect(0, "", "");
    }
}

#[test]
fn a_wrong_command_line_is_refused_before_anything_is_asked_of_the_server() {
    let database = shared(Flavour::MariaDb).database("usage");
    let proxy = Proxy::to(shared(Flavour::MariaDb).port());
    let url = database.url_through(proxy.port());
    let run = |options: &[&str]| {
        let dlock = Dlock::new(["exec", "-a", "init"]).env("DLOCK_URL", &url);
        options.iter().fold(dlock, Dlock::arg)
    };
    for (options, form, why) in [
        (&["--ttl", "1s"][..], Form::Line, "ttl 1s is too short"),
        (&["--ttl", "0"], Form::Line, "too short"),
        (
            &["--ttl", "10s", "--grace", "9s"],
            Form::Line,
            "raise --ttl or lower --grace",
        ),
        (&["--ttl", "25h"], Form::Line, "ttl must be at most"),
        (&["--ttl", "abc"], Form::Usage, "'--ttl <DURATION>'"),
        (&["--ttl", "30"], Form::Usage, "'--ttl <DURATION>'"),
        (&["--ttl", "-1s"], Form::Usage, "'-1'"),
        (
            &["--ttl", "99999999999999999999s"],
            Form::Usage,
            "'--ttl <DURATION>'",
        ),
        (&["--grace", ""], Form::Usage, "'--grace <DURATION>'"),
        (
            &["--wait", "ever"],
            Form::Usage,
            "'--wait <DURATION|forever>'",
        ),
        (
            &["--db-wait", "5 minuets"],
            Form::Usage,
            "'--db-wait <DURATION>'",
        ),
        (&["-E", "256"], Form::Usage, "'--conflict-exit-code <N>'"),
        (&["-E", "-1"], Form::Usage, "'-1'"),
        (
            &["--holder", &"x".repeat(256)],
            Form::Usage,
            "255 are allowed",
        ),
        (
            &["--note", &"x".repeat(1024)],
            Form::Usage,
            "1023 are allowed",
        ),
        (
            &["--lease", "30s"],
            Form::Usage,
            "unexpected argument '--lease'",
        ),
        (&["--port", "65536"], Form::Usage, "'--port <PORT>'"),
        (&["--port", "0"], Form::Line, "--port (DLOCK_PORT) must be"),
        (&["--host", "a b"], Form::Line, "--host (DLOCK_HOST) is not"),
        (
            &["--host", "db", "--socket", "/s"],
            Form::Line,
            "--host and --socket are both given",
        ),
        (
            &["--url-file", "/f"],
            Form::Line,
            "--url and --url-file are both given",
        ),
        (
            &["--ssl-mode", "preferred"],
            Form::Usage,
            "'--ssl-mode <MODE>'",
        ),
    ] {
        refused(run(options), form, 64, why);
    }
    refused(
        run(&[]).env("DLOCK_TTL", "soon"),
        Form::Usage,
        64,
        "'--ttl <DURATION>'",
    );
    refused(
        run(&[]).env("DLOCK_PASSWORD", ""),
        Form::Line,
        64,
        "DLOCK_PASSWORD is empty",
    );
    for (line, why) in [
        (&["exec", "-a", "init"][..], "<COMMAND>"),
        (&["exec", "-a", "init", "--"], "<COMMAND>"),
        (&["exec", "--", "true"], "--action <NAME>"),
        (&["run"], "unrecognized subcommand 'run'"),
        (&[], "Usage"),
    ] {
        let outcome = Dlock::new(line).env("DLOCK_URL", &url).run();
        outcome.expect(64, "", why);
    }
    assert!(proxy.sessions().is_empty(), "somebody connected");
}

#[test]
fn without_a_server_all_that_is_missing_is_named_at_once() {
    let run = || Dlock::new(["exec", "-a", "init"]);
    refused(
        run(),
        Form::Line,
        64,
        "no server (set --host or DLOCK_HOST, --socket or DLOCK_SOCKET), no user",
    );
    refused(
        run().env("DLOCK_URL", "mysql://db"),
        Form::Line,
        64,
        "no user (set --user or DLOCK_USER), no database",
    );
    refused(
        run().env("DLOCK_URL", "mysql://me@db"),
        Form::Line,
        64,
        "no database (set --database or DLOCK_DATABASE)",
    );
    refused(
        run().env("DLOCK_URL", "db/dlock"),
        Form::Line,
        64,
        "must begin with mysql://",
    );
    refused(
        run().env("DLOCK_URL", ""),
        Form::Line,
        64,
        "must begin with mysql://",
    );
}

#[test]
fn a_server_that_is_not_there_is_unavailable() {
    let nobody = Port::claim(local(0)).expect("127.0.0.1 has ports");
    let port = nobody.number();
    let stage = Stage::new();
    let socket = stage.path("socket");
    let run = |url: &str| {
        let dlock = Dlock::new(["exec", "-a", "init", "--db-wait", "0"]).env("DLOCK_URL", url);
        resolving(dlock, "db.test=127.0.0.1")
    };
    refused(
        run("mysql://u:p@unknown.test/d"),
        Form::Line,
        69,
        "cannot resolve unknown.test:3306",
    );
    let refusing = format!("mysql://u:p@127.0.0.1:{port}/d");
    refused(run(&refusing), Form::Line, 69, "Connection refused");
    let refusing = format!("mysql://u:p@db.test:{port}/d");
    refused(
        run(&refusing),
        Form::Line,
        69,
        &format!("cannot reach db.test:{port}"),
    );
    let absent = format!("mysql://u:p@localhost/d?socket={}", socket.display());
    refused(run(&absent), Form::Line, 69, "No such file or directory");
    // Left behind by a server that has crashed.
    drop(UnixListener::bind(&socket).expect("the folder is writable"));
    refused(run(&absent), Form::Line, 69, "Connection refused");
}

/// Asserts that `dlock` gives up on whatever `url` leads to, in time.
#[track_caller]
fn gives_up_on(url: &str, why: &str) {
    let started = Instant::now();
    let dlock =
        Dlock::new(["exec", "-a", "init", "--ttl", "3s", "--db-wait", "0"]).env("DLOCK_URL", url);
    refused(resolving(dlock, "stuck.test=never"), Form::Line, 69, why);
    assert!(started.elapsed() < SOON, "after {:?}", started.elapsed());
}

#[test]
fn a_server_that_says_nothing_is_given_up_within_the_limits() {
    // Nobody accepts; the kernel has accepted already.
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has ports");
    let port = tcp.local_addr().expect("it is bound").port();
    gives_up_on(
        &format!("mysql://u:p@127.0.0.1:{port}/d"),
        "no answer in time",
    );
    gives_up_on(
        &format!("mysql://u:p@127.0.0.1:{port}/d?ssl-mode=required"),
        "no answer in time",
    );

    let stage = Stage::new();
    let path = stage.path("socket");
    let _unix = UnixListener::bind(&path).expect("the folder is writable");
    gives_up_on(
        &format!("mysql://u:p@localhost/d?socket={}", path.display()),
        "no answer in time",
    );
}

#[test]
fn what_the_driver_has_no_limit_for_is_given_up_all_the_same() {
    // A name server that never answers.
    gives_up_on(
        "mysql://u:p@stuck.test/d?ssl-mode=disabled",
        "gave up after 1s",
    );

    // A socket that has no room for one more.
    let stage = Stage::new();
    let path = stage.path("full");
    let address = SocketAddrUnix::new(&path).expect("a short path");
    let unix = |flags| {
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .expect("the system has sockets")
    };
    let listener = unix(SocketFlags::CLOEXEC);
    rustix::net::bind(&listener, &address).expect("the folder is writable");
    rustix::net::listen(&listener, 0).expect("it is bound");
    let mut waiting = Vec::new();
    loop {
        let client = unix(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        match rustix::net::connect(&client, &address) {
            Ok(()) => waiting.push(client),
            Err(error) => break assert_eq!(error, rustix::io::Errno::AGAIN),
        }
    }
    gives_up_on(
        &format!("mysql://u:p@localhost/d?socket={}", path.display()),
        "gave up after 1s",
    );

    // A server that always has one more byte: no read of it takes long.
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has ports");
    let port = tcp.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for client in tcp.incoming() {
            let mut client = client.expect("a connection can be accepted");
            thread::spawn(move || {
                // A greeting of 255 bytes: at this rate it lasts longer than dlock, whose end ends it.
                let greeting = packet(0, &[10; 255]);
                for byte in greeting {
                    if client.write_all(&[byte]).is_err() {
                        return;
                    }
                    thread::sleep(Duration::from_millis(100));
                }
            });
        }
    });
    gives_up_on(
        &format!("mysql://u:p@127.0.0.1:{port}/d"),
        "gave up after 1s",
    );
}

#[test]
fn a_wrong_password_and_an_unknown_account_are_denied() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour), "denied");
        let run = || exec(&database, "init");
        refused(
            run().env("DLOCK_PASSWORD", "wrong"),
            Form::Line,
            77,
            "Access denied",
        );
        // MySQL asks for the password of an account that is none by a plugin that it draws by lot.
        refused(run().env("DLOCK_USER", "nobody"), Form::Line, 77, "nobody");
        // Denied is denied: nothing is tried a second time, however long one may wait.
        refused(
            run()
                .env("DLOCK_PASSWORD", "wrong")
                .arg("--db-wait")
                .arg("1h"),
            Form::Line,
            77,
            "check the account",
        );
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        free(&database, "init");
    }
}

#[test]
fn an_unknown_database_is_a_matter_of_configuration() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("unknown");
        let absent = format!("{}_absent", database.name);
        let grant = format!("GRANT ALL ON `{absent}`.* TO '{}'@'%'", database.user);
        database.admin_conn().query_drop(grant).expect("root may");
        let run = exec(&database, "init").arg("--database").arg(&absent);
        refused(
            run,
            Form::Line,
            78,
            &format!("create it (CREATE DATABASE {absent}) or name another"),
        );
        // Whom the server tells nothing about it gets to know what the server says.
        let run = exec(&database, "init").arg("--database").arg("mysql");
        refused(run, Form::Line, 77, "to database 'mysql'");
        free(&database, "init");
    }
}

#[test]
fn missing_grants_are_denied() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = set_up(server, "rights");
        let mut reader = database.clone();
        reader.user = format!("{}_reader", database.user);
        let Database {
            name,
            user,
            password,
            ..
        } = &reader;
        for statement in [
            format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
            format!("GRANT SELECT ON `{name}`.* TO '{user}'@'%'"),
        ] {
            server.admin().query_drop(&statement).expect("root may");
        }
        refused(
            exec(&reader, "init"),
            Form::Line,
            77,
            "dlock setup --print shows the tables and the grants",
        );
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        free(&database, "init");
    }
}

#[test]
fn a_read_only_server_is_unavailable_and_said_to_be_read_only() {
    for flavour in Flavour::ALL {
        // Its setting is the whole server's, so it is one of its own.
        let server = Server::start(flavour, &[]);
        let database = set_up(&server, "replica");
        free(&database, "known");
        let empty = server.database("empty");
        server
            .admin()
            .query_drop("SET GLOBAL read_only = 1")
            .expect("root may");
        for (database, action) in [(&database, "known"), (&database, "init"), (&empty, "init")] {
            let why = "the server is read-only, dlock needs the primary";
            refused(exec(database, action), Form::Line, 69, why);
        }
        assert_eq!(actions(&database), ["known"], "{flavour}");
        let status = Dlock::on(&database, ["status", "known"]).run();
        assert!(
            status.stdout.contains("free"),
            "{flavour}: to look is no write: {status:?}"
        );

        // Who waits for the primary gets the lock from it.
        let mut root = server.admin();
        let mut connections = || -> u64 {
            let counted = root
                .query_first("SHOW GLOBAL STATUS LIKE 'Connections'")
                .expect("root may");
            let (_, connections): (String, _) = counted.expect("it is counted");
            connections
        };
        let before = connections();
        let waiter = Dlock::on(&database, ["exec", "-a", "init", "--", "echo", "ran"]).start();
        // A second connection is a second try.
        eventually("it has tried", || connections() >= before + 2);
        server
            .admin()
            .query_drop("SET GLOBAL read_only = 0")
            .expect("root may");
        let outcome = waiter.wait();
        outcome.expect(
            0,
            "ran\n",
            "the server is read-only, dlock needs the primary; trying again",
        );
        for (database, action) in [(&database, "known"), (&database, "init"), (&empty, "init")] {
            free(database, action);
        }
    }
}

#[test]
fn a_file_that_cannot_be_used_is_a_matter_of_configuration() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour), "files");
        let stage = Stage::new();
        let file = |name: &str, mode: u32, text: &str| {
            let path = stage.path(name);
            fs::write(&path, text).expect("the folder is writable");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the file is ours");
            path
        };
        let Database { user, password, .. } = &database;
        let options = format!("[client]\nuser={user}\npassword={password}\n");
        let missing = stage.path("missing");
        let folder = stage.path("folder");
        fs::create_dir(&folder).expect("the folder is writable");
        let open = file("open", 0o644, &options);
        let writable = file("writable", 0o602, "[client]\n");
        let garbled = file("garbled", 0o600, "[dlock]\nuser me\n");
        let unknown = file("unknown", 0o600, "[dlock]\n\nttl=3s\n");
        let circle = format!("!include {}\n", stage.path("circle").display());
        let circle = file("circle", 0o600, &circle);
        let empty = file("empty", 0o600, "");
        let binary = stage.path("binary");
        fs::write(&binary, b"\xff\xfe").expect("the folder is writable");

        let at = |path: &Path, why: &str| (path.to_owned(), format!("{}{why}", path.display()));
        for (option, (path, why)) in [
            ("--defaults-file", at(&missing, ": No such file")),
            ("--defaults-file", at(&folder, ": Is a directory")),
            (
                "--defaults-file",
                at(
                    &open,
                    ": holds a password and every user can read it: chmod 600",
                ),
            ),
            (
                "--defaults-file",
                at(&writable, ": every user can write to it: chmod o-w"),
            ),
            ("--defaults-file", at(&garbled, ":2: this is not an option")),
            (
                "--defaults-file",
                at(&unknown, ":3: unknown option in [dlock]"),
            ),
            (
                "--defaults-file",
                at(&circle, ":1: more than 10 files include each other"),
            ),
            ("--defaults-file", at(&binary, ": not UTF-8")),
            ("--password-file", at(&missing, ": No such file")),
            ("--password-file", at(&folder, ": Is a directory")),
            ("--password-file", at(&empty, ": the file is empty")),
            (
                "--password-file",
                at(Path::new("/dev/zero"), ": more than 1 MiB"),
            ),
        ] {
            refused(
                exec(&database, "init").arg(option).arg(path),
                Form::Line,
                78,
                &why,
            );
        }
        for (path, why) in [
            at(&missing, ": No such file"),
            at(&garbled, ": the URL must begin with mysql://"),
        ] {
            let run = Dlock::new(["exec", "-a", "init", "--url-file"]).arg(path);
            refused(run, Form::Line, 78, &why);
        }
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        // Closed, the same file is a good one.
        fs::set_permissions(&open, Permissions::from_mode(0o600)).expect("the file is ours");
        exec(&database, "init")
            .arg("--defaults-file")
            .arg(open)
            .arg("--")
            .arg("true")
            .run()
            .expect(0, "", "");
    }
}

#[test]
fn a_command_that_cannot_run_is_told_before_the_lock_is_taken() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = set_up(server, "commands");
        let proxy = Proxy::to(server.port());
        let stage = Stage::new();
        let plain = stage.path("plain");
        fs::write(&plain, "#!/bin/sh\n").expect("the folder is writable");
        fs::set_permissions(&plain, Permissions::from_mode(0o644)).expect("the file is ours");
        for (command, status, why) in [
            (
                Path::new("no-such-command"),
                127,
                "cannot run no-such-command: no such command",
            ),
            (
                Path::new("/no/such/command"),
                127,
                "cannot run /no/such/command: no such command",
            ),
            (&stage.path("plain/below"), 127, "no such command"),
            (Path::new(""), 127, "no such command"),
            (&plain, 126, "Permission denied"),
            (Path::new("/"), 126, "cannot run /: "),
        ] {
            let outcome = Dlock::new(["exec", "-a", "init", "--"])
                .env("DLOCK_URL", database.url_through(proxy.port()))
                .arg(command)
                .run();
            outcome.expect(status, "", why);
            assert!(
                outcome.stderr.starts_with("dlock: ") && outcome.stderr.lines().count() == 1,
                "{outcome:#?}"
            );
        }
        assert!(proxy.sessions().is_empty(), "{flavour}: somebody connected");
        assert_eq!(actions(&database), [""; 0], "{flavour}");
    }
}

#[test]
fn a_command_that_turns_out_to_be_none_gives_the_lock_back() {
    // Only the kernel can tell, when it is asked to run it.
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour), "kernel");
        let stage = Stage::new();
        for (name, text, status) in [
            ("shebang", "#!/no/such/interpreter\n", 127),
            ("forbidden", "#!/etc/passwd\n", 126),
        ] {
            let path = stage.path(name);
            fs::write(&path, text).expect("the folder is writable");
            fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("the file is ours");
            exec(&database, name)
                .arg("--")
                .arg(&path)
                .run()
                .expect(status, "", "cannot run");
            let held = "SELECT COUNT(*) FROM dlock_lock WHERE claim IS NOT NULL";
            let held: Option<u64> = database
                .admin_conn()
                .query_first(held)
                .expect("the table is there");
            assert_eq!(held, Some(0), "{flavour}, {name}");
            free(&database, name);
        }
    }
}

#[test]
fn a_reply_on_which_the_driver_panics_is_a_failed_attempt_like_any_other() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = set_up(server, "panic");
        let connections = AtomicUsize::new(0);
        let proxy = Proxy::tampering(server.port(), move |greeting| {
            // Where the answer to the login is due, the driver looks at the first byte of none.
            let empty = match connections.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => packet(2, &[]),
                _ => Vec::new(),
            };
            [greeting, &empty].concat()
        });
        let outcome = Dlock::new(["exec", "-a", "init", "--", "echo", "ran"])
            .env("DLOCK_URL", database.url_through(proxy.port()))
            .run();
        outcome.expect(0, "ran\n", "the driver could not read the server's reply");
        assert!(
            !outcome.stderr.contains("internal error"),
            "{flavour}: {outcome:?}"
        );
        assert_eq!(proxy.sessions().len(), 3, "{flavour}: {outcome:?}");
    }
}
