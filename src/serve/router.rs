//! Answers requests: selects the document for a path, and adds the headers for security.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Request, Response, StatusCode};

use super::access::{Access, Refusal};
use super::assets::ASSETS;
use super::reader::{Reader, reason};
use super::rendering::{Dropped, Rendering, Renderings};
use super::viewers::{Events, Viewer};
use super::{action_document, metrics};
use crate::lease::action::Action;
use crate::locks::snapshot::TimedSnapshot;
use crate::report::leader;
use crate::report::status::{Connections, write_json};
use crate::sys::clock;

/// Maximum number of viewers. Each one uses a connection all the time. The limit leaves room for as many viewers beside
/// 200 slow ones, which the kernel's buffers can hide for hours, and for the other connections of these viewers.
const MAX_VIEWERS: usize = 400;

/// The policy of the page: everything comes from this server, nothing may embed the page, and no text becomes HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Answers requests.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) access: Access,
    pub(super) reader: Rc<Reader>,
    pub(super) renderings: Rc<Renderings>,
}

/// The body of a response.
#[derive(Debug)]
pub(super) enum ResponseBody {
    /// A text. None after it has been sent.
    Text(Option<Bytes>),
    /// A document, and the index of its next chunk.
    Document(Rc<Rendering>, usize),
    /// Events until the viewer ends the connection.
    Events(Events),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Dropped;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Dropped>>> {
        let chunk = match &mut *self {
            Self::Text(text) => Poll::Ready(text.take().map(Ok)),
            Self::Document(document, next) => {
                let chunk = document.chunk(*next);
                *next += 1;
                Poll::Ready(chunk.transpose())
            }
            Self::Events(events) => events.poll_chunk(context),
        };
        chunk.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Document(document, 0) => SizeHint::with_exact(document.length() as u64),
            Self::Document(..) | Self::Events(_) => SizeHint::default(),
        }
    }
}

impl Router {
    /// Answers `request`.
    pub(super) async fn respond(
        self: Rc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let path = request.uri().path();
        // Probes use the address of a pod as the name of the host, and have no token. The response contains nothing
        // about locks.
        if path == "/healthz" {
            return Ok(match Access::check_method(&request) {
                Ok(()) => text(StatusCode::OK, "ok\n"),
                Err(refusal) => refused(refusal),
            });
        }
        if let Err(refusal) = self.access.check(&request, path == "/") {
            return Ok(refused(refusal));
        }
        if let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) {
            let bytes = Bytes::from_static(asset.text.as_bytes());
            return Ok(response(
                StatusCode::OK,
                asset.content_type,
                ResponseBody::Text(Some(bytes)),
            ));
        }
        Ok(match path {
            "/events" => self.events(),
            "/status.json" => {
                let view = self.reader.fresh().await;
                match view.current() {
                    Some((data, latest)) => {
                        let document = data.status.get(|| self.status(&latest));
                        response(StatusCode::OK, JSON, ResponseBody::Document(document, 0))
                    }
                    None => unavailable(reason(view.failure)),
                }
            }
            "/metrics" => {
                let view = self.reader.fresh().await;
                if let Some((data, latest)) = view.current() {
                    let create = || self.renderings.create(&metrics::text(&latest));
                    let document = data.metrics.get(create);
                    response(StatusCode::OK, METRICS, ResponseBody::Document(document, 0))
                } else {
                    let text = Bytes::from(metrics::without_database());
                    response(StatusCode::OK, METRICS, ResponseBody::Text(Some(text)))
                }
            }
            "/leader" => self.leader(request.uri().query().unwrap_or_default()).await,
            "/action.json" => self.action(request.uri().query().unwrap_or_default()).await,
            _ => text(StatusCode::NOT_FOUND, "there is no such page\n"),
        })
    }

    fn events(&self) -> Response<ResponseBody> {
        if self.reader.viewers.get() >= MAX_VIEWERS {
            return unavailable("too many viewers");
        }
        let viewer = Viewer::new(&self.reader.viewers);
        let events = Events::start(&self.reader, &self.renderings, viewer);
        let body = ResponseBody::Events(events);
        let mut response = response(StatusCode::OK, "text/event-stream", body);
        // nginx would otherwise collect events before it passes them on.
        let name = HeaderName::from_static("x-accel-buffering");
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static("no"));
        response
    }

    /// Returns the leader of the action in `query`.
    async fn leader(&self, query: &str) -> Response<ResponseBody> {
        let Some(action) = parameter(query, "action") else {
            return text(
                StatusCode::BAD_REQUEST,
                "the parameter action must be an action\n",
            );
        };
        let view = self.reader.fresh().await;
        let Some((_, latest)) = view.current() else {
            return unavailable(reason(view.failure));
        };
        match latest.record(&action) {
            Some(record) => json_text(leader::json(record, latest.snapshot.is_read_only)),
            None => no_such_action(),
        }
    }

    /// Returns the document about the action in `query`.
    async fn action(&self, query: &str) -> Response<ResponseBody> {
        let Some(action) = parameter(query, "name") else {
            return text(
                StatusCode::BAD_REQUEST,
                "the parameter name must be an action\n",
            );
        };
        let view = self.reader.fresh().await;
        let Some((_, latest)) = view.current() else {
            return unavailable(reason(view.failure));
        };
        let Some(record) = latest.record(&action) else {
            return no_such_action();
        };
        match self.reader.runs(record).await {
            Ok(runs) => {
                // Never fails for a record and its runs.
                json_text(action_document::document(
                    record,
                    &latest,
                    &runs,
                    clock::now(),
                ))
            }
            Err(failure) => unavailable(reason(Some(failure.kind))),
        }
    }

    /// Returns the document `/status.json`.
    fn status(&self, latest: &TimedSnapshot) -> Rc<Rendering> {
        let document = self.renderings.write(|writer| {
            write_json(
                &latest.snapshot,
                latest.at_wall,
                Connections::Hidden,
                writer,
            )
        });
        // Never fails for a snapshot.
        document.unwrap_or_else(|_| self.renderings.create(""))
    }
}

/// Returns the action in the parameter `key` of `query`. None if there is none.
fn parameter(query: &str, key: &str) -> Option<Action> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let value = parameters.find(|(name, _)| name == key);
    value.and_then(|(_, value)| value.parse().ok())
}

fn no_such_action() -> Response<ResponseBody> {
    text(StatusCode::NOT_FOUND, "there is no such action\n")
}

/// Returns the response with `document`, whose serialization never fails.
fn json_text(document: serde_json::Result<String>) -> Response<ResponseBody> {
    let body = ResponseBody::Text(Some(Bytes::from(document.unwrap_or_default())));
    response(StatusCode::OK, JSON, body)
}

const JSON: &str = "application/json";

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

fn refused(refusal: Refusal) -> Response<ResponseBody> {
    let body = format!("{}\n", refusal.text());
    let body = ResponseBody::Text(Some(Bytes::from(body)));
    let mut response = response(refusal.status(), PLAIN, body);
    let (name, value) = match refusal {
        Refusal::Method => (ALLOW, "GET, HEAD"),
        Refusal::Token => (WWW_AUTHENTICATE, "Basic realm=\"dlock\", charset=\"UTF-8\""),
        Refusal::NoHost | Refusal::Host | Refusal::CrossSite => return response,
    };
    let headers = response.headers_mut();
    headers.insert(name, HeaderValue::from_static(value));
    response
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn text(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let body = ResponseBody::Text(Some(Bytes::from_static(text.as_bytes())));
    response(status, PLAIN, body)
}

fn unavailable(reason: &'static str) -> Response<ResponseBody> {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    let wait = RETRY_SECONDS.as_secs().into();
    response.headers_mut().insert(RETRY_AFTER, wait);
    response
}

/// Time after which a client may try again.
const RETRY_SECONDS: Duration = Duration::from_secs(5);

fn response(
    status: StatusCode,
    content_type: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
