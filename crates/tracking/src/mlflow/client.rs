//! Calls of an MLflow server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fmt};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use kindling_files as files;
use serde_json::Value;
use ureq::http::Response;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use crate::TrackingError;

/// How long a call may take, from the look-up of the name to the last byte of the answer.
pub(super) const LIMIT: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 10_000 });
/// The most bytes of an answer.
const MOST_BYTES: u64 = 64 << 20;
/// The most characters of an explanation that go into a sentence.
const MOST_SAID: usize = 300;

/// A server. The environment says who asks, in MLflow's own variables: `MLFLOW_TRACKING_TOKEN`, or
/// `MLFLOW_TRACKING_USERNAME` and `MLFLOW_TRACKING_PASSWORD`; and `MLFLOW_TRACKING_SERVER_CERT_PATH` which certificates to trust.
pub(super) struct Client {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets stay out of logs.
        f.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Client {
    /// A server at a checked address. Nothing is sent yet.
    ///
    /// # Errors
    /// [`TrackingError::Io`] if the file of certificates cannot be read, [`TrackingError::NoCertificate`] if it holds none.
    pub(super) fn new(url: &str) -> Result<Self, TrackingError> {
        let mut config = Agent::config_builder()
            .timeout_global(Some(LIMIT))
            .http_status_as_error(false)
            // A call that is sent on to another place would lose its contents or show them to others.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("kindling/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = env::var_os("MLFLOW_TRACKING_SERVER_CERT_PATH") {
            let tls = TlsConfig::builder().root_certs(certificates(path.as_ref())?).build();
            config = config.tls_config(tls);
        }
        Ok(Self {
            agent: config.build().into(),
            url: url.to_owned(),
            authorization: authorization(|name| env::var(name).ok()),
        })
    }

    /// Calls a part of the interface, such as `runs/create`, and returns its answer.
    ///
    /// # Errors
    /// [`TrackingError::Away`], [`TrackingError::Refused`].
    pub(super) fn post(&self, call: &str, body: &Value) -> Result<Value, TrackingError> {
        let request = self.agent.post(self.address(call)).header("Content-Type", "application/json");
        let request = request.header_if("Authorization", self.authorization.as_deref());
        self.answer(call, request.send(body.to_string()))
    }

    /// Asks without contents; `query` are names with values.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub(super) fn get(&self, call: &str, query: &[(&str, &str)]) -> Result<Value, TrackingError> {
        let request = self.agent.get(self.address(call)).query_pairs(query.iter().copied());
        self.answer(call, request.header_if("Authorization", self.authorization.as_deref()).call())
    }

    /// Hands a file to the server's store. `path` begins behind the store's root.
    ///
    /// # Errors
    /// As [`post`](Self::post).
    pub(super) fn put_artifact(&self, path: &str, bytes: &[u8]) -> Result<(), TrackingError> {
        let call = format!("mlflow-artifacts/artifacts/{path}");
        let request = self.agent.put(format!("{}/api/2.0/{call}", self.url));
        let request = request.header_if("Authorization", self.authorization.as_deref());
        match self.receive(request.send(bytes))? {
            // What else it says is nothing.
            (200..300, _) => Ok(()),
            (status, text) => Err(self.refused(&call, status, &text)),
        }
    }

    fn address(&self, call: &str) -> String {
        format!("{}/api/2.0/mlflow/{call}", self.url)
    }

    /// The status of an answer and its text.
    fn receive(&self, answer: Result<Response<Body>, ureq::Error>) -> Result<(u16, Vec<u8>), TrackingError> {
        let away = |error: ureq::Error| TrackingError::Away { url: self.url.clone(), reason: error.to_string() };
        let mut answer = answer.map_err(away)?;
        let text = answer.body_mut().with_config().limit(MOST_BYTES).read_to_vec().map_err(away)?;
        Ok((answer.status().as_u16(), text))
    }

    fn answer(&self, call: &str, answer: Result<Response<Body>, ureq::Error>) -> Result<Value, TrackingError> {
        let (status, text) = self.receive(answer)?;
        match serde_json::from_slice(&text) {
            Ok(value) if status == 200 => Ok(value),
            _ => Err(self.refused(call, status, &text)),
        }
    }

    fn refused(&self, call: &str, status: u16, text: &[u8]) -> TrackingError {
        let message = serde_json::from_slice::<Value>(text).ok();
        let message = message.as_ref().and_then(|answer| answer["message"].as_str());
        let said = message.map_or_else(|| String::from_utf8_lossy(text), Into::into);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST_SAID).collect();
        TrackingError::Refused { url: self.url.clone(), call: call.to_owned(), status, said }
    }
}

/// Adds a header where there is a value.
trait HeaderIf {
    fn header_if(self, name: &str, value: Option<&str>) -> Self;
}

impl<B> HeaderIf for ureq::RequestBuilder<B> {
    fn header_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.header(name, value),
            None => self,
        }
    }
}

/// The header that says who asks, by the environment's name and password, or token.
fn authorization(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    // MLflow's own order: a name and a password come first.
    if let (Some(user), Some(password)) = (set("MLFLOW_TRACKING_USERNAME"), set("MLFLOW_TRACKING_PASSWORD")) {
        return Some(format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))));
    }
    set("MLFLOW_TRACKING_TOKEN").map(|token| format!("Bearer {token}"))
}

fn certificates(path: &Path) -> Result<RootCerts, TrackingError> {
    let pem = files::read(path, files::MAX_TEXT_BYTES).map_err(TrackingError::on("read", path))?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(TrackingError::NoCertificate { path: path.to_owned() });
    }
    Ok(RootCerts::Specific(Arc::new(certificates)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_password_comes_before_a_token_and_neither_is_shown() {
        let token = ("MLFLOW_TRACKING_TOKEN", "t");
        let both = [("MLFLOW_TRACKING_USERNAME", "a"), ("MLFLOW_TRACKING_PASSWORD", "b"), token];
        let of = |set: &[(&str, &str)]| {
            authorization(|name| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(of(&both).as_deref(), Some("Basic YTpi"));
        assert_eq!(of(&both[1..]).as_deref(), Some("Bearer t"));
        assert_eq!(of(&both[..1]), None);
        let client = Client { authorization: of(&both), ..Client::new("http://localhost").unwrap() };
        assert!(!format!("{client:?}").contains("YTpi"));
    }
}
