//! `manifest.json`: what a generated folder holds. Written last, so a folder that has one was complete.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Scale, Suite};
use crate::error::{CliError, ExitStatus};

pub const FILE_NAME: &str = "manifest.json";
/// Raised when a reader of the old format could misread the new one.
pub const FORMAT: u32 = 1;

/// The generator a suite's data came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generator {
    /// Crate name.
    pub name: String,
    pub version: String,
    /// [`Suite::compatibility`].
    pub compatibility: String,
}

/// How the files were laid out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    pub rule: String,
    pub part_bytes: u64,
    pub row_group_bytes: u64,
    pub min_fact_parts: u64,
    pub compression: String,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    pub table: String,
    /// Relative to the folder, with `/`.
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
    /// Of the whole file, eight hex digits.
    pub crc32: String,
    pub row_groups: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub suite: Suite,
    pub scale: Scale,
    pub generator: Generator,
    pub layout: Layout,
    /// By table, then part.
    pub files: Vec<FileEntry>,
}

/// Only what every format has, read first so that another format can be named.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Manifest {
    /// The manifest of `dir`, or `None` where there is none.
    ///
    /// # Errors
    /// `VOLLEY-DATA-MANIFEST`: not JSON, or a format this version does not know.
    pub fn read(dir: &Path) -> Result<Option<Self>, CliError> {
        let path = dir.join(FILE_NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CliError::io("read", &path, &error)),
        };
        let unreadable = |why: String| {
            CliError::usage(
                "VOLLEY-DATA-MANIFEST",
                format!("{} cannot be used: {why}", path.display()),
                "remove the folder to have it generated again, or name another with --data",
            )
        };
        match serde_json::from_str::<Head>(&text) {
            Ok(Head { format: FORMAT }) => {}
            Ok(Head { format }) => {
                return Err(unreadable(format!("its format is {format}, this version knows {FORMAT}")));
            }
            Err(error) => return Err(unreadable(error.to_string())),
        }
        serde_json::from_str(&text).map(Some).map_err(|error| unreadable(error.to_string()))
    }

    /// Writes the manifest of `dir` aside and renames it into place.
    pub fn write(&self, dir: &Path) -> Result<(), CliError> {
        let path = dir.join(FILE_NAME);
        let aside = dir.join(format!("{FILE_NAME}.partial"));
        let write = || -> std::io::Result<()> {
            let mut file = fs::File::create(&aside)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&aside, &path)?;
            // The renames of this folder's entries reach the disk with the folder.
            fs::File::open(dir)?.sync_all()
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&aside);
            CliError::io("write", &path, &error)
        })
    }

    /// That the folder is what was asked for. `scale: None` takes any.
    ///
    /// # Errors
    /// `VOLLEY-DATA-SUITE`, `VOLLEY-DATA-SCALE`.
    pub fn expect(&self, dir: &Path, suite: Suite, scale: Option<&Scale>) -> Result<(), CliError> {
        let other = |code, holds: String, not: String| {
            Err(CliError::usage(
                code,
                format!("{} holds {holds}, not {not}", dir.display()),
                format!("name another folder with --data, or remove this one to have {not} generated here"),
            ))
        };
        if self.suite != suite {
            return other("VOLLEY-DATA-SUITE", format!("{} data", self.suite), format!("{suite} data"));
        }
        match scale {
            Some(scale) if *scale != self.scale => {
                other("VOLLEY-DATA-SCALE", format!("{suite} data of scale {}", self.scale), format!("scale {scale}"))
            }
            _ => Ok(()),
        }
    }

    /// Every file is there with its size.
    ///
    /// # Errors
    /// `VOLLEY-DATA-DAMAGED` names the first that is not.
    pub fn check_sizes(&self, dir: &Path) -> Result<(), CliError> {
        for file in &self.files {
            let path = self.path_of(dir, file);
            let found = match fs::metadata(&path) {
                Ok(metadata) => metadata.len(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(damaged(dir, &file.path, "is missing".to_owned()));
                }
                Err(error) => return Err(CliError::io("read", &path, &error)),
            };
            if found != file.bytes {
                return Err(damaged(dir, &file.path, format!("has {found} bytes, {} were written", file.bytes)));
            }
        }
        Ok(())
    }

    pub fn path_of(&self, dir: &Path, file: &FileEntry) -> PathBuf {
        dir.join(&file.path)
    }
}

/// A file that is not what the manifest says.
pub fn damaged(dir: &Path, file: &str, how: String) -> CliError {
    CliError::new(
        "VOLLEY-DATA-DAMAGED",
        ExitStatus::Usage,
        format!("{} {how}", dir.join(file).display()),
        format!("remove {} to have it generated again, or name another folder with --data", dir.display()),
    )
}
