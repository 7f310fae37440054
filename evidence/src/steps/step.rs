//! A step: what was done, in which run, under which definition, and what came of it.

use super::digest::{InputDigest, StepKey};
use crate::name::{CodecId, DefinitionName, NameError, RunId, StepPath, TenantId};

/// Most bytes a payload may have, whatever a store's own limits are.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// Fewest bytes a payload can have: the fixed part, and one byte for each of five names.
pub const PAYLOAD_BYTES_MIN: usize = FIXED_BYTES + 5;

/// A step of a run and its value, owned or (`Step<&[u8]>`) as it stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<V = Vec<u8>> {
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
    pub value: V,
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

/// Why bytes are no payload of a step.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepFault {
    /// The payload does not have the length that its own lengths come to.
    #[error("the payload has {found} bytes where its lengths come to {stated}")]
    Length {
        /// The bytes there are.
        found: usize,
        /// What its lengths come to.
        stated: u64,
    },
    /// A name breaks its rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A name is not UTF-8.
    #[error("the {noun} is not UTF-8")]
    Utf8 {
        /// What the name was to be.
        noun: &'static str,
    },
    /// The step is larger than any payload may be.
    #[error("the step comes to {bytes} bytes, more than {PAYLOAD_BYTES_MAX}")]
    TooLarge {
        /// What it comes to.
        bytes: u64,
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

impl<V: AsRef<[u8]>> Step<V> {
    /// The bytes of this step's payload, counted without writing them.
    pub fn payload_bytes(&self) -> u64 {
        let names: usize = self.names().iter().map(|name| name.len()).sum();
        (FIXED_BYTES + names) as u64 + self.value.as_ref().len() as u64
    }

    /// Writes the payload.
    ///
    /// # Errors
    /// [`StepFault::TooLarge`] over [`PAYLOAD_BYTES_MAX`].
    pub fn to_payload(&self) -> Result<Vec<u8>, StepFault> {
        let too_large = StepFault::TooLarge { bytes: self.payload_bytes() };
        let Some(bytes) = usize::try_from(self.payload_bytes()).ok().filter(|n| *n <= PAYLOAD_BYTES_MAX)
        else {
            return Err(too_large);
        };
        let Ok(value_bytes) = u32::try_from(self.value.as_ref().len()) else { return Err(too_large) };
        let mut payload = Vec::with_capacity(bytes);
        payload.extend_from_slice(self.key.as_bytes());
        payload.extend_from_slice(self.definition.input.as_bytes());
        payload.extend_from_slice(&self.definition.revision.to_be_bytes());
        payload.extend_from_slice(&self.definition.steps.to_be_bytes());
        payload.extend_from_slice(&value_bytes.to_be_bytes());
        for name in self.names() {
            let Ok(length) = u16::try_from(name.len()) else { return Err(too_large) };
            payload.extend_from_slice(&length.to_be_bytes());
        }
        for name in self.names() {
            payload.extend_from_slice(name.as_bytes());
        }
        payload.extend_from_slice(self.value.as_ref());
        Ok(payload)
    }

    fn names(&self) -> [&str; 5] {
        let Definition { name, codec, .. } = &self.definition;
        [self.tenant.as_str(), self.run.as_str(), self.path.as_str(), name.as_str(), codec.as_str()]
    }
}

impl<'a> Step<&'a [u8]> {
    /// Reads a payload.
    pub fn parse(payload: &'a [u8]) -> Result<Self, StepFault> {
        let found = payload.len();
        let Some((fixed, rest)) = payload.split_first_chunk::<FIXED_BYTES>() else {
            return Err(StepFault::Length { found, stated: FIXED_BYTES as u64 });
        };
        let fixed = Fixed::read(fixed);
        if fixed.payload_bytes() != found as u64 {
            return Err(StepFault::Length { found, stated: fixed.payload_bytes() });
        }
        let mut rest = Names { rest, lengths: fixed.names.iter() };
        Ok(Self {
            key: fixed.key,
            tenant: TenantId::new(rest.next("tenant")?)?,
            run: RunId::new(rest.next("run")?)?,
            path: StepPath::new(rest.next("step path")?)?,
            definition: Definition {
                name: DefinitionName::new(rest.next("definition")?)?,
                revision: fixed.revision,
                input: fixed.input,
                steps: fixed.steps,
                codec: CodecId::new(rest.next("codec")?)?,
            },
            value: rest.rest,
        })
    }

    /// The same step with a value of its own.
    pub fn to_owned(&self) -> Step {
        Step {
            tenant: self.tenant.clone(),
            run: self.run.clone(),
            key: self.key,
            path: self.path.clone(),
            definition: self.definition.clone(),
            value: self.value.to_vec(),
        }
    }
}

/// How many bytes the payload that `bytes` start with has by its own lengths; `None` where they are too few to
/// tell.
pub(super) fn stated_bytes(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk::<FIXED_BYTES>().map(|fixed| Fixed::read(fixed).payload_bytes())
}

/// The bytes before the names.
const FIXED_BYTES: usize = 32 + 32 + 8 + 4 + 4 + 5 * 2;

struct Fixed {
    key: StepKey,
    input: InputDigest,
    revision: u64,
    steps: u32,
    value: u32,
    names: [u16; 5],
}

impl Fixed {
    fn read(bytes: &[u8; FIXED_BYTES]) -> Self {
        fn part<const N: usize>(bytes: &[u8; FIXED_BYTES], at: usize) -> [u8; N] {
            std::array::from_fn(|i| bytes[at + i])
        }
        Self {
            key: StepKey::from_bytes(part(bytes, 0)),
            input: InputDigest::from_bytes(part(bytes, 32)),
            revision: u64::from_be_bytes(part(bytes, 64)),
            steps: u32::from_be_bytes(part(bytes, 72)),
            value: u32::from_be_bytes(part(bytes, 76)),
            names: std::array::from_fn(|i| u16::from_be_bytes(part(bytes, 80 + 2 * i))),
        }
    }

    fn payload_bytes(&self) -> u64 {
        let names: u64 = self.names.iter().copied().map(u64::from).sum();
        FIXED_BYTES as u64 + names + u64::from(self.value)
    }
}

struct Names<'a, 'b> {
    rest: &'a [u8],
    lengths: std::slice::Iter<'b, u16>,
}

impl<'a> Names<'a, '_> {
    fn next(&mut self, noun: &'static str) -> Result<&'a str, StepFault> {
        let length = self.lengths.next().copied().map_or(0, usize::from);
        // The lengths were held against the payload before, so the split is always there.
        let (name, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, &[]));
        self.rest = rest;
        std::str::from_utf8(name).map_err(|_| StepFault::Utf8 { noun })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

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
    fn a_payload_is_laid_out_as_documented() {
        let mut expected = Vec::new();
        expected.extend_from_slice(StepKey::of(&[b"charge"]).as_bytes());
        expected.extend_from_slice(InputDigest::of(b"order 4471").as_bytes());
        expected.extend_from_slice(b"\0\0\0\0\0\0\0\x03\0\0\0\x07\0\0\0\x02");
        expected.extend_from_slice(b"\0\x04\0\x05\0\x06\0\x06\0\x04acmerun-1chargerefundjson{}");
        let step = step("run-1", "charge", b"{}");
        assert_eq!(step.to_payload().unwrap(), expected);
        assert_eq!(step.payload_bytes(), expected.len() as u64);
        assert_eq!(Step::parse(&expected).unwrap().to_owned(), step);
    }

    #[test]
    fn a_payload_has_the_length_it_states() {
        let payload = step("run-1", "charge", b"value").to_payload().unwrap();
        for end in 0..payload.len() {
            assert!(matches!(Step::parse(&payload[..end]), Err(StepFault::Length { .. })), "{end}");
        }
        let mut longer = payload.clone();
        longer.push(0);
        let fault = StepFault::Length { found: longer.len(), stated: payload.len() as u64 };
        assert_eq!(Step::parse(&longer), Err(fault));
        // An input digest has 32 bytes or the payload is none: nothing is padded or cut.
        let mut narrow = payload;
        narrow.remove(40);
        assert!(Step::parse(&narrow).is_err());
    }

    #[test]
    fn names_in_a_payload_are_checked() {
        let payload = step("run-1", "charge", b"").to_payload().unwrap();
        let mut slash = payload.clone();
        slash[90] = b'/';
        assert!(matches!(Step::parse(&slash), Err(StepFault::Name(_))));
        let mut broken = payload;
        broken[99] = 0xff;
        assert_eq!(Step::parse(&broken), Err(StepFault::Utf8 { noun: "step path" }));
    }

    #[test]
    fn a_step_over_the_ceiling_is_refused_with_its_size() {
        let step = step("run-1", "charge", &vec![0; PAYLOAD_BYTES_MAX]);
        assert_eq!(step.to_payload(), Err(StepFault::TooLarge { bytes: step.payload_bytes() }));
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

    proptest! {
        #[test]
        fn every_step_reads_back_as_written(
            key: [u8; 32], input: [u8; 32], revision: u64, steps: u32, value: Vec<u8>,
            path in "[^\\p{Cc}]{1,40}", run in "[a-z0-9][a-z0-9._-]{0,63}",
        ) {
            let mut step = step("run-1", "charge", &value);
            step.key = StepKey::from_bytes(key);
            step.run = RunId::new(run).unwrap();
            step.path = StepPath::new(path).unwrap();
            step.definition = Definition { revision, steps, input: InputDigest::from_bytes(input), ..step.definition };
            let payload = step.to_payload().unwrap();
            prop_assert_eq!(Step::parse(&payload).unwrap().to_owned(), step);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
            if let Ok(step) = Step::parse(&bytes) {
                prop_assert_eq!(step.to_payload().unwrap(), bytes);
            }
        }
    }
}
