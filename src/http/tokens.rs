//! The tokens of a server, as its token file lists them.

use std::sync::Arc;

use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

use super::reloaded::Reloaded;
use super::token::{Rights, Token, TokenKey};

/// Minimum length of a secret: shorter ones can be guessed.
const MIN_SECRET: usize = 16;

/// Maximum length of a name, bytes.
const MAX_NAME: usize = 64;

/// Maximum number of tokens: each request is compared with all of them.
const MAX_TOKENS: usize = 64;

/// The tokens of a file, read again when it changes.
pub type Tokens = Reloaded<TokenSet>;

/// The tokens that are valid at a time, in the order of their file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSet(Vec<Arc<Token>>);

fn is_secret(text: &str) -> bool {
    text.len() >= MIN_SECRET && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_plain)
}

/// The fields of `NAME:RIGHTS:SECRET`; `None` if the text has another form.
fn fields(line: &str) -> Option<(&str, Rights, &str)> {
    let (name, rest) = line.split_once(':')?;
    let (rights, secret) = rest.split_once(':')?;
    let name = name.trim_end();
    is_name(name).then_some((name, Rights::parse(rights)?, secret.trim_start()))
}

fn parse_line(line: &str) -> Result<Token, String> {
    let (name, rights, secret) = fields(line).ok_or_else(|| {
        "it is not NAME:RIGHTS:SECRET with a name of 1 to 64 of A-Z a-z 0-9 . _ -, and `read`, \
         `write` or `read,write` as rights"
            .to_owned()
    })?;
    match is_secret(secret) {
        true => Ok(Token::new(name, rights, secret)),
        false => {
            let problem = format!(
                "its secret is not {MIN_SECRET} or more printable characters without spaces"
            );
            Err(problem)
        }
    }
}

impl TokenSet {
    /// Parses a token file: one `NAME:RIGHTS:SECRET` per line. Empty lines and comments (`#`) are
    /// skipped.
    ///
    /// # Errors
    /// A line is not a token, or two tokens have a name or a secret in common. The message contains
    /// no part of a secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).zip(1_usize..);
        let lines: Vec<_> =
            lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).collect();
        if lines.len() > MAX_TOKENS {
            return Err(format!("it has {} tokens, more than {MAX_TOKENS}", lines.len()));
        }
        let mut tokens: Vec<Arc<Token>> = Vec::new();
        for (line, number) in &lines {
            let token = parse_line(line).map_err(|problem| format!("line {number}: {problem}"))?;
            let name = token.name();
            if tokens.iter().any(|other| other.name() == name) {
                return Err(format!(
                    "line {number}: token `{name}` is defined twice; give each token its own name"
                ));
            }
            if let Some(other) = tokens.iter().find(|other| other.key() == token.key()) {
                return Err(format!(
                    "line {number}: token `{name}` has the secret of `{}`; give each its own",
                    other.name()
                ));
            }
            tokens.push(Arc::new(token));
        }
        Ok(Self(tokens))
    }

    /// Whether there is no token, so that no request is authorised.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token with a secret. Compares the hashes of all tokens in constant time, so response
    /// times reveal neither the content nor the length of a secret, nor which tokens there are.
    #[must_use]
    pub fn find(&self, secret: &str) -> Option<Arc<Token>> {
        let key = TokenKey::of_secret(secret);
        let mut found = u64::MAX;
        for (token, index) in self.0.iter().zip(0_u64..) {
            found.conditional_assign(&index, token.key().ct_eq(&key));
        }
        self.0.get(usize::try_from(found).ok()?).cloned()
    }

    /// The token with this key, if it is still valid.
    #[must_use]
    pub(crate) fn by_key(&self, key: TokenKey) -> Option<Arc<Token>> {
        self.0.iter().find(|token| token.key() == key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::Right;
    use super::*;

    const SECRETS: [&str; 3] = ["a-secret-of-letters", "another-of-letters", "the-third:of:these"];

    fn set(text: &str) -> TokenSet {
        TokenSet::parse(text).unwrap()
    }

    fn named(set: &TokenSet) -> Vec<(&str, bool, bool)> {
        let named = |token: &Arc<Token>| {
            (token.rights().has(Right::Read), token.rights().has(Right::Write))
        };
        let pairs = set.0.iter().map(|it| (it.name(), named(it)));
        pairs.map(|(name, (read, write))| (name, read, write)).collect()
    }

    #[test]
    fn a_line_has_name_rights_and_secret() {
        let [one, two, three] = SECRETS;
        let file = format!(
            "# of 2026\n\n  gateway : write : {two}\r\nmaps:read:{three}\nops:read,write:{one}"
        );
        let file = set(&file);
        let expected = [("gateway", false, true), ("maps", true, false), ("ops", true, true)];
        assert_eq!(named(&file), expected);
        for (secret, name) in [(one, "ops"), (two, "gateway"), (three, "maps")] {
            assert_eq!(file.find(secret).unwrap().name(), name);
        }
        for wrong in ["", "x", &one[1..], &format!("maps:read:{three}"), "of:these"] {
            assert_eq!(file.find(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_file_without_a_line_has_no_token() {
        for empty in ["", "# none\n\n"] {
            assert!(set(empty).is_empty() && set(empty).find("").is_none(), "{empty:?}");
        }
        assert!(!set(&format!("a:read:{}", SECRETS[0])).is_empty());
    }

    #[test]
    fn errors_name_the_line_and_contain_no_secret() {
        let [one, two, _] = SECRETS;
        for (file, problem) in [
            ("a:read:short".to_owned(), "line 1: its secret is not 16 or more"),
            ("a:read:two words of a secret".to_owned(), "line 1: its secret is not 16 or more"),
            (one.to_owned(), "line 1: it is not NAME:RIGHTS:SECRET"),
            ("correct:horse:battery".to_owned(), "line 1: it is not NAME:RIGHTS:SECRET"),
            (format!("a:read:{one}\na:write:{two}"), "line 2: token `a` is defined twice"),
            (
                format!("a:read:{one}\n# b\nb:write:{one}"),
                "line 3: token `b` has the secret of `a`",
            ),
            (format!("a:read:{one}\nb:admin:{two}"), "line 2: it is not NAME:RIGHTS:SECRET"),
            (format!("a:read:{one}\nb c:read:{two}"), "line 2: it is not NAME:RIGHTS:SECRET"),
            (format!("a:read:{one}\nb:read:short"), "line 2: its secret is not"),
            (
                (0..65).map(|n| format!("a{n}:read:{one}{n}\n")).collect(),
                "it has 65 tokens, more than 64",
            ),
        ] {
            let error = TokenSet::parse(&file).unwrap_err();
            assert!(error.contains(problem), "{file}: {error}");
            assert!(!error.contains("letters") && !error.contains("short"), "{error}");
        }
    }
}
