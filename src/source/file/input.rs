//! Opens inputs: detects the compression and counts the bytes read.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use flate2::bufread::MultiGzDecoder;

use super::CutFile;
use super::encoding::Conversion;
use crate::source::{RepeatedHours, SourceError, parquet};

/// An input, as named on the command line.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// Path of the file; `None` for stdin.
    path: Option<PathBuf>,
    conversion: Conversion,
    /// Set if its text turns out not to be UTF-8, and nothing says what it is.
    guessed: Arc<AtomicBool>,
    /// The content to read instead, decompressed, and whether it is of a Parquet file.
    content: Option<(Arc<[u8]>, bool)>,
    /// Set at its end if it was cut while it was read.
    cut: Arc<OnceLock<CutFile>>,
    /// What was read of hours that occur twice, where the order decides their times.
    hours: Arc<RepeatedHours>,
}

impl Input {
    /// Checks an input without reading from it: the bytes of a FIFO can be read only once.
    pub(super) fn new(path: &Path, conversion: Conversion) -> Result<Self, SourceError> {
        let (guessed, cut, hours) = (Arc::default(), Arc::default(), Arc::default());
        let stdin = Self { path: None, conversion, guessed, content: None, cut, hours };
        if path.as_os_str() == "-" {
            return Ok(stdin);
        }
        let input = Self { path: Some(path.to_owned()), ..stdin };
        let meta =
            std::fs::metadata(path).map_err(|error| input.read_error(of_url(path, error)))?;
        if meta.is_dir() {
            return Err(input.form_error("it is a directory; name the files in it".into()));
        }
        if meta.is_file() {
            File::open(path).map_err(|error| input.read_error(error))?;
        }
        Ok(input)
    }

    /// The input with content that was read before, decompressed.
    pub(super) fn with_content(
        self,
        content: Arc<[u8]>,
        is_parquet: bool,
        conversion: Conversion,
    ) -> Self {
        Self { content: Some((content, is_parquet)), conversion, ..self }
    }

    /// Whether its text, as far as it was read, is not UTF-8, and nothing says what it is.
    pub(super) fn is_guessed(&self) -> bool {
        self.guessed.load(Ordering::Relaxed)
    }

    /// Whether it is stdin.
    pub(super) fn is_stdin(&self) -> bool {
        self.path.is_none()
    }

    /// The path, or `-`.
    pub(super) fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "-".into(), |path| path.display().to_string())
    }

    /// Length on disk; `None` for an input without a length, such as stdin or a FIFO.
    pub(super) fn bytes(&self) -> Option<u64> {
        if let Some((content, _)) = &self.content {
            return Some(content.len() as u64);
        }
        let meta = std::fs::metadata(self.path.as_ref()?).ok()?;
        meta.is_file().then_some(meta.len())
    }

    /// Compares the number of bytes up to its end with its length when it was opened. A compressed
    /// file may end before its length, but not be shorter than it was.
    pub(super) fn check_end(&self, before: u64, read: u64) {
        if read < before && self.bytes().is_some_and(|now| now < before) {
            let cut = CutFile { name: self.name(), before, read };
            self.cut.set(cut).expect("an input is read once");
        }
    }

    /// How the input was cut, if it was.
    pub(super) fn cut(&self) -> Option<CutFile> {
        self.cut.get().cloned()
    }

    /// What was read of hours that occur twice.
    pub(super) fn hours(&self) -> &RepeatedHours {
        &self.hours
    }

    /// Time of the last modification, if the system provides it.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        std::fs::metadata(self.path.as_ref()?).ok()?.modified().ok()
    }

    pub(super) fn read_error(&self, source: io::Error) -> SourceError {
        SourceError::Read { origin: self.name(), source }
    }

    /// The error of an input that cannot be opened.
    pub(super) fn open_error(&self, error: io::Error) -> SourceError {
        match error.kind() {
            io::ErrorKind::InvalidData => self.form_error(error.to_string()),
            _ => self.read_error(error),
        }
    }

    pub(super) fn form_error(&self, problem: String) -> SourceError {
        SourceError::Form { origin: self.name(), problem }
    }

    /// Opens the input and detects its compression and its encoding. Positions and hashes of the
    /// content are those of the decompressed text after its conversion.
    pub(super) fn open(&self) -> io::Result<Opened> {
        let opened = match (&self.content, &self.path) {
            (Some((content, is_parquet)), _) => Opened {
                is_parquet: *is_parquet,
                ..Opened::plain(Box::new(Cursor::new(Arc::clone(content))))
            },
            (None, None) => Opened::new(Box::new(io::stdin()))?,
            (None, Some(path)) => {
                let mut file = File::open(path)?;
                if file.metadata()?.is_file() && starts_with(&mut file, parquet::MAGIC)? {
                    return Opened::parquet(file);
                }
                Opened::new(Box::new(file))?
            }
        };
        let bytes = self.conversion.reader(opened.bytes, &self.guessed);
        Ok(Opened { bytes, ..opened })
    }
}

/// Progress of reading the bytes on disk.
#[derive(Debug, Default)]
pub(super) struct Progress {
    bytes: AtomicU64,
    failed: AtomicBool,
}

impl Progress {
    /// Number of bytes read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether reading itself failed. If not, an error is one of the compressed data.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Progress {
    /// Counts what was read.
    fn count(&self, read: &io::Result<usize>) {
        match read {
            Ok(count) => {
                self.bytes.fetch_add(*count as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
    }
}

struct Counted {
    raw: Box<dyn Read + Send>,
    progress: Arc<Progress>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.raw.read(buffer);
        self.progress.count(&read);
        read
    }
}

/// An open input, decompressed.
pub(super) struct Opened {
    pub(super) bytes: Box<dyn Read + Send>,
    pub(super) progress: Arc<Progress>,
    /// Name of the compression, if there is one.
    pub(super) compression: Option<&'static str>,
    /// Whether it is a Parquet file, whose rows are lines of JSON.
    pub(super) is_parquet: bool,
}

/// Size of a decompressor's input buffer, bytes.
const BUFFER_BYTES: usize = 64 << 10;

impl Opened {
    fn new(raw: Box<dyn Read + Send>) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let mut counted = Counted { raw, progress: Arc::clone(&progress) };
        let mut magic = Vec::with_capacity(4);
        Read::by_ref(&mut counted).take(4).read_to_end(&mut magic)?;
        let (gzip, zstd) = (magic.starts_with(&[0x1f, 0x8b]), is_zstd(&magic));
        let whole = Cursor::new(magic).chain(counted);
        let (bytes, compression): (Box<dyn Read + Send>, _) = if gzip {
            let buffered = BufReader::with_capacity(BUFFER_BYTES, whole);
            (Box::new(MultiGzDecoder::new(buffered)), Some("gzip"))
        } else if zstd {
            (Box::new(zstd::stream::read::Decoder::new(whole)?), Some("zstd"))
        } else {
            (Box::new(whole), None)
        };
        Ok(Self { bytes, progress, compression, is_parquet: false })
    }

    /// Content that is not compressed.
    fn plain(raw: Box<dyn Read + Send>) -> Self {
        let progress = Arc::new(Progress::default());
        let bytes = Box::new(Counted { raw, progress: Arc::clone(&progress) });
        Self { bytes, progress, compression: None, is_parquet: false }
    }

    /// The rows of a Parquet file.
    fn parquet(file: File) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let counted = Arc::clone(&progress);
        let rows = parquet::Rows::open(file, Box::new(move |read| counted.count(&read)))?;
        Ok(Self { bytes: Box::new(rows), progress, compression: None, is_parquet: true })
    }
}

/// Whether a file starts with these bytes. It is then read from its start.
fn starts_with(file: &mut File, magic: &[u8]) -> io::Result<bool> {
    let mut first = Vec::new();
    Read::by_ref(file).take(magic.len() as u64).read_to_end(&mut first)?;
    file.rewind()?;
    Ok(first == magic)
}

/// Whether the bytes begin a zstd frame, or a skippable frame, which some tools write first.
fn is_zstd(magic: &[u8]) -> bool {
    matches!(magic, [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}
/// Replaces the error of a URL that is taken for a path.
fn of_url(path: &Path, error: io::Error) -> io::Error {
    let path = path.to_string_lossy();
    if !path.contains("://") {
        return error;
    }
    let problem = format!(
        "URLs are not read, only files and stdin: fetch it first, such as by curl -fsSL '{path}' | \
         tstar ingest -"
    );
    io::Error::new(error.kind(), problem)
}
