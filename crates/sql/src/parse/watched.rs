//! PostgreSQL's dialect with a stop: the parser calls it before each operand.
//!
//! It stops the parser for a cancel, and when the parser has read the same tokens too often: it
//! tries one thing and then another at each level of `position(position(...`, say.

use forebay_engine::Interrupt;
use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;
use std::any::TypeId;
use std::cell::Cell;

/// Operands that are read for each token, on average.
const READINGS: usize = 20;
/// Operands between two looks at the interrupt.
const STRIDE: usize = 64;

/// PostgreSQL's reserved words with which no expression begins.
const NO_OPERANDS: &[Keyword] = {
    use Keyword::*;
    &[
        AND, AS, ASC, CHECK, COLUMN, CONSTRAINT, CREATE, DESC, DO, ELSE, END, EXCEPT, FETCH, FOR,
        FROM, GRANT, GROUP, HAVING, IN, INTERSECT, INTO, LIMIT, OFFSET, ON, OR, ORDER, PRIMARY,
        REFERENCES, RETURNING, TABLE, THEN, TO, UNION, UNIQUE, USING, WHEN, WHERE, WINDOW,
    ]
};

/// Words that name a column of a query only behind AS.
const LABELS_WITH_AS: &[Keyword] = {
    use Keyword::*;
    &[
        ARRAY, AS, CHAR, CHARACTER, CREATE, DAY, EXCEPT, FETCH, FILTER, FOR, FROM, GRANT, GROUP,
        HAVING, HOUR, INTERSECT, INTO, LIMIT, MINUTE, MONTH, NOTNULL, OFFSET, ON, ORDER, OVER,
        OVERLAPS, PRECISION, RETURNING, SECOND, TO, UNION, VARYING, WHERE, WINDOW, WITH, WITHIN,
        WITHOUT, YEAR,
    ]
};

/// The dialect of one statement.
#[derive(Debug)]
pub(super) struct Watched {
    interrupt: Option<Interrupt>,
    read: Cell<usize>,
    most: usize,
}

impl Watched {
    /// For a statement of so many tokens.
    pub(super) fn new(interrupt: Option<&Interrupt>, tokens: usize) -> Watched {
        let most = (tokens + STRIDE) * READINGS;
        Watched { interrupt: interrupt.cloned(), read: Cell::new(0), most }
    }

    fn must_stop(&self) -> bool {
        let read = self.read.get() + 1;
        self.read.set(read);
        let asked = || self.interrupt.as_ref().is_some_and(|i| i.pending().is_some());
        read > self.most || read.is_multiple_of(STRIDE) && asked()
    }
}

/// The dialect that answers the parser's questions.
const POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

/// Hands on what PostgreSQL's dialect answers otherwise than the trait does.
macro_rules! hand_on {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            POSTGRESQL.$name()
        })*
    };
}

impl Dialect for Watched {
    fn dialect(&self) -> TypeId {
        POSTGRESQL.dialect()
    }

    /// Stops with the one error that the parser takes for an end, and not for a reason to try
    /// something else. A reserved word is no name of a column, as which the parser would take it.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if self.must_stop() {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let next = parser.peek_token_ref();
        let reserved = matches!(&next.token, Token::Word(w)
            if w.quote_style.is_none() && NO_OPERANDS.contains(&w.keyword));
        reserved.then(|| parser.expected_ref("an expression", next))
    }

    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser<'_>) -> bool {
        !LABELS_WITH_AS.contains(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        POSTGRESQL.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRESQL.prec_value(precedence)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRESQL.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRESQL.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRESQL.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRESQL.is_identifier_part(ch)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRESQL.is_custom_operator_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRESQL.is_reserved_for_identifier(keyword)
    }

    fn is_table_alias(&self, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        POSTGRESQL.is_table_alias(keyword, parser)
    }

    fn is_table_factor_alias(&self, as_: bool, keyword: &Keyword, parser: &mut Parser<'_>) -> bool {
        match as_ {
            true => !NO_OPERANDS.contains(keyword),
            false => self.is_table_alias(keyword, parser),
        }
    }

    hand_on!(
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_aliased_function_args,
        supports_alter_column_type_using,
        supports_alter_user_as_alter_role,
        supports_array_typedef_with_brackets,
        supports_bitwise_shift_operators,
        supports_comma_separated_trim,
        supports_comment_on,
        supports_comment_optimizer_hint,
        supports_create_index_with_clause,
        supports_create_table_like_parenthesized,
        supports_empty_projections,
        supports_exclude_constraint,
        supports_explain_with_utility_options,
        supports_factorial_operator,
        supports_filter_during_aggregation,
        supports_geometric_types,
        supports_group_by_expr,
        supports_insert_table_alias,
        supports_interval_options,
        supports_left_associative_joins_without_parens,
        supports_listen_notify,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_named_fn_args_with_expr_name,
        supports_nested_comments,
        supports_notnull_operator,
        supports_numeric_literal_underscores,
        supports_order_by_using_operator,
        supports_select_wildcard_with_alias,
        supports_set_names,
        supports_string_escape_constant,
        supports_unicode_string_literal,
        supports_xml_expressions,
    );
}
