//! Files that hold other files: what they are, and how to read what is in them.

/// Position of the mark of a tar archive, bytes.
const TAR_MARK: usize = 257;

/// Number of bytes in which it shows what a file is.
const MAX_HEAD: usize = 4096;

/// The first bytes of zip archives and workbooks, and of Parquet.
const FIRST: [&[u8]; 4] = [b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0", b"PAR1"];

/// Whether more bytes than these are needed to see whether a file is an archive.
pub(super) fn may_begin(content: &[u8]) -> bool {
    let is_first = |first: &&[u8]| first.starts_with(content) || content.starts_with(first);
    let is_likely = content.contains(&0) || FIRST.iter().any(is_first);
    content.len() < MAX_HEAD && !content.is_empty() && is_likely
}

/// Why content cannot be read, and how it can be, if it is an archive or a workbook. `compression`
/// is that of the file.
pub(super) fn problem(content: &[u8], path: &str, compression: Option<&str>) -> Option<String> {
    let is_tar = content.get(TAR_MARK..).is_some_and(|rest| rest.starts_with(b"ustar"));
    let has = |name: &[u8]| memchr::memmem::find(content, name).is_some();
    Some(match content {
        [b'P', b'K', 3, 4, ..] if has(b"[Content_Types].xml") || has(b"xl/") => format!(
            "it is a workbook of Excel: save the sheet as CSV UTF-8, or convert it with \
             `libreoffice --headless --convert-to csv {path}`; `tstar inspect` finds the columns"
        ),
        [b'P', b'K', 3 | 5, 4 | 6, ..] => format!(
            "it is a zip archive: unpack it, or read its only file with `unzip -p {path} | tstar \
             ingest -`"
        ),
        [0xd0, 0xcf, 0x11, 0xe0, ..] => format!(
            "it is a workbook of an older Excel: save the sheet as CSV UTF-8, or convert it with \
             `libreoffice --headless --convert-to csv {path}`"
        ),
        _ if is_tar => {
            let flags = if compression.is_some() { "-xaOf" } else { "-xOf" };
            format!(
                "it is a tar archive: unpack it, or read its only file with `tar {flags} {path} | \
                 tstar ingest -`"
            )
        }
        [b'P', b'A', b'R', b'1', rest @ ..] if rest.contains(&0) => {
            "it is Parquet, which is read from a file on disk that is \
             not compressed again: save it, and name the file"
                .to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_a_way() {
        let mut tar = vec![0; 512];
        tar[TAR_MARK..TAR_MARK + 5].copy_from_slice(b"ustar");
        for (content, compression, way) in [
            (&b"PK\x03\x04\x14\0[Content_Types].xml"[..], None, "libreoffice --headless"),
            (b"PK\x03\x04\x14\0a.csv", None, "unzip -p a.b | tstar ingest -"),
            (b"\xd0\xcf\x11\xe0\xa1", None, "libreoffice --headless"),
            (&tar, Some("gzip"), "tar -xaOf a.b | tstar"),
            (&tar, None, "tar -xOf a.b | tstar"),
            (b"PAR1\x15\0", Some("gzip"), "save it"),
        ] {
            let problem = problem(content, "a.b", compression).unwrap();
            assert!(problem.contains(way), "{problem}");
        }
        for content in [&b""[..], b"PK", b"PAR1,b\n", b"a;b\n", b"{}", &[0; 600]] {
            assert_eq!(problem(content, "a.b", None), None);
        }
        // Text is not waited for.
        for (content, expected) in [
            (&b"P"[..], true),
            (b"PK\x03\x04\x14", true),
            (b"a\0", true),
            (b"Plate;", false),
            (b"", false),
            (&[0; MAX_HEAD], false),
        ] {
            assert_eq!(may_begin(content), expected, "{content:?}");
        }
    }
}
