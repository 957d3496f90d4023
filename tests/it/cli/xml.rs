//! Checks that a text is well-formed XML, as far as the program writes it.

/// The names of the elements in the order in which they open.
pub fn elements(text: &str) -> Result<Vec<String>, String> {
    let (mut open, mut all): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    let mut rest = text.strip_prefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>").ok_or("head")?;
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at])?;
        let end = rest.find('>').ok_or("a tag without an end")?;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            let opened = open.pop();
            if opened != Some(name) {
                return Err(format!("{opened:?} is closed by {name}"));
            }
            continue;
        }
        if open.is_empty() && !all.is_empty() {
            return Err("a second root".into());
        }
        check_text(tag)?;
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        all.push(name.to_owned());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    match (open.is_empty(), rest.trim().is_empty()) {
        (true, true) => Ok(all),
        _ => Err(format!("left: {open:?} {rest}")),
    }
}

fn check_text(text: &str) -> Result<(), String> {
    let known = ["amp;", "lt;", "gt;", "quot;", "apos;", "#"];
    let good = |rest: &str| known.iter().any(|entity| rest.starts_with(entity));
    let bad = text.split('&').skip(1).any(|rest| !good(rest)) || text.contains('<');
    if bad { Err(format!("not escaped: {text}")) } else { Ok(()) }
}

#[test]
fn tells_well_formed_from_broken() {
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    let read = |body: &str| elements(&format!("{head}{body}"));
    assert_eq!(read("<a x=\"1\"><b>1 &lt; 2</b><c/></a>\n").unwrap(), ["a", "b", "c"]);
    for broken in ["<a>", "<a></b>", "<a>x & y</a>", "<a/><b/>", "<a></a>x"] {
        assert!(read(broken).is_err(), "{broken}");
    }
}
