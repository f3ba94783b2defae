//! Plans as bytes, for executors.
//!
//! Owns [`VolleyCodec`] (our two nodes, everything else through the user's codec) and the converter that repairs what
//! datafusion-proto's encoding loses. Depends on `exec`, `wire`. Contains no decision about what is sent where.
//!
//! Both directions use DataFusion's deduplicating converter, so that a dynamic filter held by a join and a scan is one
//! object again after decoding.

mod convert;
mod nodes;

use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    DeduplicatingProtoConverter, PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf;
use prost::Message;

pub use convert::{FilterValues, StageConverter};
pub use nodes::VolleyCodec;

use crate::error::{ErrorCode, Result, VolleyError};

/// Stack that is left before a deep plan gets a new segment, and the segment's size: encoding recurses per level of
/// the plan and of its expressions, and a union of 1,000 branches is 1,000 levels in some shapes.
const RED_ZONE_BYTES: usize = 256 << 10;
const STACK_SEGMENT_BYTES: usize = 8 << 20;

/// The message of one plan. `values` are put in place of dynamic filters that another stage's join produces.
///
/// # Errors
/// [`ErrorCode::EncodePlan`]: a node or expression has no encoding.
pub fn plan_to_proto(
    plan: &Arc<dyn ExecutionPlan>,
    codec: &dyn PhysicalExtensionCodec,
    values: &FilterValues,
) -> Result<protobuf::PhysicalPlanNode> {
    stacker::maybe_grow(RED_ZONE_BYTES, STACK_SEGMENT_BYTES, || {
        let converter = StageConverter::new(plan, values);
        converter.execution_plan_to_proto(plan, codec).map_err(|error| {
            VolleyError::new(
                ErrorCode::EncodePlan,
                format!("this part of the plan cannot be sent to executors: {error}"),
            )
        })
    })
}

/// The bytes of one plan; see [`plan_to_proto`].
///
/// # Errors
/// [`ErrorCode::EncodePlan`]: a node or expression has no encoding.
pub fn encode_plan(
    plan: &Arc<dyn ExecutionPlan>,
    codec: &dyn PhysicalExtensionCodec,
    values: &FilterValues,
) -> Result<Bytes> {
    Ok(plan_to_proto(plan, codec, values)?.encode_to_vec().into())
}

/// A fresh plan from bytes. Decode once per attempt: plans hold state.
///
/// # Errors
/// [`ErrorCode::DecodePlan`]: the bytes are no plan, or name a function or node that this process does not have.
pub fn decode_plan(
    bytes: &[u8],
    context: &TaskContext,
    codec: &dyn PhysicalExtensionCodec,
) -> Result<Arc<dyn ExecutionPlan>> {
    stacker::maybe_grow(RED_ZONE_BYTES, STACK_SEGMENT_BYTES, || {
        let failed = |error: String| {
            VolleyError::new(ErrorCode::DecodePlan, format!("the plan cannot be decoded here: {error}"))
        };
        let node = protobuf::PhysicalPlanNode::decode(bytes).map_err(|error| failed(error.to_string()))?;
        let decode = PhysicalPlanDecodeContext::new(context, codec);
        DeduplicatingProtoConverter {}
            .proto_to_execution_plan(&node, &decode)
            .map_err(|error| failed(error.strip_backtrace()))
    })
}
