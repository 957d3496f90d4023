//! The text of CQL statements: as much of the language as the schema and the store use.

/// A value in a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Term {
    /// `?` or `:name`: the bound value with this index.
    Marker(usize, Option<String>),
    Text(String),
    Number(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Less,
    AtMost,
    More,
    AtLeast,
}

pub type Condition = (String, Operator, Term);

/// A column of `CREATE TABLE`: its name, its type, and whether it is static.
pub type Declared = (String, String, bool);

/// What a read shows of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    Value,
    Max,
    Count,
}

#[derive(Clone, Debug)]
pub enum Statement {
    Create {
        table: String,
        columns: Vec<Declared>,
        partition: Vec<String>,
        clustering: Vec<String>,
        /// Whether the clustering columns descend.
        descends: bool,
    },
    Insert {
        table: String,
        columns: Vec<String>,
        terms: Vec<Term>,
        at: Option<Term>,
        /// `IF NOT EXISTS`.
        once: bool,
    },
    /// Sets an element of a map.
    Update {
        table: String,
        at: Option<Term>,
        column: String,
        element: Term,
        term: Term,
        conditions: Vec<Condition>,
    },
    /// Sets columns of a row under a condition.
    Replace {
        table: String,
        columns: Vec<String>,
        terms: Vec<Term>,
        conditions: Vec<Condition>,
        /// `IF column = value`.
        equal: (String, Term),
    },
    Delete {
        table: String,
        at: Option<Term>,
        conditions: Vec<Condition>,
        /// `IF EXISTS`.
        existing: bool,
        /// `IF column = value`.
        equal: Option<(String, Term)>,
    },
    Select {
        table: String,
        distinct: bool,
        columns: Vec<(String, Selector)>,
        conditions: Vec<Condition>,
        /// Columns, and whether they descend.
        order: Vec<(String, bool)>,
        limit: Option<Term>,
    },
}

/// What is wrong with a statement.
pub type Wrong = String;

struct Parser {
    tokens: Vec<String>,
    at: usize,
    markers: usize,
}

fn tokens(text: &str) -> Vec<String> {
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let word = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
        let length = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '<' | '>' if rest[1..].starts_with('=') => 2,
            it if word(it) => rest.find(|it| !word(it)).unwrap_or(rest.len()),
            it => it.len_utf8(),
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

/// Parses one statement.
pub fn parse(text: &str) -> Result<Statement, Wrong> {
    let mut parser = Parser { tokens: tokens(text), at: 0, markers: 0 };
    let parsed = parser.statement().map_err(|wrong| format!("{wrong} in `{text}`"))?;
    match parser.peek() {
        "" => Ok(parsed),
        rest => Err(format!("`{rest}` is unexpected in `{text}`")),
    }
}

impl Parser {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn next(&mut self) -> String {
        let token = self.peek().to_owned();
        self.at += 1;
        token
    }

    /// Takes the words if they follow.
    fn takes(&mut self, words: &str) -> bool {
        let words: Vec<_> = words.split(' ').collect();
        let follow = self.tokens.iter().skip(self.at).take(words.len());
        let found = follow.len() == words.len()
            && follow.zip(&words).all(|(token, word)| token.eq_ignore_ascii_case(word));
        self.at += if found { words.len() } else { 0 };
        found
    }

    fn expect(&mut self, words: &str) -> Result<(), Wrong> {
        if self.takes(words) {
            return Ok(());
        }
        Err(format!("`{}` stands where `{words}` is expected", self.peek()))
    }

    fn name(&mut self) -> Result<String, Wrong> {
        let name = self.next();
        let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic());
        if is_name { Ok(name) } else { Err(format!("`{name}` is not a name")) }
    }

    /// `(a, b)`, each read by `item`.
    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T, Wrong>) -> Result<Vec<T>, Wrong> {
        self.expect("(")?;
        let mut items = vec![item(self)?];
        while self.takes(",") {
            items.push(item(self)?);
        }
        self.expect(")")?;
        Ok(items)
    }

    fn term(&mut self) -> Result<Term, Wrong> {
        let token = self.next();
        if token == "?" || token == ":" {
            let name = (token == ":").then(|| self.name()).transpose()?;
            self.markers += 1;
            return Ok(Term::Marker(self.markers - 1, name));
        }
        if let Some(text) = token.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
            return Ok(Term::Text(text.to_owned()));
        }
        token.parse().map(Term::Number).map_err(|_| format!("`{token}` is not a value"))
    }

    fn timestamp(&mut self) -> Result<Option<Term>, Wrong> {
        self.takes("USING TIMESTAMP").then(|| self.term()).transpose()
    }

    fn conditions(&mut self) -> Result<Vec<Condition>, Wrong> {
        let mut conditions = Vec::new();
        if !self.takes("WHERE") {
            return Ok(conditions);
        }
        loop {
            let column = self.name()?;
            let operator = match self.next().as_str() {
                "=" => Operator::Equal,
                "<" => Operator::Less,
                "<=" => Operator::AtMost,
                ">" => Operator::More,
                ">=" => Operator::AtLeast,
                other => return Err(format!("`{other}` is not an operator")),
            };
            conditions.push((column, operator, self.term()?));
            if !self.takes("AND") {
                return Ok(conditions);
            }
        }
    }

    fn statement(&mut self) -> Result<Statement, Wrong> {
        match self.next().to_ascii_uppercase().as_str() {
            "CREATE" => self.create(),
            "INSERT" => self.insert(),
            "UPDATE" => self.update(),
            "DELETE" => self.delete(),
            "SELECT" => self.select(),
            other => Err(format!("`{other}` is not a statement")),
        }
    }

    fn create(&mut self) -> Result<Statement, Wrong> {
        self.expect("TABLE IF NOT EXISTS")?;
        let table = self.name()?;
        self.expect("(")?;
        let mut columns = Vec::new();
        while !self.takes("PRIMARY KEY") {
            let name = self.name()?;
            let mut kind = String::new();
            while !matches!(self.peek(), "," | "static" | "")
                || kind.matches('<').count() > kind.matches('>').count()
            {
                kind.push_str(&self.next());
            }
            columns.push((name, kind, self.takes("static")));
            self.expect(",")?;
        }
        self.expect("(")?;
        let partition =
            if self.peek() == "(" { self.list(Self::name)? } else { vec![self.name()?] };
        let mut clustering = Vec::new();
        while self.takes(",") {
            clustering.push(self.name()?);
        }
        self.expect(")")?;
        self.expect(")")?;
        let descends = self.options(&clustering)?;
        Ok(Statement::Create { table, columns, partition, clustering, descends })
    }

    /// The options of a table. Returns whether its rows descend.
    fn options(&mut self, clustering: &[String]) -> Result<bool, Wrong> {
        let mut descends = false;
        let mut more = self.takes("WITH");
        while more {
            if self.takes("CLUSTERING ORDER BY") {
                let order = self.list(Self::ordering)?;
                descends = order.iter().any(|(_, descends)| *descends);
                let names = order.iter().map(|(name, _)| name);
                if !names.eq(clustering) || order.iter().any(|(_, other)| *other != descends) {
                    return Err("this clustering order is not simulated".to_owned());
                }
            } else if self.takes("comment =") {
                self.term()?;
            } else {
                self.expect("gc_grace_seconds =")?;
                self.term()?;
            }
            more = self.takes("AND");
        }
        Ok(descends)
    }

    fn ordering(&mut self) -> Result<(String, bool), Wrong> {
        let name = self.name()?;
        let descends = self.takes("DESC");
        if !descends {
            self.takes("ASC");
        }
        Ok((name, descends))
    }

    fn insert(&mut self) -> Result<Statement, Wrong> {
        self.expect("INTO")?;
        let table = self.name()?;
        let columns = self.list(Self::name)?;
        self.expect("VALUES")?;
        let terms = self.list(Self::term)?;
        if terms.len() != columns.len() {
            return Err(format!("{} values for {} columns", terms.len(), columns.len()));
        }
        let once = self.takes("IF NOT EXISTS");
        let at = self.timestamp()?;
        Ok(Statement::Insert { table, columns, terms, at, once })
    }

    fn update(&mut self) -> Result<Statement, Wrong> {
        let table = self.name()?;
        let at = self.timestamp()?;
        self.expect("SET")?;
        let column = self.name()?;
        if self.peek() == "=" && at.is_none() {
            return self.replace(table, column);
        }
        self.expect("[")?;
        let element = self.term()?;
        self.expect("]")?;
        self.expect("=")?;
        let term = self.term()?;
        let conditions = self.conditions()?;
        Ok(Statement::Update { table, at, column, element, term, conditions })
    }

    /// `IF column = value`.
    fn equal(&mut self) -> Result<Option<(String, Term)>, Wrong> {
        if !self.takes("IF") {
            return Ok(None);
        }
        let column = self.name()?;
        self.expect("=")?;
        Ok(Some((column, self.term()?)))
    }

    fn replace(&mut self, table: String, first: String) -> Result<Statement, Wrong> {
        self.expect("=")?;
        let (mut columns, mut terms) = (vec![first], vec![self.term()?]);
        while self.takes(",") {
            columns.push(self.name()?);
            self.expect("=")?;
            terms.push(self.term()?);
        }
        let conditions = self.conditions()?;
        let equal = self.equal()?.ok_or("only a conditional update of a row is simulated")?;
        Ok(Statement::Replace { table, columns, terms, conditions, equal })
    }

    fn delete(&mut self) -> Result<Statement, Wrong> {
        self.expect("FROM")?;
        let table = self.name()?;
        let at = self.timestamp()?;
        let conditions = self.conditions()?;
        let existing = self.takes("IF EXISTS");
        let equal = self.equal()?;
        Ok(Statement::Delete { table, at, conditions, existing, equal })
    }

    fn select(&mut self) -> Result<Statement, Wrong> {
        let distinct = self.takes("DISTINCT");
        let mut columns = Vec::new();
        loop {
            let shown = match self.peek() {
                "max" => Selector::Max,
                "count" => Selector::Count,
                _ => Selector::Value,
            };
            if shown == Selector::Value {
                columns.push((self.name()?, shown));
            } else {
                self.next();
                let [name] = <[String; 1]>::try_from(self.list(Self::name)?)
                    .map_err(|names| format!("{names:?} is not one column"))?;
                columns.push((name, shown));
            }
            if !self.takes(",") {
                break;
            }
        }
        self.expect("FROM")?;
        let table = self.name()?;
        let conditions = self.conditions()?;
        let mut order = Vec::new();
        if self.takes("ORDER BY") {
            order.push(self.ordering()?);
            while self.takes(",") {
                order.push(self.ordering()?);
            }
        }
        let limit = self.takes("LIMIT").then(|| self.term()).transpose()?;
        Ok(Statement::Select { table, distinct, columns, conditions, order, limit })
    }
}
