//! Invalid action names, and similar names that are different actions.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use testkit::cli_runner::Dlock;
use testkit::command::{Stage, read_message, write_message};
use testkit::servers::{Flavour, shared};

use super::{Form, actions, exec, free, refused, set_up};

#[test]
fn invalid_action_names_are_rejected() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour), "names");
        let long = "x".repeat(256);
        let wide = "é".repeat(128);
        let names: [(&[u8], &str); 8] = [
            (b"", "the name is empty"),
            (long.as_bytes(), "256 bytes; at most 255 are allowed"),
            (wide.as_bytes(), "256 bytes; at most 255 are allowed"),
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
                refused(run().env("DLOCK_OPT_ACTION", name), Form::Usage, 64, why);
            }
        }
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        // These are the longest valid names, and names that need quoting in a shell or in SQL.
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
        assert_eq!(read_message(&ready), "up");
        for other in ["init", "Init ", "Ínit", "INIT"] {
            free(&database, other);
        }
        refused(exec(&database, "Init"), Form::Line, 75, "Init is held by");
        write_message(&go, "on");
        holder.wait().expect(0, "", "");
    }
}
