//! Where a shard is.

use std::fmt;
use std::path::{Path, PathBuf};

use loom_store_postgres::{InvalidLocation, Location};

/// A URL as it stands in `loom.toml`. Neither `Display` nor `Debug` shows a password.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StoreUrl {
    /// `sqlite:PATH`, the path as written.
    Sqlite(PathBuf),
    /// `postgres://…`
    Postgres(Box<PostgresUrl>),
}

/// A URL of a schema on a server.
#[derive(Clone, PartialEq)]
pub(crate) struct PostgresUrl {
    location: Location,
    /// With its password, for the deployment file alone.
    written: String,
}

/// What is asked for, in messages.
const FORMS: &str = "`sqlite:PATH` or `postgres://USER@HOST/DATABASE?schema=SCHEMA`";

impl StoreUrl {
    /// Reads a URL. The message of a refusal never repeats it: it may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("expected a url, {FORMS}"));
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
            "postgres" | "postgresql" => {
                let location = text
                    .parse::<Location>()
                    .map_err(|error| error.to_string())?;
                let written = text.to_owned();
                Ok(Self::Postgres(Box::new(PostgresUrl { location, written })))
            }
            // Only what can be a scheme is repeated: this may be a password in the wrong place.
            _ if is_scheme(scheme) && rest.starts_with("//") => Err(format!(
                "the url has the scheme `{scheme}`: expected {FORMS}"
            )),
            _ => Err(format!("expected a url, {FORMS}")),
        }
    }

    /// The file, with relative paths taken from `base`; `None` when it is not in a file.
    pub(crate) fn file(&self, base: &Path) -> Option<PathBuf> {
        match self {
            Self::Sqlite(path) => Some(base.join(path)),
            Self::Postgres(_) => None,
        }
    }

    /// What two shards may not have in common.
    pub(crate) fn place(&self, base: &Path) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", base.join(path).display()),
            Self::Postgres(url) => format!("postgres://{}", url.location.place()),
        }
    }

    /// As it was written, password included: for the deployment file alone.
    pub(crate) fn as_written(&self) -> String {
        match self {
            Self::Sqlite(_) => self.to_string(),
            Self::Postgres(url) => url.written.clone(),
        }
    }
}

impl PostgresUrl {
    /// The same database, but another schema.
    pub(crate) fn in_schema(&self, schema: &str) -> Result<Self, String> {
        let (place, query) = self.written.split_once('?').unwrap_or((&self.written, ""));
        let mut written = format!("{place}?schema={schema}");
        let others = query
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.starts_with("schema="));
        for pair in others {
            written.push('&');
            written.push_str(pair);
        }
        let location = written
            .parse()
            .map_err(|error: InvalidLocation| error.to_string())?;
        Ok(Self { location, written })
    }

    /// Where it is, with the password of the environment (`PGPASSWORD`) where the URL has none.
    pub(crate) fn location(&self) -> Location {
        let location = self.location.clone();
        match std::env::var("PGPASSWORD") {
            Ok(password) if !location.has_password() => location.with_password(&password),
            _ => location,
        }
    }
}

/// Whether a text holds a URL with a password.
pub(crate) fn holds_password(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let rest = &text[at + 3..];
        let end = rest.find(['"', '\'', '\n']).unwrap_or(rest.len());
        let url = &rest[..end];
        let login = url.rsplit_once('@').map_or("", |(login, _)| login);
        login.contains(':') || url.contains("password=")
    })
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
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.location.fmt(f),
        }
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.location, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_from_the_folder_of_the_file() {
        let file = |url: &str| {
            let file = StoreUrl::parse(url).unwrap().file(Path::new("/deploy"));
            file.unwrap()
        };
        assert_eq!(file("sqlite:a/0.db"), Path::new("/deploy/a/0.db"));
        assert_eq!(file("sqlite://a/0.db"), Path::new("/deploy/a/0.db"));
        assert_eq!(file("sqlite:/var/0.db"), Path::new("/var/0.db"));
        assert_eq!(file("sqlite:///var/0.db"), Path::new("/var/0.db"));
    }

    #[test]
    fn a_server_is_no_file_and_its_password_stays_in_the_deployment_file() {
        let written = "postgres://loom:secret@db/events?schema=orders";
        let url = StoreUrl::parse(written).unwrap();
        assert_eq!(url.file(Path::new("/deploy")), None);
        assert_eq!(url.to_string(), "postgres://loom@db/events?schema=orders");
        assert_eq!(url.as_written(), written);
        assert!(!format!("{url:?}{}", url.place(Path::new("/"))).contains("secret"));
    }

    #[test]
    fn a_text_with_a_password_is_told_from_one_without() {
        assert!(holds_password("url = \"postgres://u:p@h/d\"\n"));
        assert!(holds_password("url = \"postgres://h/d?password=p\"\n"));
        for text in [
            "url = \"postgres://u@h:5432/d\"\n# a: b@c\n",
            "url = \"sqlite:a.db\"\n",
        ] {
            assert!(!holds_password(text), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_expected_and_repeats_no_secret() {
        for url in [
            "postgres://u:secret@h",
            "postgresql://u:secret@h/db?secret=1",
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
