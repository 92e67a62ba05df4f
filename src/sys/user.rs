//! The name of the user of this process, and the name under which an operator appears in the history. These names are
//! labels that the user can choose, and no proof of an identity. The functions are fast, and return a default value
//! instead of an error.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The file that contains the token of the pod's service account.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The accounts of this machine, in the format of passwd(5).
const ACCOUNTS: &str = "/etc/passwd";

/// Returns the user of this process: the name in the environment variable `USER` or `LOGNAME`, which login and cron
/// set, or else the name of the effective user id, or else the number.
#[must_use]
pub fn name() -> String {
    variable("USER")
        .or_else(|| variable("LOGNAME"))
        .unwrap_or_else(account_name)
}

/// Returns the name of the operator: the pod's service account, or else the user who ran `sudo`, or else [`name`].
///
/// In a pod, `USER` normally comes from the image, so only the service account shows on whose behalf dlock runs. `sudo`
/// sets `USER` to the target user, normally root, and `SUDO_USER` to the person.
#[must_use]
pub fn operator() -> String {
    let service_account = || service_account_in(&fs::read_to_string(TOKEN).ok()?);
    service_account()
        .or_else(|| variable("SUDO_USER"))
        .unwrap_or_else(name)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Returns the name of the effective user id. Reads only the file of the accounts and not the name service, because the
/// name service may wait for a directory server that is unavailable.
fn account_name() -> String {
    let id = rustix::process::geteuid().as_raw();
    let accounts = fs::read(ACCOUNTS).unwrap_or_default();
    account_in(&String::from_utf8_lossy(&accounts), id).unwrap_or_else(|| id.to_string())
}

/// Returns the name of the user `id` in `accounts`, the content of a passwd(5) file. None if there is no such user.
fn account_in(accounts: &str, id: u32) -> Option<String> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _password, found) = (fields.next()?, fields.next()?, fields.next()?);
        (found.parse() == Ok(id) && !name.is_empty()).then(|| name.to_owned())
    })
}

/// Returns the service account in `token` as `NAMESPACE/NAME`. Does not verify the signature. None if `token` is not
/// the token of a service account.
fn service_account_in(token: &str) -> Option<String> {
    let payload = token.split('.').nth(1)?;
    let payload: serde_json::Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?;
    let subject = payload.get("sub")?.as_str()?;
    let (namespace, name) = subject
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    (!namespace.is_empty() && !name.is_empty()).then(|| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::{any, proptest};

    use super::{account_in, service_account_in};

    #[test]
    fn account_has_the_name_of_the_user_id() {
        let accounts =
            "# comment\nroot:x:0:0:root:/root:/bin/sh\n\napp:x:1000:1000::/:\n:x:7:7::/:\n+\n";
        for (id, wanted) in [
            (0, Some("root")),
            (1000, Some("app")),
            (7, None),
            (100, None),
        ] {
            assert_eq!(account_in(accounts, id).as_deref(), wanted, "{id}");
        }
        assert_eq!(account_in("", 0), None);
    }

    #[test]
    fn service_account_is_the_subject_of_the_token() {
        for (payload, wanted) in [
            (
                r#"{"sub":"system:serviceaccount:prod:deployer"}"#,
                Some("prod/deployer"),
            ),
            (
                r#"{"aud":["x"],"sub":"system:serviceaccount:p:d"}"#,
                Some("p/d"),
            ),
            (r#"{"sub":"system:serviceaccount:prod:"}"#, None),
            (r#"{"sub":"system:serviceaccount:prod"}"#, None),
            (r#"{"sub":"alice"}"#, None),
            (r#"{"sub":1}"#, None),
            ("[]", None),
            ("rubbish", None),
        ] {
            let token = format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload));
            assert_eq!(service_account_in(&token).as_deref(), wanted, "{payload}");
        }
        for token in ["", "e30", "e30.", "e30.!.c2ln"] {
            assert_eq!(service_account_in(token), None, "{token}");
        }
    }

    proptest! {
        #[test]
        fn no_file_causes_a_panic(text in any::<String>(), id in any::<u32>()) {
            let _ = service_account_in(&text);
            let _ = account_in(&text, id);
        }
    }
}
