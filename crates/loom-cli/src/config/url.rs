//! Where a shard is.

use std::fmt;
use std::path::{Path, PathBuf};

/// A URL as it stands in `loom.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    /// `sqlite:PATH`, the path as written.
    Sqlite(PathBuf),
}

impl StoreUrl {
    /// Reads a URL. The message of a refusal never repeats it: it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err("expected a url, `sqlite:PATH`".to_owned());
        };
        match scheme {
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() || path.contains('\0') {
                    return Err("expected a path after `sqlite:`".to_owned());
                }
                if path.starts_with(":memory:") {
                    return Err(
                        "a shard in memory would be gone when this command ends: expected a path after `sqlite:`"
                            .to_owned(),
                    );
                }
                Ok(Self::Sqlite(path.into()))
            }
            "postgres" | "postgresql" => Err(format!(
                "`{scheme}:` urls are not supported by this build: expected `sqlite:PATH`"
            )),
            // Only what can be a scheme is repeated: this may be a password in the wrong place.
            _ if is_scheme(scheme) && rest.starts_with("//") => Err(format!(
                "the url has the scheme `{scheme}`: expected `sqlite:PATH`"
            )),
            _ => Err("expected a url, `sqlite:PATH`".to_owned()),
        }
    }

    /// The file, with relative paths taken from `base`.
    pub(crate) fn file(&self, base: &Path) -> PathBuf {
        let Self::Sqlite(path) = self;
        base.join(path)
    }
}

/// RFC 3986, section 3.1.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Sqlite(path) = self;
        write!(f, "sqlite:{}", path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_from_the_folder_of_the_file() {
        let file = |url: &str| StoreUrl::parse(url).unwrap().file(Path::new("/deploy"));
        assert_eq!(file("sqlite:a/0.db"), Path::new("/deploy/a/0.db"));
        assert_eq!(file("sqlite://a/0.db"), Path::new("/deploy/a/0.db"));
        assert_eq!(file("sqlite:/var/0.db"), Path::new("/var/0.db"));
        assert_eq!(file("sqlite:///var/0.db"), Path::new("/var/0.db"));
    }

    #[test]
    fn a_refusal_says_what_was_expected_and_repeats_no_secret() {
        for url in [
            "postgres://u:secret@h/db",
            "postgresql://u:secret@h/db",
            "mysql://u:secret@h/db",
            "secret",
            "secret:x",
            "se cret://x",
            "sqlite:",
            "sqlite://",
            "sqlite::memory:",
        ] {
            let refusal = StoreUrl::parse(url).unwrap_err();
            assert!(refusal.contains("expected"), "{refusal}");
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }
}
