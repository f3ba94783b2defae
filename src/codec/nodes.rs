//! [`VolleyCodec`]: our nodes' messages; everything else goes to the user's codec.

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result as DfResult, ScalarValue, internal_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::equivalence::{EquivalenceClass, EquivalenceGroup};
use datafusion::physical_expr::{
    AcrossPartitions, ConstExpr, EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_expr_common::physical_expr::proto_decode::PhysicalExprDecodeCtx;
use datafusion::physical_expr_common::physical_expr::proto_encode::PhysicalExprEncodeCtx;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::from_proto::parse_protobuf_partitioning;
use datafusion_proto::physical_plan::to_proto::serialize_partitioning;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf;
use prost::Message;

use crate::exec::{KeyRequest, ReadOrder, ShuffleReaderExec, ShuffleWriterExec, WriterOutput};
use crate::ids::{PartitionId, StageId};

/// First byte of an encoded extension node: ours, or the user's with its own bytes after it.
const TAG_USER: u8 = 0;
const TAG_READER: u8 = 1;
const TAG_WRITER: u8 = 2;

#[derive(Clone, PartialEq, Message)]
struct SortKey {
    #[prost(message, optional, tag = "1")]
    expr: Option<protobuf::PhysicalExprNode>,
    #[prost(bool, tag = "2")]
    descending: bool,
    #[prost(bool, tag = "3")]
    nulls_first: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Ordering {
    #[prost(message, repeated, tag = "1")]
    keys: Vec<SortKey>,
}

/// Expressions that are equal; `constant`: 0 none, 1 differs between partitions, 2 uniform, 3 uniform with `value`.
#[derive(Clone, PartialEq, Message)]
struct Class {
    #[prost(message, repeated, tag = "1")]
    members: Vec<protobuf::PhysicalExprNode>,
    #[prost(uint32, tag = "2")]
    constant: u32,
    #[prost(message, optional, tag = "3")]
    value: Option<datafusion_proto::protobuf::ScalarValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ReaderNode {
    #[prost(uint32, tag = "1")]
    stage: u32,
    #[prost(uint32, repeated, tag = "2")]
    partitions: Vec<u32>,
    #[prost(message, optional, tag = "3")]
    schema: Option<protobuf::Schema>,
    #[prost(message, optional, tag = "4")]
    partitioning: Option<protobuf::Partitioning>,
    #[prost(message, repeated, tag = "5")]
    classes: Vec<Class>,
    #[prost(message, repeated, tag = "6")]
    orderings: Vec<Ordering>,
    #[prost(message, optional, tag = "7")]
    merge: Option<Ordering>,
    #[prost(uint32, tag = "8")]
    lanes: u32,
    #[prost(uint32, tag = "9")]
    width: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Keys {
    #[prost(message, repeated, tag = "1")]
    exprs: Vec<protobuf::PhysicalExprNode>,
    #[prost(uint64, tag = "2")]
    max_values: u64,
}

#[derive(Clone, PartialEq, Message)]
struct WriterNode {
    /// With a partitioning: routed, in lanes if there are any. Without: passthrough.
    #[prost(message, optional, tag = "1")]
    partitioning: Option<protobuf::Partitioning>,
    #[prost(uint32, repeated, tag = "2")]
    partitions: Vec<u32>,
    #[prost(bool, tag = "3")]
    keep_lanes: bool,
    #[prost(message, repeated, tag = "4")]
    keys: Vec<Keys>,
    #[prost(uint32, tag = "5")]
    shuffle_partitions: u32,
}

/// Encodes and decodes our nodes and forwards every other request to the user's codec.
#[derive(Debug)]
pub struct VolleyCodec {
    user: Arc<dyn PhysicalExtensionCodec>,
}

impl VolleyCodec {
    /// A codec that knows our nodes and what `user` knows.
    pub fn new(user: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { user }
    }
}

impl Default for VolleyCodec {
    fn default() -> Self {
        Self::new(Arc::new(datafusion_proto::physical_plan::DefaultPhysicalExtensionCodec {}))
    }
}

fn bad(what: impl std::fmt::Display) -> DataFusionError {
    internal_datafusion_err!("encoded plan node: {what}")
}

/// Encodes expressions with the codec and converter in use.
struct Encoder<'a> {
    codec: &'a VolleyCodec,
    converter: &'a dyn PhysicalProtoConverterExtension,
}

impl Encoder<'_> {
    fn expr(&self, expr: &Arc<dyn PhysicalExpr>) -> DfResult<protobuf::PhysicalExprNode> {
        self.converter.physical_expr_to_proto(expr, self.codec)
    }

    fn exprs<'e>(
        &self,
        exprs: impl IntoIterator<Item = &'e Arc<dyn PhysicalExpr>>,
    ) -> DfResult<Vec<protobuf::PhysicalExprNode>> {
        exprs.into_iter().map(|expr| self.expr(expr)).collect()
    }

    fn ordering<'e>(&self, keys: impl IntoIterator<Item = &'e PhysicalSortExpr>) -> DfResult<Ordering> {
        let keys = keys
            .into_iter()
            .map(|key| {
                Ok(SortKey {
                    expr: Some(self.expr(&key.expr)?),
                    descending: key.options.descending,
                    nulls_first: key.options.nulls_first,
                })
            })
            .collect::<DfResult<_>>()?;
        Ok(Ordering { keys })
    }

    fn reader(&self, reader: &ShuffleReaderExec) -> DfResult<ReaderNode> {
        let equivalences = &reader.properties().eq_properties;
        let constants = equivalences.constants();
        let mut classes = vec![];
        for class in equivalences.eq_group().iter() {
            let constant = constants.iter().find(|constant| class.iter().any(|member| member.eq(&constant.expr)));
            let (constant, value) = match constant.map(|constant| &constant.across_partitions) {
                None => (0, None),
                Some(AcrossPartitions::Heterogeneous) => (1, None),
                Some(AcrossPartitions::Uniform(None)) => (2, None),
                Some(AcrossPartitions::Uniform(Some(value))) => {
                    (3, Some(protobuf::ScalarValue::try_from(value).map_err(bad)?))
                }
            };
            classes.push(Class { members: self.exprs(class.iter())?, constant, value });
        }
        let (merge, lanes, width) = match reader.order() {
            ReadOrder::Concatenate => (None, 0, 0),
            ReadOrder::Merge { lanes, width, ordering } => (Some(self.ordering(ordering.iter())?), *lanes, *width),
        };
        Ok(ReaderNode {
            stage: reader.stage().0,
            partitions: reader.partitions().iter().map(|partition| partition.0).collect(),
            schema: Some(reader.schema().as_ref().try_into().map_err(bad)?),
            partitioning: Some(serialize_partitioning(&reader.properties().partitioning, self.codec, self.converter)?),
            classes,
            orderings: equivalences
                .oeq_class()
                .iter()
                .map(|ordering| self.ordering(ordering.iter()))
                .collect::<DfResult<_>>()?,
            merge,
            lanes,
            width,
        })
    }

    fn writer(&self, writer: &ShuffleWriterExec) -> DfResult<WriterNode> {
        let (partitioning, partitions, keep_lanes) = match writer.output() {
            WriterOutput::Passthrough { partitions } => (None, partitions.iter().map(|p| p.0).collect(), false),
            WriterOutput::Routed { partitioning } => (Some(partitioning), vec![], false),
            WriterOutput::RoutedLanes { partitioning, lanes } => (Some(partitioning), lanes.clone(), true),
        };
        let keys = writer
            .keys()
            .iter()
            .map(|key| Ok(Keys { exprs: self.exprs(&key.exprs)?, max_values: key.max_values as u64 }))
            .collect::<DfResult<_>>()?;
        let partitioning = partitioning
            .map(|partitioning| serialize_partitioning(partitioning, self.codec, self.converter))
            .transpose()?;
        Ok(WriterNode { partitioning, partitions, keep_lanes, keys, shuffle_partitions: writer.shuffle_partitions() })
    }
}

/// Decodes expressions with the codec and converter in use.
struct Decoder<'a> {
    context: PhysicalPlanDecodeContext<'a>,
    converter: &'a dyn PhysicalProtoConverterExtension,
}

impl Decoder<'_> {
    fn exprs(&self, nodes: &[protobuf::PhysicalExprNode], schema: &Schema) -> DfResult<Vec<Arc<dyn PhysicalExpr>>> {
        nodes.iter().map(|node| self.converter.proto_to_physical_expr(node, schema, &self.context)).collect()
    }

    fn ordering(&self, ordering: &Ordering, schema: &Schema) -> DfResult<Vec<PhysicalSortExpr>> {
        let mut keys = Vec::with_capacity(ordering.keys.len());
        for key in &ordering.keys {
            let node = key.expr.as_ref().ok_or_else(|| bad("a sort key without an expression"))?;
            let expr = self.converter.proto_to_physical_expr(node, schema, &self.context)?;
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            keys.push(PhysicalSortExpr::new(expr, options));
        }
        Ok(keys)
    }

    fn partitioning(&self, node: Option<&protobuf::Partitioning>, schema: &Schema) -> DfResult<Partitioning> {
        parse_protobuf_partitioning(node, &self.context, schema, self.converter)?.ok_or_else(|| bad("no partitioning"))
    }

    fn reader(&self, node: &ReaderNode) -> DfResult<ShuffleReaderExec> {
        let schema = node.schema.as_ref().ok_or_else(|| bad("a reader without a schema"))?;
        let schema: SchemaRef = Arc::new(Schema::try_from(schema).map_err(bad)?);
        let orderings =
            node.orderings.iter().map(|ordering| self.ordering(ordering, &schema)).collect::<DfResult<Vec<_>>>()?;
        let mut classes = vec![];
        let mut constants = vec![];
        for class in &node.classes {
            let members = self.exprs(&class.members, &schema)?;
            let across = match class.constant {
                0 => None,
                1 => Some(AcrossPartitions::Heterogeneous),
                2 => Some(AcrossPartitions::Uniform(None)),
                _ => {
                    let value = class.value.as_ref().ok_or_else(|| bad("a constant without a value"))?;
                    Some(AcrossPartitions::Uniform(Some(ScalarValue::try_from(value).map_err(bad)?)))
                }
            };
            if let (Some(across), Some(first)) = (across, members.first()) {
                constants.push(ConstExpr::new(Arc::clone(first), across));
            }
            classes.push(EquivalenceClass::new(members));
        }
        let mut equivalences = EquivalenceProperties::new_with_orderings(Arc::clone(&schema), orderings);
        equivalences.add_equivalence_group(EquivalenceGroup::new(classes))?;
        equivalences.add_constants(constants)?;
        let order = match &node.merge {
            None => ReadOrder::Concatenate,
            Some(ordering) => ReadOrder::Merge {
                lanes: node.lanes,
                width: node.width,
                ordering: LexOrdering::new(self.ordering(ordering, &schema)?)
                    .ok_or_else(|| bad("a merge without keys"))?,
            },
        };
        ShuffleReaderExec::try_new(
            StageId(node.stage),
            node.partitions.iter().copied().map(PartitionId).collect(),
            order,
            equivalences,
            self.partitioning(node.partitioning.as_ref(), &schema)?,
        )
    }

    fn writer(&self, node: &WriterNode, input: Arc<dyn ExecutionPlan>) -> DfResult<ShuffleWriterExec> {
        let schema = input.schema();
        let output = match &node.partitioning {
            None => {
                WriterOutput::Passthrough { partitions: node.partitions.iter().copied().map(PartitionId).collect() }
            }
            Some(partitioning) => {
                let partitioning = self.partitioning(Some(partitioning), &schema)?;
                match node.keep_lanes {
                    false => WriterOutput::Routed { partitioning },
                    true => WriterOutput::RoutedLanes { partitioning, lanes: node.partitions.clone() },
                }
            }
        };
        let keys = node
            .keys
            .iter()
            .map(|key| {
                let max_values = usize::try_from(key.max_values).map_err(bad)?;
                Ok(KeyRequest { exprs: self.exprs(&key.exprs, &schema)?, max_values })
            })
            .collect::<DfResult<_>>()?;
        ShuffleWriterExec::try_new(input, output, node.shuffle_partitions, keys)
    }
}

impl PhysicalExtensionCodec for VolleyCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buf: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> DfResult<()> {
        let encoder = Encoder { codec: self, converter };
        if let Some(reader) = node.downcast_ref::<ShuffleReaderExec>() {
            buf.push(TAG_READER);
            encoder.reader(reader)?.encode(buf).map_err(bad)
        } else if let Some(writer) = node.downcast_ref::<ShuffleWriterExec>() {
            buf.push(TAG_WRITER);
            encoder.writer(writer)?.encode(buf).map_err(bad)
        } else {
            buf.push(TAG_USER);
            self.user.try_encode(node, buf, converter)
        }
    }

    fn try_decode(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let decoder = Decoder { context: PhysicalPlanDecodeContext::new(context, self), converter };
        match buf.split_first() {
            Some((&TAG_READER, rest)) => Ok(Arc::new(decoder.reader(&ReaderNode::decode(rest).map_err(bad)?)?)),
            Some((&TAG_WRITER, rest)) => {
                let [input] = inputs else { return Err(bad("a writer has one input")) };
                Ok(Arc::new(decoder.writer(&WriterNode::decode(rest).map_err(bad)?, Arc::clone(input))?))
            }
            Some((&TAG_USER, rest)) => self.user.try_decode(rest, inputs, context, converter),
            _ => Err(bad("unknown tag")),
        }
    }

    fn try_decode_udf(&self, name: &str, buf: &[u8]) -> DfResult<Arc<ScalarUDF>> {
        self.user.try_decode_udf(name, buf)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buf: &mut Vec<u8>) -> DfResult<()> {
        self.user.try_encode_udf(node, buf)
    }

    fn try_decode_higher_order_function(&self, name: &str, buf: &[u8]) -> DfResult<Arc<HigherOrderUDF>> {
        self.user.try_decode_higher_order_function(name, buf)
    }

    fn try_encode_higher_order_function(&self, node: &HigherOrderUDF, buf: &mut Vec<u8>) -> DfResult<()> {
        self.user.try_encode_higher_order_function(node, buf)
    }

    fn try_decode_expr(
        &self,
        buf: &[u8],
        inputs: &[Arc<dyn PhysicalExpr>],
        context: &PhysicalExprDecodeCtx<'_>,
    ) -> DfResult<Arc<dyn PhysicalExpr>> {
        self.user.try_decode_expr(buf, inputs, context)
    }

    fn try_encode_expr(
        &self,
        node: &Arc<dyn PhysicalExpr>,
        buf: &mut Vec<u8>,
        context: &PhysicalExprEncodeCtx<'_>,
    ) -> DfResult<()> {
        self.user.try_encode_expr(node, buf, context)
    }

    fn try_decode_udaf(&self, name: &str, buf: &[u8]) -> DfResult<Arc<AggregateUDF>> {
        self.user.try_decode_udaf(name, buf)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buf: &mut Vec<u8>) -> DfResult<()> {
        self.user.try_encode_udaf(node, buf)
    }

    fn try_decode_udwf(&self, name: &str, buf: &[u8]) -> DfResult<Arc<WindowUDF>> {
        self.user.try_decode_udwf(name, buf)
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buf: &mut Vec<u8>) -> DfResult<()> {
        self.user.try_encode_udwf(node, buf)
    }
}
