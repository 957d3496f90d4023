//! Errors: exit codes, messages on stderr, and the origin of settings.

use super::{Folder, minutes};

fn one_sample() -> Folder {
    Folder::with("log", minutes("truck-17", &[0]))
}

#[test]
fn usage_is_2() {
    let folder = one_sample();
    folder.ingest("log");
    for (words, why) in [
        ("ingest log --max-gap 5", "5"),
        ("ingest log --max-gap soon", "soon"),
        ("ingest log --min-time yesterday", "yesterday"),
        ("lookup truck-17 yesterday", "yesterday"),
        ("trip nonsense", "nonsense"),
        ("trip truck-17~20240501T080000Z", "truck-17~20240501T080000Z"),
        ("trips truck-17 --prefix 20241350", "20241350"),
        ("id encode truck-17 2024-13-01T00:00:00Z", "2024-13-01"),
        ("ingest log --map devise=x", "devise"),
        ("lookup truck-17", "TIME"),
        ("ingest", "FILE"),
        ("dlq ls --reason tired", "tired"),
        ("simulate --mix 1,2", "1,2"),
        ("simulate --bad 2", "2"),
        ("devices --store mysql:x", "mysql:x"),
        ("export --colour", "--colour"),
    ] {
        folder.run(words).ends(2).prints_nothing().says(&[why]);
    }
}

#[test]
fn what_is_not_there_is_74_and_makes_no_store() {
    let folder = one_sample();
    for words in ["lookup truck-17 2024-05-01T08:00:00Z", "export", "devices", "dlq ls", "trips a"]
    {
        folder.run(words).ends(74).prints_nothing().says(&["trips.db"]);
    }
    for words in ["ingest nowhere", "ingest log nowhere", "ingest nowhere elsewhere"] {
        folder.run(words).ends(74).prints_nothing().says(&["nowhere"]);
    }
    let left: Vec<_> = std::fs::read_dir(folder.dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "more than the log in {left:?}");
    let ran = folder.run("ingest log --store sqlite:no/such/folder.db").ends(74).prints_nothing();
    ran.says(&["no/such/folder.db", "its folder must exist"]);
}

#[test]
fn a_new_store_directly_in_the_root_is_78_and_two_slashes_name_a_relative_one() {
    let folder = one_sample();
    folder.ingest("log --store sqlite://trips.db");
    assert_eq!(folder.trips("trips.db").len(), 1);
    folder.run("backup copy.db").ends(0);
    let name = folder.dir.path().file_name().unwrap().to_str().unwrap();
    for url in [format!("sqlite:/{name}.db"), format!("sqlite:///{name}.db")] {
        for words in ["ingest log", "restore copy.db", "export", "rebuild log --into"] {
            let flag = if words.ends_with("--into") { "" } else { "--store" };
            let ran = folder.run(&format!("{words} {flag} {url}")).ends(78).prints_nothing();
            ran.says(&[
                &format!("store `/{name}.db` does not exist"),
                &format!(" sqlite:{name}.db"),
            ]);
        }
    }
    assert!(!std::path::Path::new(&format!("/{name}.db")).exists());
    let absolute = folder.path("trips.db");
    folder.run(&format!("lookup truck-17 0 --store sqlite://{}", absolute.display())).ends(1);
}

#[test]
fn other_rules_on_an_old_store_are_78_and_name_both() {
    let folder = one_sample();
    folder.ingest("log");
    let before = folder.text("export --path");
    folder.run("ingest log --max-gap 10m").ends(78).prints_nothing().says(&["5m", "10m"]);
    let ran = folder.run("ingest log --max-gap 10m --max-samples 7").ends(78);
    ran.says(&["max_gap", "max_samples", "100000"]);
    assert_eq!(folder.text("export --path"), before);
    folder.ingest("log --max-gap 300s");
    // Readers use the store's rules, whatever the settings.
    folder.write("tstar.toml", "max_gap = \"10m\"\n");
    folder.run("lookup truck-17 2024-05-01T08:00:00Z").ends(0);
}

#[test]
fn a_file_of_another_program_is_78_and_stays_as_it_was() {
    let folder = one_sample();
    folder.write(
        "text.db",
        "a letter to a friend, longer than the head of a database file is, ".repeat(9),
    );
    let other = rusqlite::Connection::open(folder.path("other.db")).unwrap();
    other.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(other);
    for name in ["text.db", "other.db"] {
        let before = folder.read(name);
        for words in ["ingest log", "export", "lookup a 0"] {
            let ran = folder.run(&format!("{words} --store sqlite:{name}")).ends(78);
            ran.prints_nothing().says(&[name]);
            assert!(folder.read(name) == before, "{words} changed {name}");
        }
    }
}

#[test]
fn a_settings_file_that_was_found_is_named_and_belongs_to_the_user() {
    let folder = one_sample();
    folder.write("tstar.toml", "max_gap = \"7m\"\n");
    let file = folder.path("tstar.toml");
    let found = "tstar: settings are read from ./tstar.toml\n";
    assert_eq!(folder.run("config check").ends(0).stderr, found);
    assert_eq!(folder.run("config check --config tstar.toml").ends(0).stderr, "");
    // Only root can give a file away.
    if std::os::unix::fs::chown(&file, Some(4711), None).is_ok() {
        let ran = folder.run("config show").ends(78).prints_nothing();
        ran.says(&["tstar.toml:1", "belongs to user 4711", "pass --config tstar.toml"]);
        folder.run("config check --config tstar.toml").ends(0);
    }
}

#[test]
fn every_fault_of_the_settings_file_is_told_with_its_line() {
    let folder = one_sample();
    let file = "# settings\nmax_gap = \"5m\"\nmax_gpa = \"5m\"\nmax_samples = \"many\"\n";
    folder.write("tstar.toml", file);
    for words in ["config check", "ingest log", "config show"] {
        let ran = folder.run(words).ends(78).prints_nothing();
        ran.says(&["tstar.toml:3", "max_gpa", "max_gap", "tstar.toml:4", "many"]);
    }
    assert!(!folder.has("trips.db"));
    folder.write("good.toml", "max_gap = \"7m\"\n");
    assert_eq!(folder.text("config check good.toml"), "ok\n");
    assert_eq!(folder.text("config check --config good.toml"), "ok\n");
    let evil = "kafka = \"\"\"\nlinger.ms=5\nplugin.library.paths=/tmp/evil.so\n\"\"\"\n";
    folder.write("evil.toml", evil);
    let ran = folder.run("config check evil.toml").ends(78).prints_nothing();
    ran.says(&["evil.toml:1", "`plugin.library.paths` cannot be set: it runs a library"]);
    let words = "run --kafka ssl.engine.location=/tmp/evil.so";
    let ran = Folder::new().run(words).ends(2).prints_nothing();
    ran.says(&["--kafka", "`ssl.engine.location` cannot be set"]);
    folder.run("config check nowhere.toml").ends(78).prints_nothing().says(&["nowhere.toml"]);
    // The output of `config show` is itself a settings file.
    folder.write("shown.toml", folder.text("config show --config good.toml"));
    assert_eq!(folder.text("config check shown.toml"), "ok\n");
}

#[test]
fn flags_go_before_the_environment_and_that_before_the_file() {
    let mut folder = one_sample();
    let store = |folder: &Folder, flags: &str| {
        let shown = folder.run(&format!("config show --json {flags}")).ends(0).json();
        let found = shown.as_array().unwrap().iter().find(|one| one["key"] == "store");
        let found = found.unwrap();
        let part = |name: &str| found[name].as_str().unwrap().to_owned();
        (part("value"), part("origin"))
    };
    let is = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(store(&folder, ""), is("sqlite:trips.db", "default"));
    folder.write("tstar.toml", "store = \"sqlite:file.db\"\n");
    assert_eq!(store(&folder, ""), is("sqlite:file.db", "tstar.toml:1"));
    folder.ingest("log");
    assert!(folder.has("file.db"));
    folder.env("TSTAR_STORE", "sqlite:env.db");
    assert_eq!(store(&folder, ""), is("sqlite:env.db", "TSTAR_STORE"));
    folder.ingest("log");
    assert!(folder.has("env.db"));
    assert_eq!(folder.text("devices"), "{\"device_id\":\"truck-17\",\"tags\":{}}\n");
    assert_eq!(store(&folder, "--store sqlite:flag.db"), is("sqlite:flag.db", "--store"));
    folder.ingest("log --store sqlite:flag.db");
    assert!(folder.has("flag.db") && !folder.has("trips.db"));
}

#[test]
fn an_unknown_variable_warns_and_a_bad_one_is_78() {
    let mut folder = one_sample();
    folder.env("TSTAR_MAX_GPA", "5m");
    folder.run("config check").ends(0).says(&["warning", "TSTAR_MAX_GPA"]);
    folder.env("TSTAR_MAX_GAP", "5");
    folder.run("ingest log").ends(78).prints_nothing().says(&["TSTAR_MAX_GAP"]);
}
