//! Making a folder of data so that nobody ever sees half of it.
//!
//! 1. `DIR/.volley-partial/` is made and the file `lock` in it locked. Its being there without a manifest says
//!    *unfinished*: whoever opens the folder does not take its files for data. The lock says whether somebody is at it;
//!    the system drops it with the process. A second process waits for it, then looks again.
//! 2. Threads, one per core, take parts from a list, largest first, and write them below `.volley-partial`.
//! 3. Table folders are renamed into `DIR`, replacing what a process that died in this step had renamed.
//! 4. The manifest is written aside and renamed: from here on the folder is data.
//! 5. `.volley-partial` is removed. If that is not reached, the manifest still rules, and the next generation removes it.
//!
//! Everything is inside `DIR`, so renames never cross file systems and `DIR` may be a mount point.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::layout::{self, PartPlan, TablePlan};
use super::manifest::{self, FileEntry, Generator, Layout, Manifest};
use super::progress::Progress;
use super::write::{Written, write_part};
use super::{Dataset, Scale, Suite, generators, open};
use crate::error::{CliError, ExitStatus};

const PARTIAL: &str = ".volley-partial";
const LOCK: &str = "lock";
/// Between two looks at another process's lock.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Room asked for beyond the estimated size, for estimates that are a little low.
const SPARE: f64 = 1.1;

/// A generation of `dir` began and has not ended.
pub fn is_unfinished(dir: &Path) -> bool {
    dir.join(PARTIAL).is_dir()
}

/// Generates into `dir`, which is missing, empty or unfinished. See [`super::ensure`].
pub fn generate(
    suite: Suite,
    scale: &Scale,
    dir: &Path,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Dataset, CliError> {
    let dir = std::path::absolute(dir).map_err(|error| CliError::io("find", dir, &error))?;
    let claim = match claim(suite, scale, &dir, progress, cancel)? {
        Claim::Ours(claim) => claim,
        Claim::Done(dataset) => return Ok(dataset),
    };
    let tables = layout::tables(suite, scale);
    let made = enough_room(&tables, &dir).and_then(|()| {
        progress.start(tables.iter().map(|table| table.rows).sum());
        let started = Instant::now();
        let files = write_all(suite, scale, &tables, &claim.partial, progress, cancel);
        let last = files.as_ref().ok().map(|files| summary(files, started.elapsed()));
        progress.finish(last.as_deref());
        let files = files?;
        move_into_place(&tables, &claim.partial, &dir)?;
        manifest(suite, scale, files).write(&dir)
    });
    claim.release(made.is_ok());
    made?;
    let dataset = open(suite, Some(scale), &dir)?.ok_or_else(|| vanished(&dir))?;
    Ok(Dataset { generated: true, ..dataset })
}

fn summary(files: &[FileEntry], took: Duration) -> String {
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let rows: u64 = files.iter().map(|file| file.rows).sum();
    format!(
        "made {rows} rows in {} files, {}, in {:.1} s",
        files.len(),
        crate::units::format_bytes(bytes),
        took.as_secs_f64()
    )
}

fn vanished(dir: &Path) -> CliError {
    CliError::new(
        "VOLLEY-DISK",
        ExitStatus::Local,
        format!("{} was removed while it was generated", dir.display()),
        "run the command again",
    )
}

enum Claim {
    Ours(Held),
    /// Another process finished it while we waited.
    Done(Dataset),
}

/// The right to write `dir`, as long as it lives.
struct Held {
    dir: PathBuf,
    partial: PathBuf,
    /// Whether `dir` was not there before.
    made_dir: bool,
    _lock: File,
}

impl Held {
    /// Removes what is aside; if nothing was made, the folder too unless it was there before or has something in it.
    fn release(self, made: bool) {
        // Failures leave a folder that says "unfinished", or a finished one with a leftover that says nothing.
        let _ = fs::remove_dir_all(&self.partial);
        if !made && self.made_dir {
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

fn claim(suite: Suite, scale: &Scale, dir: &Path, progress: &Progress, cancel: &AtomicBool) -> Result<Claim, CliError> {
    let failed = |error: io::Error| CliError::io("write in", dir, &error);
    let partial = dir.join(PARTIAL);
    let mut waiting = false;
    loop {
        if cancel.load(Ordering::Relaxed) {
            return Err(CliError::interrupted("data generation was interrupted", "nothing was kept"));
        }
        let made_dir = !dir.exists();
        fs::create_dir_all(&partial).map_err(failed)?;
        // The holder may have removed the folder between our two steps, and once we have the lock it may be that of a
        // file no longer there. Both: look again.
        let lock = match File::create(partial.join(LOCK)) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        match lock.try_lock() {
            Ok(()) if is_the_file(&lock, &partial.join(LOCK)) => {
                let held = Held { dir: dir.to_owned(), partial, made_dir, _lock: lock };
                if let Some(dataset) = finished(suite, scale, dir)? {
                    held.release(true);
                    return Ok(Claim::Done(dataset));
                }
                clear(&held).map_err(failed)?;
                return Ok(Claim::Ours(held));
            }
            Ok(()) => continue,
            Err(TryLockError::WouldBlock) => {
                if !waiting {
                    progress.note(&format!("another process is making {}, waiting for it", dir.display()));
                    waiting = true;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// The data set if a manifest has appeared.
fn finished(suite: Suite, scale: &Scale, dir: &Path) -> Result<Option<Dataset>, CliError> {
    if Manifest::read(dir)?.is_none() { Ok(None) } else { open(suite, Some(scale), dir) }
}

#[cfg(unix)]
fn is_the_file(open: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (open.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Removes what a process that died had written aside.
fn clear(held: &Held) -> io::Result<()> {
    for entry in fs::read_dir(&held.partial)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Fails before the work if the disk is clearly too full for it.
fn enough_room(tables: &[TablePlan], dir: &Path) -> Result<(), CliError> {
    let needed = (tables.iter().map(|table| table.bytes).sum::<u64>() as f64 * SPARE) as u64;
    match free_bytes(dir) {
        Some(free) if free < needed => Err(CliError::new(
            "VOLLEY-DISK-FULL",
            ExitStatus::Local,
            format!(
                "{} has {} free, the data needs about {}",
                dir.display(),
                crate::units::format_bytes(free),
                crate::units::format_bytes(needed)
            ),
            "free some space, name a folder on another disk with --data, or choose a smaller --scale",
        )),
        _ => Ok(()),
    }
}

/// What an ordinary user may still write where `dir` is; `None` where the system does not say.
#[cfg(unix)]
#[allow(clippy::unnecessary_cast)] // The fields' types differ between systems.
fn free_bytes(dir: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(dir.as_os_str().as_bytes()).ok()?;
    let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is a C string and `stat` a place for the struct; it is read only after success.
    let stat = unsafe {
        if libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) != 0 {
            return None;
        }
        stat.assume_init()
    };
    Some(stat.f_bavail as u64 * stat.f_frsize as u64)
}

/// Writes every part below `partial`; the entries are ordered by table and part. The first failure stops all threads.
fn write_all(
    suite: Suite,
    scale: &Scale,
    tables: &[TablePlan],
    partial: &Path,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Vec<FileEntry>, CliError> {
    let mut work: Vec<PartPlan> = tables.iter().flat_map(layout::parts).collect();
    // Largest first, or the last thread would work alone. Returns replay all sales: their cost is not in their bytes,
    // but in their source rows.
    work.sort_by_key(|part| std::cmp::Reverse(part.bytes.max((part.last + 1 - part.first) * 64)));
    for table in tables {
        let dir = partial.join(table.name);
        fs::create_dir_all(&dir).map_err(|error| CliError::io("write", &dir, &error))?;
    }

    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let done = Mutex::new(Vec::with_capacity(work.len()));
    let failure = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(work.len());
    std::thread::scope(|scope| {
        // `stop` is what the writers watch, so that both a failure and the user end them.
        let watch = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if cancel.load(Ordering::Relaxed) {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::park_timeout(Duration::from_millis(50));
            }
        });
        let writers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(part) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let path = partial.join(part.table).join(part.file_name());
                        match write_part(generators::open(suite, scale, part), &path, progress, &stop) {
                            Ok(written) => done.lock().expect("no writer panics").push((*part, written)),
                            Err(error) => {
                                stop.store(true, Ordering::Relaxed);
                                failure.lock().expect("no writer panics").get_or_insert(error);
                            }
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            if let Err(panic) = writer.join() {
                stop.store(true, Ordering::Relaxed);
                std::panic::resume_unwind(panic);
            }
        }
        stop.store(true, Ordering::Relaxed);
        watch.thread().unpark();
    });

    if let Some(error) = failure.into_inner().expect("no writer panics") {
        return Err(error);
    }
    if cancel.load(Ordering::Relaxed) {
        return Err(CliError::interrupted("data generation was interrupted", "nothing was kept"));
    }
    let mut done = done.into_inner().expect("no writer panics");
    done.sort_by_key(|(part, _)| (part.table, part.part));
    Ok(done.iter().map(|(part, written)| entry(part, written)).collect())
}

fn entry(part: &PartPlan, written: &Written) -> FileEntry {
    FileEntry {
        table: part.table.to_owned(),
        path: format!("{}/{}", part.table, part.file_name()),
        rows: written.rows,
        bytes: written.bytes,
        crc32: format!("{:08x}", written.crc32),
        row_groups: written.row_groups,
    }
}

fn move_into_place(tables: &[TablePlan], partial: &Path, dir: &Path) -> Result<(), CliError> {
    for table in tables {
        let place = dir.join(table.name);
        let moved = match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::rename(partial.join(table.name), &place),
        };
        moved.map_err(|error| CliError::io("write", &place, &error))?;
    }
    Ok(())
}

fn manifest(suite: Suite, scale: &Scale, files: Vec<FileEntry>) -> Manifest {
    let (name, version) = suite.generator();
    Manifest {
        format: manifest::FORMAT,
        suite,
        scale: *scale,
        generator: Generator {
            name: name.to_owned(),
            version: version.to_owned(),
            compatibility: suite.compatibility().to_owned(),
        },
        layout: Layout {
            rule: layout::RULE.to_owned(),
            part_bytes: layout::PART_BYTES,
            row_group_bytes: layout::ROW_GROUP_BYTES as u64,
            min_fact_parts: layout::MIN_FACT_PARTS,
            compression: "snappy".to_owned(),
        },
        files,
    }
}
