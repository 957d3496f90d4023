//! Documents, tracks, sentences and recorder lines: where records begin and end.

use super::*;

/// A point with a device and a time.
fn point(device: &str, time: i64) -> String {
    format!("<trkpt lat='1' lon='2'><src>{device}</src><time>{time}</time></trkpt>")
}

fn gpx(body: &str) -> String {
    format!("<?xml version='1.0'?>\n<gpx><trk><trkseg>\n{body}</trkseg></trk></gpx>\n")
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_noticed() {
    let folder = Folder::new();
    let line = "{\"device_id\":\"a\",\"time\":1714550400000,\"lat\":1,\"lon\":2}\n";
    for cuts in [true, false] {
        let path = folder.file("log", line.repeat(1000));
        let sizes = small(64, 1 << 10);
        let mut source =
            FileSource::with_sizes(std::slice::from_ref(&path), options(None), sizes).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // The reader waits for the queue of batches.
        runtime.block_on(source.next()).unwrap().unwrap();
        if cuts {
            fs::File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
        }
        while runtime.block_on(source.next()).unwrap().is_some() {}
        let found = source.cut_files();
        assert_eq!(found.len(), usize::from(cuts), "{found:?}");
        for cut in found {
            assert_eq!(
                (cut.before, cut.name),
                (line.len() as u64 * 1000, path.display().to_string())
            );
            assert!((1..cut.before).contains(&cut.read), "{}", cut.read);
        }
    }
}

/// Options under which tracks and sentences have a device.
fn mapped(map: &str) -> Options {
    let rules = Rules { fields: crate::source::parse_map(map).unwrap(), ..Rules::default() };
    Options { decoder: Arc::new(Decoder::new(&rules).unwrap()), ..options(None) }
}

fn read_mapped(bytes: impl AsRef<[u8]>, map: &str, sizes: Sizes) -> Vec<EntrySummary> {
    let folder = Folder::new();
    let path = folder.file("f", bytes);
    let (seen, error) = drain(FileSource::with_sizes(&[path], mapped(map), sizes).unwrap());
    assert!(error.is_none(), "{error:?}");
    seen
}

fn raw(seen: &[EntrySummary]) -> Vec<&str> {
    seen.iter().map(|seen| std::str::from_utf8(&seen.raw).unwrap()).collect()
}

#[test]
fn values_of_a_document_are_records() {
    let (a, b) = (json("a", 1), json("b", 2).replace(',', ",\n  "));
    let nested = "{\"x\": [1, {\"y\": \"]}\\\"{\"}],\n \"z\": {}}";
    for chunk in [1, 2, 7, 64, 5000] {
        let text = format!("[\n{a},\n{b}\n,{nested}, \"t,]\", 12\n]\n");
        let (seen, error) = read_with(&text, None, small(chunk, 1000));
        assert!(error.is_none());
        assert_eq!(raw(&seen), [&a, &b, nested, "\"t,]\"", "12"], "chunk {chunk}");
        let lines: Vec<_> = seen.iter().map(|seen| seen.line).collect();
        assert_eq!(lines, [2, 3, 7, 8, 8]);
        let kinds = [Ok("a"), Ok("b"), Err("missing_field"), Err("bad_json"), Err("bad_json")];
        let read: Vec<_> = summarize(&seen).into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(read, kinds);
        // Several documents in one file.
        let (seen, _) = read_with(format!("{b}\n{b}{a}[{a}][]"), None, small(chunk, 1000));
        assert_eq!(raw(&seen), [&b, &b, &a, &a], "chunk {chunk}");
    }
}

#[test]
fn a_document_that_is_not_json_is_kept_in_pieces() {
    let a = json("a", 1);
    let text = format!("[\n{a} x:y {a}}} ]\n] {{\"k\": \n]");
    let (seen, _) = read_with(&text, Some(InputFormat::Json), small(3, 1000));
    assert_eq!(raw(&seen), [&a, "x:y", &a, "}", "]", "{\"k\": \n]"]);
    for (text, rest) in [("[\n{\"a\": \"}", "{\"a\": \"}"), ("[\n{},\n", ""), ("[\n", "")] {
        let (seen, error) = read_with(text, None, SIZES);
        assert!(error.is_none());
        let last = seen.last().unwrap();
        assert_eq!(last.reason(), Some(DeadReason::TruncatedInput), "{text}");
        assert_eq!(last.raw, rest.as_bytes());
    }
}

#[test]
fn a_document_may_be_larger_than_a_line() {
    let fill = |bytes: usize| format!("{{\n\"x\":\"{}\",{}", "y".repeat(bytes), &json("a", 1)[1..]);
    for chunk in [7, 1000] {
        // Sizes: a line of 100 bytes, a document of 65,536.
        let (fits, large) = (fill(60_000), fill(70_000));
        let text = format!("{fits}\n{large}\n{}", json("b", 2));
        let (seen, _) = read_with(&text, None, small(chunk, 100));
        assert_eq!(summarize(&seen), [(1, Ok("a")), (3, Err("oversize")), (5, Ok("b"))]);
        assert_eq!(seen[0].raw, fits.as_bytes());
        let cut = Cut { bytes: large.len() as u64, sha256: Sha256::digest(&large).into() };
        assert_eq!(seen[1].content.as_ref().unwrap_err().cut, Some(cut));
        // A bad one is cut as well: dead letters are at most as large as a line.
        let bad = format!("{{\n\"x\":\"{}\"}}", "y".repeat(1000));
        let (seen, _) = read_with(&bad, None, small(chunk, 100));
        assert_eq!(summarize(&seen), [(1, Err("missing_field"))]);
        assert_eq!(seen[0].raw, &bad.as_bytes()[..8]);
        let cut = Cut { bytes: bad.len() as u64, sha256: Sha256::digest(&bad).into() };
        assert_eq!(seen[0].content.as_ref().unwrap_err().cut, Some(cut));
    }
    // On one line, too: it would be too large for NDJSON.
    let flat = format!("{{\"x\":\"{}\",{}", "y".repeat(2000), &json("a", 1)[1..]);
    let (seen, _) = read_with(&flat, None, small(1000, 100));
    assert_eq!(summarize(&seen), [(1, Ok("a"))]);
}

#[test]
fn formats_are_detected() {
    let line = json("a", 1);
    let rmc = "$GPRMC,225446,A,4916.45,N,12311.12,W,000.5,054.7,191194,020.3,E*68";
    for (text, count, why) in [
        (format!("{line}\n{line}\n"), 2, "NDJSON"),
        (line.clone(), 1, "one line"),
        (format!("\n\n{line}\n"), 1, "blank lines before"),
        (format!("{{\n{}", &line[1..]), 1, "a document"),
        (format!("[{line},\n{line}]"), 2, "an array"),
        (format!("\"a\":1}}\n{line}\n"), 0, "a cell"),
        (format!("{{\"device\":\"a\",\"ti\n{line}\n{line}"), 3, "a line cut in a text"),
        (format!("{{\"device\":\"a\",\n{line}\n{line}"), 3, "a line cut after a comma"),
        (format!("{{\"device\":\n{line}\n{line}"), 3, "a line cut before a value"),
        (gpx(&point("a", 1)), 1, "GPX"),
        (format!("{rmc}\r\n{rmc}\r\n"), 2, "NMEA"),
        (format!("2026-11-20T07:00:00Z\t*\t{line}\n"), 1, "recorder"),
        ("17,lat,lon,ts,device\n1,2,3,4,a\n".into(), 1, "a table whose first name is a number"),
    ] {
        for chunk in [1, 1000] {
            let (seen, _) = read_with(&text, None, small(chunk, 1000));
            assert_eq!(seen.len(), count, "{why}: {:?}", raw(&seen));
        }
    }
}

#[test]
fn points_of_a_track_are_records() {
    let (a, b) = (point("a", 1), point("b", 2));
    let empty = "<trkpt lat=\"1>\" lon='2' />";
    let prefixed = b.replace("<", "<g:").replace("<g:/", "</g:");
    let body = format!(
        "<!-- {a} -- > --><![CDATA[{a}]]]]><?x {a}?><wpt><src>w</src></wpt>{a}\n{empty}<trkptx/>\
         <trkpt lat='1' lon='2'><src>open</src>{prefixed}</trkpt>\n"
    );
    let bombs = "<!DOCTYPE gpx [<!-- don't <x> --><!ENTITY lol \"<trkpt>]>\"> <!ENTITY lol2 \
                 '&lol;&lol;&lol;'>]>";
    let text = gpx(&body).replacen("<gpx>", &format!("{bombs}<gpx a='>'>"), 1);
    for chunk in [1, 2, 5, 9, 50, 5000] {
        let seen = read_mapped(&text, "device_id=src", small(chunk, 1000));
        let open = "<trkpt lat='1' lon='2'><src>open</src>";
        assert_eq!(raw(&seen), [&a, empty, open, &prefixed], "chunk {chunk}");
        let read = summarize(&seen);
        let expected =
            [(3, Ok("a")), (4, Err("missing_field")), (4, Err("bad_record")), (4, Ok("b"))];
        assert_eq!(read, expected);
    }
}

#[test]
fn a_track_that_ends_too_early_keeps_the_points_before() {
    let (a, b) = (point("a", 1), point("b", 2));
    let text = gpx(&format!("{a}{b}"));
    let at = text.find(&b).unwrap();
    for (length, rest) in [(at, ""), (at + 20, &b[..20]), (at + b.len() + 3, "</t")] {
        let seen = read_mapped(&text[..length], "device_id=src", SIZES);
        let last = seen.last().unwrap();
        assert_eq!(seen[0].raw, a.as_bytes());
        assert_eq!(last.reason(), Some(DeadReason::TruncatedInput));
        assert_eq!(last.raw, rest.as_bytes(), "{length}");
    }
    let many: String =
        (0..5000).map(|time| point(&(time * 7919 % 1000).to_string(), time)).collect();
    let packed = gzip(gpx(&many));
    let seen = read_mapped(&packed[..packed.len() / 2], "device_id=src", SIZES);
    let (last, before) = seen.split_last().unwrap();
    assert_eq!(last.reason(), Some(DeadReason::TruncatedInput));
    assert!(before.len() > 1000 && before.iter().all(|seen| seen.content.is_ok()));
}

#[test]
fn xml_that_is_not_gpx_is_rejected() {
    for text in ["<kml><Point/></kml>", "<?xml version='1.0'?><!-- gpx --><a:TrainingCenter/>"] {
        let (seen, error) = read_with(text, None, SIZES);
        assert!(seen.is_empty());
        assert!(error.unwrap().to_string().contains("it is XML, but not GPX"));
    }
}

#[test]
fn sentences_and_recorder_lines_are_records() {
    let rmc = "$GPRMC,225446,A,4916.45,N,12311.12,W,000.5,054.7,191194,020.3,E*68";
    let text = format!("{rmc}\r\n$GPGSV,1*00\r\n\r\n{rmc}\r\n");
    let seen = read_mapped(&text, "device_id=time", SIZES);
    let (good, bad) = (Ok("1994-11-19T22:54:46Z"), Err("bad_record"));
    assert_eq!(summarize(&seen), [(1, good), (2, bad), (4, good)]);
    assert_eq!(seen[0].raw, rmc.as_bytes());
    let text = format!(
        "2026-11-20T07:00:00Z\t*                 \t{}\n2026-11-20T07:00:00Z\tlwt\t{{}}\n",
        json("a", 1)
    );
    let seen = read(text);
    assert_eq!(summarize(&seen), [(1, Ok("a")), (2, Err("missing_field"))]);
    assert_eq!(seen[0].raw, json("a", 1).as_bytes());
}

/// Reads a file whose content grows, and then a second time whole: its first parts are known.
fn check_resumed(contents: &[&str], map: &str, sizes: Sizes) -> Vec<EntrySummary> {
    check_resumed_as(None, contents, map, sizes)
}

fn check_resumed_as(
    format: Option<InputFormat>,
    contents: &[&str],
    map: &str,
    sizes: Sizes,
) -> Vec<EntrySummary> {
    let base = || Options { format, ..if map.is_empty() { options(None) } else { mapped(map) } };
    let folder = Folder::new();
    let (mut all, mut known, mut next) = (Vec::new(), Vec::new(), Offset(10));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (run, content) in contents.iter().enumerate() {
        let path = folder.file("f", content);
        let options = Options { known: known.clone(), first_offset: next, ..base() };
        let mut source = FileSource::with_sizes(&[path], options, sizes).unwrap();
        while let Some(batch) = runtime.block_on(source.next()).unwrap() {
            for entry in &batch.entries {
                let raw = batch.raw(entry).to_vec();
                all.push((run, entry.offset, entry.again, raw));
                next = next.max(entry.offset + 1);
            }
            if let Some(part) = batch.part {
                let key = part.key();
                known.retain(|known: &StoredPart| known.part.key() != key);
                known.push(StoredPart { part, import_finished: true });
            }
        }
    }
    let whole = contents.last().unwrap();
    let last = contents.len() - 1;
    let again: Vec<_> = all.iter().filter(|(run, ..)| *run == last).collect();
    assert!(
        again.iter().all(|(_, _, again, _)| *again),
        "the last run reads nothing new: {again:?}"
    );
    let folder = Folder::new();
    let path = [folder.file("f", whole)];
    let scratch = drain(FileSource::with_sizes(&path, base(), sizes).unwrap()).0;
    let first: Vec<_> = all.into_iter().filter(|(_, _, again, _)| !again).collect();
    let formats: Vec<_> = known.iter().map(|known| known.part.format).collect();
    if formats.windows(2).all(|pair| pair[0] == pair[1]) {
        let is_read = |entry: &EntrySummary| first.iter().any(|(.., raw)| *raw == entry.raw);
        assert!(scratch.iter().all(is_read), "{first:?}");
        // What was read can be read again, unless the file grew within a record.
        let options = Options { known, first_offset: next, redelivers: true, ..base() };
        let mut source = FileSource::with_sizes(&path, options, sizes).unwrap();
        let (mut again, mut outgrown) = (Vec::new(), false);
        while let Some(batch) = runtime.block_on(source.next()).unwrap() {
            outgrown |= batch.outgrown;
            let entries = batch.entries.iter();
            again.extend(entries.map(|it| (it.offset, it.again, batch.raw(it).to_vec())));
        }
        assert!(again.iter().all(|(_, again, _)| *again), "{again:?}");
        let first = first.into_iter().map(|(_, offset, _, raw)| (offset, true, raw));
        let first: Vec<_> = first.collect();
        assert_eq!(outgrown, first != again, "{contents:?}: {first:?}, {again:?}");
    }
    scratch
}

#[test]
fn a_document_that_grew_is_resumed() {
    let (a, b) = (json("a", 1), json("b", 2));
    let whole = format!("[\n{a} ,\n\n {b}\n]\n");
    for chunk in [1, 10, 1000] {
        for cut in 1..whole.len() {
            let seen = check_resumed(&[&whole[..cut], &whole, &whole], "", small(chunk, 1000));
            assert_eq!(raw(&seen), [&a, &b]);
            check_resumed(&[&whole[..cut]; 2], "", small(chunk, 1000));
        }
    }
    let track = gpx(&format!("{} <!-- x -->\n{}", point("a", 1), point("b", 2)));
    let start = track.find("<gpx>").unwrap() + 5;
    for cut in start..track.len() {
        let contents = [&track[..cut], &track, &track];
        let seen = check_resumed(&contents, "device_id=src", small(1000, 1000));
        assert_eq!(seen.len(), 2);
    }
}

#[test]
fn a_last_line_that_grew_is_read_again() {
    let (a, b, c) = (json("a", 1), json("b", 2), json("c", 3));
    let whole = format!("{a}\n\n{b}\r\n{c}\n");
    for chunk in [1, 10, 1000] {
        for cut in 1..whole.len() {
            let later = cut + (whole.len() - cut) / 2;
            let contents = [&whole[..cut], &whole[..later], &whole, &whole];
            let seen = check_resumed(&contents, "", small(chunk, 1000));
            assert_eq!(raw(&seen), [&a, &b, &c]);
        }
    }
    let table = "device_id,time,lat,lon\na,1,1,2\nb,2,\"1\",2\n\"c\n\",3,1,2\n";
    let header = table.find('\n').unwrap();
    for cut in header..table.len() {
        let seen = check_resumed(&[&table[..cut], table, table], "", small(10, 1000));
        assert_eq!(seen.len(), 3, "{cut}");
    }
    let rmc = "$GPRMC,225446,A,4916.45,N,12311.12,W,000.5,054.7,191194,020.3,E*68\r\n";
    let twice = rmc.repeat(2);
    for cut in rmc.len()..twice.len() {
        let seen = check_resumed(&[&twice[..cut], &twice, &twice], "", small(10, 1000));
        assert_eq!(seen.len(), 2);
    }
}

#[test]
fn a_last_line_that_was_complete_is_not_read_again() {
    let lines: Vec<String> = (0..4).map(|time| json("a", time)).collect();
    let upto = |line: usize| lines[..line].join("\n");
    let whole = upto(4) + "\n";
    // The only line; blank lines alone; lines with and without a line end.
    let contents = [upto(1), upto(1) + "\r\n\n", upto(2), upto(3) + "\n", whole.clone(), whole];
    let contents: Vec<&[u8]> = contents.iter().map(String::as_bytes).collect();
    let seen = offsets_of(&contents);
    let expected = [
        vec![10],
        vec![10],
        vec![10, 11],
        // No whole line is known before these, after which reading could resume.
        vec![10, 11, 12],
        vec![13],
        vec![10, 11, 12, 13],
    ];
    assert_eq!(seen, expected);
}

/// The offsets of each reading of a file whose bytes change.
fn offsets_of(readings: &[&[u8]]) -> Vec<Vec<i64>> {
    let folder = Folder::new();
    let (mut known, mut next) = (Vec::<StoredPart>::new(), Offset(10));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let offsets = readings.iter().map(|bytes| {
        let path = folder.file("f", bytes);
        let options = Options { known: known.clone(), first_offset: next, ..options(None) };
        let mut source = FileSource::open(&[path], options).unwrap();
        let mut seen = Vec::new();
        while let Some(batch) = runtime.block_on(source.next()).unwrap() {
            seen.extend(batch.entries.iter().map(|entry| entry.offset.get()));
            if let Some(part) = batch.part {
                known.retain(|known| known.part.key() != part.key());
                known.push(StoredPart { part, import_finished: true });
            }
        }
        next = next.max(Offset(seen.iter().max().map_or(0, |last| last + 1)));
        seen
    });
    offsets.collect()
}

#[test]
fn what_damaged_data_ended_is_not_redelivered_from_whole_data() {
    let rows: String = (1..200).map(|nth| json("a", nth * 7919 % 1000) + "\n").collect();
    let (plain, whole) = (rows.as_bytes(), gzip(&rows));
    let damaged = &whole[..whole.len() * 3 / 4];
    let seen = offsets_of(&[damaged, damaged, plain, plain, &whole]);
    assert_eq!(seen[0], seen[1], "the same damage");
    let letter = *seen[0].last().unwrap();
    assert_eq!(seen[2].first(), Some(&(letter + 1)), "resumed after the whole lines");
    let sound: Vec<i64> = (10..10 + 200).filter(|offset| *offset != letter).collect();
    assert_eq!((&seen[3], &seen[4]), (&sound, &sound));
    // Compressed data that grew is sound.
    let (first, second) = (gzip(rows.trim_end()), gzip("\n"));
    let grown = [&first[..], &second].concat();
    let seen = offsets_of(&[&first, &grown, &grown]);
    assert_eq!((seen[0].len(), &seen[1], &seen[2]), (199, &vec![10 + 198], &seen[1]));
}

/// So short that its format is known only at its end.
#[test]
fn a_line_that_ends_a_tiny_file_is_whole() {
    let contents = ["x\n", "x\nx", "x\nx"];
    check_resumed_as(Some(InputFormat::Ndjson), &contents, "", small(1, 1000));
}

#[test]
fn what_another_file_has_in_common_is_not_redelivered() {
    let (a, b) = (json("a", 1), json("b", 2));
    let longer = format!("{a}\n{b}\n");
    let seen = offsets_of(&[longer.as_bytes(), a.as_bytes(), longer.as_bytes(), a.as_bytes()]);
    assert_eq!(seen, [vec![10, 11], vec![12], vec![10, 11], vec![12]]);
}

#[test]
fn the_beginning_of_a_blank_line_is_in_no_part() {
    let a = json("a", 1);
    let contents = [format!("{a}\n"), format!("{a}\n  "), format!("{a}\n  {a}\n")];
    let contents: Vec<&[u8]> = contents.iter().map(String::as_bytes).collect();
    let seen = offsets_of(&[contents[0], contents[1], contents[1], contents[2], contents[2]]);
    assert_eq!(seen, [vec![10], vec![], vec![], vec![11], vec![10, 11]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn each_growth_of_a_file_is_read(
        pieces in prop::collection::vec(0usize..10, 1..40),
        cuts in prop::collection::vec(0.0..1.0f64, 1..5),
        chunk in 1usize..50,
        is_table: bool,
    ) {
        let json = json("a", 1);
        let kinds = ["\n", "\n", "\r\n", "\"", "a,1,1,2", &json, ",", " ", "x", "\n\n"];
        let text: String = pieces.iter().map(|at| kinds[*at]).collect();
        let head = if is_table { "device_id,time,lat,lon\n" } else { "" };
        let whole = format!("{head}{text}");
        let mut ends: Vec<usize> = cuts
            .iter()
            .map(|cut| head.len() + (text.len() as f64 * cut) as usize)
            .chain([whole.len(); 2])
            .collect();
        ends.sort_unstable();
        let contents: Vec<&str> = ends.iter().map(|end| &whole[..*end]).collect();
        let format = if is_table { InputFormat::Csv } else { InputFormat::Ndjson };
        check_resumed_as(Some(format), &contents, "", small(chunk, 10_000));
    }

    #[test]
    fn sizes_of_reads_do_not_matter_for_documents(
        pieces in prop::collection::vec(0usize..12, 0..60), chunk in 1usize..20, is_gpx: bool,
    ) {
        let (json, xml) = (json("a", 1), point("a", 1));
        let json: [&str; 12] =
            ["{", "}", "[", "]", "\"", "\\", ",", " ", "\n", "x", &json, "\u{e9}"];
        let xml: [&str; 12] = [
            "<trkpt ", "</trkpt>", "<!--", "-->", "\"", "<![CDATA[", "]]>", ">", "/>",
            "<!DOCTYPE x [", &xml, "<",
        ];
        let kinds = if is_gpx { xml } else { json };
        let pieces: String = pieces.iter().map(|at| kinds[*at]).collect();
        let bytes = if is_gpx { gpx(&pieces) } else { pieces };
        let format = if is_gpx { InputFormat::Gpx } else { InputFormat::Json };
        let (small_reads, _) = read_with(&bytes, Some(format), small(chunk, 60));
        let (large_reads, _) = read_with(&bytes, Some(format), small(10_000, 60));
        let summary = |seen: &[EntrySummary]| -> Vec<_> {
            seen.iter().map(|seen| (seen.line, seen.raw.clone(), seen.reason())).collect()
        };
        prop_assert_eq!(summary(&small_reads), summary(&large_reads));
        if !is_gpx {
            // Every byte but what separates values is in a record, in order.
            let separators = |bytes: &[u8]| -> Vec<u8> {
                bytes.iter().copied().filter(|byte| !b" \n,[]".contains(byte)).collect()
            };
            let kept: Vec<u8> = small_reads.iter().flat_map(|seen| seen.raw.clone()).collect();
            let is_cut = |seen: &EntrySummary| {
                seen.content.as_ref().is_err_and(|error| error.cut.is_some())
            };
            if !small_reads.iter().any(is_cut) {
                prop_assert_eq!(separators(&kept), separators(bytes.as_bytes()));
            }
        }
    }
}
