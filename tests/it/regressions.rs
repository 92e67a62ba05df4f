//! Regression tests for violations of dlock's guarantees. A review found these violations, and each violation was
//! reproduced before it was fixed. The tests run on both kinds of server.
//!
//! - `grant`: the server commits a grant, but the response is lost or is an error.
//! - `revoked`: a lease is revoked by an operator or taken over.
//! - `session`: two clients share a session, or a foreign session has the id of the holder's former session.

mod grant;
pub(crate) mod revoked;
mod session;

use crate::faults::Scene;

/// Asserts that no two commands ran at the same time. `name` is the name of the test case.
#[track_caller]
fn no_overlap(scene: &Scene, name: &str) {
    let witness = scene.witness();
    assert!(
        !witness.contains("overlap"),
        "two commands ran together ({name}): {witness:?}"
    );
}
