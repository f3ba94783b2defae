//! Ctrl-C and SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::ExitStatus;

/// Whether the user wants to stop, for code that waits and for code that computes.
pub struct Interrupt {
    token: CancellationToken,
    flag: Arc<AtomicBool>,
    listener: JoinHandle<()>,
}

impl Interrupt {
    /// From now on the first signal only sets this; the second ends the process at once (children end with their pipes).
    pub fn listen() -> std::io::Result<Self> {
        let (mut interrupts, mut terminations) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let (token, flag) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
        let listener = tokio::spawn({
            let (token, flag) = (token.clone(), Arc::clone(&flag));
            async move {
                loop {
                    tokio::select! {
                        _ = interrupts.recv() => {}
                        _ = terminations.recv() => {}
                    }
                    if flag.swap(true, Ordering::Relaxed) {
                        std::process::exit(ExitStatus::Interrupted as i32);
                    }
                    token.cancel();
                }
            }
        });
        Ok(Self { token, flag, listener })
    }

    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.listener.abort();
    }
}
