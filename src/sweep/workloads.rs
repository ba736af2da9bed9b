//! The workloads of a sweep: names, and CUDA programs.

use schemars::JsonSchema;
use serde::Deserialize;

use super::values::{Scalar, Values};
use crate::cuda::command::CudaWorkload;

/// A workload of a sweep.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Workload {
    /// A CUDA program.
    Cuda {
        /// Its command.
        cuda: CudaWorkload,
    },
    /// A workload by its name, folder or file.
    Named(Scalar),
}

impl Workload {
    /// Its value of the axis.
    fn name(&self) -> String {
        match self {
            Self::Cuda { cuda } => cuda.name().to_string(),
            Self::Named(name) => name.to_string(),
        }
    }
}

/// The workloads of a sweep.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Workloads {
    /// Several workloads.
    List(Vec<Workload>),
    /// One workload.
    One(Workload),
}

impl Workloads {
    fn all(&self) -> &[Workload] {
        match self {
            Self::List(list) => list,
            Self::One(one) => std::slice::from_ref(one),
        }
    }

    /// The axis.
    pub(super) fn values(&self) -> Values {
        Values::List(self.all().iter().map(|workload| Scalar::Text(workload.name())).collect())
    }

    /// The CUDA program of a name, where it is one.
    pub(super) fn cuda(&self, name: &str) -> Option<&CudaWorkload> {
        self.all().iter().find_map(|workload| match workload {
            Workload::Cuda { cuda } if cuda.name() == name => Some(cuda),
            _ => None,
        })
    }

    /// What is wrong with its programs.
    pub(super) fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        for (i, workload) in self.all().iter().enumerate() {
            let Workload::Cuda { cuda } = workload else { continue };
            errors.extend(cuda.command().err().map(|error| error.message));
            let name = cuda.name();
            if self.all()[..i].iter().any(|other| other.name() == name && other != workload) {
                errors.push(format!("two workloads are called `{name}`; `name` tells them apart"));
            }
        }
        errors
    }
}
