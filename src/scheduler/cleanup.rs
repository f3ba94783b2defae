//! The owner of work that outlives a query: giving back what executors hold for it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Clean-up tasks of a cluster's queries. Dropping it aborts them; then executors clean up when the leases' grace
/// period ends.
#[derive(Debug, Default)]
pub struct CleanupTasks {
    tasks: Mutex<JoinSet<()>>,
}

impl CleanupTasks {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `task` on `runtime`. The task has deadlines of its own.
    pub(super) fn spawn(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn_on(task, runtime);
    }

    /// Waits for all tasks; those that are not through at the deadline are aborted. Cancel safe: dropping it aborts them.
    pub async fn drain(&self, deadline: Duration) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(deadline, all).await.is_err() {
            tasks.shutdown().await;
        }
    }
}
