//! `man`: writes the man pages, from the flags and help of each command.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::print::Printer;

const EXAMPLES: &str = "\
Examples:
  tstar man --out man/man1

Writes tstar.1, and a page for each command, such as tstar-ingest.1. Files of these names are
replaced. `man -l FILE` shows a page; `man` finds pages in the folders man1 of MANPATH.";

/// Flags of `man`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Folder to write the pages to; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
}

/// Writes the pages of a command and of all commands below it, and prints the path of each.
///
/// # Errors
/// The folder cannot be created, or a page cannot be written.
pub(crate) fn run(
    args: &ManArgs,
    command: clap::Command,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let folder = &args.out;
    let shown = folder.display();
    let created = fs::create_dir_all(folder);
    created
        .with_context(|| format!("folder `{shown}` cannot be created; name another by --out"))?;
    // `help` is described in each page, and has no page of its own.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let version = command.get_version().unwrap_or_default().to_owned();
    write_pages(&command, &version, folder, printer)
}

fn write_pages(
    command: &clap::Command,
    version: &str,
    folder: &Path,
    printer: &mut Printer,
) -> anyhow::Result<()> {
    let page = Man::new(command.clone());
    let name = page.get_filename();
    let path = folder.join(&name);
    let written = File::create(&path).and_then(|file| {
        let mut file = BufWriter::new(file);
        // The crate would leave out an empty date, and take the version for it. A page has no date:
        // the same version writes the same page.
        let title = name.trim_end_matches(".1");
        writeln!(file, ".TH \"{title}\" \"1\" \"\" \"tstar {version}\" \"tstar\"")?;
        render(&page, command, &mut file)?;
        file.flush()
    });
    written.with_context(|| format!("page `{}` cannot be written", path.display()))?;
    printer.line(&path.display().to_string())?;
    let commands = command.get_subcommands().filter(|it| !it.is_hide_set());
    commands.into_iter().try_for_each(|it| write_pages(it, version, folder, printer))
}

/// Renders the sections of a page. The crate would fill the lines of examples into paragraphs.
fn render(page: &Man, command: &clap::Command, out: &mut impl Write) -> io::Result<()> {
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut roff = Roff::default();
    let (examples, notes) = split(&help);
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        examples.iter().for_each(|line| _ = roff.text([roman(*line)]));
        roff.control("fi", []);
    }
    if !notes.is_empty() {
        roff.control("SH", ["NOTES"]);
        notes.iter().for_each(|line| match line.is_empty() {
            true => _ = roff.control("PP", []),
            false => _ = roff.text([roman(*line)]),
        });
    }
    roff.to_writer(out)
}

/// The examples at the end of a help text, and the lines after them.
fn split(help: &str) -> (Vec<&str>, Vec<&str>) {
    let lines: Vec<_> = help.lines().filter(|line| *line != "Examples:").collect();
    let end = lines.iter().position(|line| !line.starts_with("  ")).unwrap_or(lines.len());
    let examples = lines[..end].iter().map(|line| line.trim_start()).collect();
    let notes = lines[end..].iter().copied().skip_while(|line| line.is_empty()).collect();
    (examples, notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_separated_from_notes() {
        let (examples, notes) = split("Examples:\n  tstar a\n  tstar b\n\nOne.\n\nTwo.\n");
        assert_eq!(examples, ["tstar a", "tstar b"]);
        assert_eq!(notes, ["One.", "", "Two."]);
        assert_eq!(split("One.").1, ["One."]);
        assert!(split("").0.is_empty() && split("").1.is_empty());
    }
}
