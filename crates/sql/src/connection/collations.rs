//! Running CREATE, ALTER and DROP COLLATION.

use super::objects::{cascades, skipping, tag};
use super::sink::{CommandTag, RowSink};
use super::state::Connection;
use crate::analyze::collation_named;
use crate::error::{Result, SqlError, state};
use crate::parse::{CollationOption, CollationStatement, QualifiedName, redundant};
use crate::plan::Catalog;
use forebay_collation::{CollationError, Provider, language_tag};
use forebay_engine::{CollationDef, CollationName};

/// The provider that stands for the database's collation.
const DEFAULT_PROVIDER: u8 = b'd';

fn name_of(name: &QualifiedName) -> CollationName<'_> {
    (name.schema.as_deref(), &name.name)
}

fn invalid(message: String) -> SqlError {
    SqlError::new("42P17", message)
}

impl Connection {
    /// Runs such a statement.
    pub(super) fn collation_statement(
        &mut self,
        statement: &CollationStatement,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        use CollationStatement as S;
        match statement {
            S::Create { name, if_not_exists, options } => {
                self.check_writable("CREATE COLLATION")?;
                let def = self.collation_def(options, sink)?;
                let name = name_of(name);
                match self.host.call(|session| session.create_collation(name, &def)) {
                    Err(error) if *if_not_exists && error.sqlstate == "42710" => {
                        let message = format!("{}, skipping", error.message);
                        sink.notice(&SqlError::notice("42710", message))?;
                    }
                    made => made?,
                }
                tag("CREATE COLLATION")
            }
            S::Refresh(name) => {
                self.check_writable("ALTER COLLATION")?;
                let name = name_of(name);
                let versions = self.host.call(|session| session.refresh_collation_version(name))?;
                let message = match versions {
                    (Some(before), Some(now)) if before != now => {
                        format!("changing version from {before} to {now}")
                    }
                    _ => "version has not changed".to_owned(),
                };
                sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
                tag("ALTER COLLATION")
            }
            S::Rename(name, to) => {
                self.check_writable("ALTER COLLATION")?;
                self.host.call(|session| session.rename_collation(name_of(name), to))?;
                tag("ALTER COLLATION")
            }
            S::Owner(name, owner) => {
                self.check_writable("ALTER COLLATION")?;
                let owner = self.named(owner);
                self.host.call(|session| session.set_collation_owner(name_of(name), &owner))?;
                tag("ALTER COLLATION")
            }
            S::Schema(name, schema) => {
                self.check_writable("ALTER COLLATION")?;
                self.host.call(|session| session.set_collation_schema(name_of(name), schema))?;
                tag("ALTER COLLATION")
            }
            S::Drop { names, if_exists, cascade } => {
                self.drop_collations(names, (*if_exists, *cascade), sink)
            }
        }
    }

    fn drop_collations(
        &mut self,
        names: &[QualifiedName],
        (if_exists, cascade): (bool, bool),
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        self.check_writable("DROP COLLATION")?;
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            if !if_exists {
                found.push(name_of(name));
                continue;
            }
            if let Some(schema) = name.schema.as_deref()
                && !self.host.call(|session| session.schema_exists(schema))?
            {
                skipping(sink, &format!("schema \"{schema}\" does not exist"))?;
                continue;
            }
            match self.host.call(|session| session.collation_named(name_of(name)))? {
                Some(_) => found.push(name_of(name)),
                None => {
                    skipping(sink, &format!("collation \"{}\" does not exist", name.display()))?;
                }
            }
        }
        if !found.is_empty() {
            let told = self.host.call(|session| session.drop_collations(&found, cascade))?;
            cascades(sink, &told)?;
        }
        tag("DROP COLLATION")
    }

    /// What the options of CREATE COLLATION say.
    fn collation_def(
        &mut self,
        options: &[CollationOption],
        sink: &mut dyn RowSink,
    ) -> Result<CollationDef> {
        let given = |name: &str| {
            let option = options.iter().find(|option| option.name == name)?;
            Some(option.value.as_ref().ok_or_else(|| {
                SqlError::new(state::SYNTAX_ERROR, format!("{name} requires a parameter"))
            }))
        };
        let text = |name: &str| -> Result<Option<String>> {
            Ok(given(name).transpose()?.map(|value| value.name.clone()))
        };
        if options.iter().any(|option| option.name == "locale")
            && options.iter().any(|option| option.name.starts_with("lc_"))
        {
            let detail = "LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE.";
            return Err(redundant().detail(detail));
        }
        if let Some(from) = given("from").transpose()? {
            if options.len() > 1 {
                let detail = "FROM cannot be specified together with any other options.";
                return Err(redundant().detail(detail));
            }
            return self.collation_like_another(from);
        }
        if given("rules").is_some() {
            return Err(SqlError::unsupported("CREATE COLLATION with RULES"));
        }
        let deterministic = match options.iter().find(|option| option.name == "deterministic") {
            None => true,
            Some(CollationOption { value: None, .. }) => true,
            Some(CollationOption { value: Some(value), .. }) => boolean(&value.name)?,
        };
        let provider = match text("provider")? {
            None => Provider::Libc,
            Some(name) => provider(&name)?,
        };
        let (locale, version) = (text("locale")?, text("version")?);
        let mut def = CollationDef {
            provider,
            collate: text("lc_collate")?,
            ctype: text("lc_ctype")?,
            locale: None,
            deterministic,
            version,
            encoding: None,
        };
        match provider {
            Provider::Libc => {
                def.collate = def.collate.or_else(|| locale.clone());
                def.ctype = def.ctype.or(locale);
            }
            Provider::Icu => def.locale = locale.map(|name| standard(&name, sink)).transpose()?,
            Provider::Builtin => def.locale = locale,
        }
        Ok(def)
    }

    /// FROM: what another collation is.
    fn collation_like_another(&mut self, from: &QualifiedName) -> Result<CollationDef> {
        let row = collation_named(self.host.names(), name_of(from), 0)?;
        if row.provider == DEFAULT_PROVIDER {
            return Err(invalid("collation \"default\" cannot be copied".to_owned()));
        }
        if row.rules.is_some() {
            return Err(SqlError::unsupported("a copy of a collation with rules"));
        }
        let lost = || SqlError::new(state::DATA_CORRUPTED, "pg_collation has a bad collprovider");
        let provider = Provider::of(row.provider).ok_or_else(lost)?;
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Ok(CollationDef {
            provider,
            collate: text(&row.collate),
            ctype: text(&row.ctype),
            locale: text(&row.locale),
            deterministic: row.deterministic,
            version: None,
            encoding: Some(row.encoding),
        })
    }
}

fn boolean(value: &str) -> Result<bool> {
    match value.to_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => {
            let message = "deterministic requires a Boolean value";
            Err(SqlError::new(state::SYNTAX_ERROR, message))
        }
    }
}

fn provider(name: &str) -> Result<Provider> {
    match name.to_lowercase().as_str() {
        "builtin" => Ok(Provider::Builtin),
        "icu" => Ok(Provider::Icu),
        "libc" => Ok(Provider::Libc),
        _ => Err(invalid(format!("unrecognized collation provider: {name}"))),
    }
}

/// The standard form of a locale of ICU. A notice tells if it is another one.
fn standard(name: &str, sink: &mut dyn RowSink) -> Result<String> {
    let standard = language_tag(name).map_err(|error| match error {
        CollationError::BadLocale { reason, .. } => {
            let message =
                format!("could not convert locale name \"{name}\" to language tag: {reason}");
            SqlError::new(state::INVALID_PARAMETER_VALUE, message)
        }
        error => SqlError::new(error.sqlstate(), error.to_string()),
    })?;
    if standard != name {
        let message = format!("using standard form \"{standard}\" for ICU locale \"{name}\"");
        sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))?;
    }
    Ok(standard)
}
