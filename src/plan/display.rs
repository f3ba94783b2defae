//! The stage graph as text, for EXPLAIN and snapshots.

use std::fmt::Write;

use datafusion::physical_plan::displayable;

use super::graph::{Place, StageGraph, StageOutput};
use crate::ids::StageId;

/// One paragraph per stage, producers last, as DataFusion prints plans: the consumer above what it reads.
pub fn display_graph(graph: &StageGraph) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "session: reads {}", list(&graph.root_inputs));
    let _ = write!(text, "{}", indented(displayable(graph.root.as_ref()).indent(false).to_string()));
    for stage in graph.stages.iter().rev() {
        let output = match &stage.output {
            StageOutput::Passthrough => "as partitioned".to_string(),
            StageOutput::Routed(partitioning) => partitioning.to_string(),
            StageOutput::RoutedLanes(partitioning) => format!("{partitioning}, order kept"),
        };
        let tasks = stage.tasks.len();
        let _ = write!(text, "stage {}: {tasks} {}", stage.id, if tasks == 1 { "task" } else { "tasks" });
        if let Some(reason) = &stage.single_task_reason {
            let _ = write!(text, " ({reason})");
        }
        if let Place::Session(reason) = &stage.place {
            let _ = write!(text, ", in the session: {reason}");
        }
        if !stage.inputs.is_empty() {
            let _ = write!(text, ", reads {}", list(&stage.inputs));
        }
        if !stage.filter_inputs.is_empty() {
            let _ = write!(text, ", filtered by keys of {}", list(&stage.filter_inputs));
        }
        let _ = writeln!(text, ", output {output}");
        let _ = write!(text, "{}", indented(displayable(stage.plan.as_ref()).indent(false).to_string()));
    }
    text
}

fn indented(plan: String) -> String {
    plan.lines().map(|line| format!("  {line}\n")).collect()
}

fn list(stages: &[StageId]) -> String {
    if stages.is_empty() {
        return "no stage".into();
    }
    let ids: Vec<String> = stages.iter().map(|stage| stage.to_string()).collect();
    format!("{} {}", if ids.len() == 1 { "stage" } else { "stages" }, ids.join(", "))
}
