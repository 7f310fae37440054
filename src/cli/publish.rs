use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use runseal_tlog::{checkpoint::Checkpoint, tile::tiles_of};

use super::{CliError, Exit, output::Output, plane::PlaneArgs};
use crate::{
    Log,
    atomic_file::{AtomicFile, FileError},
    serve::Served,
};

/// Write the published logs as static files, for any web server or object store.
///
/// Makes DIR2/<tenant>/checkpoint and DIR2/<tenant>/tile/..., the same tree that "runseal serve" serves under
/// /log. Each file appears whole, the checkpoint after everything it implies, so that DIR2 may be served
/// while it is written to. Only the last published checkpoint counts: what is in the journal since is not
/// written.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Example:\n  runseal publish --dir plane --to /var/www/log")]
pub(super) struct Args {
    #[command(flatten)]
    plane: PlaneArgs,

    /// The folder to write to.
    #[arg(long, env = "RUNSEAL_TO", value_name = "DIR2")]
    to: PathBuf,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, CliError> {
    let journal = args.plane.open()?;
    let mut written = 0;
    for served in Served::all(&journal)? {
        let (name, log) = (served.name(), served.log());
        let Some(note) = log.published()? else {
            output.say(format_args!("{name}: no checkpoint is published; \"runseal checkpoint\" takes one"));
            continue;
        };
        let size = Checkpoint::parse(note.unverified_text())?.size();
        let folder = args.to.join(name);
        let tiles = write_tiles(log, size, &folder, output)?;
        write(&folder.join("checkpoint"), note.to_string().as_bytes())?;
        output.say(format_args!("{name}: size {size}, {tiles} tiles and bundles written"));
        written += 1;
    }
    if written == 0 { Err(CliError::NothingPublished) } else { Ok(Exit::Done) }
}

fn write_tiles(log: &Log, size: u64, folder: &Path, output: &Output) -> Result<u64, CliError> {
    let mut written = 0;
    for tile in tiles_of(size) {
        let bytes = log.tile(&tile)?.ok_or(CliError::TileMissing { tile })?;
        let path = folder.join(tile.to_string());
        match fs::read(&path) {
            Ok(before) if before == bytes => continue,
            Ok(_) => output.tell(format_args!("warning: {} was another one; replaced", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileError { path, error }.into()),
        }
        write(&path, &bytes)?;
        written += 1;
    }
    Ok(written)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let failed = |error| FileError { path: path.to_owned(), error };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(failed)?;
    file.finish()?;
    Ok(())
}
