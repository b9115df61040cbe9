//! PostgreSQL's answers: recorded ones, and those of a server that is started for them.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use forebay_testkit::peer::Peer;
use forebay_types::ValueError;

/// Expressions and our answers.
pub type Cases = Vec<(String, String)>;

/// Cases with one group of settings.
pub struct Batch {
    /// The name of the file of answers.
    pub name: &'static str,
    /// `name = value` of each setting.
    pub settings: &'static [&'static str],
    pub cases: Cases,
}

/// An error as the answers have it.
pub fn shown(error: &ValueError) -> String {
    let mut text = format!("{} {error}", error.sqlstate());
    for line in [error.detail(), error.hint()].into_iter().flatten() {
        write!(text, " | {line}").expect("a string takes any text");
    }
    text
}

/// A result as the answers have it.
pub fn answer(result: Result<String, ValueError>) -> String {
    match result {
        Ok(text) => text,
        Err(error) => format!("ERROR {}", shown(&error)),
    }
}

fn one_line(text: &str) -> String {
    let mut line = text.replace('\\', "\\\\");
    for (c, name) in
        [('\n', 'n'), ('\t', 't'), ('\r', 'r'), ('\u{8}', 'b'), ('\u{b}', 'v'), ('\u{c}', 'f')]
    {
        line = line.replace(c, &format!("\\{name}"));
    }
    line
}

const TRY: &str = r"
create function pg_temp.try(q text) returns text language plpgsql as $$
declare r text; d text; h text;
begin
  execute 'select ' || q into r;
  return coalesce(r, 'NULL');
exception when others then
  get stacked diagnostics d = pg_exception_detail, h = pg_exception_hint;
  return 'ERROR ' || sqlstate || ' ' || sqlerrm
    || case d when '' then '' else ' | ' || d end || case h when '' then '' else ' | ' || h end;
end $$;
create temp table c (n int generated always as identity, q text);
";

/// The answers of a PostgreSQL 18 that is started for them. None: there is none.
fn ask(batches: &[Batch]) -> Option<Vec<Vec<String>>> {
    std::env::var_os("FOREBAY_PG18_RUN")?;
    let peer = Peer::find("types")?;
    peer.init("data");
    let server = peer.start("data", "-c fsync=off");
    let mut answers = Vec::new();
    for batch in batches {
        let mut script = TRY.to_owned();
        for setting in batch.settings {
            writeln!(script, "set {setting};").expect("a string takes any text");
        }
        script.push_str("copy c (q) from stdin;\n");
        for (expression, _) in &batch.cases {
            writeln!(script, "{}", one_line(expression)).expect("a string takes any text");
        }
        script.push_str("\\.\n\\copy (select pg_temp.try(q) from c order by n) to stdout\n");
        let file = peer.outside("script.sql");
        fs::write(&file, script).expect("the script is written");
        let output =
            peer.psql(server.port).args(["-f", &peer.inside("script.sql")]).output().expect("psql");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let output = String::from_utf8(output.stdout).expect("UTF-8");
        answers.push(output.lines().map(str::to_owned).collect());
    }
    Some(answers)
}

fn file_of(batch: &Batch) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(format!("{}.tsv", batch.name))
}

/// Compares our answers with PostgreSQL's.
pub fn compare(batches: &[Batch]) {
    let live = ask(batches);
    if let (Some(live), Some(_)) = (&live, std::env::var_os("FOREBAY_RECORD")) {
        for (batch, answers) in batches.iter().zip(live) {
            let lines = batch.cases.iter().zip(answers);
            let text: String = lines.map(|((q, _), a)| format!("{}\t{a}\n", one_line(q))).collect();
            fs::write(file_of(batch), text).expect("the answers are written");
        }
    }
    let (mut wrong, mut total) = (Vec::new(), 0);
    for (n, batch) in batches.iter().enumerate() {
        let file = fs::read_to_string(file_of(batch)).expect("recorded answers");
        let recorded: Vec<(&str, &str)> =
            file.lines().map(|line| line.split_once('\t').expect("two columns")).collect();
        assert_eq!(recorded.len(), batch.cases.len(), "{}: record the answers anew", batch.name);
        for (i, (expression, ours)) in batch.cases.iter().enumerate() {
            let (question, want) = recorded[i];
            assert_eq!(question, one_line(expression), "{}: record anew", batch.name);
            if let Some(live) = &live {
                assert_eq!(live[n][i], want, "{}: {question}: PostgreSQL changed", batch.name);
            }
            total += 1;
            if one_line(ours) != want {
                wrong.push(format!(
                    "{}: {question}\n  want {want}\n  have {}",
                    batch.name,
                    one_line(ours)
                ));
            }
        }
    }
    let shown = wrong.iter().take(25).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} of {total} answers differ:\n{shown}", wrong.len());
}
