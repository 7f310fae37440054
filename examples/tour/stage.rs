//! The stage: a folder of its own, processes of the three commands, their output and their reports.
//! The tour plays on it, and so do the cross-crate tests.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The three commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    Journal,
    Witness,
    Verifier,
}

impl Program {
    const ALL: [Self; 3] = [Self::Journal, Self::Witness, Self::Verifier];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Journal => "runseal",
            Self::Witness => "runseal-witness",
            Self::Verifier => "runseal-verifier",
        }
    }

    pub(crate) fn from_arg(arg: &OsStr) -> Option<Self> {
        Self::ALL.into_iter().find(|program| arg == program.name())
    }
}

/// An honest step that failed, or an attack that nobody noticed.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Broken {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// How a command ended.
pub(crate) struct Ran {
    pub(crate) line: String,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The same, if it ended with `code`.
    pub(crate) fn ended(self, code: i32) -> Result<Self, Broken> {
        if self.code == Some(code) {
            return Ok(self);
        }
        Err(Broken(format!(
            "`{}` ended with {:?} where {code} belongs\n{}{}",
            self.line, self.code, self.stdout, self.stderr
        )))
    }

    /// The first line of stderr that holds `word`, which must be there.
    pub(crate) fn says(&self, word: &str) -> Result<String, Broken> {
        let lower = word.to_lowercase();
        let line = self.stderr.lines().find(|line| line.to_lowercase().contains(&lower));
        line.map(|line| line.trim().to_owned()).ok_or_else(|| {
            Broken(format!("`{}` does not say {word:?}; it said:\n{}", self.line, self.stderr))
        })
    }
}

/// A verifier's report with its exit code.
pub(crate) struct Report {
    pub(crate) code: i32,
    pub(crate) json: Value,
    pub(crate) line: String,
}

impl Report {
    pub(crate) fn verdict(&self) -> &str {
        self.json["verdict"].as_str().unwrap_or("no verdict")
    }

    /// Every finding as `(kind, run, detail)`.
    pub(crate) fn findings(&self) -> impl Iterator<Item = (&str, Option<&str>, &str)> {
        self.json["findings"].as_array().into_iter().flatten().map(|finding| {
            let text = |name: &str| finding[name].as_str();
            (text("kind").unwrap_or_default(), text("run"), text("detail").unwrap_or_default())
        })
    }

    /// The detail of the finding of `kind` about `run` (or about the log, with `None`).
    pub(crate) fn finds(&self, kind: &str, run: Option<&str>) -> Result<String, Broken> {
        let found = self.findings().find(|(k, r, _)| *k == kind && (run.is_none() || *r == run));
        found.map(|(_, _, detail)| detail.to_owned()).ok_or_else(|| {
            let seen: Vec<String> =
                self.findings().map(|(k, r, d)| format!("  {k} {}: {d}", r.unwrap_or("-"))).collect();
            Broken(format!(
                "`{}` does not find {kind}{}; verdict {}, findings:\n{}",
                self.line,
                run.map(|run| format!(" of run {run}")).unwrap_or_default(),
                self.verdict(),
                seen.join("\n")
            ))
        })
    }

    /// The same, if the verdict is `verified` and the exit code 0.
    pub(crate) fn verified(self) -> Result<Self, Broken> {
        if (self.code, self.verdict()) == (0, "verified") {
            return Ok(self);
        }
        Err(Broken(format!("`{}` ended with {}:\n{:#}", self.line, self.code, self.json)))
    }

    /// The same, if it is exit 1 and `tampered`.
    pub(crate) fn tampered(self) -> Result<Self, Broken> {
        if (self.code, self.verdict()) == (1, "tampered") {
            return Ok(self);
        }
        Err(Broken(format!("`{}` noticed nothing: exit {}\n{:#}", self.line, self.code, self.json)))
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.json["counts"][name].as_u64().unwrap_or(0)
    }
}

/// A server that is stopped when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It keeps nothing that a kill could lose: every answer was durable before it was given.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where the three commands come from.
#[derive(Clone, Debug)]
pub(crate) enum Launcher {
    /// This executable, which runs a command when its first argument names one.
    ThisExecutable,
    /// The commands' own binaries, in one folder.
    #[allow(dead_code, reason = "the cross-crate tests use this stage too, with the built binaries")]
    Binaries(PathBuf),
}

/// A folder and the commands that act in it; removed at the end unless it is to be kept.
pub(crate) struct Stage {
    dir: PathBuf,
    keep: bool,
    launcher: Launcher,
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

impl Stage {
    pub(crate) fn build(keep: Option<PathBuf>, launcher: Launcher) -> Result<Self, Broken> {
        let kept = keep.is_some();
        let dir = match keep {
            Some(dir) => {
                std::fs::create_dir(&dir)
                    .map_err(|error| Broken(format!("cannot make {}: {error}", dir.display())))?;
                dir
            }
            None => tempfile::Builder::new().prefix("runseal-tour-").tempdir()?.keep(),
        };
        Ok(Self { dir: dir.canonicalize()?, keep: kept, launcher })
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, Broken> {
        let path = self.path(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// A copy of a folder, so that each attack starts from the same honest history.
    pub(crate) fn copy(&self, from: &Path, to: &str) -> Result<PathBuf, Broken> {
        let target = self.path(to);
        copy_tree(from, &target)?;
        Ok(target)
    }

    pub(crate) fn run<I, S>(&self, program: Program, args: I) -> Result<Ran, Broken>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let Output { status, stdout, stderr } =
            self.command(program, &args)?.stdin(Stdio::null()).output()?;
        Ok(Ran {
            line: shown(program, &args),
            code: status.code(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        })
    }

    /// Runs the verifier with `--json` and reads its report.
    pub(crate) fn report<I, S>(&self, args: I) -> Result<Report, Broken>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let file = self.path("report.json");
        let _ = std::fs::remove_file(&file);
        let mut args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        args.extend(["--json".into(), file.clone().into()]);
        let ran = self.run(Program::Verifier, &args)?;
        let text = std::fs::read(&file).map_err(|_| {
            Broken(format!("`{}` wrote no report (exit {:?}):\n{}", ran.line, ran.code, ran.stderr))
        })?;
        let json = serde_json::from_slice(&text)?;
        Ok(Report { code: ran.code.unwrap_or(-1), json, line: ran.line })
    }

    /// Starts a server on a free loopback port and waits until it says where it listens.
    pub(crate) fn serve<I, S>(&self, program: Program, args: I) -> Result<Server, Broken>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        args.extend(["--listen".into(), "127.0.0.1:0".into()]);
        let line = shown(program, &args);
        let mut child = self
            .command(program, &args)?
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let stderr = child.stderr.take().ok_or_else(|| Broken(format!("`{line}` has no stderr")))?;
        let (send, receive) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stderr);
            let mut text = String::new();
            while lines.read_line(&mut text).is_ok_and(|read| read > 0) {
                if let Some((_, url)) = text.rsplit_once("listening on ") {
                    let _ = send.send(Ok(url.trim().to_owned()));
                    // Whatever it says later is drained, so that it never blocks on a full pipe.
                    let _ = lines.read_to_end(&mut Vec::new());
                    return;
                }
            }
            let _ = send.send(Err(text));
        });
        let mut server = Server { child, url: String::new() };
        match receive.recv_timeout(Duration::from_secs(20)) {
            Ok(Ok(url)) => {
                server.url = url;
                Ok(server)
            }
            Ok(Err(said)) => Err(Broken(format!("`{line}` did not start:\n{said}"))),
            Err(_) => Err(Broken(format!("`{line}` does not say where it listens"))),
        }
    }

    fn command(&self, program: Program, args: &[OsString]) -> Result<Command, Broken> {
        let mut command = match &self.launcher {
            Launcher::ThisExecutable => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg(program.name());
                command
            }
            Launcher::Binaries(dir) => Command::new(dir.join(program.name())),
        };
        command.args(args).current_dir(&self.dir);
        // The tour decides every setting itself.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RUNSEAL_") {
                command.env_remove(name);
            }
        }
        Ok(command)
    }
}

fn shown(program: Program, args: &[OsString]) -> String {
    let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
    format!("{} {}", program.name(), args.join(" "))
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), Broken> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            // Copies the permissions with it: key files stay readable by their owner alone.
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

pub(crate) fn elapsed_clock() -> Instant {
    Instant::now()
}
