//! Facts about this process for `status`: labels, so none of them may cost time or fail.

/// Where Kubernetes tells a pod its namespace.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The host's name; in Kubernetes the pod's.
#[must_use]
pub fn name() -> String {
    hostname::get().map_or_else(
        |_| "localhost".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The Kubernetes pod that we are in and its namespace; empty where the environment tells none.
#[must_use]
pub fn pod() -> (String, String) {
    let in_cluster = variable("KUBERNETES_SERVICE_HOST").map(|_| name());
    let Some(pod) = variable("POD_NAME").or(in_cluster) else {
        return Default::default();
    };
    let namespace = variable("POD_NAMESPACE").or_else(|| std::fs::read_to_string(NAMESPACE).ok());
    (pod, namespace.unwrap_or_default().trim().to_owned())
}

/// Our user: as login and cron say it, else the number. Not from the user database, which may be
/// a directory server that is down.
#[must_use]
pub fn user() -> String {
    variable("USER")
        .or_else(|| variable("LOGNAME"))
        .unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}
