//! Tests of TLS and login. Each TLS mode must accept and refuse connections as documented. A middlebox must not be able
//! to disable TLS. Data that an attacker injects into a connection must never count as a response from the server.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, SslOpts};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SanType,
};
use tempfile::TempDir;
use testkit::cli_runner::Dlock;
use testkit::network::resolving;
use testkit::on_each_flavour;
use testkit::proxy::{Proxy, packet};
use testkit::servers::{Database, Flavour, Server, shared};
use testkit::sql::Sql;

use crate::faults::on_each;

/// The host name in the server's certificate.
pub(crate) const NAME: &str = "db.test";

/// Test authorities and certificates, as PEM files in a folder.
pub(crate) struct TestCerts(TempDir);

impl TestCerts {
    /// Creates the files. The authority `ca.pem` has signed `client.pem` and `server.pem`. The certificate `server.pem`
    /// is valid only for [`NAME`]. The authority `other.pem` has signed no certificate.
    fn new() -> Self {
        let certs = Self(tempfile::tempdir().expect("a temporary folder can be created"));
        let authority = certs.authority("ca");
        certs.authority("other");
        certs.sign(&authority, "server", &[NAME]);
        certs.sign(&authority, "client", &[]);
        certs
    }

    fn authority(&self, name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key can be generated");
        let authority =
            CertifiedIssuer::self_signed(params, key).expect("a certificate can be generated");
        self.write(name, &authority.pem());
        authority
    }

    fn sign(&self, authority: &CertifiedIssuer<'static, KeyPair>, name: &str, hosts: &[&str]) {
        let mut params = named(name);
        let alternative = |host: &&str| SanType::DnsName((*host).try_into().expect("ASCII"));
        params.subject_alt_names = hosts.iter().map(alternative).collect();
        let key = KeyPair::generate().expect("a key can be generated");
        let certificate = params.signed_by(&key, authority);
        let certificate = certificate.expect("a certificate can be generated");
        self.write(name, &certificate.pem());
        self.write(&format!("{name}-key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, pem: &str) {
        // Only this user can read the folder, and the server runs as this user.
        fs::write(self.path(name), pem).expect("the folder is writable");
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}.pem", self.0.path().display())
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A server with [`TestCerts`] that accepts TCP connections only with TLS.
pub(crate) struct TlsServer {
    server: Server,
    pub(crate) certs: TestCerts,
}

impl TlsServer {
    /// Returns the server of this flavour that all tests share. The first call starts the server.
    #[track_caller]
    pub(crate) fn shared(flavour: Flavour) -> &'static Self {
        static SERVERS: [OnceLock<TlsServer>; 2] = [const { OnceLock::new() }; 2];
        let server = &SERVERS[usize::from(flavour == Flavour::MySql)];
        server.get_or_init(|| {
            let certs = TestCerts::new();
            let files = [("ca", "ca"), ("cert", "server"), ("key", "server-key")];
            let [ca, cert, key] =
                files.map(|(option, name)| format!("--ssl-{option}={}", certs.path(name)));
            let options = [&*ca, &cert, &key, "--require-secure-transport=ON"];
            let server = Server::start(flavour, &options);
            Self { server, certs }
        })
    }

    /// Creates a database with dlock's tables. The account requires `require`, for example `SSL` or `X509`, from its
    /// clients.
    #[track_caller]
    pub(crate) fn database(&self, require: &str) -> Database {
        let database = self.server.database("tls");
        let setup = Dlock::new(["setup"]).env("DLOCK_URL", database.socket_url());
        setup.expect(0, "", "in place");
        let user = &database.user;
        database.run(format!("ALTER USER '{user}'@'%' REQUIRE {require}"));
        database
    }
}

/// Returns a `dlock exec` of `echo ran` with `options` that connects to `database` by the host name `host`. [`NAME`]
/// resolves to 127.0.0.1.
fn echo(database: &Database, host: &str, options: &[&str]) -> Dlock {
    // A server on a busy machine may not respond within the time limit of one attempt. With -q, a retry prints nothing.
    let url = database.url_at(&format!("{host}:{}", database.port));
    let dlock = Dlock::new(["exec", "-q", "-a", "init"]).env("DLOCK_URL", url);
    let dlock = dlock.args(options).args(["--", "echo", "ran"]);
    resolving(dlock, &format!("{NAME}=127.0.0.1"))
}

#[test]
fn each_ssl_mode_accepts_exactly_what_it_documents() {
    let flavour = Flavour::of_this_test();
    let tls = TlsServer::shared(flavour);
    // The server accepts this account only over TLS.
    let database = tls.database("SSL");
    let (by_ca, identity, local) = ("verify_ca", "verify_identity", "127.0.0.1");
    let no_ca = "server's certificate authority with --ssl-ca";
    let wrong_ca = "--ssl-mode verify_ca is in force";
    let wrong_identity = "--ssl-mode verify_identity is in force";
    let wrong_name = "or set --ssl-mode verify_ca to accept any name";
    for (mode, authority, host, why) in [
        ("required", None, NAME, ""),
        ("required", None, local, ""),
        ("required", Some("other"), NAME, ""),
        (by_ca, Some("ca"), NAME, ""),
        (by_ca, Some("ca"), local, ""),
        (by_ca, Some("other"), NAME, wrong_ca),
        (by_ca, None, NAME, no_ca),
        (identity, Some("ca"), NAME, ""),
        (identity, Some("ca"), local, wrong_name),
        (identity, Some("other"), NAME, wrong_identity),
        (identity, None, NAME, no_ca),
    ] {
        println!("{flavour}, {mode} with {authority:?} for {host}");
        let authority = authority.map(|name| tls.certs.path(name));
        let mut options = vec!["--ssl-mode", mode];
        if let Some(authority) = &authority {
            options.extend(["--ssl-ca", authority]);
        }
        let (status, stdout) = if why.is_empty() {
            (0, "ran\n")
        } else {
            (78, "")
        };
        echo(&database, host, &options).expect(status, stdout, why);
    }
    // Variables and the URL have the same settings.
    let ca = &tls.certs.path("ca");
    let variables = echo(&database, NAME, &[])
        .env("DLOCK_SSL_MODE", "VERIFY_IDENTITY")
        .env("DLOCK_SSL_CA", ca);
    variables.expect(0, "ran\n", "");
    let url = database.url_at(&format!("{NAME}:{}", database.port));
    let url = format!("{url}?ssl-mode=verify_identity&ssl-ca={ca}");
    let by_url = echo(&database, NAME, &[]).env("DLOCK_URL", url);
    by_url.run().expect(0, "ran\n", "");

    // A host that is not loopback must prove its identity by default. 0.0.0.0 also reaches this machine, but dlock does
    // not treat it as loopback.
    for host in [NAME, "0.0.0.0"] {
        let outcome = echo(&database, host, &[]).run();
        let why = "verify_identity is in force (the default for a host that is not loopback)";
        outcome.expect(78, "", "--ssl-ca");
        for text in [why, "--ssl-mode required", "--ssl-mode disabled"] {
            outcome.expect(78, "", text);
        }
    }
    echo(&database, NAME, &["--ssl-ca", ca]).expect(0, "ran\n", "");
    // This server accepts connections without TLS.
    let database = shared(flavour).database("tls");
    for (host, options) in [(NAME, &["--ssl-mode", "disabled"][..]), (local, &[])] {
        echo(&database, host, options).expect(0, "ran\n", "");
    }
}

#[test]
fn client_certificate_logs_in_to_an_account_that_requires_it() {
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("X509");
        let [ca, cert, key] = ["ca", "client", "client-key"].map(|name| tls.certs.path(name));
        let options = ["--ssl-ca", &ca, "--ssl-cert", &cert, "--ssl-key", &key];
        let run = |options| echo(&database, NAME, options).run();
        run(&options).expect(0, "ran\n", "");
        run(&options[..2]).expect(77, "", "Access denied");
        // dlock refuses a certificate without a key before it connects.
        run(&options[..4]).expect(64, "", "also set --ssl-key (DLOCK_SSL_KEY)");
    }
}

on_each_flavour!(server_without_tls_is_refused_and_the_fix_is_named);
fn server_without_tls_is_refused_and_the_fix_is_named(flavour: Flavour) {
    let without;
    let server = match flavour {
        // MariaDB 10.11 has no certificate unless its options name one.
        Flavour::MariaDb => shared(flavour),
        Flavour::MySql => {
            without = Server::start(flavour, &["--tls-version="]);
            &without
        }
    };
    let database = server.database("no_tls");
    let run = |host, options: &[&str]| echo(&database, host, options).run();
    let fix = "set --ssl-mode disabled (DLOCK_SSL_MODE)";
    for mode in ["required", "verify_ca", "verify_identity"] {
        run("127.0.0.1", &["--ssl-mode", mode]).expect(78, "", fix);
    }
    run("127.0.0.1", &["--ssl-mode", "disabled"]).expect(0, "ran\n", "");
    run("127.0.0.1", &[]).expect(0, "ran\n", "");
    // For a host that is not loopback, dlock requires TLS by default.
    run(NAME, &[]).expect(78, "", fix);
}

#[test]
fn middlebox_cannot_strip_tls() {
    // Bit 11 of the capabilities in the greeting, which is bit 3 of their second byte, means TLS. The capabilities
    // follow the protocol version, the server version with its NUL, the connection id, and the first part of the
    // challenge with its filler.
    let strip = |greeting: &[u8]| {
        let mut greeting = greeting.to_vec();
        let version = greeting[5..].iter().position(|&byte| byte == 0);
        let capabilities = 5 + version.expect("a NUL ends the version") + 1 + 4 + 8 + 1;
        assert_eq!(greeting[capabilities + 1] & 8, 8, "the server offers TLS");
        greeting[capabilities + 1] &= !8;
        greeting
    };
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let mut database = tls.database("NONE");
        let proxy = Proxy::tampering(database.port, strip);
        database.port = proxy.port();
        let run = |host, options: &[&str]| echo(&database, host, options).run();
        let why = "does not offer TLS";
        run("127.0.0.1", &["--ssl-mode", "required"]).expect(78, "", why);
        // For a host that is not loopback, the default mode also refuses the connection.
        run(NAME, &[]).expect(78, "", why);
        let logins = || proxy.sessions().iter().filter(|it| it.login > 0).count();
        // The client has sent no data without encryption.
        assert_eq!(logins(), 0, "{flavour}");
        // Without TLS, a login passes this proxy, and the server refuses it.
        run("127.0.0.1", &[]).expect(77, "", "--ssl-mode");
        assert!(logins() > 0, "{flavour}");
    }
}

#[test]
fn server_that_requires_tls_is_reported_with_the_option_to_set() {
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        // The server requires TLS from the first account, and an account of it requires TLS too.
        for require in ["NONE", "SSL"] {
            let database = tls.database(require);
            for options in [&[][..], &["--ssl-mode", "disabled"]] {
                echo(&database, "127.0.0.1", options).expect(77, "", "--ssl-mode");
            }
            echo(&database, "127.0.0.1", &["--ssl-mode", "required"]).expect(0, "ran\n", "");
        }
    }
}

#[test]
fn certificates_that_mysql_generates_satisfy_verify_ca() {
    let server = shared(Flavour::MySql);
    let database = server.database("generated_certs");
    let ca = format!("{}/data/ca.pem", server.dir().display());
    let run = |mode: &str| {
        let options = ["--ssl-mode", mode, "--ssl-ca", &ca];
        echo(&database, "127.0.0.1", &options).run()
    };
    run("verify_ca").expect(0, "ran\n", "");
    // These certificates contain no host name.
    run("verify_identity").expect(78, "", "not valid for");
    // A file that cannot be read is named.
    let missing = "/no/such/file.pem";
    for files in [
        &["--ssl-ca", missing][..],
        &["--ssl-cert", missing, "--ssl-key", missing],
    ] {
        let required = ["--connect-timeout", "0", "--ssl-mode", "required"];
        let dlock = echo(&database, "127.0.0.1", &[&required[..], files].concat());
        dlock.run().expect(78, "", missing);
    }
}

#[track_caller]
fn logs_in_with(database: &Database, plugin: &str) {
    let user = &database.user;
    let found: String =
        database.value(format!("SELECT plugin FROM mysql.user WHERE user='{user}'"));
    assert_eq!(found, plugin);
}

#[test]
fn caching_sha2_password_works_uncached_and_cached_on_every_transport() {
    let server = shared(Flavour::MySql);
    let proxy = Proxy::to(server.port());
    for way in ["tcp", "tls", "socket"] {
        let database = server.database("sha2");
        logs_in_with(&database, "caching_sha2_password");
        let (url, mode) = match way {
            "tcp" => (database.url_through(proxy.port()), "disabled"),
            "tls" => (database.url(), "required"),
            _ => (database.socket_url(), "disabled"),
        };
        // No client has logged in to this account before, so the server has not cached the password of the account.
        for _ in 0..2 {
            println!("{way}");
            let exec = [
                "exec",
                "-q",
                "init",
                "--connect-timeout=0",
                "--ssl-mode",
                mode,
            ];
            let exec = Dlock::new(exec).args(["--", "echo", "ran"]);
            exec.env("DLOCK_URL", &url).expect(0, "ran\n", "");
        }
    }
    let sessions = proxy.sessions();
    let logins: Vec<usize> = sessions.iter().map(|session| session.login).collect();
    // Without TLS, the first login has three packets: the response to the challenge, the request for the server's key,
    // and the encrypted password. Each later login has only the response to the challenge.
    assert_eq!(logins[..2], [3, 1], "{logins:?}");
    assert!(logins[2..].iter().all(|&login| login == 1), "{logins:?}");
}

#[test]
fn mysql_native_password_works_with_and_without_tls() {
    let tls = TlsServer::shared(Flavour::MariaDb);
    for (database, mode) in [
        (shared(Flavour::MariaDb).database("native"), "disabled"),
        (tls.database("NONE"), "required"),
    ] {
        logs_in_with(&database, "mysql_native_password");
        echo(&database, "127.0.0.1", &["--ssl-mode", mode]).expect(0, "ran\n", "");
        let socket = echo(&database, "", &[]).env("DLOCK_URL", database.socket_url());
        socket.expect(0, "ran\n", "");
    }
}

/// Returns a forged response that reports one changed row.
fn forged_change() -> Vec<u8> {
    packet(1, &[0, 1, 0, 2, 0, 0, 0])
}

/// Returns a forged response to the request that reads the row back. An attacker cannot guess the request id and the
/// owner id, because both ids are random and are sent only through TLS.
fn forged_row() -> Vec<u8> {
    let text = |text: &[u8]| {
        let mut field = vec![u8::try_from(text.len()).expect("the string is short")];
        field.extend_from_slice(text);
        field
    };
    let values = [
        ("request", &[0; 8][..]),
        ("version", b"3"),
        ("action", b"init"),
        ("token", b"1795169698189841"),
        ("owner_id", &[0; 16]),
        ("left_us", b"30000000"),
    ];
    let mut number = 0;
    let mut next = |payload: &[u8]| {
        number += 1;
        packet(number, payload)
    };
    let mut response = next(&[u8::try_from(values.len()).expect("the number is small")]);
    for (name, _) in values {
        let mut column = text(b"def");
        for part in ["", "", "", name, name] {
            column.extend(text(part.as_bytes()));
        }
        // The fixed part of the column definition: its length, character set binary, width 255, type VAR_STRING, no
        // flags, no decimals, filler.
        column.extend([12, 63, 0, 255, 0, 0, 0, 253, 0, 0, 0, 0, 0]);
        response.extend(next(&column));
    }
    let end = [0xfe, 0, 0, 2, 0];
    response.extend(next(&end));
    let row: Vec<u8> = values.iter().flat_map(|(_, value)| text(value)).collect();
    response.extend(next(&row));
    response.extend(next(&end));
    response
}

/// Starts a proxy that sends an OK packet for the login and `forgery` behind the greeting. The driver reads this data
/// as if it had arrived through TLS.
fn injecting(tls: &TlsServer, forgery: &[u8]) -> Proxy {
    // The greeting, the TLS request and the login have the sequence numbers 0 to 2.
    let login = packet(3, &[0, 0, 0, 2, 0, 0, 0]);
    let behind = [&login, forgery].concat();
    let append = move |greeting: &[u8]| [greeting, &behind].concat();
    Proxy::tampering(tls.server.port(), append)
}

#[test]
fn data_injected_before_tls_never_counts_as_a_grant() {
    on_each(|flavour| {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("SSL");
        let ca = tls.certs.path("ca");
        let (change, row) = (forged_change(), forged_row());
        for (what, forgery) in [
            ("a login", &[][..]),
            ("a change", &change),
            ("a row", &row),
            ("two responses", &[&change[..], &row].concat()),
        ] {
            let proxy = injecting(tls, forgery);
            let url = database.url_at(&format!("{NAME}:{}", proxy.port()));
            let once = "--ttl=3s --connect-timeout=0 --wait=0 --ssl-ca".split(' ');
            let options: Vec<&str> = once.chain([&*ca]).collect();
            let outcome = echo(&database, NAME, &options).env("DLOCK_URL", url).run();
            // The command has not printed.
            outcome.expect(69, "", "gave up");
            // On a busy machine, a session can time out before it is encrypted.
            let sessions = proxy.sessions();
            let is_encrypted = sessions.iter().any(|session| session.is_encrypted);
            assert!(is_encrypted, "{flavour}, {what}");
            // If the server has committed a grant, dlock has released the lease or the lease expires.
            let outcome = echo(&database, NAME, &["--ssl-ca", &ca]).run();
            assert_eq!(outcome.status, Some(0), "{flavour}, {what}: {outcome:#?}");
        }
    });
}

#[test]
fn driver_alone_accepts_data_injected_before_tls() {
    // This test shows that the forgeries of `data_injected_before_tls_never_counts_as_a_grant` work. If this test fails
    // with a new version of the driver, remove both tests.
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("SSL");
        let proxy = injecting(tls, &forged_change());
        let mut conn = injected(tls, &database, &proxy);
        let changed = conn.query_drop("UPDATE never SET sent = 1");
        changed.expect("the driver accepts the forged response");
        assert_eq!(conn.affected_rows(), 1, "{flavour}");

        let proxy = injecting(tls, &forged_row());
        let mut conn = injected(tls, &database, &proxy);
        let row: Option<mysql::Row> = conn.first("SELECT never");
        let action: Option<String> = row.expect("the query returns a row").get("action");
        assert_eq!(action.as_deref(), Some("init"), "{flavour}");
    }
}

/// Opens a connection with the driver alone. The driver verifies the certificate authority but not the host name.
#[track_caller]
fn injected(tls: &TlsServer, database: &Database, proxy: &Proxy) -> Conn {
    let ssl = SslOpts::default()
        .with_root_cert_path(Some(PathBuf::from(tls.certs.path("ca"))))
        .with_danger_skip_domain_validation(true);
    let url =
        database.url_through(proxy.port()) + "?prefer_socket=false&max_allowed_packet=1048576";
    let options = Opts::from_url(&url).expect("the URL is valid");
    let options = OptsBuilder::from_opts(options).ssl_opts(Some(ssl));
    Conn::new(options).expect("the driver accepts the forged login")
}
