//! Routing rows to shuffle partitions.
//!
//! The routing is DataFusion's own (`BatchPartitioner`): a row goes to `hash % N` with the fixed random state
//! of `RepartitionExec`, or to its range. Nothing here may differ from it: partitioned joins meet rows that
//! other executors, and the plan itself, have routed.

use std::fmt;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::physical_plan::Partitioning;
use datafusion::physical_plan::metrics::Time;
use datafusion::physical_plan::repartition::BatchPartitioner;

use crate::error::{Result, VolleyError};
use crate::ids::PartitionId;

/// Routes the rows of batches to `N` shuffle partitions. One per producing stream: it has scratch space.
pub struct RowPartitioner {
    routing: Routing,
    partitions: usize,
}

enum Routing {
    /// One partition: batches pass as they are.
    Single,
    Rows(Box<BatchPartitioner>),
}

impl RowPartitioner {
    /// A partitioner for `partitioning`; `time` takes what routing costs.
    ///
    /// # Errors
    /// A partitioning that does not say where a row goes (unknown, round-robin) above one partition.
    pub fn try_new(partitioning: &Partitioning, time: Time) -> Result<Self> {
        let partitions = partitioning.partition_count();
        let routing = match partitioning {
            _ if partitions == 1 => Routing::Single,
            Partitioning::Hash(..) | Partitioning::Range(..) if partitions > 1 => {
                Routing::Rows(Box::new(BatchPartitioner::try_new(partitioning.clone(), time, 0, 1)?))
            }
            other => {
                return Err(VolleyError::internal(format!("a shuffle cannot route rows by {other}")));
            }
        };
        Ok(Self { routing, partitions })
    }

    /// The number of shuffle partitions.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Gives `sink` the rows of `batch`, one batch per partition that has any, in ascending partition order.
    ///
    /// # Errors
    /// The key expressions fail, or `sink` does.
    pub fn route(
        &mut self,
        batch: RecordBatch,
        mut sink: impl FnMut(PartitionId, RecordBatch) -> Result<()>,
    ) -> Result<()> {
        match &mut self.routing {
            Routing::Single => sink(PartitionId(0), batch),
            Routing::Rows(partitioner) => {
                for routed in partitioner.partition_iter(batch)? {
                    let (partition, rows) = routed?;
                    let partition = u32::try_from(partition)
                        .map_err(|_| VolleyError::internal(format!("partition {partition} is too large")))?;
                    sink(PartitionId(partition), rows)?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for RowPartitioner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowPartitioner").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::Int64Type;
    use datafusion::common::hash_utils::create_hashes;
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::repartition::REPARTITION_RANDOM_STATE;

    use super::*;

    fn batch() -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from_iter((0..1_000).map(|v| (v % 7 != 0).then_some(v * 31))));
        RecordBatch::try_from_iter([("a", values)]).unwrap()
    }

    #[test]
    fn a_row_goes_where_datafusion_hashes_it() {
        let batch = batch();
        let key = col("a", &batch.schema()).unwrap();
        for partitions in [1, 2, 3, 16] {
            let mut partitioner =
                RowPartitioner::try_new(&Partitioning::Hash(vec![Arc::clone(&key)], partitions), Time::new()).unwrap();
            let mut rows = 0;
            partitioner
                .route(batch.clone(), |partition, routed| {
                    let mut hashes = vec![0; routed.num_rows()];
                    let random_state = REPARTITION_RANDOM_STATE.random_state();
                    create_hashes(routed.columns(), random_state, &mut hashes).unwrap();
                    assert!(hashes.iter().all(|hash| (*hash % partitions as u64) as usize == partition.index()));
                    let values = routed.column(0).as_primitive::<Int64Type>();
                    assert!(values.iter().flatten().is_sorted(), "order within a partition is the input's");
                    rows += routed.num_rows();
                    Ok(())
                })
                .unwrap();
            assert_eq!(rows, batch.num_rows());
        }
    }

    #[test]
    fn what_does_not_name_a_row_is_refused() {
        assert!(RowPartitioner::try_new(&Partitioning::UnknownPartitioning(3), Time::new()).is_err());
        assert!(RowPartitioner::try_new(&Partitioning::RoundRobinBatch(2), Time::new()).is_err());
        assert_eq!(
            RowPartitioner::try_new(&Partitioning::UnknownPartitioning(1), Time::new()).unwrap().partitions(),
            1
        );
    }
}
