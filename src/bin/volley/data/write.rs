//! Writing one part: Parquet through a file that counts and checksums what passes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatchReader;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::WriterProperties;

use super::layout::ROW_GROUP_BYTES;
use super::progress::Progress;
use crate::error::CliError;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub rows: u64,
    pub bytes: u64,
    pub crc32: u32,
    pub row_groups: u64,
}

/// Writes all rows of `reader` to a new file `path`, forced to disk before it returns.
///
/// Snappy, because it is what Spark, DuckDB and pyarrow write unless told otherwise, and because decompression should
/// be a small part of what a benchmark of exchanges measures. The price is disk: zstd(1) would make the sales tables about
/// a fifth smaller, and inventory half.
///
/// # Errors
/// The disk's, as [`CliError::io`] reports them; `VOLLEY-INTERRUPTED` soon after `cancel` is set. The file is then
/// incomplete and the caller's to remove.
pub fn write_part(
    reader: Box<dyn RecordBatchReader>,
    path: &Path,
    progress: &Progress,
    cancel: &AtomicBool,
) -> Result<Written, CliError> {
    let file = File::create(path).map_err(|error| CliError::io("write", path, &error))?;
    let out = Checked { file, crc: crc32fast::Hasher::new(), bytes: 0 };
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(None)
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_created_by(concat!("datafusion-volley ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let failed = |error: ParquetError| parquet_error(path, error);

    let mut writer = ArrowWriter::try_new(out, reader.schema(), Some(properties)).map_err(failed)?;
    let mut rows = 0;
    for batch in reader {
        if cancel.load(Ordering::Relaxed) {
            return Err(CliError::interrupted("data generation was interrupted", "nothing was kept"));
        }
        let batch = batch.map_err(|error: ArrowError| parquet_error(path, error.into()))?;
        writer.write(&batch).map_err(failed)?;
        rows += batch.num_rows() as u64;
        progress.advance(batch.num_rows() as u64);
    }
    writer.flush().map_err(failed)?;
    let row_groups = writer.flushed_row_groups().len() as u64;
    let out = writer.into_inner().map_err(failed)?;
    out.file.sync_all().map_err(|error| CliError::io("write", path, &error))?;
    Ok(Written { rows, bytes: out.bytes, crc32: out.crc.finalize(), row_groups })
}

/// The checksum and size of a whole file, read in 1 MiB pieces.
pub fn checksum(path: &Path) -> io::Result<(u32, u64)> {
    let mut file = File::open(path)?;
    let mut crc = crc32fast::Hasher::new();
    let mut piece = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match io::Read::read(&mut file, &mut piece)? {
            0 => return Ok((crc.finalize(), bytes)),
            n => {
                crc.update(&piece[..n]);
                bytes += n as u64;
            }
        }
    }
}

/// A file being written. Parquet writes front to back, so the checksum can be taken on the way.
struct Checked {
    file: File,
    crc: crc32fast::Hasher,
    bytes: u64,
}

impl Write for Checked {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let n = self.file.write(data)?;
        self.crc.update(&data[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn parquet_error(path: &Path, error: ParquetError) -> CliError {
    if let ParquetError::External(source) = &error
        && let Some(io) = source.downcast_ref::<io::Error>()
    {
        return CliError::io("write", path, io);
    }
    CliError::io("write", path, &io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Scale, Suite, generators, layout};

    fn part(table: &str) -> (Scale, layout::PartPlan) {
        let scale: Scale = "0.01".parse().unwrap();
        let plan = layout::tables(Suite::TpcDs, &scale).into_iter().find(|plan| plan.name == table).unwrap();
        (scale, layout::parts(&plan)[0])
    }

    #[test]
    fn size_and_checksum_are_those_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("part.parquet");
        let (scale, part) = part("store_sales");
        let reader = generators::open(Suite::TpcDs, &scale, &part);
        let written = write_part(reader, &path, &Progress::silent(), &AtomicBool::new(false)).unwrap();
        assert_eq!(checksum(&path).unwrap(), (written.crc32, written.bytes));
        assert_eq!(written.row_groups, 1);
        assert!(written.rows > part.last - part.first);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named() {
        let (scale, part) = part("store_sales");
        let reader = generators::open(Suite::TpcDs, &scale, &part);
        let error =
            write_part(reader, Path::new("/dev/full"), &Progress::silent(), &AtomicBool::new(false)).unwrap_err();
        assert_eq!(error.code, "VOLLEY-DISK-FULL");
    }

    #[test]
    fn cancelling_stops_at_the_next_batch() {
        let dir = tempfile::tempdir().unwrap();
        let (scale, part) = part("store_sales");
        let reader = generators::open(Suite::TpcDs, &scale, &part);
        let error = write_part(reader, &dir.path().join("p"), &Progress::silent(), &AtomicBool::new(true)).unwrap_err();
        assert_eq!(error.code, "VOLLEY-INTERRUPTED");
    }
}
