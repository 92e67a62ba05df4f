//! `make bench` runs this benchmark. It measures the cost of one `dlock exec -a x -- true` on MariaDB and MySQL,
//! compared with `etcdctl`.
//!
//! The benchmark starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, and writes Markdown to stdout and to
//! `target/bench/exec.md`. The benchmark fails if a program fails, but not if a target is missed. Each program is timed
//! `ROUNDS` times (100 by default).
//!
//! - `timing` measures the run times of whole processes. `etcd` starts the etcd server, and `servers` the other
//!   servers.
//! - `counters` reads the server's counters for one `exec`. `traffic` counts the packets of one `exec` with the `proxy`
//!   of the tests.
//! - `footprint` measures memory and program size. `machine` and `host` describe the machine, `sample` computes
//!   percentiles, and `table` formats the page.

mod counters;
mod footprint;
// This benchmark uses only some items of `proxy`. The tests use the others.
// This benchmark uses only some items of `servers`. The tests use the others.
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use testkit::bench::etcd::Etcd;
use testkit::bench::machine;
use testkit::bench::spawn::bare;
use testkit::bench::timing;
use testkit::bench::timing::Contestant;
use testkit::servers::{Database, Flavour, Server};

use self::footprint::Footprint;

/// Path of dlock, which `cargo bench` builds with the release profile.
const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

/// Number of initial rounds whose times are discarded. These rounds create the rows and fill all caches, including the
/// account caches of the servers.
const WARM_UP: usize = 5;

/// A server and dlock's account on it.
struct Site {
    server: Server,
    database: Database,
    /// Certificate authority that signed the server's certificate.
    authority: PathBuf,
}

impl Site {
    fn start(flavour: Flavour, folder: &Path) -> Self {
        let (authority, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let server = Server::start(
            flavour,
            &[
                &format!("--ssl-cert={}", authority.display()),
                &format!("--ssl-key={}", key.display()),
            ],
        );
        let database = server.database("bench");
        Self {
            server,
            database,
            authority,
        }
    }

    fn name(&self) -> &'static str {
        match self.server.flavour() {
            Flavour::MariaDb => "MariaDB",
            Flavour::MySql => "MySQL",
        }
    }

    /// Returns `dlock exec ARGUMENTS…` on this server, over TCP without TLS.
    fn exec(&self, arguments: &[&str]) -> Command {
        let mut command = bare_command(DLOCK);
        command.arg("exec").args(arguments);
        command.env("DLOCK_URL", self.database.url());
        command
    }

    fn exec_by_socket(&self, arguments: &[&str]) -> Command {
        let mut command = self.exec(arguments);
        command.env("DLOCK_URL", self.database.socket_url());
        command
    }

    fn exec_by_tls(&self, arguments: &[&str]) -> Command {
        let mut command = self.exec(arguments);
        command.env("DLOCK_SSL_MODE", "verify_identity");
        command.env("DLOCK_SSL_CA", &self.authority);
        command
    }
}

/// Returns a command for `program`. All compared programs have the same environment.
fn bare_command(program: impl AsRef<Path>) -> Command {
    bare(Command::new(program.as_ref()))
}

fn main() {
    // `cargo test --benches` also runs this program, but with an unoptimized dlock. The program then does nothing.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rounds = std::env::var("ROUNDS").map_or(100, |rounds| {
        rounds.parse().expect("ROUNDS is a number of rounds")
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    certify(&folder);
    let sites = Flavour::ALL.map(|flavour| Site::start(flavour, folder.path()));
    let etcd = Etcd::start(|program| bare_command(program));

    let mut facts = machine::facts();
    let folders = sites.iter().map(|site| site.server.dir());
    facts.push(machine::storage(
        folders.chain([etcd.folder(), folder.path()]),
    ));
    facts.extend((sites.iter()).map(|site| machine::settings(site.name(), &site.server)));
    facts.push((
        "etcd".to_owned(),
        format!("{}, fsync at every commit (its default)", etcd.version()),
    ));

    let records = timing::run(contestants(&sites, &etcd, &folder), WARM_UP, rounds);
    facts.push(("load".to_owned(), machine::load()));
    let costs = sites.each_ref().map(counters::cost);
    let footprint = measure(&sites, &etcd);

    let text = table::text(&facts, &records, &costs, &footprint);
    print!("{text}");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&target).expect("a folder can be created in the target folder");
    fs::write(target.join("exec.md"), text).expect("the page can be written to the target folder");
}

/// Returns the contestants. The ratios are relative to the first contestant.
fn contestants(sites: &[Site], etcd: &Etcd, folder: &TempDir) -> Vec<Contestant> {
    let exec = ["-a", "x", "--", "true"];
    let mut flock = bare_command("flock");
    flock.arg(folder.path().join("f")).arg("true");
    let mut version = bare_command(DLOCK);
    version.arg("--version");
    let mut list = vec![
        Contestant::program("`etcdctl lock x true`", etcd.lock("x", &["true"])),
        Contestant::program("`flock f true`", flock),
        Contestant::program("`true`", bare_command("true")),
        Contestant::program("`dlock --version`", version),
        Contestant::sync("4 KiB appended and synced", &folder.path().join("synced")),
    ];
    for site in sites {
        let name = |route| format!("`dlock exec -a x -- true`, {}, {route}", site.name());
        list.extend([
            Contestant::program(&name("TCP"), site.exec(&exec)),
            Contestant::program(&name("TLS"), site.exec_by_tls(&exec)),
            Contestant::program(&name("Unix socket"), site.exec_by_socket(&exec)),
        ]);
    }
    list
}

fn measure(sites: &[Site], etcd: &Etcd) -> Footprint {
    let mut memory = Vec::new();
    for site in sites {
        let holding = ["-a", "memory", "-t", "6s", "--", "cat"];
        for (route, command) in [
            ("TCP", site.exec(&holding)),
            ("TLS", site.exec_by_tls(&holding)),
            ("Unix socket", site.exec_by_socket(&holding)),
        ] {
            let peak = footprint::peak(command, || footprint::renewals(site, "memory") >= 2);
            memory.push((format!("{}, {route}", site.name()), peak));
        }
    }
    // Unlike dlock, etcdctl does not pass its standard input to the command, so the command sleeps.
    let peer = footprint::peak(etcd.lock("memory", &["sleep", "5"]), || {
        etcd.queue("memory") > 0
    });
    let binary = fs::metadata(DLOCK).expect("dlock is built").len();
    Footprint {
        memory,
        peer,
        binary,
    }
}

/// Writes a self-signed certificate for 127.0.0.1 and the key of the certificate.
fn certify(folder: &TempDir) {
    let certificate =
        rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    for (name, text) in [
        ("cert.pem", certificate.cert.pem()),
        ("key.pem", certificate.signing_key.serialize_pem()),
    ] {
        fs::write(folder.path().join(name), text).expect("a file can be created");
    }
}
