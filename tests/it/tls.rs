//! Tests of TLS and login. Each TLS mode must accept and refuse connections as documented. A middlebox must not be able
//! to disable TLS. Data that an attacker injects into a connection must never count as a response from the server.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mysql::prelude::Queryable;
use mysql::{Conn, OptsBuilder, SslOpts};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    SanType,
};
use tempfile::TempDir;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::network::resolving;
use testkit::on_each_flavour;
use testkit::proxy::{Proxy, packet};
use testkit::servers::{Database, Flavour, Server, shared};

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
        let name = NAME.try_into().expect("the name is ASCII");
        certs.sign(&authority, "server", vec![SanType::DnsName(name)]);
        certs.sign(&authority, "client", Vec::new());
        certs
    }

    fn authority(&self, name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key can be generated");
        let authority =
            CertifiedIssuer::self_signed(params, key).expect("a certificate can be generated");
        self.write(name, &authority.pem());
        authority
    }

    fn sign(
        &self,
        authority: &CertifiedIssuer<'static, KeyPair>,
        name: &str,
        alternatives: Vec<SanType>,
    ) {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = alternatives;
        let key = KeyPair::generate().expect("a key can be generated");
        let certificate = params
            .signed_by(&key, authority)
            .expect("a certificate can be generated");
        self.write(name, &certificate.pem());
        self.write(&format!("{name}-key"), &key.serialize_pem());
    }

    fn write(&self, name: &str, pem: &str) {
        // Only this user can read the folder, and the server runs as this user.
        fs::write(self.path(name), pem).expect("the folder is writable");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.pem"))
    }
}

/// A server with [`TestCerts`].
pub(crate) struct TlsServer {
    server: Server,
    pub(crate) certs: TestCerts,
}

impl TlsServer {
    /// Returns the server of this flavour that the tests in this file share. The server stops when the last test that
    /// uses it ends.
    #[track_caller]
    pub(crate) fn shared(flavour: Flavour) -> Arc<Self> {
        static MARIADB: Mutex<Weak<TlsServer>> = Mutex::new(Weak::new());
        static MYSQL: Mutex<Weak<TlsServer>> = Mutex::new(Weak::new());
        let slot = match flavour {
            Flavour::MariaDb => &MARIADB,
            Flavour::MySql => &MYSQL,
        };
        // A thread that panicked while it held this mutex has not changed the slot.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(flavour));
            *slot = Arc::downgrade(&server);
            server
        })
    }

    #[track_caller]
    fn start(flavour: Flavour) -> Self {
        let certs = TestCerts::new();
        let option =
            |option: &str, name: &str| format!("--{option}={}", certs.path(name).display());
        let options = [
            option("ssl-ca", "ca"),
            option("ssl-cert", "server"),
            option("ssl-key", "server-key"),
        ];
        let options = options.each_ref().map(String::as_str);
        Self {
            server: Server::start(flavour, &options),
            certs,
        }
    }

    /// Creates a database with dlock's tables. The account requires `require`, for example `SSL` or `X509`, from its
    /// clients.
    #[track_caller]
    pub(crate) fn database(&self, require: &str) -> Database {
        let database = self.server.database("tls");
        Dlock::on(&database, ["setup"])
            .run()
            .expect(0, "", "in place");
        let require = format!("ALTER USER '{}'@'%' REQUIRE {require}", database.user);
        database
            .admin_conn()
            .query_drop(require)
            .expect("root has all privileges");
        database
    }

    /// Returns a `dlock exec` that connects to `database` by the host name `host`. [`NAME`] resolves to 127.0.0.1.
    /// [`echo`] adds the command.
    fn exec(&self, database: &Database, host: &str) -> Dlock {
        let Database {
            name,
            user,
            password,
            ..
        } = database;
        let url = format!(
            "mysql://{user}:{password}@{host}:{}/{name}",
            self.server.port()
        );
        // A server on a busy machine may not respond within the time limit of one attempt, so dlock may retry.
        let dlock = Dlock::new(["exec", "-a", "init"]).env("DLOCK_URL", url);
        resolving(dlock, &format!("{NAME}=127.0.0.1"))
    }
}

/// Adds the command `echo ran` after all options.
fn echo(dlock: Dlock) -> Dlock {
    dlock.arg("--").arg("echo").arg("ran")
}

#[test]
fn each_ssl_mode_accepts_exactly_what_it_documents() {
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        // The server accepts this account only over TLS.
        let database = tls.database("SSL");
        let other_host = "127.0.0.1";
        for (mode, authority, host, refused) in [
            ("disabled", None, NAME, Some((77, "--ssl-mode"))),
            ("required", None, NAME, None),
            ("required", None, other_host, None),
            ("required", Some("other"), NAME, None),
            ("verify_ca", Some("ca"), NAME, None),
            ("verify_ca", Some("ca"), other_host, None),
            (
                "verify_ca",
                Some("other"),
                NAME,
                Some((78, "--ssl-mode verify_ca is in force")),
            ),
            (
                "verify_ca",
                None,
                NAME,
                Some((78, "server's certificate authority with --ssl-ca")),
            ),
            ("verify_identity", Some("ca"), NAME, None),
            (
                "verify_identity",
                Some("ca"),
                other_host,
                Some((78, "or set --ssl-mode verify_ca to accept any name")),
            ),
            (
                "verify_identity",
                Some("other"),
                NAME,
                Some((78, "--ssl-mode verify_identity is in force")),
            ),
            (
                "verify_identity",
                None,
                NAME,
                Some((78, "server's certificate authority with --ssl-ca")),
            ),
        ] {
            let mut dlock = tls.exec(&database, host).arg("--ssl-mode").arg(mode);
            if let Some(authority) = authority {
                dlock = dlock.arg("--ssl-ca").arg(tls.certs.path(authority));
            }
            let outcome = echo(dlock).run();
            println!("{flavour}, {mode} with {authority:?} for {host}");
            match refused {
                None => outcome.expect(0, "ran\n", ""),
                Some((status, why)) => outcome.expect(status, "", why),
            }
        }
    }
}

#[test]
fn url_and_variables_configure_tls_like_options() {
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("SSL");
        let ca = tls.certs.path("ca");
        let by_variable = tls
            .exec(&database, NAME)
            .env("DLOCK_SSL_MODE", "VERIFY_IDENTITY")
            .env("DLOCK_SSL_CA", &ca);
        echo(by_variable).run().expect(0, "ran\n", "");
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let url = format!(
            "mysql://{user}:{password}@{NAME}:{}/{name}?ssl-mode=verify_identity&ssl-ca={}",
            tls.server.port(),
            ca.display(),
        );
        echo(tls.exec(&database, NAME).env("DLOCK_URL", url))
            .run()
            .expect(0, "ran\n", "");
    }
}

#[test]
fn client_certificate_logs_in_to_an_account_that_requires_it() {
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("X509");
        let run = || {
            let dlock = tls.exec(&database, NAME);
            dlock.arg("--ssl-ca").arg(tls.certs.path("ca"))
        };
        let [cert, key] = ["client", "client-key"].map(|name| tls.certs.path(name));
        let with = run()
            .arg("--ssl-cert")
            .arg(&cert)
            .arg("--ssl-key")
            .arg(&key);
        echo(with).run().expect(0, "ran\n", "");
        echo(run()).run().expect(77, "", "Access denied");
        // dlock refuses a certificate without a key, and a key without a certificate, before it connects.
        echo(run().arg("--ssl-cert").arg(&cert)).run().expect(
            64,
            "",
            "also set --ssl-key (DLOCK_SSL_KEY)",
        );
        echo(run().arg("--ssl-key").arg(&key)).run().expect(
            64,
            "",
            "also set --ssl-cert (DLOCK_SSL_CERT)",
        );
    }
}

#[test]
fn unreadable_certificate_file_is_named() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("tls_files");
        let stage = Stage::new();
        let missing = stage.path("missing.pem");
        let missing = missing.to_str().expect("the path is UTF-8");
        let run = || {
            Dlock::on(
                &database,
                [
                    "exec",
                    "-n",
                    "-a",
                    "init",
                    "--connect-timeout",
                    "0",
                    "--ssl-mode",
                    "required",
                ],
            )
        };
        echo(run().arg("--ssl-ca").arg(missing))
            .run()
            .expect(78, "", missing);
        echo(
            run()
                .arg("--ssl-cert")
                .arg(missing)
                .arg("--ssl-key")
                .arg(missing),
        )
        .run()
        .expect(78, "", missing);
    }
}

on_each_flavour!(server_without_tls_is_refused_and_the_fix_is_named);
fn server_without_tls_is_refused_and_the_fix_is_named(flavour: Flavour) {
    let without = match flavour {
        Flavour::MariaDb => "--skip-ssl",
        Flavour::MySql => "--tls-version=",
    };
    let server = Server::start(flavour, &[without]);
    let database = server.database("no_tls");
    let run = || Dlock::on(&database, ["exec", "-n", "-a", "init"]);
    for mode in ["required", "verify_ca", "verify_identity"] {
        echo(run().arg("--ssl-mode").arg(mode)).run().expect(
            78,
            "",
            "set --ssl-mode disabled (DLOCK_SSL_MODE)",
        );
    }
    echo(run().arg("--ssl-mode").arg("disabled"))
        .run()
        .expect(0, "ran\n", "");
    echo(run()).run().expect(0, "ran\n", "");
    // For a host that is not loopback, dlock requires TLS by default.
    let url = database.url().replace("127.0.0.1", NAME);
    let dlock = resolving(run().env("DLOCK_URL", url), &format!("{NAME}=127.0.0.1"));
    echo(dlock)
        .run()
        .expect(78, "", "set --ssl-mode disabled (DLOCK_SSL_MODE)");
}

#[test]
fn middlebox_cannot_strip_tls() {
    // Bit 11 of the capabilities in the greeting, which is bit 3 of their second byte, means TLS. The capabilities
    // follow the protocol version, the server version with its NUL, the connection id, and the first part of the
    // challenge with its filler.
    let strip = |greeting: &[u8]| {
        let mut greeting = greeting.to_vec();
        let version = greeting[5..]
            .iter()
            .position(|&byte| byte == 0)
            .expect("a NUL ends the version");
        let capabilities = 5 + version + 1 + 4 + 8 + 1;
        assert_eq!(greeting[capabilities + 1] & 8, 8, "the server offers TLS");
        greeting[capabilities + 1] &= !8;
        greeting
    };
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("NONE");
        let proxy = Proxy::tampering(tls.server.port(), strip);
        let url = database.url_through(proxy.port());
        let run = |url: &str| {
            let dlock = Dlock::new(["exec", "-n", "-a", "init"]).env("DLOCK_URL", url);
            resolving(dlock, &format!("{NAME}=127.0.0.1"))
        };
        echo(run(&url).arg("--ssl-mode").arg("required"))
            .run()
            .expect(78, "", "does not offer TLS");
        // For a host that is not loopback, the default mode also refuses the connection.
        echo(run(&url.replace("127.0.0.1", NAME)))
            .run()
            .expect(78, "", "does not offer TLS");
        for session in proxy.sessions() {
            assert_eq!(
                session.login, 0,
                "{flavour}: the client sent data without encryption: {session:#?}"
            );
        }
        // A connection without TLS works through this proxy.
        echo(run(&url)).run().expect(0, "ran\n", "");
    }
}

#[test]
fn host_that_is_not_loopback_must_prove_its_identity_by_default() {
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("NONE");
        // 0.0.0.0 also reaches this machine, but dlock does not treat it as loopback.
        for host in [NAME, "0.0.0.0"] {
            let outcome = echo(tls.exec(&database, host)).run();
            outcome.expect(
                78,
                "",
                "verify_identity is in force (the default for a host that is not loopback)",
            );
            for way_out in ["--ssl-ca", "--ssl-mode required", "--ssl-mode disabled"] {
                assert!(
                    outcome.stderr.contains(way_out),
                    "{flavour}, {host}: {outcome:?}"
                );
            }
        }
        let ca = tls.certs.path("ca");
        echo(tls.exec(&database, NAME).arg("--ssl-ca").arg(&ca))
            .run()
            .expect(0, "ran\n", "");
        echo(tls.exec(&database, NAME).arg("--ssl-mode").arg("disabled"))
            .run()
            .expect(0, "ran\n", "");
        echo(tls.exec(&database, "127.0.0.1"))
            .run()
            .expect(0, "ran\n", "");
    }
}

on_each_flavour!(server_that_requires_tls_is_reported_with_the_option_to_set);
fn server_that_requires_tls_is_reported_with_the_option_to_set(flavour: Flavour) {
    // The setting affects the whole server, so the test needs its own server.
    let tls = TlsServer::start(flavour);
    let database = tls.database("NONE");
    tls.server
        .admin()
        .query_drop("SET GLOBAL require_secure_transport = ON")
        .expect("root has all privileges");
    echo(tls.exec(&database, "127.0.0.1"))
        .run()
        .expect(77, "", "--ssl-mode");
    echo(
        tls.exec(&database, "127.0.0.1")
            .arg("--ssl-mode")
            .arg("required"),
    )
    .run()
    .expect(0, "ran\n", "");
}

#[test]
fn certificates_that_mysql_generates_satisfy_verify_ca() {
    let server = shared(Flavour::MySql);
    let database = server.database("generated_certs");
    let ca = server.dir().join("data/ca.pem");
    let run = |mode: &str| {
        let dlock = Dlock::on(&database, ["exec", "-n", "-a", "init", "--ssl-mode", mode]);
        echo(dlock.arg("--ssl-ca").arg(&ca)).run()
    };
    run("verify_ca").expect(0, "ran\n", "");
    // These certificates contain no host name.
    run("verify_identity").expect(78, "", "not valid for");
}

#[test]
fn caching_sha2_password_works_uncached_and_cached_on_every_transport() {
    let tls = TlsServer::shared(Flavour::MySql);
    let server = &tls.server;
    let proxy = Proxy::to(server.port());
    for way in ["tcp", "tls", "socket"] {
        let database = server.database("sha2");
        let run = || {
            let dlock = Dlock::new(["exec", "-n", "-a", "init", "--connect-timeout", "0"]);
            let dlock = match way {
                "tcp" => dlock.env("DLOCK_URL", database.url_through(proxy.port())),
                "tls" => dlock
                    .env("DLOCK_URL", database.url())
                    .arg("--ssl-mode")
                    .arg("required"),
                _ => dlock.env("DLOCK_URL", database.socket_url()),
            };
            println!("{way}");
            echo(dlock).run().expect(0, "ran\n", "");
        };
        let plugin = format!(
            "SELECT plugin FROM mysql.user WHERE user = '{}'",
            database.user
        );
        let plugin: Option<String> = server
            .admin()
            .query_first(plugin)
            .expect("root has all privileges");
        assert_eq!(plugin.as_deref(), Some("caching_sha2_password"));
        // No client has logged in to this account before, so the server has not cached the password of the account.
        run();
        run();
    }
    let logins: Vec<usize> = proxy
        .sessions()
        .iter()
        .map(|session| session.login)
        .collect();
    // Without TLS, the first login has three packets: the response to the challenge, the request for the server's key,
    // and the encrypted password. Each later login has only the response to the challenge.
    assert_eq!(logins[0], 3, "{logins:?}");
    assert!(
        logins.len() > 1 && logins[1..].iter().all(|&login| login == 1),
        "{logins:?}"
    );
}

#[test]
fn mysql_native_password_works_with_and_without_tls() {
    let tls = TlsServer::shared(Flavour::MariaDb);
    let database = tls.database("NONE");
    let plugin = format!(
        "SELECT plugin FROM mysql.user WHERE user = '{}'",
        database.user
    );
    let plugin: Option<String> = tls
        .server
        .admin()
        .query_first(plugin)
        .expect("root has all privileges");
    assert_eq!(plugin.as_deref(), Some("mysql_native_password"));
    for mode in ["disabled", "required"] {
        echo(tls.exec(&database, NAME).arg("--ssl-mode").arg(mode))
            .run()
            .expect(0, "ran\n", "");
    }
    let by_socket =
        Dlock::new(["exec", "-n", "-a", "init"]).env("DLOCK_URL", database.socket_url());
    echo(by_socket).run().expect(0, "ran\n", "");
}

/// Returns the OK packet that an attacker appends to the server's greeting. The driver reads this packet as if it had
/// arrived through TLS.
fn forged_login() -> Vec<u8> {
    // The greeting, the TLS request and the login have the sequence numbers 0 to 2.
    packet(3, &[0, 0, 0, 2, 0, 0, 0])
}

/// Returns a forged response that reports one changed row.
fn forged_change() -> Vec<u8> {
    packet(1, &[0, 1, 0, 2, 0, 0, 0])
}

/// Returns a forged response to the request that reads the row back. An attacker cannot guess the request id and the
/// owner id, because both ids are random and are sent only through TLS.
fn forged_row(action: &str) -> Vec<u8> {
    let text = |text: &[u8]| {
        let mut field = vec![u8::try_from(text.len()).expect("the string is short")];
        field.extend_from_slice(text);
        field
    };
    let values: [(&str, &[u8]); 17] = [
        ("request", &[0; 8]),
        ("version", b"1"),
        ("server_time", b"1795169698189841"),
        ("action", action.as_bytes()),
        ("token", b"1795169698189841"),
        ("owner_id", &[0; 16]),
        ("renewals", b"0"),
        ("holder", b"web-1/4711"),
        ("host", b"web-1"),
        ("pid", b"4711"),
        ("user", b"deploy"),
        ("note", b""),
        ("ttl_us", b"30000000"),
        ("acquired_at", b"2026-11-20 09:30:00.123456"),
        ("held_us", b"0"),
        ("renewed_us", b"0"),
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

#[test]
fn data_injected_before_tls_never_counts_as_a_grant() {
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("SSL");
        let forgeries = [
            ("a login", Vec::new()),
            ("a change", forged_change()),
            ("a row", forged_row("init")),
            (
                "two responses",
                [forged_change(), forged_row("init")].concat(),
            ),
        ];
        for (what, forgery) in forgeries {
            let behind = [forged_login(), forgery].concat();
            let proxy = Proxy::tampering(tls.server.port(), move |greeting| {
                [greeting, &behind].concat()
            });
            let url = database
                .url_through(proxy.port())
                .replace("127.0.0.1", NAME);
            let stage = Stage::new();
            let mark = stage.path("ran");
            let dlock = Dlock::new([
                "exec",
                "-a",
                "init",
                "--ttl",
                "3s",
                "--connect-timeout",
                "0",
                "--wait",
                "0",
                "--ssl-ca",
            ]);
            let dlock = dlock
                .arg(tls.certs.path("ca"))
                .env("DLOCK_URL", url)
                .arg("--")
                .arg("touch")
                .arg(&mark);
            let outcome = resolving(dlock, &format!("{NAME}=127.0.0.1")).run();
            outcome.expect(69, "", "gave up");
            assert!(!mark.exists(), "{flavour}, {what}: the command ran");
            // On a busy machine, a session can time out before it is encrypted.
            assert!(
                proxy.sessions().iter().any(|session| session.is_encrypted),
                "{flavour}, {what}"
            );
            // If the server has committed a grant, dlock has released the lease or the lease expires.
            let next = tls.exec(&database, NAME);
            let outcome = echo(next.arg("--ssl-ca").arg(tls.certs.path("ca"))).run();
            assert_eq!(outcome.status, Some(0), "{flavour}, {what}: {outcome:#?}");
        }
    }
}

#[test]
fn driver_alone_accepts_data_injected_before_tls() {
    // This test shows that the forgeries of `data_injected_before_tls_never_counts_as_a_grant` work. If this test fails
    // with a new version of the driver, remove both tests.
    for flavour in Flavour::ALL {
        let tls = TlsServer::shared(flavour);
        let database = tls.database("SSL");
        let behind = [forged_login(), forged_change()].concat();
        let proxy = Proxy::tampering(tls.server.port(), move |greeting| {
            [greeting, &behind].concat()
        });
        let mut conn = injected(&tls, &database, &proxy);
        conn.query_drop("UPDATE never SET sent = 1")
            .expect("the driver accepts the forged response");
        assert_eq!(conn.affected_rows(), 1, "{flavour}");

        let behind = [forged_login(), forged_row("init")].concat();
        let proxy = Proxy::tampering(tls.server.port(), move |greeting| {
            [greeting, &behind].concat()
        });
        let mut conn = injected(&tls, &database, &proxy);
        let row: Option<mysql::Row> = conn
            .query_first("SELECT never")
            .expect("the driver accepts the forged response");
        assert_eq!(
            row.expect("the query returns a row")
                .get::<String, _>("action")
                .as_deref(),
            Some("init"),
            "{flavour}"
        );
    }
}

/// Opens a connection with the driver alone. The driver verifies the certificate authority but not the host name.
#[track_caller]
fn injected(tls: &TlsServer, database: &Database, proxy: &Proxy) -> Conn {
    let ssl = SslOpts::default()
        .with_root_cert_path(Some(tls.certs.path("ca")))
        .with_danger_skip_domain_validation(true);
    let options = OptsBuilder::new()
        .ip_or_hostname(Some(IpAddr::V4(Ipv4Addr::LOCALHOST).to_string()))
        .tcp_port(proxy.port())
        .user(Some(&database.user))
        .pass(Some(&database.password))
        .prefer_socket(false)
        .max_allowed_packet(Some(1 << 20))
        .ssl_opts(Some(ssl));
    Conn::new(options).expect("the driver accepts the forged login")
}
