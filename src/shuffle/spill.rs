//! The work directory and the spill files in it.
//!
//! ```text
//! WORK_DIR/volley-start.lock          held while an executor starts: sweeping and creating do not race
//! WORK_DIR/volley-<pid>-<random>/     one per living store
//!     owner.lock                      locked by its owner; who can lock it has found a dead owner's leftovers
//!     <query>-<stage>-<task>-<attempt>.blocks
//!
//! a file: blocks, each at a multiple of 64 bytes, each
//!     message+      dictionaries first, the rows last
//! a message:
//!     u32 LE header length | u32 LE zero | u64 LE body length | header | zeros to a multiple of 64 | body
//! ```
//!
//! The index (offset, length, rows, checksum of each block) is in memory: a file does not outlive its store.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use datafusion::arrow::buffer::{Buffer, MutableBuffer};

use super::block::EncodedMessage;
use crate::error::{ErrorCode, Result, VolleyError};
use crate::ids::TaskAttempt;

const START_LOCK: &str = "volley-start.lock";
const OWNER_LOCK: &str = "owner.lock";
const DIRECTORY_PREFIX: &str = "volley-";
/// Starting sweeps a few directories: tens of milliseconds.
const START_LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Bodies start at multiples of this, so that a block read into an aligned buffer is used without a copy.
const ALIGNMENT: usize = 64;
const PREFIX_BYTES: usize = 16;

/// A store's own directory, and the sum of the bytes in it. Removed when the last user is gone.
#[derive(Debug)]
pub(super) struct WorkDir {
    path: PathBuf,
    _owner_lock: File,
    used: AtomicU64,
    limit: u64,
}

impl WorkDir {
    /// Creates a directory below `parent`, which is created where it is missing, and removes directories there
    /// whose owner is dead.
    pub(super) fn create(parent: &Path, limit: u64) -> Result<Arc<Self>> {
        let failed = |what: &str, error: io::Error| disk_error(&format!("cannot {what}"), parent, error);
        fs::create_dir_all(parent).map_err(|error| failed("create the work directory", error))?;
        let start_lock = open_lock(&parent.join(START_LOCK)).map_err(|error| failed("write to it", error))?;
        let deadline = Instant::now() + START_LOCK_TIMEOUT;
        loop {
            match start_lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(VolleyError::new(
                        ErrorCode::Disk,
                        format!("another process holds {START_LOCK} in work directory {}", parent.display()),
                    ));
                }
                Err(TryLockError::Error(error)) => return Err(failed("lock it", error)),
            }
        }
        sweep(parent);
        let path = parent.join(format!("{DIRECTORY_PREFIX}{}-{:08x}", std::process::id(), rand::random::<u32>()));
        fs::create_dir(&path).map_err(|error| failed("create a directory in it", error))?;
        let owner_lock = open_lock(&path.join(OWNER_LOCK)).map_err(|error| failed("write to it", error))?;
        owner_lock.try_lock().map_err(|error| failed("lock a file in it", error.into()))?;
        // The start lock is released when its file is closed, here.
        Ok(Arc::new(Self { path, _owner_lock: owner_lock, used: AtomicU64::new(0), limit }))
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes in the directory's files.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The most bytes its files may have.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => Ok(()),
            Err(used) => Err(VolleyError::new(
                ErrorCode::DiskFull,
                format!(
                    "shuffle files in {} have {used} of the {} bytes allowed; raise --disk-limit or --shuffle-memory, \
                     or use more executors",
                    self.path.display(),
                    self.limit
                ),
            )),
        }
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(path)
}

/// Removes the directories of dead owners: those whose lock we get. The caller holds the start lock, so that a
/// directory without a locked file is never one that is being created.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(DIRECTORY_PREFIX));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let alive = File::open(path.join(OWNER_LOCK))
            .is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
        if !alive && fs::remove_dir_all(&path).is_ok() {
            tracing::info!(path = %path.display(), "removed a dead executor's shuffle files");
        }
    }
}

fn disk_error(what: &str, path: &Path, error: io::Error) -> VolleyError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => VolleyError::new(
            ErrorCode::DiskFull,
            format!(
                "no room for shuffle files in {} ({what}); free space there, or set --work-dir to a larger disk",
                path.display()
            ),
        ),
        _ => VolleyError::new(ErrorCode::Disk, format!("{what}: {}", path.display())),
    }
    .with_source(error)
}

/// One task's spill file. Removed on drop.
#[derive(Debug)]
pub(super) struct SpillFile {
    file: File,
    path: PathBuf,
    attempt: TaskAttempt,
    dir: Arc<WorkDir>,
    /// Where the next block goes. Blocks are written outside any lock, each into the range it took here.
    tail: AtomicU64,
    reserved: AtomicU64,
}

/// Where a block is in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpillRange {
    offset: u64,
    length: usize,
    crc32: u32,
}

impl SpillRange {
    /// Bytes on disk.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}

impl SpillFile {
    pub(super) fn create(dir: &Arc<WorkDir>, attempt: TaskAttempt) -> Result<Self> {
        let TaskAttempt { query, stage, task, attempt: number } = attempt;
        let path = dir.path.join(format!("{query}-{stage}-{task}-{number}.blocks"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|error| disk_error("cannot create a shuffle file", &path, error))?;
        Ok(Self { file, path, attempt, dir: Arc::clone(dir), tail: AtomicU64::new(0), reserved: AtomicU64::new(0) })
    }

    /// Appends a block. Several threads may append at once.
    ///
    /// # Errors
    /// The disk limit is reached, or writing fails; the file stays usable for the blocks it has.
    pub(super) fn append(&self, messages: &[EncodedMessage]) -> Result<SpillRange> {
        let length: usize = messages.iter().map(framed_bytes).sum();
        self.dir.reserve(length as u64)?;
        self.reserved.fetch_add(length as u64, Ordering::Relaxed);
        let offset = self.tail.fetch_add(length as u64, Ordering::Relaxed);
        let mut hasher = crc32fast::Hasher::new();
        let mut at = offset;
        let mut write = |bytes: &[u8]| -> Result<()> {
            hasher.update(bytes);
            self.file
                .write_all_at(bytes, at)
                .map_err(|error| disk_error("cannot write shuffle data", &self.path, error))?;
            at += bytes.len() as u64;
            Ok(())
        };
        for message in messages {
            let head = head_bytes(message.header.len());
            let mut prefix = Vec::with_capacity(head);
            prefix.extend_from_slice(&u32_length(message.header.len())?.to_le_bytes());
            prefix.extend_from_slice(&0_u32.to_le_bytes());
            prefix.extend_from_slice(&(message.body.len() as u64).to_le_bytes());
            prefix.extend_from_slice(&message.header);
            prefix.resize(head, 0);
            write(&prefix)?;
            write(&message.body)?;
            let padding = padded(message.body.len()) - message.body.len();
            if padding > 0 {
                write(&[0; ALIGNMENT][..padding])?;
            }
        }
        Ok(SpillRange { offset, length, crc32: hasher.finalize() })
    }

    /// Reads a block back and checks it. Blocks the thread.
    ///
    /// # Errors
    /// Reading fails, or the bytes are not those that were written; both name the output as lost.
    pub(super) fn read(&self, range: &SpillRange) -> Result<Vec<EncodedMessage>> {
        let lost = |error: VolleyError| error.with_lost_output(self.attempt);
        let corrupt =
            || lost(VolleyError::new(ErrorCode::Corrupt, format!("damaged block in {}", self.path.display())));
        let mut bytes = MutableBuffer::from_len_zeroed(range.length);
        self.file.read_exact_at(bytes.as_slice_mut(), range.offset).map_err(|error| {
            let code = if error.kind() == ErrorKind::UnexpectedEof { ErrorCode::Corrupt } else { ErrorCode::Disk };
            let message = format!("cannot read shuffle data: {}", self.path.display());
            lost(VolleyError::new(code, message).with_source(error))
        })?;
        if crc32fast::hash(&bytes) != range.crc32 {
            return Err(corrupt());
        }
        // The checksum says that these are our own bytes; lengths are checked all the same.
        let mut rest = Bytes::from_owner(Owned(bytes.into()));
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let (header_length, body_length) = lengths(&rest).ok_or_else(corrupt)?;
            let head = head_bytes(header_length);
            let end = head.checked_add(body_length).map(padded).filter(|end| *end <= rest.len());
            let (Some(end), true) = (end, head <= rest.len()) else { return Err(corrupt()) };
            let message = rest.split_to(end);
            messages.push(EncodedMessage {
                header: message.slice(PREFIX_BYTES..PREFIX_BYTES + header_length),
                body: message.slice(head..head + body_length),
            });
        }
        Ok(messages)
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        self.dir.used.fetch_sub(self.reserved.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

fn head_bytes(header_length: usize) -> usize {
    padded(PREFIX_BYTES + header_length)
}

fn framed_bytes(message: &EncodedMessage) -> usize {
    head_bytes(message.header.len()) + padded(message.body.len())
}

fn u32_length(length: usize) -> Result<u32> {
    u32::try_from(length).map_err(|_| VolleyError::internal(format!("a message header of {length} bytes")))
}

fn lengths(bytes: &[u8]) -> Option<(usize, usize)> {
    let header = u32::from_le_bytes(bytes.get(0..4)?.try_into().ok()?);
    let body = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let body = usize::try_from(body).ok().filter(|body| *body <= isize::MAX as usize / 2)?;
    Some((header as usize, body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{AttemptId, QueryId, StageId, TaskId};

    fn attempt() -> TaskAttempt {
        TaskAttempt { query: QueryId(7), stage: StageId(1), task: TaskId(2), attempt: AttemptId(0) }
    }

    fn message(header: usize, body: usize) -> EncodedMessage {
        EncodedMessage { header: vec![1; header].into(), body: vec![2; body].into() }
    }

    #[test]
    fn blocks_come_back_as_written_and_damage_is_seen() {
        let parent = tempfile::tempdir().unwrap();
        let dir = WorkDir::create(parent.path(), u64::MAX).unwrap();
        let file = SpillFile::create(&dir, attempt()).unwrap();
        let blocks = [vec![message(10, 64)], vec![message(0, 0), message(200, 1_000)], vec![message(48, 128)]];
        let ranges: Vec<_> = blocks.iter().map(|block| file.append(block).unwrap()).collect();
        for (block, range) in blocks.iter().zip(&ranges) {
            assert_eq!(&file.read(range).unwrap(), block);
        }
        file.file.write_all_at(&[9], ranges[1].offset + 70).unwrap();
        let error = file.read(&ranges[1]).unwrap_err();
        assert_eq!((error.code, error.lost_output), (ErrorCode::Corrupt, Some(attempt())));
        file.file.set_len(ranges[2].offset).unwrap();
        assert_eq!(file.read(&ranges[2]).unwrap_err().code, ErrorCode::Corrupt);
        let path = file.path().to_owned();
        assert!(dir.used() > 0);
        drop(file);
        assert!(!path.exists());
        assert_eq!(dir.used(), 0);
    }

    #[test]
    fn the_limit_names_directory_and_remedy() {
        let parent = tempfile::tempdir().unwrap();
        let dir = WorkDir::create(parent.path(), 1_000).unwrap();
        let file = SpillFile::create(&dir, attempt()).unwrap();
        file.append(&[message(10, 500)]).unwrap();
        let error = file.append(&[message(10, 500)]).unwrap_err();
        assert_eq!(error.code, ErrorCode::DiskFull);
        assert!(error.message.contains(&dir.path().display().to_string()) && error.message.contains("--disk-limit"));
    }

    #[test]
    fn leftovers_of_the_dead_go_and_those_of_the_living_stay() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("volley-1-00000000");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join(OWNER_LOCK), "").unwrap();
        fs::write(dead.join("x.blocks"), "old").unwrap();
        let foreign = parent.path().join("mine");
        fs::create_dir(&foreign).unwrap();
        let living = WorkDir::create(parent.path(), u64::MAX).unwrap();
        let other = WorkDir::create(parent.path(), u64::MAX).unwrap();
        assert!(!dead.exists() && foreign.exists() && living.path().exists());
        let path = other.path().to_owned();
        drop(other);
        assert!(!path.exists() && living.path().exists());
    }
}
