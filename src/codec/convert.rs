//! The converter that encodes a stage: dynamic filters that another stage produces travel as values.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::to_proto::serialize_physical_expr_with_converter;
use datafusion_proto::physical_plan::{
    DeduplicatingProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalPlanNodeExt,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf;

/// Values of dynamic filters, by the filter's expression id. A value is in terms of the producing join's probe
/// keys, which are `children`.
#[derive(Clone, Debug, Default)]
pub struct FilterValues {
    values: HashMap<u64, FilterValue>,
}

#[derive(Clone, Debug)]
struct FilterValue {
    children: Vec<Arc<dyn PhysicalExpr>>,
    predicate: Arc<dyn PhysicalExpr>,
}

impl FilterValues {
    /// Records what the filter with this id is known to be.
    pub fn insert(&mut self, id: u64, children: Vec<Arc<dyn PhysicalExpr>>, predicate: Arc<dyn PhysicalExpr>) {
        self.values.insert(id, FilterValue { children, predicate });
    }

    /// Forgets the filter with this id.
    pub fn remove(&mut self, id: u64) {
        self.values.remove(&id);
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of `filter` in terms of the columns where it is used; `None` if it is not known.
    ///
    /// # Errors
    /// A filter whose uses do not match its children.
    pub fn resolve(&self, filter: &Arc<dyn PhysicalExpr>) -> DfResult<Option<Arc<dyn PhysicalExpr>>> {
        let Some(value) = filter.expression_id().and_then(|id| self.values.get(&id)) else { return Ok(None) };
        // A use of a filter below projections refers to other columns than the join does; a filter of the same
        // shape does the remapping without touching the session's own object, which is encoded again on a retry.
        let fresh: Arc<dyn PhysicalExpr> =
            Arc::new(DynamicFilterPhysicalExpr::new(value.children.clone(), Arc::clone(&value.predicate)));
        let uses: Vec<_> = filter.children().into_iter().cloned().collect();
        if uses.len() != value.children.len() {
            return Ok(None);
        }
        let used = fresh.with_new_children(uses)?;
        match used.downcast_ref::<DynamicFilterPhysicalExpr>() {
            Some(used) => Ok(Some(used.current()?)),
            None => Ok(None),
        }
    }
}

/// Encodes the plan of one stage.
#[derive(Debug)]
pub struct StageConverter<'a> {
    /// Ids of the dynamic filters whose producer is in the stage: they stay filters.
    produced: HashSet<u64>,
    values: &'a FilterValues,
}

impl<'a> StageConverter<'a> {
    /// A converter for `plan`.
    pub fn new(plan: &Arc<dyn ExecutionPlan>, values: &'a FilterValues) -> Self {
        let mut produced = HashSet::new();
        // The visitor returns no error.
        let _ = plan.apply(|node| {
            produced.extend(node.dynamic_expressions_produced().iter().filter_map(|expr| expr.expression_id()));
            Ok(TreeNodeRecursion::Continue)
        });
        Self { produced, values }
    }
}

impl PhysicalProtoConverterExtension for StageConverter<'_> {
    fn proto_to_execution_plan(
        &self,
        proto: &protobuf::PhysicalPlanNode,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        DeduplicatingProtoConverter {}.proto_to_execution_plan(proto, context)
    }

    fn execution_plan_to_proto(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> DfResult<protobuf::PhysicalPlanNode> {
        protobuf::PhysicalPlanNode::try_from_physical_plan_with_converter(Arc::clone(plan), codec, self)
    }

    fn proto_to_physical_expr(
        &self,
        proto: &protobuf::PhysicalExprNode,
        schema: &Schema,
        context: &PhysicalPlanDecodeContext<'_>,
    ) -> DfResult<Arc<dyn PhysicalExpr>> {
        DeduplicatingProtoConverter {}.proto_to_physical_expr(proto, schema, context)
    }

    fn physical_expr_to_proto(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        codec: &dyn PhysicalExtensionCodec,
    ) -> DfResult<protobuf::PhysicalExprNode> {
        if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some()
            && expr.expression_id().is_none_or(|id| !self.produced.contains(&id))
        {
            // Encoded as a filter it would fail to decode once it has a value: its inner expression speaks of the
            // join's columns. Without a value it is `true`.
            let value = self.values.resolve(expr)?.unwrap_or_else(|| lit(true));
            return serialize_physical_expr_with_converter(&value, codec, self);
        }
        serialize_physical_expr_with_converter(expr, codec, self)
    }
}
