//! `make bench`: what one `dlock exec -a x -- true` costs, beside its peers, on servers of both kinds.
//!
//! Starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`, and writes a Markdown table to stdout and to
//! `target/bench/exec.md`. It reports and never judges: only a run that fails ends it. `ROUNDS` (100) says how often
//! each program is timed.
//!
//! - `race` times whole processes against each other, `etcd` starts the one server that `servers` does not know
//! - `counters` asks the servers what one `exec` made them do, `traffic` counts its packets on the way, by the tests' `proxy`
//! - `footprint` measures memory and size, `machine` and `host` say where all this was, `sample` makes numbers of
//!   measurements, `table` writes it down

#[path = "../machine/bare.rs"]
mod bare;
mod counters;
#[path = "../peers/etcd.rs"]
mod etcd;
mod footprint;
#[path = "../machine/host.rs"]
mod host;
mod machine;
// The tests use the rest of it.
#[path = "../../tests/it/proxy.rs"]
mod proxy;
mod race;
#[allow(dead_code, reason = "the other benches use the rest of it")]
#[path = "../line/sample.rs"]
mod sample;
// The tests use the rest of it.
#[path = "../../tests/it/servers.rs"]
mod servers;
mod table;
mod traffic;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use self::bare::bare;
use self::etcd::Etcd;
use self::footprint::Footprint;
use self::race::Contestant;
use self::servers::{Database, Flavour, Server};

/// The program as `cargo bench` builds it: with the release profile.
const DLOCK: &str = env!("CARGO_BIN_EXE_dlock");

/// Rounds that are not counted: they create the rows and fill the caches, those of the servers' accounts too.
const WARM_UP: usize = 5;

/// A server and the account that dlock has there.
struct Site {
    server: Server,
    database: Database,
    /// The authority that the server's certificate is signed by.
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

    /// `dlock exec -a ACTION -- COMMAND…` here, over TCP without TLS.
    fn exec(&self, arguments: &[&str]) -> Command {
        let mut command = alone(DLOCK);
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

/// `program` as all are started that are compared.
fn alone(program: impl AsRef<Path>) -> Command {
    bare(Command::new(program.as_ref()))
}

fn main() {
    // `cargo test --benches` runs this too, with another build of dlock and with nobody to read the table.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let rounds = std::env::var("ROUNDS").map_or(100, |rounds| {
        rounds.parse().expect("ROUNDS is a number of rounds")
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    certify(&folder);
    let sites = Flavour::ALL.map(|flavour| Site::start(flavour, folder.path()));
    let etcd = Etcd::start();

    let mut facts = machine::facts();
    facts.push(machine::storage(&sites, &etcd, folder.path()));
    facts.extend(sites.iter().map(machine::settings));
    facts.push((
        "etcd".to_owned(),
        format!("{}, fsync at every commit (its default)", etcd.version()),
    ));

    let records = race::run(contestants(&sites, &etcd, &folder), WARM_UP, rounds);
    facts.push(("load".to_owned(), machine::load()));
    let bills = sites.each_ref().map(counters::bill);
    let footprint = measure(&sites, &etcd);

    let text = table::text(&facts, &records, &bills, &footprint);
    print!("{text}");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("bench");
    fs::create_dir_all(&target).expect("the target folder takes a folder");
    fs::write(target.join("exec.md"), text).expect("the target folder takes a file");
}

/// Who is timed; the first is the one that the others are compared with.
fn contestants(sites: &[Site], etcd: &Etcd, folder: &TempDir) -> Vec<Contestant> {
    let exec = ["-a", "x", "--", "true"];
    let mut flock = alone("flock");
    flock.arg(folder.path().join("f")).arg("true");
    let mut list = vec![
        Contestant::program("`etcdctl lock x true`", etcd.lock("x", &["true"])),
        Contestant::program("`flock f true`", flock),
        Contestant::program("`true`", alone("true")),
        Contestant::sync("4 KiB appended and synced", &folder.path().join("synced")),
    ];
    for site in sites {
        let name = |way| format!("`dlock exec -a x -- true`, {}, {way}", site.name());
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
        for (way, command) in [
            ("TCP", site.exec(&holding)),
            ("TLS", site.exec_by_tls(&holding)),
            ("Unix socket", site.exec_by_socket(&holding)),
        ] {
            let peak = footprint::peak(command, || footprint::renewals(site, "memory") >= 2);
            memory.push((format!("{}, {way}", site.name()), peak));
        }
    }
    // Unlike dlock, etcdctl gives its command no standard input to wait on.
    let peer = footprint::peak(etcd.lock("memory", &["sleep", "5"]), || {
        etcd.queue("memory") > 0
    });
    let binary = fs::metadata(DLOCK).expect("dlock was built").len();
    Footprint {
        memory,
        peer,
        binary,
    }
}

/// Writes a certificate for 127.0.0.1, which is its own authority, and its key.
fn certify(folder: &TempDir) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    for (name, text) in [
        ("cert.pem", made.cert.pem()),
        ("key.pem", made.signing_key.serialize_pem()),
    ] {
        fs::write(folder.path().join(name), text).expect("the temporary folder takes a file");
    }
}
