//! Tests of the names under which operators and users appear in the history: from the system, from `sudo`, from the
//! service account of a pod, or from `--operator`.

use testkit::cli_runner::Dlock;
use testkit::each_server::set_up;
use testkit::servers::{Database, Flavour, shared};

use crate::history::runs;
use crate::pid_one::in_namespaces;

/// The token of the service account `deployer` in the namespace `prod`, with an invalid signature.
const TOKEN: &str = "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogImsifQ.\
    eyJhdWQiOiBbImh0dHBzOi8va3ViZXJuZXRlcy5kZWZhdWx0LnN2YyJdLCAic3ViIjogInN5c3RlbTpzZXJ2aWNlYWNjb3VudDpwcm9kOmRlcGxveWVyIn0.\
    c2lnbmF0dXJl";

/// Runs the operator request `request` with the environment `variables`, in namespaces in which the shell code
/// `prepare` has run as root. Returns the names of the operator and of the user in the history.
#[track_caller]
fn recorded(
    database: &Database,
    prepare: &str,
    variables: &[(&str, &str)],
    request: &[&str],
) -> [String; 2] {
    let script = format!("{prepare} exec \"$0\" \"$@\"");
    let mut dlock = in_namespaces().args(["sh", "-ec", &script]).args([
        "env",
        "-u",
        "USER",
        "-u",
        "LOGNAME",
        "-u",
        "SUDO_USER",
    ]);
    for (name, value) in variables {
        dlock = dlock.arg(format!("{name}={value}"));
    }
    let dlock = dlock.arg(env!("CARGO_BIN_EXE_dlock")).args(request);
    let outcome = dlock.env("DLOCK_URL", database.url()).run();
    assert_eq!(outcome.status, Some(0), "{variables:?}: {outcome:#?}");
    let newest = &runs(database, &[])[0];
    ["holder", "user"].map(|field| newest[field].as_str().expect("a string").to_owned())
}

/// Creates a file system without files at `/etc`.
const WITHOUT_ACCOUNTS: &str = "mount -t tmpfs none /etc;";

/// Returns shell code that mounts [`TOKEN`] where Kubernetes mounts it.
fn with_token() -> String {
    format!(
        "d=/var/run/secrets/kubernetes.io/serviceaccount; mount -t tmpfs none /run; mkdir -p $d; echo {TOKEN} > $d/token;"
    )
}

#[test]
fn operator_is_the_service_account_or_the_person_or_the_account() {
    let host = hostname::get().expect("the host has a name");
    let host = host.to_string_lossy();
    let in_pod = with_token();
    let database = set_up(Flavour::of_this_test());
    let sudo: &[_] = &[("USER", "root"), ("SUDO_USER", "alice")];
    for (prepare, variables, operator, user) in [
        ("", &[("USER", "deploy")][..], "deploy", "deploy"),
        ("", &[("LOGNAME", "cron")], "cron", "cron"),
        ("", &[("USER", ""), ("LOGNAME", "cron")], "cron", "cron"),
        ("", sudo, "alice", "root"),
        // The tests run as root, or as root of a user namespace.
        ("", &[], "root", "root"),
        (WITHOUT_ACCOUNTS, &[], "0", "0"),
        (&in_pod, &[], "prod/deployer", "root"),
        (&in_pod, sudo, "prod/deployer", "root"),
    ] {
        let pause = ["release", "init", "--yes", "--create", "--pause", "1ms"];
        let found = recorded(&database, prepare, variables, &pause);
        let wanted = [format!("{operator}@{host}"), user.to_owned()];
        assert_eq!(found, wanted, "{variables:?}");
    }
}

#[test]
fn every_operator_request_records_the_same_operator() {
    let host = hostname::get().expect("the host has a name");
    let default = format!("prod/deployer@{}", host.to_string_lossy());
    let in_pod = with_token();
    let database = shared(Flavour::of_this_test()).database("requests");
    let named = [("DLOCK_OPT_OPERATOR", "bob"), ("DLOCK_OPT_HOLDER", "web-1")];
    let is_done = || {
        Dlock::typed(&database, "exec init -q --once -- true").expect(0, "", "");
    };
    for (variables, operator) in [(&[][..], &*default), (&named, "bob")] {
        is_done();
        for request in [
            &["forget", "init", "--once"][..],
            &["release", "init", "--yes", "--pause", "1h"],
            &["release", "init", "--yes", "--resume"],
        ] {
            let [found, _] = recorded(&database, &in_pod, variables, request);
            assert_eq!(found, operator, "{request:?}");
        }
    }
    is_done();
    let request = ["forget", "init", "--once", "--operator", "carol"];
    let [found, _] = recorded(&database, "", &named, &request);
    assert_eq!(found, "carol");
}
