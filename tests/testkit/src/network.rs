//! Network tools in addition to the proxy: a server that refuses every connection with an error, and a resolver for the
//! host names of a test.
//!
//! The refusing server runs in a thread that ends with the test process.

use std::io::{self, Write};
use std::net::{Shutdown, TcpListener};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;
use std::{fs, process};

use crate::cli_runner::Dlock;
use crate::compiler::{LIBRARY, compile};
pub use crate::proxy::local;
use crate::proxy::wire::error;

/// Starts a server that sends the error `code` with the message `text` on every connection, and returns the port of the
/// server.
#[track_caller]
pub fn refusing(code: u16, text: &str) -> u16 {
    let listener = TcpListener::bind(local(0)).expect("127.0.0.1 has a free port");
    let port = listener.local_addr().expect("the listener is bound").port();
    let error = error(0, code, text);
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.expect("a connection can be accepted");
            // The write fails if the client has closed the connection.
            let _ = client.write_all(&error);
            let _ = client.shutdown(Shutdown::Write);
            let _ = io::copy(&mut client, &mut io::sink());
        }
    });
    port
}

/// Returns `dlock` in an environment where only the host names in `names` can be resolved, for example
/// `db.test=::1,127.0.0.1;stuck.test=never`. The resolver never returns for a name with `never`. Unlike real host
/// names, these names resolve to the same addresses on every machine.
#[track_caller]
pub fn resolving(dlock: Dlock, names: &str) -> Dlock {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    dlock
        .env("LD_PRELOAD", LIBRARY.get_or_init(build_resolver))
        .env("TEST_NAMES", names)
}

/// The source of a library that replaces `getaddrinfo` for host names. The C library still resolves numeric addresses.
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

fn build_resolver() -> PathBuf {
    let folder = crate::target_tmp();
    let library = folder.join("resolver.so");
    let unfinished = folder.join(format!("resolver-{}.so", process::id()));
    compile(LIBRARY, RESOLVER, &unfinished);
    // The rename is atomic, so another test process finds either no library or the whole library.
    fs::rename(&unfinished, &library).expect("the folder is writable");
    library
}
