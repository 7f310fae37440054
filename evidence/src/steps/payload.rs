//! The payload of a step: its bytes, written or read in place.

use super::{
    digest::{InputDigest, StepDigest, StepKey},
    step::{Definition, Step},
};
use crate::name::{CodecId, DefinitionName, NameError, RunId, StepPath, TenantId};

/// Most bytes a payload may have, whatever a store's own limits are.
pub const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// Fewest bytes a payload can have: the fixed part, and one byte for each of five names.
pub const PAYLOAD_BYTES_MIN: usize = FIXED_BYTES + 5;

/// The payload of a step that was written, and its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    bytes: Vec<u8>,
    digest: StepDigest,
}

/// A step as it stands in a payload: held to every rule, but copied nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepView<'a> {
    key: StepKey,
    names: [&'a str; 5],
    input: InputDigest,
    revision: u64,
    steps: u32,
    value: &'a [u8],
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

impl Step {
    /// The bytes of this step's payload, counted without writing them.
    pub fn payload_bytes(&self) -> u64 {
        let names: usize = self.names().iter().map(|name| name.len()).sum();
        (FIXED_BYTES + names) as u64 + self.value.len() as u64
    }

    /// Writes the payload.
    ///
    /// # Errors
    /// [`StepFault::TooLarge`] over [`PAYLOAD_BYTES_MAX`].
    pub fn to_payload(&self) -> Result<Payload, StepFault> {
        let bytes = self.payload_bytes();
        let too_large = StepFault::TooLarge { bytes };
        let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX);
        let Some(mut payload) = bytes.map(Vec::with_capacity) else { return Err(too_large) };
        let Ok(value_bytes) = u32::try_from(self.value.len()) else { return Err(too_large) };
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
        payload.extend_from_slice(&self.value);
        Ok(Payload { digest: StepDigest::of(&payload), bytes: payload })
    }

    fn names(&self) -> [&str; 5] {
        let Definition { name, codec, .. } = &self.definition;
        [self.tenant.as_str(), self.run.as_str(), self.path.as_str(), name.as_str(), codec.as_str()]
    }
}

impl Payload {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Their digest.
    pub fn digest(&self) -> &StepDigest {
        &self.digest
    }

    /// The step it was written from.
    #[expect(clippy::missing_panics_doc, reason = "what was written from a step reads as one")]
    pub fn step(&self) -> StepView<'_> {
        StepView::read(&self.bytes).expect("written from a step")
    }
}

impl<'a> StepView<'a> {
    /// Reads a payload.
    pub fn parse(payload: &'a [u8]) -> Result<Self, StepFault> {
        let step = Self::read(payload)?;
        TenantId::check(step.tenant())?;
        RunId::check(step.run())?;
        StepPath::check(step.path())?;
        DefinitionName::check(step.definition_name())?;
        CodecId::check(step.codec())?;
        Ok(step)
    }

    /// Reads a payload whose names are not checked.
    fn read(payload: &'a [u8]) -> Result<Self, StepFault> {
        let found = payload.len();
        let Some((fixed, rest)) = payload.split_first_chunk::<FIXED_BYTES>() else {
            return Err(StepFault::Length { found, stated: FIXED_BYTES as u64 });
        };
        let fixed = Fixed::read(fixed);
        if fixed.payload_bytes() != found as u64 {
            return Err(StepFault::Length { found, stated: fixed.payload_bytes() });
        }
        let names_bytes: usize = fixed.names.iter().copied().map(usize::from).sum();
        // The lengths were held against the payload before, so the split is always there.
        let (text, value) = rest.split_at_checked(names_bytes).unwrap_or((rest, &[]));
        let names = split_names(text, fixed.names)?;
        let Fixed { key, input, revision, steps, .. } = fixed;
        Ok(Self { key, names, input, revision, steps, value })
    }

    /// Which step of the run.
    pub fn key(&self) -> &StepKey {
        &self.key
    }

    /// Whose run it is, a [`TenantId`].
    pub fn tenant(&self) -> &'a str {
        self.names[0]
    }

    /// The run, a [`RunId`].
    pub fn run(&self) -> &'a str {
        self.names[1]
    }

    /// Where the step stands in the run's plan, a [`StepPath`].
    pub fn path(&self) -> &'a str {
        self.names[2]
    }

    /// What the step returned.
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    fn definition_name(&self) -> &'a str {
        self.names[3]
    }

    fn codec(&self) -> &'a str {
        self.names[4]
    }

    /// True where the run follows `definition`.
    pub fn follows(&self, definition: &Definition) -> bool {
        let Definition { name, revision, input, steps, codec } = definition;
        (self.definition_name(), self.codec()) == (name.as_str(), codec.as_str())
            && (self.revision, self.steps, &self.input) == (*revision, *steps, input)
    }

    /// The same tenant, as a name of its own.
    pub fn to_tenant(&self) -> TenantId {
        TenantId::checked(self.tenant())
    }

    /// The same run, as a name of its own.
    pub fn to_run(&self) -> RunId {
        RunId::checked(self.run())
    }

    /// The same path, as a name of its own.
    pub fn to_path(&self) -> StepPath {
        StepPath::checked(self.path())
    }

    /// The definition that the run follows.
    pub fn to_definition(&self) -> Definition {
        Definition {
            name: DefinitionName::checked(self.definition_name()),
            revision: self.revision,
            input: self.input,
            steps: self.steps,
            codec: CodecId::checked(self.codec()),
        }
    }

    /// The same step with names and a value of its own.
    pub fn to_step(&self) -> Step {
        Step {
            tenant: self.to_tenant(),
            run: self.to_run(),
            key: self.key,
            path: self.to_path(),
            definition: self.to_definition(),
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
            let mut part = [0; N];
            part.copy_from_slice(&bytes[at..at + N]);
            part
        }
        Self {
            key: StepKey::from_bytes(part(bytes, 0)),
            input: InputDigest::from_bytes(part(bytes, 32)),
            revision: u64::from_be_bytes(part(bytes, 64)),
            steps: u32::from_be_bytes(part(bytes, 72)),
            value: u32::from_be_bytes(part(bytes, 76)),
            names: [80, 82, 84, 86, 88].map(|at| u16::from_be_bytes(part(bytes, at))),
        }
    }

    fn payload_bytes(&self) -> u64 {
        let names: u64 = self.names.iter().copied().map(u64::from).sum();
        FIXED_BYTES as u64 + names + u64::from(self.value)
    }
}

/// Parts `text` into names of these lengths.
fn split_names(text: &[u8], lengths: [u16; 5]) -> Result<[&str; 5], StepFault> {
    // Looked at whole where all of it is UTF-8 and each name starts with a character.
    let whole = std::str::from_utf8(text).ok();
    let mut names = [""; 5];
    let mut start = 0;
    for ((name, length), noun) in names.iter_mut().zip(lengths).zip(NOUNS) {
        let here = start..start + usize::from(length);
        start = here.end;
        let found = whole.and_then(|text| text.get(here.clone()));
        *name = match found {
            Some(found) => found,
            None => std::str::from_utf8(text.get(here).unwrap_or_default())
                .map_err(|_| StepFault::Utf8 { noun })?,
        };
    }
    Ok(names)
}

/// What the names in a payload are of, in their order.
const NOUNS: [&str; 5] = ["tenant", "run", "step path", "definition", "codec"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::step::tests::step;
    use super::*;

    #[test]
    fn a_payload_is_laid_out_as_documented() {
        let mut expected = Vec::new();
        expected.extend_from_slice(StepKey::of(&[b"charge"]).as_bytes());
        expected.extend_from_slice(InputDigest::of(b"order 4471").as_bytes());
        expected.extend_from_slice(b"\0\0\0\0\0\0\0\x03\0\0\0\x07\0\0\0\x02");
        expected.extend_from_slice(b"\0\x04\0\x05\0\x06\0\x06\0\x04acmerun-1chargerefundjson{}");
        let step = step("run-1", "charge", b"{}");
        assert_eq!(step.to_payload().unwrap().as_bytes(), expected);
        assert_eq!(step.payload_bytes(), expected.len() as u64);
        assert_eq!(StepView::parse(&expected).unwrap().to_step(), step);
        assert_eq!(step.to_payload().unwrap().step().to_step(), step);
    }

    #[test]
    fn a_payload_has_the_length_it_states() {
        let payload = step("run-1", "charge", b"value").to_payload().unwrap().as_bytes().to_vec();
        for end in 0..payload.len() {
            assert!(matches!(StepView::parse(&payload[..end]), Err(StepFault::Length { .. })), "{end}");
        }
        let mut longer = payload.clone();
        longer.push(0);
        let fault = StepFault::Length { found: longer.len(), stated: payload.len() as u64 };
        assert_eq!(StepView::parse(&longer), Err(fault));
        // An input digest has 32 bytes or the payload is none: nothing is padded or cut.
        let mut narrow = payload;
        narrow.remove(40);
        assert!(StepView::parse(&narrow).is_err());
    }

    #[test]
    fn names_in_a_payload_are_checked() {
        let payload = step("run-1", "charge", b"").to_payload().unwrap().as_bytes().to_vec();
        let mut slash = payload.clone();
        slash[90] = b'/';
        assert!(matches!(StepView::parse(&slash), Err(StepFault::Name(_))));
        let mut broken = payload;
        broken[99] = 0xff;
        assert_eq!(StepView::parse(&broken), Err(StepFault::Utf8 { noun: "step path" }));
    }

    #[test]
    fn a_step_over_the_ceiling_is_refused_with_its_size() {
        let step = step("run-1", "charge", &vec![0; PAYLOAD_BYTES_MAX]);
        assert_eq!(step.to_payload(), Err(StepFault::TooLarge { bytes: step.payload_bytes() }));
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
            prop_assert_eq!(StepView::parse(payload.as_bytes()).unwrap().to_step(), step);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes: Vec<u8>) {
            if let Ok(step) = StepView::parse(&bytes) {
                let payload = step.to_step().to_payload().unwrap();
                prop_assert_eq!(payload.as_bytes(), bytes);
            }
        }
    }
}
