//! Interoperation with the Go implementations, where Go is installed and its modules can be had:
//! `golang.org/x/mod/sumdb`, `filippo.io/torchwood` and its programs litewitness and litebastion.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testlog::{TestLog, base64, cosignature_time, sha256};
use wire::post;

#[expect(dead_code, reason = "these tests use a part of it")]
#[path = "../witness/testlog.rs"]
mod testlog;
#[expect(dead_code, reason = "these tests use a part of it")]
#[path = "../witness/wire.rs"]
mod wire;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/interop");

/// `go` in the interop module; `None`, said aloud, where there is no Go or no way to its modules.
fn go(why: &str) -> Option<Command> {
    let go = || {
        let mut command = Command::new("go");
        command.current_dir(FOLDER).env("GOFLAGS", "-mod=readonly").stdin(Stdio::null());
        command
    };
    match go()
        .args(["mod", "download", "filippo.io/torchwood", "golang.org/x/mod", "zombiezen.com/go/sqlite"])
        .output()
    {
        Ok(output) if output.status.success() => Some(go()),
        Ok(output) => {
            eprintln!(
                "NOT RUN: {why}: Go's modules cannot be had: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            None
        }
        Err(error) => {
            eprintln!("NOT RUN: {why}: go is not installed: {error}");
            None
        }
    }
}

/// Builds Go programs once for each run; Go's own cache makes that cheap.
fn build(packages: &[&str], why: &str) -> Option<PathBuf> {
    let programs = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go");
    std::fs::create_dir_all(&programs).unwrap();
    let mut command = go(why)?;
    let output = command
        .args(["build", "-o"])
        .arg(format!("{}/", programs.display()))
        .args(packages)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(programs)
}

#[test]
fn go_logs_tiles_keys_and_the_go_bastion_work_with_this_witness() {
    let why = "Go's logs and bastion against this witness";
    let Some(programs) = build(&["filippo.io/torchwood/cmd/litebastion"], why) else { return };
    let Some(mut command) = go(why) else { return };
    let output = command
        .args(["test", "-count=1", "-v", "."])
        .env("RUNSEAL_WITNESS", env!("CARGO_BIN_EXE_runseal-witness"))
        .env("LITEBASTION", programs.join("litebastion"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    for test in ["TestGoLogIsCosigned", "TestGoTilesArePulled", "TestServedThroughGoBastion"] {
        assert!(said.contains(&format!("--- PASS: {test}")), "{said}");
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// litewitness with one key in an ssh-agent; answers its address and vkey.
fn start_litewitness(programs: &Path, folder: &Path, list: &str) -> (Vec<Process>, SocketAddr, String) {
    let at = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder).env("SSH_AUTH_SOCK", "agent").stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    std::fs::write(folder.join("logs"), list).unwrap();
    run(at(programs.join("litelogs").to_str().unwrap()).args(["lite.db", "logs"]));
    let agent = Process(at("ssh-agent").args(["-D", "-a", "agent"]).spawn().unwrap());
    while !folder.join("agent").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    run(at("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", "key"]));
    run(at("ssh-add").args(["-q", "key"]));
    let fingerprint = run(at("ssh-keygen").args(["-l", "-f", "key.pub"]).stdout(Stdio::piped()));
    let fingerprint = fingerprint.split(' ').nth(1).unwrap().to_owned();
    // The OpenSSH public key line ends in the 32 bytes of the key.
    let line = std::fs::read_to_string(folder.join("key.pub")).unwrap();
    let blob = testlog::unbase64(line.split(' ').nth(1).unwrap());
    let material = [&[4], &blob[blob.len() - 32..]].concat();
    let name = "witness.example/lite";
    let id = sha256(&[name.as_bytes(), b"\n", &material]);
    let vkey = format!("{name}+{}+{}", hex::encode(&id[..4]), base64(&material));
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let witness = at(programs.join("litewitness").to_str().unwrap())
        .args(["-db", "lite.db", "-name", name, "-ssh-agent", "agent", "-key", &fingerprint])
        .args(["-listen", &address.to_string()])
        .spawn()
        .unwrap();
    let witness = Process(witness);
    for _ in 0..500 {
        if TcpStream::connect(address).is_ok() {
            return (vec![witness, agent], address, vkey);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("litewitness does not listen")
}

#[test]
fn litewitness_cosigns_what_these_tests_send() {
    let why = "litewitness against this repository's requests";
    let packages = ["filippo.io/torchwood/cmd/litewitness", "./litelogs"];
    let Some(programs) = build(&packages, why) else { return };
    if !["ssh-agent", "ssh-add", "ssh-keygen"]
        .iter()
        .all(|program| Command::new(program).arg("-V").output().is_ok())
    {
        eprintln!("NOT RUN: {why}: ssh-agent is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut log = TestLog::new("log.example/lite", 3);
    log.grow(300, "");
    let (_processes, address, vkey) = start_litewitness(&programs, folder.path(), &log.list());
    let mut old = 0;
    for new in [1, 2, 7, 8, 9, 255, 256, 257, 300, 300] {
        let answer = post(address, "/add-checkpoint", log.request(old, new).as_bytes());
        assert_eq!(answer.status, 200, "{old} to {new}: {answer:?}");
        let checkpoint = log.checkpoint(new);
        let text = &checkpoint[..=checkpoint.find("\n\n").unwrap()];
        assert!(cosignature_time(text, answer.text(), &vkey).is_some(), "{answer:?}");
        old = new;
    }
    let answer = post(address, "/add-checkpoint", log.request(5, 300).as_bytes());
    assert_eq!((answer.status, answer.text()), (409, "300\n"));
}
