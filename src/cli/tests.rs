use super::*;
use crate::model::scalar::Version;
use crate::settings::Settings;
use crate::store::memory::MemoryStore;
use crate::store::{Forget, TripRow, TripStore};
use crate::timeline::{Limits, RawSample, Sample, Timeline};

/// 2026-11-20T21:38:00.123Z
const T: i64 = 1_795_210_680_123;
const MINUTE: i64 = 60_000;

/// Rows of a device whose samples have these device times, minutes after [`T`], in arrival order.
fn rows(device: &str, minutes: &[i64]) -> Vec<TripRow> {
    let mut timeline = Timeline::default();
    for (minute, version) in minutes.iter().zip((0..).step_by(2)) {
        let raw =
            RawSample { time_ms: T + minute * MINUTE, lat: 1.0, lon: 2.0, ..RawSample::default() };
        let sample = Sample::quantised(&raw).unwrap();
        timeline.absorb(&Limits::default(), Version(version), sample, None);
    }
    timeline.trips().map(|trip| TripRow::from_trip(device, trip)).collect()
}

/// `truck-17`: the worked example of `design.md`, a trip across midnight, and one of the next day.
/// `a~b`: one trip between them. `z`: one trip on the day before. `y`: erased.
fn store() -> MemoryStore {
    let store = MemoryStore::default();
    let all = [
        rows("truck-17", &[10, 12, 0, 2, 6, 140, 144, 600]),
        rows("a~b", &[5]),
        rows("z", &[-1440]),
    ];
    block_on(store.apply(&all.concat())).unwrap();
    let forget = |before_ms, version| Forget { before_ms, version };
    block_on(store.forget("y", &forget(T, Version(100)))).unwrap();
    block_on(store.forget("y", &forget(T - MINUTE, Version(102)))).unwrap();
    store
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What a command line prints, or its exit code and message.
fn output_of(line: &str) -> Result<String, (u8, String)> {
    let mut out = Vec::new();
    let cli =
        Cli::try_parse_from(line.split(' ')).map_err(|error| (exit::USAGE, error.to_string()))?;
    let mut printer = Printer::into(&mut out);
    let (store, settings, now_ms) = (store(), Settings::default(), T + 70 * MINUTE);
    let done = block_on(async {
        match &cli.command {
            Command::Lookup(args) => {
                lookup::lookup(&store, args, &settings, now_ms, &mut printer).await
            }
            Command::Trip(args) => {
                lookup::trip(&store, args, &settings, now_ms, &mut printer).await
            }
            Command::Trips(args) => trips::run(&store, args, &mut printer).await,
            Command::Devices(args) => devices::run(&store, args, &mut printer).await,
            Command::Export(args) => export::run(&store, args, &mut printer).await,
            _ => dispatch(cli.command, &Context::new(cli.global, vec![]), &mut printer).await,
        }
    });
    drop(printer);
    let text = String::from_utf8(out).unwrap();
    match done {
        Ok(()) => Ok(text),
        Err(error) => {
            assert_eq!(text, "", "an error leaves stdout empty");
            Err((exit::code(&error), format!("{error:#}")))
        }
    }
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(&output_of(line).unwrap()).unwrap()
}

/// Ids of trips printed as NDJSON.
fn ids(line: &str) -> Vec<String> {
    let id = |line: &str| {
        let trip: serde_json::Value = serde_json::from_str(line).unwrap();
        trip["id"].as_str().unwrap().to_owned()
    };
    output_of(line).unwrap().lines().map(id).collect()
}

const MERGED: &str = "truck-17~20261120T213800.123Z";
const NIGHT: &str = "truck-17~20261120T235800.123Z";
const NEXT: &str = "truck-17~20261121T073800.123Z";

#[test]
fn every_help_has_examples_that_parse() {
    Cli::command().debug_assert();
    let mut commands = vec![Cli::command()];
    let mut examples_run = 0;
    while let Some(mut command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let help = command.render_long_help().to_string();
        let (_, examples) = help.split_once("\nExamples:\n").expect(&help);
        for line in examples.lines().filter_map(|line| line.strip_prefix("  ")) {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
            examples_run += 1;
        }
    }
    assert!(examples_run >= 30, "{examples_run} examples");
}

#[test]
fn lookup_finds_the_trip_that_covers_a_time() {
    let trip = json("tstar lookup truck-17 2026-11-20T21:40:00Z --json");
    assert_eq!(trip["id"], MERGED);
    assert_eq!(trip["absorbed"], serde_json::json!(["truck-17~20261120T214800.123Z"]));
    assert_eq!(trip["open"], true, "70 minutes are less than 12 + 5 + 60");
    assert_eq!(json("tstar lookup z 2026-11-19T22:38:00.123+01:00")["open"], false);
    let path = json("tstar lookup truck-17 1795210680123 --path --json");
    assert_eq!(path["path"]["times"].as_array().unwrap().len(), 5);
    let (code, reason) = output_of("tstar lookup truck-17 2026-11-20T22:00:00Z").unwrap_err();
    assert_eq!(code, exit::NO_RESULT);
    assert_eq!(reason, "no trip of device `truck-17` covers 2026-11-20T22:00:00.000Z");
    assert_eq!(output_of("tstar lookup truck-17 yesterday").unwrap_err().0, exit::USAGE);
    assert_eq!(
        output_of("tstar lookup truck-17 0 --path --format csv").unwrap_err().0,
        exit::USAGE
    );
}

#[test]
fn trip_accepts_any_form_of_an_id_and_reports_the_match() {
    for (id, requested, matched, merged) in [
        (MERGED, T, "current", false),
        ("truck-17~20261120T214800.123Z", T + 10 * MINUTE, "retired", true),
        ("truck-17~20261120T213900.123Z", T + MINUTE, "covers", false),
    ] {
        let time = crate::model::time::format_time(requested);
        for form in ["text", "bytes", "uuid"] {
            let encoded =
                output_of(&format!("tstar id encode truck-17 {time} --form {form}")).unwrap();
            let encoded = encoded.trim_end();
            assert!(form != "text" || encoded == id);
            let trip = json(&format!("tstar trip {encoded} --json"));
            assert_eq!((&trip["id"], &trip["requested_id"]), (&MERGED.into(), &encoded.into()));
            assert_eq!((&trip["match"], &trip["merged"]), (&matched.into(), &merged.into()));
        }
    }
    let none = output_of("tstar trip truck-18~20261120T213800.123Z").unwrap_err();
    assert_eq!(none.0, exit::NO_RESULT);
    let none = output_of("tstar trip 01a1fae5-173b-8152-8ed4-88d4aacc8dde").unwrap_err();
    assert_eq!(none.0, exit::NO_RESULT, "an unknown UUID: {}", none.1);
    assert_eq!(output_of("tstar trip truck-17").unwrap_err().0, exit::USAGE);
}

#[test]
fn erased_trips_are_reported_as_gone() {
    let gone = "gone: the trips of y before 2026-11-20T21:38:00.123Z were erased (tstar forget)";
    for line in ["lookup y 2026-11-20T21:38:00.122Z", "trip y~20261119T213800.123Z"] {
        let error = output_of(&format!("tstar {line}")).unwrap_err();
        assert_eq!(error, (exit::NO_RESULT, gone.to_owned()), "{line}");
    }
    let uuid = output_of("tstar id encode y 2026-11-19T21:38:00.123Z --form uuid").unwrap();
    for line in ["lookup y 2026-11-20T21:38:00.123Z", &format!("trip {}", uuid.trim_end())] {
        let (code, reason) = output_of(&format!("tstar {line}")).unwrap_err();
        assert_eq!(code, exit::NO_RESULT);
        assert!(reason.starts_with("no trip"), "a UUID contains no device id: {reason}");
    }
}

#[test]
fn forget_requires_one_device_or_all() {
    for line in [
        "tstar forget",
        "tstar forget y --all-before 0",
        "tstar forget --all-before 0 --before 0",
        "tstar forget y --before yesterday",
        "tstar forget y --wait-timeout 5",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.db");
        let error = output_of(&format!("{line} --store sqlite:{}", path.display())).unwrap_err();
        assert_eq!(error.0, exit::USAGE, "{line}: {}", error.1);
        assert!(!path.exists());
    }
}

#[test]
fn trips_of_a_device_are_selected_by_overlap_or_by_prefix() {
    assert_eq!(ids("tstar trips truck-17"), [MERGED, NIGHT, NEXT]);
    assert_eq!(ids("tstar trips truck-17 --order desc --limit 1"), [NEXT]);
    let late = "tstar trips truck-17 --from 2026-11-21T00:00:00Z --to 2026-11-21T01:00:00Z";
    assert_eq!(ids(late), [NIGHT], "it began the day before");
    assert_eq!(ids("tstar trips truck-17 --prefix 20261121"), [NEXT], "by t_star alone");
    assert_eq!(ids("tstar trips truck-17 --prefix truck-17~2026 --limit 2"), [MERGED, NIGHT]);
    assert_eq!(ids("tstar trips truck-99"), [""; 0]);
    for line in [
        "tstar trips",
        "tstar trips truck-17 --day 2026-11-20",
        "tstar trips truck-17 --prefix truck-1~2026",
        "tstar trips truck-17 --prefix 2026113",
        "tstar trips truck-17 --from 2 --to 1",
    ] {
        assert_eq!(output_of(line).unwrap_err().0, exit::USAGE, "{line}");
    }
}

#[test]
fn trips_of_a_day_show_each_trip_once_by_start() {
    assert_eq!(ids("tstar trips --day 2026-11-20"), [MERGED, "a~7eb~20261120T214300.123Z", NIGHT]);
    assert_eq!(ids("tstar trips --day 2026-11-21 --order desc"), [NEXT, NIGHT]);
    assert_eq!(json("tstar trips --day 2026-11-01 --json"), serde_json::json!([]));
    let map = json("tstar trips --day 2026-11-20 --format geojson --limit 1");
    assert_eq!(map["features"][0]["geometry"]["type"], "LineString");
}

#[test]
fn devices_and_export_sort_by_device_bytes() {
    let devices = "{\"device_id\":\"a~b\"}\n{\"device_id\":\"truck-17\"}\n{\"device_id\":\"z\"}\n";
    assert_eq!(output_of("tstar devices").unwrap(), devices);
    assert_eq!(
        output_of("tstar devices --day 2026-11-21 --format csv").unwrap(),
        "device_id\ntruck-17\n"
    );
    assert_eq!(json("tstar devices --day 2026-11-01 --json"), serde_json::json!([]));
    assert_eq!(json("tstar devices --json").as_array().unwrap().len(), 3);
    let all = ids("tstar export");
    assert_eq!(all, ["a~7eb~20261120T214300.123Z", MERGED, NIGHT, NEXT, "z~20261119T213800.123Z"]);
    assert_eq!(ids("tstar export --device z"), [all[4].as_str()]);
    assert_eq!(output_of("tstar export --format csv").unwrap().lines().count(), 6);
    assert_eq!(output_of("tstar export --format gpx").unwrap().matches("<trk>").count(), 5);
    assert_eq!(output_of("tstar export --format table").unwrap_err().0, exit::USAGE);
}

#[test]
fn tables_contain_ids_and_positions() {
    let one = output_of("tstar lookup truck-17 2026-11-20T21:40:00Z --format table").unwrap();
    assert!(one.contains(MERGED) && one.contains("lat 1.0, lon 2.0"), "{one}");
    let list = output_of("tstar trips truck-17 --format table").unwrap();
    assert_eq!(list.lines().filter(|line| line.contains("truck-17~")).count(), 3, "{list}");
    assert!(output_of("tstar devices --format table").unwrap().contains("truck-17"));
}

#[test]
fn ids_are_decoded_without_a_store() {
    let uuid = "01a1fae5-173b-8152-8ed4-88d4aacc8ddd";
    let forms = json(&format!("tstar id decode {MERGED} --json"));
    assert_eq!((&forms["uuid"], &forms["device_id"]), (&uuid.into(), &"truck-17".into()));
    assert_eq!(forms["bytes"], "ehp7aorb5koje040000q3un52stg");
    let forms = json(&format!("tstar id decode {uuid} --json"));
    assert_eq!((&forms["text"], &forms["t_star_ms"]), (&serde_json::Value::Null, &T.into()));
    assert_eq!(output_of("tstar id prefix a~b 2026-11").unwrap(), "a~7eb~202611\n");
}

#[test]
fn config_show_prints_a_valid_settings_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.toml");
    std::fs::write(&path, "max_gap = \"1m\"\n").unwrap();
    let path = path.display();
    let shown =
        output_of(&format!("tstar config show --config {path} --settle 2h --drop-ignition-off"));
    let shown = shown.unwrap();
    assert!(shown.contains(&format!("# {path}:1\n")) && shown.contains("# --settle\n"), "{shown}");
    assert!(shown.contains("drop_ignition_off = true"), "{shown}");
    let copy = folder.path().join("copy.toml");
    std::fs::write(&copy, &shown).unwrap();
    let copy = copy.display();
    assert_eq!(output_of(&format!("tstar config check {copy}")).unwrap(), "ok\n");
    assert_eq!(output_of("tstar config show --max-gap 5").unwrap_err().0, exit::USAGE);
    let missing = output_of(&format!("tstar config check {copy}x")).unwrap_err();
    assert_eq!(missing.0, exit::CONFIG, "{}", missing.1);
}

/// The exit code and the message of a command line that fails before it reads from a store.
fn refused(line: &str) -> (u8, String) {
    let cli = Cli::try_parse_from(line.split(' ')).unwrap();
    let mut out = Vec::new();
    let mut printer = Printer::into(&mut out);
    let context = Context::new(cli.global, vec![]);
    let error = block_on(dispatch(cli.command, &context, &mut printer)).unwrap_err();
    (exit::code(&error), format!("{error:#}"))
}

#[test]
fn readers_open_stores_by_url_and_never_create_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.db");
    for command in ["devices", "export", "lookup x 0", "trips x", "trip x~19700101T000000.000Z"] {
        let (code, _) = refused(&format!("tstar {command} --store sqlite:{}", path.display()));
        assert_eq!(code, exit::IO, "{command}");
        assert!(!path.exists());
        assert_eq!(refused(&format!("tstar {command} --store trips.db")).0, exit::USAGE);
        assert_eq!(refused(&format!("tstar {command} --store scylla://a")).0, exit::USAGE);
    }
}

#[test]
fn unsupported_store_kinds_are_rejected_with_a_reason() {
    let keyspace = "--store scylla://127.0.0.1:1/fleet";
    let (code, reason) = refused(&format!("tstar ingest - {keyspace}"));
    assert_eq!(code, exit::USAGE);
    assert!(reason.contains("would have no order"), "{reason}");
    let (code, reason) = refused("tstar schema apply --store sqlite:x.db");
    assert_eq!(code, exit::USAGE);
    assert!(reason.contains("creates its tables itself"), "{reason}");
}

#[test]
fn an_unresponsive_server_is_reported_after_the_timeout() {
    for command in ["devices", "lookup x 0", "schema apply", "dlq ls"] {
        let at = "--store scylla://127.0.0.1:1/fleet --connect-timeout 100ms";
        let (code, reason) = refused(&format!("tstar {command} {at}"));
        assert_eq!(code, exit::UNREACHABLE, "{reason}");
        assert!(reason.contains("scylla://127.0.0.1:1/fleet"), "{reason}");
    }
}

#[test]
fn the_password_comes_from_the_file_or_the_variable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "from the file \n").unwrap();
    let env = vec![("TSTAR_CQL_PASSWORD".to_owned(), "from the variable".to_owned())];
    let context = Context::new(GlobalFlags::default(), env);
    let password = |path: &std::path::Path| {
        let cql_password_file = path.display().to_string();
        context.cql_password(&Settings { cql_password_file, ..Settings::default() })
    };
    assert_eq!(password("".as_ref()).unwrap().as_deref(), Some("from the variable"));
    assert_eq!(password(&path).unwrap().as_deref(), Some("from the file "));
    let error = password(&folder.path().join("none")).unwrap_err();
    assert_eq!(exit::code(&error), exit::IO, "{error:#}");
}

#[test]
fn schema_and_completions_print() {
    assert!(output_of("tstar schema print trips").unwrap().contains("CREATE TABLE"));
    assert!(output_of("tstar schema print trips-cql").unwrap().contains("frozen<map"));
    assert!(output_of("tstar schema print log-cql").unwrap().contains("forgets"));
    assert!(output_of("tstar completions bash").unwrap().contains("_tstar"));
}
