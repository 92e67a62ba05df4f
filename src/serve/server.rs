//! The HTTP server: accepts connections, limits them, and ends at a signal.
//!
//! All tasks run on the main thread. No task blocks: the database has its own thread, and so have the signals and
//! stderr.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::access::Access;
use super::documents::{DocumentBody, Documents, Pace};
use super::listener::{Connection, Listener};
use super::reader::{LogLine, Reader};
use super::router::Router;
use crate::cli::serve::Listen;
use crate::exit::{ExitError, Status};
use crate::report::Report;
use crate::report::log::EventKind;
use crate::store::target::Targets;
use crate::sys::signal;

/// Maximum time for the headers of a request, and for an idle connection between two requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size in bytes of the headers of a request, and of the data that is buffered for a response. A browser sends
/// less than 2 KiB.
const MAX_BUFFER: usize = 16 << 10;

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 64;

/// Maximum number of connections. A viewer uses at most two. Each connection needs about 20 KiB, and the usual limit of
/// descriptors is 1024.
const MAX_CONNECTIONS: usize = 600;

/// Time to wait if a connection cannot be accepted, normally because there is no free descriptor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of the server.
#[derive(Debug)]
pub struct ServerSettings {
    /// The address.
    pub listen: Listen,
    /// The rules for requests.
    pub access: Access,
    /// Minimum time between two queries.
    pub interval: Duration,
}

/// Serves the page until SIGINT, SIGTERM or SIGHUP arrives.
///
/// # Errors
/// Fails if the address cannot be used, or if the database refuses the first query for a reason that a retry does not
/// change.
pub fn run(settings: ServerSettings, targets: Targets, report: &Report) -> anyhow::Result<Status> {
    report.write_behind();
    let (sender, stop) = oneshot::channel();
    let mut sender = Some(sender);
    signal::on_stop(move || {
        // The server has ended if the send fails.
        let _ = sender.take().map(|sender| sender.send(()));
    })
    .context("cannot receive signals")?;
    let mut builder = runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build();
    let runtime = runtime.context("cannot start the event loop")?;
    LocalSet::new().block_on(&runtime, serve(settings, targets, report, stop))
}

async fn serve(
    settings: ServerSettings,
    targets: Targets,
    report: &Report,
    mut stop: oneshot::Receiver<()>,
) -> anyhow::Result<Status> {
    let (log, mut lines) = mpsc::unbounded_channel();
    let reader = Reader::start(targets, settings.interval, log).context("cannot start a thread")?;
    let reader = Rc::new(reader);
    let listener = Listener::bind(&settings.listen);
    let listener = listener.map_err(|error| cannot_listen(&settings.listen, &error))?;
    // An error in the settings is reported at the start. A database server that does not respond is not an error,
    // because it may start later.
    tokio::select! {
        outcome = reader.check() => outcome
            .map_err(|failure| ExitError::new(failure.kind.status(), failure))?,
        _ = &mut stop => return Ok(Status::OK),
    }
    let address = listener.address()?;
    report.info(EventKind::Listening, format!("listening on {address}"));
    let router = Rc::new(Router {
        access: settings.access,
        reader: Rc::clone(&reader),
        documents: Documents::default(),
    });
    spawn_local(Rc::clone(&reader).run());
    let accept = accept_all(&listener, router);
    tokio::pin!(accept);
    loop {
        tokio::select! {
            _ = &mut stop => {
                reader.close().await;
                return Ok(Status::OK);
            }
            () = &mut accept => {}
            Some(line) = lines.recv() => match line {
                LogLine::Failed(why) => report.info(EventKind::Waiting, why),
                LogLine::Recovered => report.info(EventKind::Connected, "the database responds again"),
            },
        }
    }
}

fn cannot_listen(listen: &Listen, error: &io::Error) -> ExitError {
    let address = match listen {
        Listen::Tcp(address) => address.to_string(),
        Listen::Unix(path) => path.display().to_string(),
    };
    ExitError::new(
        Status::CONFIG,
        format!("cannot listen on {address}: {error}"),
    )
}

/// Accepts connections. Never returns.
async fn accept_all(listener: &Listener, router: Rc<Router>) {
    let open = Rc::<Cell<usize>>::default();
    loop {
        let Ok(stream) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if open.get() >= MAX_CONNECTIONS {
            continue;
        }
        open.set(open.get() + 1);
        let (open, router) = (Rc::clone(&open), Rc::clone(&router));
        spawn_local(async move {
            // A connection that fails has lost its client.
            let _ = serve_connection(stream, router).await;
            open.set(open.get() - 1);
        });
    }
}

/// Answers the requests of a client, and ends its connection if it is too slow.
async fn serve_connection(stream: Box<dyn Connection>, router: Rc<Router>) -> hyper::Result<()> {
    let pace = Rc::<Pace>::default();
    let service = service_fn(|request| {
        let (router, pace) = (Rc::clone(&router), Rc::clone(&pace));
        async move {
            pace.request();
            let response = router.respond(request).await?;
            Ok::<_, Infallible>(response.map(|document| DocumentBody {
                document,
                taken: 0,
                pace,
            }))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_BUFFER)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        outcome = connection => outcome,
        () = pace.is_too_slow() => Ok(()),
    }
}
