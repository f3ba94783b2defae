//! Sharing executors' slots between the queries of one cluster.
//!
//! A query joins with the executors it knows, asks for slots one by one ([`SlotClient::request`]) and is granted them
//! in [`SlotClient::take_granted`]. A free slot goes to the query that holds the fewest; among equals, to the one that
//! was served longest ago. So a query of many tasks cannot starve a small one, and alone it gets everything.
//!
//! One lock, held for bookkeeping only and never across an await. No I/O: the simulation runs the same pool.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::ids::ExecutorId;
use crate::scheduler::state::{SlotRequest, SlotRequestId};

/// The slots of a cluster's executors.
#[derive(Debug, Default)]
pub struct SlotPool {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    executors: BTreeMap<ExecutorId, ExecutorSlots>,
    queries: BTreeMap<u64, QuerySlots>,
    next_query: u64,
    /// Counts grants; a query's last one tells whose turn it is.
    turn: u64,
}

#[derive(Debug)]
struct ExecutorSlots {
    slots: u32,
    used: u32,
    /// Queries that know it. The entry goes with the last of them.
    queries: u32,
}

#[derive(Debug)]
struct QuerySlots {
    executors: Vec<ExecutorId>,
    /// Urgent requests first, then the oldest.
    waiting: BTreeMap<(bool, SlotRequestId), SlotRequest>,
    held: BTreeMap<SlotRequestId, ExecutorId>,
    /// Held too, but the query does not know yet.
    news: VecDeque<(SlotRequestId, ExecutorId)>,
    last_turn: u64,
    notify: Arc<Notify>,
}

/// Use of one executor's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotUse {
    /// The executor.
    pub executor: ExecutorId,
    /// Slots it has.
    pub slots: u32,
    /// Slots held by queries.
    pub used: u32,
}

impl SlotPool {
    /// An empty pool.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A place for one query, which may use these executors, each with its number of slots.
    pub fn join(self: &Arc<Self>, executors: impl IntoIterator<Item = (ExecutorId, u32)>) -> SlotClient {
        let notify = Arc::new(Notify::new());
        let mut inner = self.inner.lock();
        let query = inner.next_query;
        inner.next_query += 1;
        let last_turn = inner.turn;
        inner.queries.insert(
            query,
            QuerySlots {
                executors: Vec::new(),
                waiting: BTreeMap::new(),
                held: BTreeMap::new(),
                news: VecDeque::new(),
                last_turn,
                notify: Arc::clone(&notify),
            },
        );
        for (executor, slots) in executors {
            inner.add_executor(query, executor, slots);
        }
        SlotClient { pool: Arc::clone(self), query, notify }
    }

    /// The use of every executor that a query knows now, by id.
    pub fn usage(&self) -> Vec<SlotUse> {
        let inner = self.inner.lock();
        inner
            .executors
            .iter()
            .map(|(id, entry)| SlotUse { executor: *id, slots: entry.slots, used: entry.used })
            .collect()
    }
}

/// One query's place in the pool. Dropping it gives everything back.
#[derive(Debug)]
pub struct SlotClient {
    pool: Arc<SlotPool>,
    query: u64,
    notify: Arc<Notify>,
}

impl SlotClient {
    /// Makes one more executor known to the query.
    pub fn add_executor(&self, executor: ExecutorId, slots: u32) {
        self.pool.inner.lock().add_executor(self.query, executor, slots);
    }

    /// Asks for a slot. Slots are dealt in [`take_granted`](Self::take_granted), so that requests made together are
    /// considered together.
    pub fn request(&self, request: SlotRequest) {
        if let Some(query) = self.pool.inner.lock().queries.get_mut(&self.query) {
            query.waiting.insert((!request.urgent, request.id), request);
        }
    }

    /// Takes a request back or gives its slot back, whichever it has come to.
    pub fn release(&self, request: SlotRequestId) {
        let mut inner = self.pool.inner.lock();
        let Some(query) = inner.queries.get_mut(&self.query) else { return };
        query.waiting.remove(&(false, request));
        query.waiting.remove(&(true, request));
        query.news.retain(|(id, _)| *id != request);
        if let Some(executor) = query.held.remove(&request) {
            inner.give_back(executor);
            inner.deal();
        }
    }

    /// Deals free slots, to all queries, and returns what this one was granted since the last call.
    pub fn take_granted(&self) -> Vec<(SlotRequestId, ExecutorId)> {
        let mut inner = self.pool.inner.lock();
        inner.deal();
        inner.queries.get_mut(&self.query).map(|query| query.news.drain(..).collect()).unwrap_or_default()
    }

    /// Waits until [`take_granted`](Self::take_granted) may return something. May also return without. Cancel safe.
    pub async fn granted(&self) {
        self.notify.notified().await;
    }
}

impl Drop for SlotClient {
    fn drop(&mut self) {
        let mut inner = self.pool.inner.lock();
        let Some(query) = inner.queries.remove(&self.query) else { return };
        for executor in query.held.into_values() {
            inner.give_back(executor);
        }
        for executor in query.executors {
            if let Some(entry) = inner.executors.get_mut(&executor) {
                entry.queries -= 1;
                if entry.queries == 0 {
                    inner.executors.remove(&executor);
                }
            }
        }
        inner.deal();
    }
}

impl Inner {
    fn add_executor(&mut self, query: u64, executor: ExecutorId, slots: u32) {
        let Some(query) = self.queries.get_mut(&query) else { return };
        let entry = self.executors.entry(executor).or_insert(ExecutorSlots { slots: 0, used: 0, queries: 0 });
        entry.slots = slots.max(1);
        if !query.executors.contains(&executor) {
            query.executors.push(executor);
            entry.queries += 1;
        }
    }

    fn give_back(&mut self, executor: ExecutorId) {
        if let Some(entry) = self.executors.get_mut(&executor) {
            entry.used -= 1;
        }
    }

    fn is_free(&self, executor: ExecutorId) -> bool {
        self.executors.get(&executor).is_some_and(|entry| entry.used < entry.slots)
    }

    fn free_slots(&self, executor: ExecutorId) -> u32 {
        self.executors.get(&executor).map_or(0, |entry| entry.slots.saturating_sub(entry.used))
    }

    /// Grants until no free slot suits a waiting request.
    fn deal(&mut self) {
        loop {
            let mut order: Vec<(usize, u64, u64)> = self
                .queries
                .iter()
                .filter(|(_, query)| !query.waiting.is_empty())
                .map(|(id, query)| (query.held.len(), query.last_turn, *id))
                .collect();
            order.sort_unstable();
            let Some((id, key, executor)) = order
                .into_iter()
                .find_map(|(_, _, id)| self.choose(&self.queries[&id]).map(|(key, executor)| (id, key, executor)))
            else {
                return;
            };
            self.turn += 1;
            let turn = self.turn;
            if let Some(entry) = self.executors.get_mut(&executor) {
                entry.used += 1;
            }
            if let Some(query) = self.queries.get_mut(&id) {
                query.waiting.remove(&key);
                query.held.insert(key.1, executor);
                query.news.push_back((key.1, executor));
                query.last_turn = turn;
                query.notify.notify_one();
            }
        }
    }

    /// The query's next request that a free slot suits. Urgent ones first; among those of equal urgency, one that gets
    /// the executor it prefers, so that a request does not take what its neighbour came for.
    fn choose(&self, query: &QuerySlots) -> Option<((bool, SlotRequestId), ExecutorId)> {
        for urgent in [true, false] {
            let requests = || query.waiting.iter().filter(move |(_, request)| request.urgent == urgent);
            if let Some((key, request)) = requests().find(|(_, request)| self.is_free(request.preferred)) {
                return Some((*key, request.preferred));
            }
            for (key, request) in requests() {
                let mut best: Option<(u32, ExecutorId)> = None;
                for other in &request.others {
                    let free = self.free_slots(*other);
                    if free > best.map_or(0, |(most, _)| most) {
                        best = Some((free, *other));
                    }
                }
                if let Some((_, executor)) = best {
                    return Some((*key, executor));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ExecutorId = ExecutorId(1);
    const B: ExecutorId = ExecutorId(2);

    fn wish(id: u64, preferred: ExecutorId, others: &[ExecutorId]) -> SlotRequest {
        SlotRequest { id: SlotRequestId(id), preferred, others: others.to_vec(), urgent: false }
    }

    fn granted(client: &SlotClient) -> Vec<(u64, ExecutorId)> {
        let mut granted: Vec<_> = client.take_granted().into_iter().map(|(id, executor)| (id.0, executor)).collect();
        granted.sort_unstable();
        granted
    }

    #[test]
    fn each_gets_what_it_prefers_before_anyone_gets_another() {
        let pool = SlotPool::new();
        let query = pool.join([(A, 1), (B, 1)]);
        query.request(wish(0, A, &[B]));
        query.request(wish(1, A, &[B]));
        query.request(wish(2, B, &[A]));
        assert_eq!(granted(&query), [(0, A), (2, B)]);
        query.release(SlotRequestId(2));
        assert_eq!(granted(&query), [(1, B)]);
    }

    #[test]
    fn urgent_request_goes_first() {
        let pool = SlotPool::new();
        let query = pool.join([(A, 1)]);
        query.request(wish(0, A, &[]));
        query.request(SlotRequest { urgent: true, ..wish(1, A, &[]) });
        assert_eq!(granted(&query), [(1, A)]);
    }

    #[test]
    fn free_slot_goes_to_the_query_that_holds_fewest() {
        let pool = SlotPool::new();
        let large = pool.join([(A, 2)]);
        for id in 0..10 {
            large.request(wish(id, A, &[]));
        }
        assert_eq!(granted(&large).len(), 2);
        let small = pool.join([(A, 2)]);
        small.request(wish(0, A, &[]));
        assert_eq!(granted(&small), []);
        large.release(SlotRequestId(0));
        assert_eq!(granted(&small), [(0, A)]);
        assert_eq!(granted(&large), []);
    }

    #[test]
    fn dropping_a_query_gives_everything_back() {
        let pool = SlotPool::new();
        let first = pool.join([(A, 1)]);
        first.request(wish(0, A, &[]));
        // Granted, though the query never asked what it got.
        let second = pool.join([(A, 1)]);
        second.request(wish(0, A, &[]));
        assert_eq!(granted(&second), []);
        drop(first);
        assert_eq!(granted(&second), [(0, A)]);
        drop(second);
        assert_eq!(pool.usage(), []);
    }
}
