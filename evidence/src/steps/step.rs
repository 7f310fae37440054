//! A step: what was done, in which run, under which definition, and what came of it.

use super::digest::{InputDigest, StepKey};
use crate::name::{CodecId, DefinitionName, RunId, StepPath, TenantId};

/// A step of a run and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Whose run it is.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// Which step of the run.
    pub key: StepKey,
    /// Where the step stands in the run's plan, for people.
    pub path: StepPath,
    /// The definition that the run follows.
    pub definition: Definition,
    /// What the step returned.
    pub value: Vec<u8>,
}

/// What a run follows. The recorded steps of a run may be reused only under the definition they were made under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The plan's name.
    pub name: DefinitionName,
    /// The plan's revision.
    pub revision: u64,
    /// What the run was given.
    pub input: InputDigest,
    /// How many steps the plan has.
    pub steps: u32,
    /// How values are encoded.
    pub codec: CodecId,
}

/// Where two definitions of one run part: the first of the axes in this order, and both sides.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Drift {
    /// The plan has another name.
    #[error("the definition is {recorded} as recorded, {offered} as offered")]
    Name {
        /// As recorded.
        recorded: DefinitionName,
        /// As offered.
        offered: DefinitionName,
    },
    /// The plan has another revision.
    #[error("the definition's revision is {recorded} as recorded, {offered} as offered")]
    Revision {
        /// As recorded.
        recorded: u64,
        /// As offered.
        offered: u64,
    },
    /// The run is given another input.
    #[error("the input's digest is {recorded} as recorded, {offered} as offered")]
    Input {
        /// As recorded.
        recorded: InputDigest,
        /// As offered.
        offered: InputDigest,
    },
    /// The plan has another number of steps.
    #[error("the definition has {recorded} steps as recorded, {offered} as offered")]
    StepCount {
        /// As recorded.
        recorded: u32,
        /// As offered.
        offered: u32,
    },
    /// Values are encoded otherwise.
    #[error("the codec is {recorded} as recorded, {offered} as offered")]
    Codec {
        /// As recorded.
        recorded: CodecId,
        /// As offered.
        offered: CodecId,
    },
}

impl Definition {
    /// The first axis on which `offered` differs from this definition as recorded.
    pub fn drift(&self, offered: &Self) -> Option<Drift> {
        if self == offered {
            return None;
        }
        let (recorded, offered) = (self.clone(), offered.clone());
        Some(if recorded.name != offered.name {
            Drift::Name { recorded: recorded.name, offered: offered.name }
        } else if recorded.revision != offered.revision {
            Drift::Revision { recorded: recorded.revision, offered: offered.revision }
        } else if recorded.input != offered.input {
            Drift::Input { recorded: recorded.input, offered: offered.input }
        } else if recorded.steps != offered.steps {
            Drift::StepCount { recorded: recorded.steps, offered: offered.steps }
        } else {
            Drift::Codec { recorded: recorded.codec, offered: offered.codec }
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn definition() -> Definition {
        Definition {
            name: DefinitionName::new("refund").unwrap(),
            revision: 3,
            input: InputDigest::of(b"order 4471"),
            steps: 7,
            codec: CodecId::new("json").unwrap(),
        }
    }

    pub(in super::super) fn step(run: &str, path: &str, value: &[u8]) -> Step {
        Step {
            tenant: TenantId::new("acme").unwrap(),
            run: RunId::new(run).unwrap(),
            key: StepKey::of(&[path.as_bytes()]),
            path: StepPath::new(path).unwrap(),
            definition: definition(),
            value: value.to_vec(),
        }
    }

    #[test]
    fn the_first_axis_that_differs_is_named_with_both_sides() {
        let recorded = definition();
        let mut offered = definition();
        assert_eq!(recorded.drift(&offered), None);
        offered.codec = CodecId::new("cbor").unwrap();
        let codec = Drift::Codec { recorded: recorded.codec.clone(), offered: offered.codec.clone() };
        assert_eq!(recorded.drift(&offered), Some(codec));
        offered.steps = 8;
        assert_eq!(recorded.drift(&offered), Some(Drift::StepCount { recorded: 7, offered: 8 }));
        offered.input = InputDigest::of(b"");
        let input = Drift::Input { recorded: recorded.input, offered: offered.input };
        assert_eq!(recorded.drift(&offered), Some(input));
        offered.revision = 99;
        let revision = Drift::Revision { recorded: 3, offered: 99 };
        assert_eq!(revision.to_string(), "the definition's revision is 3 as recorded, 99 as offered");
        assert_eq!(recorded.drift(&offered), Some(revision));
        offered.name = DefinitionName::new("other").unwrap();
        assert!(matches!(recorded.drift(&offered), Some(Drift::Name { .. })));
    }
}
