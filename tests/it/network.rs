//! What stands between dlock and its server beside the proxy: a server that only says no, and a resolver that
//! knows the names of one test.
//!
//! The server that says no has a thread, which ends with the test process.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::{fs, process};

use crate::compiler::{LIBRARY, compile};
use crate::dlock::Dlock;
use crate::proxy::packet;

/// The port of a server that answers every connection with the error `code` and `text`.
#[track_caller]
pub(crate) fn refusing(code: u16, text: &str) -> u16 {
    let listener = TcpListener::bind(local(0)).expect("127.0.0.1 has a port");
    let port = listener.local_addr().expect("it is bound").port();
    let mut payload = vec![0xff];
    payload.extend_from_slice(&code.to_le_bytes());
    payload.extend_from_slice(text.as_bytes());
    let answer = packet(0, &payload);
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection can be accepted");
            // Who hangs up does not get an answer.
            let _ = client.write_all(&answer);
            let _ = client.shutdown(Shutdown::Write);
            let _ = io::copy(&mut client, &mut io::sink());
        }
    });
    port
}

/// `dlock` where `names`, such as `db.test=::1,127.0.0.1;stuck.test=never`, are all that can be resolved. No name of the
/// machine or the network resolves the same everywhere; these do.
#[track_caller]
pub(crate) fn resolving(dlock: Dlock, names: &str) -> Dlock {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    dlock
        .env("LD_PRELOAD", LIBRARY.get_or_init(build_resolver))
        .env("TEST_NAMES", names)
}

/// Goes before the C library's resolver. Addresses are still its own business.
const RESOLVER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int resolver(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolver *resolve = (resolver *)dlsym(RTLD_NEXT, "getaddrinfo");
    struct addrinfo numeric = {0};
    numeric.ai_flags = AI_NUMERICHOST;
    if (!name || resolve(name, NULL, &numeric, found) == 0) return resolve(name, service, hints, found);

    char *names = strdup(getenv("TEST_NAMES")), *next_name = names, *entry;
    while ((entry = strsep(&next_name, ";"))) {
        char *addresses = entry, *address;
        if (strcmp(strsep(&addresses, "="), name)) continue;
        if (strcmp(addresses, "never") == 0) for (;;) pause();
        while ((address = strsep(&addresses, ","))) {
            int failed = resolve(address, service, hints, found);
            if (failed) return failed;
            while (*found) found = &(*found)->ai_next;
        }
        free(names);
        return 0;
    }
    free(names);
    return EAI_NONAME;
}
"#;

/// Compiles [`RESOLVER`].
fn build_resolver() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join("resolver.so");
    let unfinished = folder.join(format!("resolver-{}.so", process::id()));
    compile(LIBRARY, RESOLVER, &unfinished);
    // Whole or not at all, whoever else runs these tests.
    fs::rename(&unfinished, &library).expect("the folder is writable");
    library
}

/// 127.0.0.1 and `port`.
pub(crate) fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}
