//! Facts about this process that `status` shows. These facts are only labels, so the functions must be fast, and return
//! a default value instead of an error.

/// The file that contains the Kubernetes namespace of a pod.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns the name of the host. In Kubernetes, this is normally the name of the pod.
#[must_use]
pub fn name() -> String {
    hostname::get().map_or_else(
        |_| "localhost".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Returns the name and the namespace of this process's Kubernetes pod. Both are empty if the environment variables do
/// not show that this process runs in a pod. The namespace is also empty if it is unknown.
#[must_use]
pub fn pod() -> (String, String) {
    let in_cluster = variable("KUBERNETES_SERVICE_HOST").map(|_| name());
    let Some(pod) = variable("POD_NAME").or(in_cluster) else {
        return Default::default();
    };
    let namespace = variable("POD_NAMESPACE").or_else(|| std::fs::read_to_string(NAMESPACE).ok());
    (pod, namespace.unwrap_or_default().trim().to_owned())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}
