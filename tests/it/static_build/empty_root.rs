//! Tests of the static program in a root directory that contains no C library and no name service. `/proc` is
//! mounted, because dlock finds the processes of the command there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::{fs, process, thread};

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::proxy::Proxy;
use testkit::servers::{Flavour, shared};

use super::program;
use crate::tls::{NAME, TlsServer};

/// A script that mounts `/proc` below the folder `$1`, and runs the other words with this folder as the root directory. The
/// mount ends with the script's mount namespace.
const CHROOT: &str = r#"mount -t proc proc "$1/proc" && exec chroot "$@""#;

/// The command that dlock runs. The folder contains no other program.
const COMMAND: [&str; 3] = ["--", "/dlock", "version"];

/// A folder that contains the static program as `/dlock`, and the files that a test adds.
struct EmptyRoot(Stage);

impl EmptyRoot {
    fn new() -> Self {
        let root = Self(Stage::new());
        root.copy(&program(), "dlock");
        fs::create_dir(root.0.path("proc")).expect("the folder is writable");
        root
    }

    fn copy(&self, source: &Path, name: &str) {
        fs::copy(source, self.0.path(name)).expect("the folder is writable");
    }

    /// Returns a `dlock exec` that runs [`COMMAND`] with this folder as its root directory.
    fn exec(&self, url: &str, options: &[&str]) -> Dlock {
        Dlock::of(Path::new("unshare"), ["--mount", "sh", "-c", CHROOT, "sh"])
            .arg(self.0.path(""))
            .args(["/dlock", "exec", "-q", "init"])
            .args(options)
            .args(COMMAND)
            .env("DLOCK_URL", url)
    }
}

fn version() -> String {
    Dlock::of(&program(), ["version"]).run().stdout
}

/// Starts a DNS server in which [`NAME`] has the address `::1` and no IPv4 address, and no other name exists. Returns the
/// address of the server. The server has an address of its own, because `/etc/resolv.conf` cannot contain a port.
#[track_caller]
fn name_server() -> Ipv4Addr {
    let [_, high, middle, low] = process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 128 + high, middle, low);
    let socket = UdpSocket::bind((address, 53));
    let socket = socket.expect("port 53 can be bound; run this test as root");
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let response = answer(&query[..length]);
            // The client asks again if a response is lost.
            let _ = socket.send_to(&response, client);
        }
    });
    address
}

/// Returns the response to a DNS query that contains one question.
fn answer(query: &[u8]) -> Vec<u8> {
    const HEADER: usize = 12;
    const AAAA: [u8; 2] = [0, 28];
    // The labels of NAME, each after its length.
    let is_known = query[HEADER..].starts_with(b"\x02db\x04test\0");
    let end = query[HEADER..].iter().position(|byte| *byte == 0);
    let end = HEADER + end.expect("the name ends with 0") + 1;
    let is_answered = is_known && query[end..].starts_with(&AAAA);
    // The response has the id of the query. 0x8180 is a successful response, and 3 means that the name does not exist.
    let mut response = vec![query[0], query[1], 0x81, if is_known { 0x80 } else { 0x83 }];
    response.extend([0, 1, 0, u8::from(is_answered), 0, 0, 0, 0]);
    response.extend(&query[HEADER..end + 4]);
    if is_answered {
        // A pointer to the name in the question, the type, the class IN, a time to live of 0 s, the length, the address.
        response.extend([0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 0, 0, 16]);
        response.extend(Ipv6Addr::LOCALHOST.octets());
    }
    response
}

#[test]
fn static_dlock_resolves_a_name_to_ipv6_and_verifies_the_certificate_in_an_empty_root() {
    let root = EmptyRoot::new();
    fs::create_dir(root.0.path("etc")).expect("the folder is writable");
    let resolver = format!("nameserver {}\n", name_server());
    fs::write(root.0.path("etc/resolv.conf"), resolver).expect("the folder is writable");
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        for authority in ["ca", "other"] {
            root.copy(Path::new(&tls.certs.path(authority)), authority);
        }
        // The server accepts this account only over TLS.
        let database = tls.database("SSL");
        let here = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0);
        let proxy = Proxy::at(here, database.port).expect("::1 has a free port");
        let url = |host: &str| database.url_at(&format!("{host}:{}", proxy.port()));

        println!("{flavour}");
        let exec = |host, options: &[&str]| root.exec(&url(host), options).run();
        let run = |host, authority| exec(host, &["--ssl-ca", authority]);
        run(NAME, "/ca").expect(0, &version(), "");
        run(NAME, "/other").expect(78, "", "verify_identity");
        run("[::1]", "/ca").expect(78, "", "not valid for");
        exec("missing.test", &["--connect-timeout", "0"]).expect(69, "", "missing.test");
    }
}

#[test]
fn static_dlock_connects_to_a_unix_socket_in_an_empty_root() {
    let root = EmptyRoot::new();
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("static");
        let socket = flavour.to_string();
        fs::hard_link(server.socket(), root.0.path(&socket))
            .expect("the folders are in the same file system");
        let url = format!("{}?socket=/{socket}", database.url_at("localhost"));
        root.exec(&url, &[]).expect(0, &version(), "");
    }
}
