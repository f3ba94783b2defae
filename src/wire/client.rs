//! Opening HTTP/2 channels to executors, and the token on each call.
//!
//! What `exchange` and `control` share of the client side. Windows and frames are the caller's: data and control
//! have different needs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::{Channel, Endpoint};

use crate::error::{ErrorCode, Result, VolleyError};

/// A peer that is silent is asked for a sign of life after this long …
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// … and counts as gone after this much more.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The bearer token that a cluster's members share. Never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(Option<Arc<str>>);

impl Token {
    /// A token.
    ///
    /// # Errors
    /// A text that cannot be an HTTP header's value, or an empty one.
    pub fn new(text: &str) -> Result<Self> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(VolleyError::new(
                ErrorCode::InvalidOption,
                "a token must have at least one character and only visible ASCII ones",
            ));
        }
        Ok(Self(Some(text.into())))
    }

    /// No token: calls are neither signed nor checked.
    pub fn none() -> Self {
        Self(None)
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Puts the token on a call.
    pub(crate) fn sign(&self, metadata: &mut MetadataMap) {
        if let Some(token) = &self.0
            && let Ok(value) = AsciiMetadataValue::try_from(format!("Bearer {token}"))
        {
            metadata.insert("authorization", value);
        }
    }

    /// Checks the token of a call, in time that does not depend on where it differs.
    pub(crate) fn check(&self, metadata: &MetadataMap) -> Result<()> {
        let Some(expected) = &self.0 else { return Ok(()) };
        let given = metadata
            .get("authorization")
            .and_then(|value| value.as_encoded_bytes().strip_prefix(b"Bearer "))
            .unwrap_or_default();
        if equal_in_constant_time(given, expected.as_bytes()) {
            return Ok(());
        }
        Err(VolleyError::new(ErrorCode::Unauthenticated, "the token is missing or wrong; see --token-file"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "Token(none)" } else { "Token(…)" })
    }
}

fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    // The length is not secret. `black_box` keeps the compiler from leaving the loop early.
    a.len() == b.len() && std::hint::black_box(a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b))) == 0
}

/// HTTP/2 settings of a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelSettings {
    pub connect_timeout: Duration,
    pub stream_window_bytes: u32,
    pub connection_window_bytes: u32,
    pub frame_bytes: u32,
}

/// Connects to `endpoint` (`host:port`). Must be called on the runtime that drives the connection.
pub(crate) async fn connect(endpoint: &str, settings: ChannelSettings) -> Result<Channel> {
    let unreachable = |error: tonic::transport::Error| {
        VolleyError::new(ErrorCode::Unreachable, format!("cannot connect to executor {endpoint}")).with_source(error)
    };
    let target = Endpoint::from_shared(format!("http://{endpoint}"))
        .map_err(unreachable)?
        .connect_timeout(settings.connect_timeout)
        .initial_stream_window_size(settings.stream_window_bytes)
        .initial_connection_window_size(settings.connection_window_bytes)
        .max_frame_size(settings.frame_bytes)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    // The endpoint's own timeout covers TCP only; a peer that accepts and then is silent would hold us.
    match tokio::time::timeout(settings.connect_timeout, target.connect()).await {
        Ok(connected) => connected.map_err(unreachable),
        Err(_) => Err(VolleyError::new(
            ErrorCode::Unreachable,
            format!("executor {endpoint} did not answer within {} ms", settings.connect_timeout.as_millis()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_token_passes() {
        let token = Token::new("s3cret").unwrap();
        let check = |client: &Token| {
            let mut metadata = MetadataMap::new();
            client.sign(&mut metadata);
            token.check(&metadata).map_err(|error| error.code)
        };
        assert_eq!(check(&token), Ok(()));
        for wrong in [Token::none(), Token::new("s3cres").unwrap(), Token::new("s3cret2").unwrap()] {
            assert_eq!(check(&wrong), Err(ErrorCode::Unauthenticated));
        }
        assert!(Token::new("").is_err() && Token::new("a b").is_err() && Token::new("é").is_err());
        assert!(!format!("{token:?}").contains("s3cret"));
    }
}
