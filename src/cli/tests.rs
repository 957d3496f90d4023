use std::path::Path;

use super::*;

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
            assert!(usage::parse(line.split(' ').map(Into::into)).is_ok(), "{line}");
            examples_run += 1;
        }
    }
    assert!(examples_run >= 30, "{examples_run} examples");
}

#[test]
fn the_password_comes_from_the_file_or_the_variable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("password");
    std::fs::write(&path, "from the file \n").unwrap();
    let env = vec![("TSTAR_CQL_PASSWORD".to_owned(), "from the variable".to_owned())];
    let context = Context::new(GlobalFlags::default(), env);
    let password = |path: &Path| {
        let cql_password_file = path.display().to_string();
        let flag = vec![("cql_password_file", cql_password_file)];
        context.settings(&[&flag])?.server_options().map(|options| options.password)
    };
    assert_eq!(password("".as_ref()).unwrap().as_deref(), Some("from the variable"));
    assert_eq!(password(&path).unwrap().as_deref(), Some("from the file "));
    let error = password(&folder.path().join("none")).unwrap_err();
    assert_eq!(exit::code(&error), exit::IO, "{error:#}");
}
