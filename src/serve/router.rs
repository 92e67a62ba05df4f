//! Answers requests: selects the document for a path, and adds the headers for security.

use std::convert::Infallible;
use std::io::Write;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH, REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Request, StatusCode};

use super::access::{Access, Refusal};
use super::assets::ASSETS;
use super::documents::{Document, Documents};
use super::reader::{Reader, Records};
use super::{action_document, metrics, overview};
use crate::lease::action::Action;
use crate::report::format::millis;
use crate::report::leader;
use crate::report::status::{Connections, write_json};
use crate::sys::clock;

/// The policy of the page: everything comes from this server, nothing may embed the page, and no text becomes HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// A response with its document.
type Response = hyper::Response<Rc<Document>>;

/// Answers requests.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) access: Access,
    pub(super) reader: Rc<Reader>,
    pub(super) documents: Documents,
}

impl Router {
    /// Answers `request`.
    pub(super) async fn respond(
        self: Rc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response, Infallible> {
        Ok(self
            .answer(&request)
            .await
            .unwrap_or_else(|refusal| refusal))
    }

    /// Returns the response to `request`, as a failure if there is no document to return.
    async fn answer(&self, request: &Request<Incoming>) -> Result<Response, Response> {
        let path = request.uri().path();
        // Probes use the address of a pod as the name of the host, and have no token. The response contains nothing
        // about locks.
        if path == "/healthz" {
            Access::check_method(request).map_err(refused)?;
            return Ok(text(StatusCode::OK, "ok\n"));
        }
        (self.access.check(request, path == "/")).map_err(refused)?;
        if let Some(asset) = ASSETS.iter().find(|asset| asset.path == path) {
            let document = Document::new(asset.text);
            return Ok(response(StatusCode::OK, asset.content_type, document));
        }
        let query = request.uri().query().unwrap_or_default();
        match path {
            "/overview.json" => Ok(self.overview(&*self.fresh().await?, request)),
            "/status.json" => {
                let Records { latest, status, .. } = &*self.fresh().await?;
                Ok(json(self.documents.cached(status, |out| {
                    write_json(&latest.snapshot, latest.at_wall, Connections::Hidden, out)
                })))
            }
            "/metrics" => Ok(self.metrics().await),
            "/leader" => {
                let action = parameter(query, "action")?;
                let Records { latest, .. } = &*self.fresh().await?;
                let record = latest.record(&action).ok_or_else(no_such_action)?;
                Ok(self.json_text(leader::json(record, latest.snapshot.is_read_only)))
            }
            "/action.json" => self.action(&parameter(query, "name")?).await,
            _ => Err(text(StatusCode::NOT_FOUND, "there is no such page\n")),
        }
    }

    async fn fresh(&self) -> Result<Rc<Records>, Response> {
        self.reader.fresh().await.map_err(unavailable)
    }

    /// Returns the document for the page, or only its headers if the page already has it.
    fn overview(&self, records: &Records, request: &Request<Incoming>) -> Response {
        let Records { latest, .. } = records;
        let create = || {
            let write = |out: &mut dyn Write| overview::write(latest, self.reader.interval(), out);
            self.documents.cached(&records.overview, write)
        };
        let tag = (records.overview_tag).get_or_init(|| create().tag());
        // A proxy may have added to the tag that it is weak.
        let mut known = request.headers().get_all(IF_NONE_MATCH).iter();
        let is_known = known.any(|tags| tags.to_str().is_ok_and(|tags| tags.contains(tag)));
        let mut response = match is_known {
            true => response(StatusCode::NOT_MODIFIED, JSON, Document::new("")),
            false => json(create()),
        };
        let headers = response.headers_mut();
        // A tag contains only digits and quotes.
        headers.extend(HeaderValue::from_str(tag).map(|tag| (ETAG, tag)));
        for (name, time) in [
            ("dlock-server-time-ms", latest.server_time()),
            ("dlock-age-ms", clock::now().since(latest.sent)),
        ] {
            headers.insert(HeaderName::from_static(name), millis(time).into());
        }
        response
    }

    async fn metrics(&self) -> Response {
        let document = match self.reader.fresh().await {
            Ok(records) => self.documents.cached(&records.metrics, |out| {
                out.write_all(metrics::text(&records.latest).as_bytes())
            }),
            Err(_) => Document::new(metrics::without_database()),
        };
        response(StatusCode::OK, METRICS, document)
    }

    /// Returns the document about `action`.
    async fn action(&self, action: &Action) -> Result<Response, Response> {
        let Records { latest, .. } = &*self.fresh().await?;
        let record = latest.record(action).ok_or_else(no_such_action)?;
        let runs = self.reader.runs(record).await.map_err(unavailable)?;
        let document = action_document::document(record, latest, &runs, clock::now());
        Ok(self.json_text(document))
    }

    /// Returns the response with `document`, whose serialization never fails.
    fn json_text(&self, document: serde_json::Result<String>) -> Response {
        let text = document.unwrap_or_default();
        json(self.documents.create(|out| out.write_all(text.as_bytes())))
    }
}

/// Returns the action in the parameter `key` of `query`, or a response if there is none.
fn parameter(query: &str, key: &str) -> Result<Action, Response> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let value = parameters.find(|(name, _)| name == key);
    let action = value.and_then(|(_, value)| value.parse().ok());
    action.ok_or_else(|| {
        let why = format!("the parameter {key} must be an action\n");
        response(StatusCode::BAD_REQUEST, PLAIN, Document::new(why))
    })
}

fn no_such_action() -> Response {
    text(StatusCode::NOT_FOUND, "there is no such action\n")
}

fn json(document: Rc<Document>) -> Response {
    response(StatusCode::OK, JSON, document)
}

const JSON: &str = "application/json";

const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

fn refused(refusal: Refusal) -> Response {
    let body = Document::new(format!("{}\n", refusal.text()));
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

fn text(status: StatusCode, text: &'static str) -> Response {
    response(status, PLAIN, Document::new(text))
}

fn unavailable(reason: &'static str) -> Response {
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, reason);
    response
        .headers_mut()
        .insert(RETRY_AFTER, RETRY_SECONDS.into());
    response
}

/// Time in seconds after which a client may try again.
const RETRY_SECONDS: u16 = 5;

fn response(status: StatusCode, content_type: &'static str, document: Rc<Document>) -> Response {
    let mut response = Response::new(document);
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
