//! One process's connections to its peers.
//!
//! ```text
//! ExchangeClient -> peer (address, settings) -> channel 0: up to 32 streams
//!                                               channel 1: …           `channels_per_peer`, used in turn
//!                                               overflow, while all are full
//! ```
//!
//! *Windows.* HTTP/2 counts what a reader has not taken per stream and per connection. If the connection's window is
//! smaller than the sum of its streams', streams that nobody reads just now (inputs of a merge, of a join) use it up
//! and the one that is read starves: a deadlock. So a channel carries a bounded number of streams and its window is
//! that number times the stream window. The bound never makes a stream wait, which would be the same deadlock by
//! another way: when all channels are full, one more is opened.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Channel;

use crate::config::{BodyCodec, VolleyOptions};
use crate::error::{Result, VolleyError};
use crate::wire::{ChannelSettings, Token, connect};

/// Streams of one channel. A channel's unread bytes are at most this times the window: 32 MiB by default.
const STREAMS_PER_CHANNEL: u32 = 32;
/// Largest window that HTTP/2 knows.
const MAX_WINDOW: u64 = (1 << 31) - 1;
/// A peer's channels that nobody used for this long are closed.
const IDLE: Duration = Duration::from_secs(60);

/// How a query's exchanges move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExchangeOptions {
    /// HTTP/2 connections to each peer, used in turn; at least 1.
    pub channels_per_peer: usize,
    /// Compression that is asked of peers.
    pub codec: BodyCodec,
    /// Uncompressed bytes of a message that is sent.
    pub message_bytes: usize,
    /// HTTP/2 window of a stream, in bytes.
    pub window_bytes: u64,
    /// Largest HTTP/2 frame to receive, in bytes.
    pub frame_bytes: u64,
    /// To connect.
    pub connect_timeout: Duration,
    /// Without a byte on a stream that is waited for.
    pub stall_timeout: Duration,
}

impl ExchangeOptions {
    /// The exchange's part of a session's options.
    pub fn of(options: &VolleyOptions) -> Self {
        Self {
            channels_per_peer: options.channels_per_peer,
            codec: options.codec,
            message_bytes: options.message_bytes.as_usize(),
            window_bytes: options.window_bytes.0,
            frame_bytes: options.frame_bytes.0,
            connect_timeout: options.connect_timeout_ms.duration(),
            stall_timeout: options.stall_timeout_ms.duration(),
        }
    }

    fn channel(&self) -> (ChannelSettings, usize) {
        let window = self.window_bytes.clamp(1, MAX_WINDOW);
        let streams = u64::from(STREAMS_PER_CHANNEL).min(MAX_WINDOW / window).max(1);
        let settings = ChannelSettings {
            connect_timeout: self.connect_timeout,
            stream_window_bytes: window as u32,
            connection_window_bytes: (window * streams) as u32,
            frame_bytes: self.frame_bytes.min(MAX_WINDOW) as u32,
        };
        (settings, streams as usize)
    }
}

/// Connections to peers, shared by all tasks and sessions of a process.
pub struct ExchangeClient {
    io: Handle,
    token: Token,
    peers: Mutex<HashMap<PeerKey, Arc<Peer>>>,
}

/// Settings belong to a connection, so that queries with other settings have other connections.
#[derive(PartialEq, Eq, Hash)]
struct PeerKey {
    endpoint: Arc<str>,
    channels: usize,
    window_bytes: u64,
    frame_bytes: u64,
}

struct Peer {
    state: Mutex<PeerState>,
}

struct PeerState {
    channels: Vec<Arc<PeerChannel>>,
    next: usize,
    last_used: Instant,
}

struct PeerChannel {
    channel: OnceCell<Channel>,
    streams: Arc<Semaphore>,
}

/// A channel, and the right to one stream on it.
pub(super) struct Lane {
    pub(super) channel: Channel,
    /// Channels to this peer that carry streams now.
    pub(super) channels_used: u32,
    _permit: OwnedSemaphorePermit,
}

impl ExchangeClient {
    /// A client whose network part runs on `io` and whose calls carry `token`.
    pub fn new(io: Handle, token: Token) -> Arc<Self> {
        Arc::new(Self { io, token, peers: Mutex::new(HashMap::new()) })
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    /// Runs the network part of a stream on the I/O runtime; dropping the handle ends it.
    pub(super) fn spawn<F>(&self, task: F) -> AbortOnDropHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        AbortOnDropHandle::new(self.io.spawn(task))
    }

    /// A stream's place on a channel to `endpoint`, connecting where needed. Runs on the I/O runtime.
    pub(super) async fn lane(&self, endpoint: &Arc<str>, options: &ExchangeOptions) -> Result<Lane> {
        let (settings, streams) = options.channel();
        let peer = self.peer(endpoint, options);
        let (chosen, permit, channels_used) = peer.choose(options.channels_per_peer.max(1), streams)?;
        let connected = chosen.channel.get_or_try_init(|| connect(endpoint, settings)).await;
        match connected {
            Ok(channel) => Ok(Lane { channel: channel.clone(), channels_used, _permit: permit }),
            Err(error) => Err(error),
        }
    }

    /// Forgets the connections to a peer that failed, so that the next stream connects anew.
    pub(super) fn forget(&self, endpoint: &str) {
        self.peers.lock().retain(|key, _| &*key.endpoint != endpoint);
    }

    fn peer(&self, endpoint: &Arc<str>, options: &ExchangeOptions) -> Arc<Peer> {
        let key = PeerKey {
            endpoint: Arc::clone(endpoint),
            channels: options.channels_per_peer,
            window_bytes: options.window_bytes,
            frame_bytes: options.frame_bytes,
        };
        let mut peers = self.peers.lock();
        if let Some(peer) = peers.get(&key) {
            return Arc::clone(peer);
        }
        peers.retain(|_, peer| !peer.is_idle());
        Arc::clone(peers.entry(key).or_insert_with(|| Arc::new(Peer::new())))
    }
}

impl fmt::Debug for ExchangeClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeClient").field("peers", &self.peers.lock().len()).finish_non_exhaustive()
    }
}

impl Peer {
    fn new() -> Self {
        Self { state: Mutex::new(PeerState { channels: vec![], next: 0, last_used: Instant::now() }) }
    }

    /// The next channel in turn that has room; an overflow channel if none has.
    fn choose(&self, configured: usize, streams: usize) -> Result<(Arc<PeerChannel>, OwnedSemaphorePermit, u32)> {
        let mut state = self.state.lock();
        state.last_used = Instant::now();
        let new_channel =
            || Arc::new(PeerChannel { channel: OnceCell::new(), streams: Arc::new(Semaphore::new(streams)) });
        while state.channels.len() < configured {
            state.channels.push(new_channel());
        }
        let count = state.channels.len();
        // Overflow channels come last and are tried only when the configured ones are full.
        let start = state.next % configured;
        let turn = (0..configured).map(|step| (start + step) % configured).chain(configured..count);
        let mut found = None;
        for index in turn {
            if let Some(channel) = state.channels.get(index)
                && let Ok(permit) = Arc::clone(&channel.streams).try_acquire_owned()
            {
                found = Some((Arc::clone(channel), permit));
                break;
            }
        }
        let (channel, permit) = match found {
            Some(found) => found,
            None => {
                let channel = new_channel();
                let permit = Arc::clone(&channel.streams)
                    .try_acquire_owned()
                    .map_err(|_| VolleyError::internal("a channel without room for one stream"))?;
                state.channels.push(Arc::clone(&channel));
                (channel, permit)
            }
        };
        state.next = start + 1;
        // Overflow channels without streams are closed.
        let mut index = 0;
        state.channels.retain(|channel| {
            index += 1;
            index <= configured || channel.streams.available_permits() < streams
        });
        let used = state.channels.iter().filter(|channel| channel.streams.available_permits() < streams).count();
        Ok((channel, permit, used as u32))
    }

    fn is_idle(&self) -> bool {
        self.state.lock().last_used.elapsed() > IDLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_window_covers_all_streams_of_a_channel() {
        for window_kib in [64, 1 << 10, 64 << 10, 1 << 20] {
            let options =
                VolleyOptions { window_bytes: crate::config::Bytes::kib(window_kib), ..VolleyOptions::default() };
            let (settings, streams) = ExchangeOptions::of(&options).channel();
            let needed = streams as u64 * u64::from(settings.stream_window_bytes);
            assert!(streams >= 1 && u64::from(settings.connection_window_bytes) >= needed);
        }
    }

    #[test]
    fn channels_are_used_in_turn_and_a_stream_never_waits_for_one() {
        let peer = Peer::new();
        let mut held = vec![];
        let mut used = vec![];
        for _ in 0..6 {
            let (_, permit, channels) = peer.choose(2, 2).unwrap();
            held.push(permit);
            used.push(channels);
        }
        assert_eq!(used, [1, 2, 2, 2, 3, 3], "two channels of two streams, then overflow");
        held.clear();
        let (_, _permit, channels) = peer.choose(2, 2).unwrap();
        assert_eq!((channels, peer.state.lock().channels.len()), (1, 2), "overflow is closed when it is empty");
    }
}
