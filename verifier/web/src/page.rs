//! The page: one HTML file that holds style, scripts and the verifier itself, and may load nothing else.
//!
//! The same checkout and toolchain give the same bytes: versions are those of the lock file, and paths of the
//! building machine are mapped away.

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasm_bindgen_cli_support::Bindgen;

const TARGET: &str = "wasm32-unknown-unknown";
const NAME: &str = "runseal-verifier.html";
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Why there is no page.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PageError {
    /// Cargo cannot be started.
    #[error("cannot run {program}: {source}")]
    Cargo {
        /// What was run.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The verifier does not build.
    #[error("the verifier does not build for {TARGET}; `rustup target add {TARGET}` installs the target")]
    Build,
    /// The build says nothing of a module.
    #[error("the build names no WebAssembly module")]
    NoModule,
    /// The module gets no bindings.
    #[error("the module gets no bindings: {0}")]
    Bindings(String),
    /// A part would end its element early.
    #[error("{part} holds {text:?}, which would end it early")]
    EndsEarly {
        /// The part.
        part: &'static str,
        /// The text.
        text: &'static str,
    },
    /// The page cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A page that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes of the page.
    pub page_bytes: usize,
    /// Bytes of the module in it.
    pub module_bytes: usize,
    /// SHA-256 of the page, hex.
    pub digest: String,
}

impl fmt::Display for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, page_bytes, module_bytes, digest } = self;
        write!(
            f,
            "{}: {} KiB, of them the verifier {} KiB",
            path.display(),
            page_bytes >> 10,
            module_bytes >> 10
        )?;
        write!(f, "\nSHA-256 {digest}")
    }
}

/// Builds the page into `file`, by default `runseal-verifier.html` in the target folder.
///
/// # Errors
/// [`PageError`].
pub fn build(file: Option<PathBuf>) -> Result<Built, PageError> {
    let compiled = compile()?;
    // …/wasm32-unknown-unknown/page/runseal_verifier_web.wasm
    let beside = || compiled.ancestors().nth(3).unwrap_or(Path::new(".")).join(NAME);
    let path = file.unwrap_or_else(beside);
    let mut bindgen = Bindgen::new();
    bindgen.input_path(&compiled).typescript(false).remove_name_section(true).remove_producers_section(true);
    let bound = bindgen.no_modules(true).and_then(Bindgen::generate_output);
    let mut bound = bound.map_err(|error| PageError::Bindings(error.to_string()))?;
    let module = bound.wasm_mut().emit_wasm();
    let page = assemble(bound.js(), &module)?;
    fs::write(&path, &page).map_err(|source| PageError::Write { path: path.clone(), source })?;
    let digest = hex::encode(Sha256::digest(&page));
    Ok(Built { path, page_bytes: page.len(), module_bytes: module.len(), digest })
}

/// Compiles the verifier and answers where the module is.
fn compile() -> Result<PathBuf, PageError> {
    let program = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut cargo = Command::new(&program);
    cargo.args(["build", "--locked", "--package", "runseal-verifier-web", "--lib", "--no-default-features"]);
    cargo.args(["--target", TARGET, "--profile", "page", "--message-format", "json-render-diagnostics"]);
    cargo.current_dir(ROOT).env("CARGO_ENCODED_RUSTFLAGS", flags()).stdout(Stdio::piped());
    let output = cargo.spawn().and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|source| PageError::Cargo { program, source })?;
    if !output.status.success() {
        return Err(PageError::Build);
    }
    let messages = output.stdout.split(|byte| *byte == b'\n');
    let mut modules = messages.filter_map(|line| {
        let message: Value = serde_json::from_slice(line).ok()?;
        let files = message["filenames"].as_array()?;
        let mut files = files.iter().filter_map(Value::as_str).map(PathBuf::from);
        files.find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
    });
    modules.next_back().ok_or(PageError::NoModule)
}

/// Flags for the compiler, of this build alone: panics name their source file, on any machine the same.
fn flags() -> String {
    let root = fs::canonicalize(ROOT).unwrap_or_else(|_| ROOT.into());
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo"))).unwrap_or_default();
    let map = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    [map(&root, "runseal"), map(&home, "cargo")].join("\u{1f}")
}

/// Puts the parts into the page's frame, and their digests into its Content-Security-Policy.
fn assemble(bindings: &str, module: &[u8]) -> Result<String, PageError> {
    const STYLE: &str = concat!(include_str!("../../src/report.css"), include_str!("../page/page.css"));
    const SCRIPT: &str = include_str!("../page/page.js");
    let worker = format!("{bindings}\n{}", include_str!("../page/worker.js"));
    let module = STANDARD.encode(module);
    for (part, content, text) in [
        ("page.css", STYLE, "</style"),
        ("page.js", SCRIPT, "</script"),
        ("worker.js", worker.as_str(), "</script"),
        ("worker.js", worker.as_str(), "<!--"),
    ] {
        if content.contains(text) {
            return Err(PageError::EndsEarly { part, text });
        }
    }
    let digest = |content: &str| STANDARD.encode(Sha256::digest(content));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}' 'wasm-unsafe-eval'; worker-src blob:; style-src 'sha256-{}'; \
         base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types worker",
        digest(SCRIPT),
        digest(STYLE)
    );
    Ok(fill(
        include_str!("../page/index.html"),
        &[
            ("@policy@", &policy),
            ("@version@", env!("CARGO_PKG_VERSION")),
            ("@style@", STYLE),
            ("@worker@", &worker),
            ("@module@", &module),
            ("@script@", SCRIPT),
        ],
    ))
}

/// Puts each part in its place. What a part holds is not looked at again.
fn fill(frame: &str, parts: &[(&str, &str)]) -> String {
    let mut page = String::new();
    let mut rest = frame;
    while let Some((at, place, part)) = parts
        .iter()
        .filter_map(|(place, part)| Some((rest.find(place)?, *place, *part)))
        .min_by_key(|(at, ..)| *at)
    {
        let (before, after) = rest.split_at(at);
        page.push_str(before);
        page.push_str(part);
        rest = after.strip_prefix(place).unwrap_or(after);
    }
    page + rest
}
