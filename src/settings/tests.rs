use super::*;
use crate::model::rules::{Rules, SpeedUnit, TimeUnit};
use crate::model::scalar::DeviceTime;
use crate::source::file::InputFormat;

fn file(text: &str) -> SettingsFile {
    SettingsFile { name: "tstar.toml".into(), text: text.into() }
}

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_table_agrees_with_itself_and_with_the_rules() {
    for setting in TABLE.iter() {
        assert_eq!(setting.env, format!("TSTAR_{}", setting.key.to_uppercase()));
        assert_eq!(setting.flag, format!("--{}", setting.key.replace('_', "-")));
        assert!(!setting.help.ends_with('.'), "{}", setting.key);
        let is_global = setting.key == "store";
        assert_eq!(setting.groups.is_empty(), is_global, "{} is a flag", setting.key);
        let mut settings = Settings::default();
        let written = (setting.get)(&settings);
        (setting.set)(&mut settings, &written).unwrap();
        let values = |of: &Settings| TABLE.iter().map(|it| (it.get)(of)).collect::<Vec<_>>();
        assert_eq!(values(&settings), values(&Settings::default()), "{} survives", setting.key);
    }
    assert_eq!(Settings::default().rules(), Rules::default());
    assert_eq!(Settings::default().validate(), []);
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = file("# ours\nmax_gap = \"1m\"\nmax_future = \"2h\"\nmax_samples = 7\n");
    let env = env(&[("TSTAR_MAX_GAP", "2m"), ("TSTAR_MAX_FUTURE", "3h"), ("TSTAR_SETTLE", "")]);
    let flags = [("max_gap", "3m".to_owned())];
    let settings = Settings::resolve(&flags, &env, Some(&file)).unwrap();
    assert_eq!(settings.max_gap_ms, 180_000);
    assert_eq!(settings.max_future_ms, 3 * 3_600_000);
    assert_eq!(settings.max_samples, 7);
    assert_eq!(settings.settle_ms, 3_600_000);
    let shown = |key| settings.origins[key].to_string();
    assert_eq!(shown("max_gap"), "--max-gap");
    assert_eq!(shown("max_future"), "TSTAR_MAX_FUTURE");
    assert_eq!(shown("max_samples"), "tstar.toml:4");
    assert_eq!(shown("settle"), "default");
}

#[test]
fn every_setting_of_the_rules_determines_some() {
    let settings = TABLE.iter().filter(|it| it.groups.contains(&Group::Rules));
    let mut keys: Vec<_> = settings.map(|it| it.key).chain(["key"]).collect();
    keys.sort_unstable();
    let mut with_rules: Vec<_> = rules::SETTINGS.iter().map(|(key, _)| *key).collect();
    with_rules.sort_unstable();
    assert_eq!(keys, with_rules);
}

#[test]
fn rules_that_are_not_set_are_those_of_the_store() {
    let stored = Rules {
        max_gap_ms: 600_000,
        fields: [("lat".to_owned(), "/gps/lat".to_owned())].into(),
        key: "any".into(),
        ..Rules::default()
    };
    let file = file("max_samples = 100000\n");
    let env = env(&[("TSTAR_MAX_GAP", "10m"), ("TSTAR_MAP", "lat=/gps/lat")]);
    let settings = Settings::resolve(&[], &env, Some(&file)).unwrap();
    let request = settings.rules_request();
    assert_eq!(request.resolve(Some(&stored)), Ok(stored.clone()));
    let new = request.resolve(None).unwrap();
    assert_eq!(new.max_gap_ms, 600_000);
    assert_eq!((new.fields, &*new.key), (stored.fields.clone(), "device_id"));

    // A value that is set differs even if it is the default.
    let flags = [("max_gap", "5m".to_owned()), ("map", "lat=y".to_owned())];
    let settings = Settings::resolve(&flags, &[], None).unwrap();
    let differences = settings.rules_request().resolve(Some(&stored)).unwrap_err();
    let expected = [
        r#"fields: the store has {"lat":"/gps/lat"}, requested {"lat":"y"}"#,
        "max_gap: the store has 10m, requested 5m",
    ];
    assert_eq!(differences, expected);
}

#[test]
fn the_file_accepts_matching_toml_types() {
    let file = file(
        "min_time = 2001-01-01T00:00:00Z\nmin_stop = 'off'\nstop_speed = 1\nmax_accuracy = 12.5\n\
         map = 'lat=/gps/lat,device_id=vehicle'\nspeed_unit = 'kn'\n\
         keep_zero_position = true\nmax_leg_speed = 55.5\n\
         time_unit = 'ns'\ninput_format = 'csv'\nkeep_changes = 1_000\nmax_future = '7d'\n",
    );
    let settings = Settings::resolve(&[], &[], Some(&file)).unwrap();
    let rules = settings.rules();
    assert_eq!(rules.min_time_ms, DeviceTime(978_307_200_000));
    assert_eq!((rules.stop_speed_cmps, rules.max_accuracy_dm), (100, Some(125)));
    assert!(rules.min_stop_ms.is_none() && !rules.drop_zero_position);
    assert_eq!(rules.max_leg_speed_cmps, Some(5550));
    assert_eq!(rules.fields["device_id"], "vehicle");
    assert_eq!((rules.speed_unit, rules.time_unit), (SpeedUnit::Knots, TimeUnit::Nanos));
    assert_eq!(settings.input_format, Some(InputFormat::Csv));
    assert_eq!(settings.keep_changes, 1000);
}

#[test]
fn all_faults_are_reported_at_once_with_their_origin() {
    let file = file(
        "max_gp = \"1m\"\nmax_gap = 300\nmax_samples = \"many\"\nkeep_zero_position = 1\n\
         store = \"trips.db\"\nsettle = \"400d\"\n[other]\nx = 1\n",
    );
    let env = env(&[("TSTAR_SPEED_UNIT", "knots")]);
    let flags = [("flush_interval", "1h".to_owned())];
    let error = Settings::resolve(&flags, &env, Some(&file)).unwrap_err();
    assert!(!error.is_usage());
    let message = error.to_string();
    for part in [
        "9 faults",
        "\n  tstar.toml:1: unknown key `max_gp`; did you mean `max_gap`?",
        "\n  tstar.toml:2: max_gap: `300` has no unit; write it as text, such as max_gap = \"5m\"",
        "\n  tstar.toml:3: max_samples: `many` is not a whole number",
        "\n  tstar.toml:4: keep_zero_position: `1` is an integer, not true or false; write keep_zero_position = false",
        "\n  tstar.toml:5: store: `trips.db` is not a store URL; for a file write sqlite:trips.db",
        "\n  tstar.toml:6: settle must be at most 366d, not 400d",
        "\n  tstar.toml:7: unknown key `other`",
        "\n  --flush-interval: flush_interval (1h) must not be longer than max_staleness (30s)",
        "\n  TSTAR_SPEED_UNIT: speed_unit: `knots` is not one of mps, kmh, mph, kn",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
    let lines = message.lines().filter_map(|line| line.strip_prefix("  tstar.toml:"));
    assert!(lines.map(|line| line.as_bytes()[0]).is_sorted(), "by line: {message}");
}

const LONG_GROUP: &str = concat!(
    "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg",
    "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg",
    "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg",
    "gggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggggg",
);

#[test]
fn toml_errors_are_reported_with_their_line() {
    let file = file("max_gap = \"5m\"\nmax_samples = = 3\nmax_gapp = \"1m\"\n");
    let message = Settings::resolve(&[], &[], Some(&file)).unwrap_err().to_string();
    assert!(message.contains("tstar.toml:2: max_samples: `= 3` is not a whole"), "{message}");
    assert!(message.contains("tstar.toml:3: unknown key `max_gapp`"), "{message}");
}

#[test]
fn limits_hold_and_faults_name_the_value_that_was_set() {
    for (key, value, expected) in [
        ("max_gap", "0s", "max_gap must be longer than 0"),
        ("max_gap", "7h", "max_gap must be at most 6h, not 7h"),
        ("max_samples", "0", "max_samples must be 1 to 2000000, not 0"),
        (
            "max_samples",
            "2000001",
            "max_samples must be 1 to 2000000, not 2000001: the path of a longer trip could not be \
             read; set 2000000 at most",
        ),
        ("min_time", "-1", "min_time must not be before 1970"),
        ("max_future", "36601d", "max_future must be at most 36600d"),
        ("flush_interval", "0s", "flush_interval must be longer than 0"),
        (
            "flush_interval",
            "31s",
            "flush_interval (31s) must not be longer than max_staleness (30s)",
        ),
        ("settle", "367d", "settle must be at most 366d"),
        ("min_stop", "0s", "min_stop must be longer than 0"),
        ("min_stop", "13h", "min_stop must be at most 12h, not 13h"),
        ("stop_speed", "-1", "`-1` is not a number from 0 to 1000"),
        ("stop_speed", "none", "`none` is not a number from 0 to 1000"),
        ("max_leg_speed", "fast", "not a number from 0 to 1000"),
        ("max_accuracy", "NaN", "not a number from 0 to 100000000"),
        ("map", "lat", "`lat` is not FIELD=NAME"),
        ("group", " ", "\" \" has a control character, or begins or ends with a blank"),
        ("group", "a\u{1b}b", "\"a\\u{1b}b\" has a control character"),
        ("group", LONG_GROUP, "it has 256 bytes; write a name of at most 255"),
        ("listen", "localhost:+80", "`localhost:+80` is not a valid listen address"),
        ("listen", "localhost", "`localhost` is not a valid listen address; write 127.0.0.1:8080"),
        (
            "listen",
            "fleet.example.com:80",
            "`fleet.example.com:80` has the name of a host, which may have several addresses; \
             write one of them, such as 127.0.0.1:80 for this machine alone, or 0.0.0.0:80 for all",
        ),
        (
            "listen",
            "0.0.0.0:80",
            "listen 0.0.0.0:80 is reachable from other machines; name a file of tokens with \
             token_file (--token-file), or set insecure (--insecure) to allow access without",
        ),
        (
            "tiles",
            "https://tiles.example.com/{z}/{x}/{y}.png",
            "tiles need tiles_attribution (--tiles-attribution), which most",
        ),
    ] {
        let error = Settings::resolve(&[(key, value.to_owned())], &[], None).unwrap_err();
        assert!(error.is_usage(), "only a flag is at fault");
        let shown = error.to_string();
        let origin = format!("--{}: ", key.replace('_', "-"));
        assert!(shown.starts_with(&origin) && shown.contains(expected), "{shown}");
    }
}

#[test]
fn localhost_is_an_address_of_this_machine() {
    let listen = [("listen", "localhost:8081".to_owned())];
    let settings = Settings::resolve(&listen, &[], None).unwrap();
    assert_eq!(settings.http.listen, Some(([127, 0, 0, 1], 8081).into()));
}

#[test]
fn unknown_variables_warn_and_known_others_are_silent() {
    let env = env(&[
        ("TSTAR_MAX_GAPS", "1m"),
        ("TSTAR_SERVICE_PORT", "80"),
        ("TSTAR_COMMIT", "x"),
        ("TSTAR_TEST_LOGS", "1"),
        ("TSTAR_STORE", "sqlite:x.db"),
    ]);
    let warnings = unknown_env(&env);
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].ends_with("did you mean `TSTAR_MAX_GAP`?"), "{}", warnings[0]);
    assert!(warnings[1].ends_with("has no effect"), "{}", warnings[1]);
    assert!(Settings::resolve(&[], &env, None).is_ok());
}

#[test]
fn tls_settings_go_together() {
    let resolve = |flags: &[(&'static str, &str)]| {
        let flags: Vec<_> = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Settings::resolve(&flags, &[], None)
    };
    let all =
        [("cql_tls", "true"), ("cql_tls_ca", "a"), ("cql_tls_cert", "c"), ("cql_tls_key", "k")];
    let settings = resolve(&all).unwrap();
    assert!(settings.cql_tls);
    assert_eq!([settings.cql_tls_ca, settings.cql_tls_cert, settings.cql_tls_key], ["a", "c", "k"]);
    assert!(resolve(&all[..1]).is_ok(), "the system's CAs");
    let without = resolve(&all[1..]).unwrap_err();
    assert_eq!(without.faults.len(), 3, "{without}");
    assert!(without.to_string().contains("cql_tls_ca is set, but cql_tls is false"), "{without}");
    for flags in [&all[..3], &[all[0], all[3]]] {
        let half = resolve(flags).unwrap_err().to_string();
        assert!(half.contains("cql_tls_cert and cql_tls_key go together"), "{half}");
    }
    let unread = resolve(&[("cql_tls", "yes"), ("cql_tls_ca", "a")]).unwrap_err();
    assert_eq!(unread.faults.len(), 1, "rules are not checked for unreadable values: {unread}");
}

#[test]
fn https_needs_a_pair_of_files_and_an_address_of_its_scheme() {
    let resolve = |pairs: &[(&'static str, &str)]| {
        let flags: Vec<_> = pairs.iter().map(|&(key, value)| (key, value.to_owned())).collect();
        Settings::resolve(&flags, &[], None).map(|settings| settings.http)
    };
    let pair = [("tls_cert", "c"), ("tls_key", "k")];
    let http = resolve(&pair).unwrap();
    assert_eq!([http.tls_cert, http.tls_key], ["c", "k"]);
    for half in pair {
        let error = resolve(&[half]).unwrap_err().to_string();
        assert!(error.contains("tls_cert and tls_key go together"), "{error}");
    }
}

#[test]
fn the_login_of_a_registry_goes_to_other_machines_with_tls_only() {
    let resolve = |url: &str, plain: &str| {
        let flags = [
            ("schema_registry", url.to_owned()),
            ("schema_registry_auth_file", "login".to_owned()),
            ("schema_registry_plain_login", plain.to_owned()),
        ];
        Settings::resolve(&flags, &[], None)
    };
    for url in ["https://registry:8081", "http://localhost:8081", "http://[::1]:8081"] {
        assert!(resolve(url, "false").is_ok(), "{url}");
    }
    let error = resolve("http://registry:8081", "false").unwrap_err().to_string();
    let expected = "--schema-registry: the login in schema_registry_auth_file would be sent to \
                    `http://registry:8081` without TLS; write https, or set \
                    schema_registry_plain_login (--schema-registry-plain-login)";
    assert!(error.starts_with(expected), "{error}");
    assert!(resolve("http://registry:8081", "true").is_ok());
    let open = ("schema_registry", "http://registry:8081".to_owned());
    assert!(Settings::resolve(&[open], &[], None).is_ok(), "there is no login");
}

#[test]
fn options_of_kafka_that_share_a_line_are_refused_without_their_values() {
    let line = "security.protocol=SASL_SSL,sasl.password=hunter2".to_owned();
    let error = Settings::resolve(&[("kafka", line)], &[], None).unwrap_err().to_string();
    assert!(error.contains("`security.protocol` and `sasl.password` are in one line"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn brokers_are_hosts_and_ports() {
    let resolve = |text: &str| Settings::resolve(&[("brokers", text.to_owned())], &[], None);
    for text in ["a", "a:1", "a:1,b:65535", "a:1, b", "[::1]", "[::1]:9092", "10.0.0.1:9092,"] {
        assert_eq!(resolve(text).unwrap().brokers, text);
    }
    for (text, problem) in [
        ("http://a:1", "write a:1 without http://"),
        ("a:1,SASL_SSL://b:2", "write b:2 without SASL_SSL://"),
        ("a:9092a", "`9092a` is not a port"),
        ("a:1,b:99999", "`b:99999`: `99999` is not a port"),
        ("a:", "`` is not a port"),
        ("[::1]:0", "`0` is not a port"),
        ("a:1 b:2", "separate brokers with commas"),
        ("a:1;b:2", "separate brokers with commas"),
        ("me:hunter2@a:1", "a broker is host:port"),
    ] {
        let error = resolve(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn tiles_need_an_attribution_or_an_empty_one_on_purpose() {
    let tiles = ("tiles", "https://tiles.example.com/{z}/{x}/{y}.png".to_owned());
    let error = Settings::resolve(std::slice::from_ref(&tiles), &[], None).unwrap_err();
    assert!(error.to_string().contains("set it to their text"), "{error}");
    for text in ["", "© [Mappers](https://maps.example.com)"] {
        let flags = [tiles.clone(), ("tiles_attribution", text.to_owned())];
        let settings = Settings::resolve(&flags, &[], None).unwrap();
        assert_eq!(settings.http.tiles_attribution.as_deref(), Some(text));
    }
}
