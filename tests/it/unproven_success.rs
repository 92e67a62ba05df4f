//! A run whose lease was lost never counts as a success, even if the release fails at first, whatever the run records: a
//! later grant and a later success are no proof of the own release.

use std::net::TcpListener;
use std::thread;

use testkit::cli_runner::{Dlock, Running};
use testkit::command::Stage;
use testkit::on_each_flavour;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::{Database, Flavour, shared};

/// The options that change what a release records.
const RECORDS: [&[&str]; 4] = [
    &[],
    &["--history=0"],
    &["--once-per=1h"],
    &["--once-per=1h", "--history=0"],
];

/// The success of the later holder.
const SUCCEEDED: &str = ",succeeded_token=token,succeeded_at=UTC_TIMESTAMP(6),succeeded_by='other'";

/// The shortest time of the command in seconds, and whether the later holder has succeeded. A holder hands off its lease
/// only after a command of 100 ms. Each kind of server gets one half for each element of [`RECORDS`].
const HALVES: [[(&str, &str); 2]; 2] = [
    [("0", ""), ("0.2", SUCCEEDED)],
    [("0.2", ""), ("0", SUCCEEDED)],
];

/// A holder behind a proxy. Its command succeeds when the test says so.
struct Scene {
    database: Database,
    action: String,
    proxy: Proxy,
    holder: Running,
    more: &'static str,
    stage: Stage,
}

impl Scene {
    /// Starts the holder of a new action, whose command runs for at least `seconds`. `more` are further changes of
    /// [`lose_grant`](Self::lose_grant).
    fn new(database: &Database, options: &[&str], seconds: &str, more: &'static str) -> Self {
        let proxy = Proxy::to(database.port);
        let action = format!("behind-{}", proxy.port());
        let stage = Stage::new();
        // The holder must not notice the loss at a renewal, so renewals are rare.
        let exec = Dlock::typed(&database.through(proxy.port()), "exec -v --ttl 5m -a");
        let script = format!(r#"echo > "$1"; sleep {seconds}; read word < "$2""#);
        let holder = stage.start(exec.arg(&action).args(options), &script);
        Self {
            database: database.clone(),
            action,
            proxy,
            holder,
            more,
            stage,
        }
    }

    /// Makes the record that of a later holder, as after the restore of a backup that lacks the grant.
    fn lose_grant(&self) {
        let Self { action, more, .. } = self;
        let lose = format!(
            "UPDATE dlock_lock SET token=token+1000,owner_id=REPEAT('x',16),holder='other'{more} \
             WHERE action='{action}'"
        );
        self.database.run(lose);
    }
}

on_each_flavour!(a_lost_lease_is_no_success_if_the_release_could_not_be_sent_at_first);
fn a_lost_lease_is_no_success_if_the_release_could_not_be_sent_at_first(flavour: Flavour) {
    for_all(flavour, |scene| {
        // This server closes each connection before the login.
        let closed = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = closed.local_addr().expect("a local address").port();
        thread::spawn(move || closed.incoming().for_each(drop));
        scene.proxy.retarget(port);
        scene.proxy.reset();
        scene.stage.let_go("on");
        scene.holder.wait_for_output("the command exited with 0");
        // At least one of these connections is the one of a release.
        let connections = scene.proxy.connections();
        scene.proxy.wait_connections(connections + 3);
        scene.lose_grant();
        scene.proxy.retarget(scene.database.port);
    });
}

on_each_flavour!(a_lost_lease_is_no_success_if_the_release_was_lost_at_first);
fn a_lost_lease_is_no_success_if_the_release_was_lost_at_first(flavour: Flavour) {
    for_all(flavour, |scene| {
        let case = scene.proxy.next(Kind::Release, Fault::Reset);
        scene.lose_grant();
        scene.stage.let_go("on");
        case.wait();
    });
}

/// The control: the own success is in the record or in the history.
#[test]
fn a_success_whose_response_was_lost_is_a_success() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("unproven");
        for options in RECORDS {
            let scene = Scene::new(&database, options, "0", "");
            let case = scene.proxy.next(Kind::Release, Fault::ResetAfter);
            scene.stage.let_go("on");
            case.wait();
            scene.lose_grant();
            let outcome = scene.holder.wait();
            let status = outcome.status;
            assert_eq!(status, Some(0), "{flavour} {options:?}: {outcome:#?}");
        }
    }
}

/// Runs `lose`, after which a holder must not exit with 0, with all options.
fn for_all(flavour: Flavour, lose: impl Fn(&Scene)) {
    let database = shared(flavour).database("unproven");
    for (number, options) in RECORDS.into_iter().enumerate() {
        let half = (number + usize::from(flavour == Flavour::MySql)) % 2;
        for (seconds, more) in HALVES[half] {
            let scene = Scene::new(&database, options, seconds, more);
            lose(&scene);
            let outcome = scene.holder.wait();
            let case = format!("{flavour} {options:?} {seconds} {more}: {outcome:#?}");
            assert_eq!(outcome.status, Some(76), "{case}");
            let why = "was lost before the command had ended";
            assert!(outcome.stderr.contains(why), "{case}");
        }
    }
}
