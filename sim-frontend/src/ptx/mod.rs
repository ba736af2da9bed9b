//! PTX text: lexer, syntax tree, parser, printer.

pub mod ast;
pub mod lexer;
pub mod parser;
pub mod print;
