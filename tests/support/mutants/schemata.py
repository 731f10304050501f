"""Rust sources with many mutants in them, each behind a switch, so that all are compiled at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

SWITCH: Final = """
/// Which mutant is on, and which have been asked for: see `tests/support/mutants`.
#[allow(missing_docs, unsafe_code)]
pub mod mutants {
    use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

    /// `u32::MAX` is for the variable of the environment, which is read once.
    #[unsafe(no_mangle)]
    pub static WINDOWKIT_MUTANT: AtomicU32 = AtomicU32::new(u32::MAX);
    #[unsafe(no_mangle)]
    pub static WINDOWKIT_REACHED: [AtomicU8; COUNT] = [const { AtomicU8::new(0) }; COUNT];

    pub fn on(mutant: usize) -> bool {
        WINDOWKIT_REACHED[mutant].store(1, Relaxed);
        if WINDOWKIT_MUTANT.load(Relaxed) == u32::MAX {
            let given = std::env::var("WINDOWKIT_MUTANT").ok();
            WINDOWKIT_MUTANT.store(given.map_or(u32::MAX - 1, |n| n.parse().unwrap()), Relaxed);
        }
        WINDOWKIT_MUTANT.load(Relaxed) as usize == mutant
    }
}
"""


class Mutant(NamedTuple):
    """A change, as `cargo mutants --list --json` describes it."""

    room: str
    file: str
    line: int
    column: int
    genre: str
    replacement: str
    name: str


class Rewritten(NamedTuple):
    """A source with mutants, the pieces of each (its bytes), and those that have no place in it."""

    source: bytes
    pieces: list[tuple[int, int, int]]
    lost: set[int]

    def at(self, begin: int, end: int) -> set[int]:
        """The mutants that an error there is due to: within what they add, or else nearest around it."""
        within = {number for first, last, number in self.pieces if first < end and begin < last}
        whole: dict[int, tuple[int, int]] = {}
        for first, last, number in self.pieces:
            whole[number] = (whole.get(number, (first, last))[0], last)
        around = [(last - first, number) for number, (first, last) in whole.items() if first <= begin <= last]
        return within or {number for _, number in sorted(around)[:1]}


class NotFoundError(Exception):
    """The syntax tree has no place for a mutant, such as one within a macro."""


def insertions(root: Node, source: bytes, number: int, mutant: Mutant) -> list[tuple[int, str]]:
    """What to insert, and before which bytes, for a mutant to replace the code while it is on."""
    line = source.split(b"\n")[mutant.line - 1].decode()
    row, column = mutant.line - 1, len(line[: mutant.column - 1].encode())
    found = root.descendant_for_point_range((row, column), (row, column + 1))
    on = f"crate::mutants::on({number})"

    def above(*kinds: str) -> Node:
        node = found
        while node is not None and node.type not in kinds:
            node = node.parent
        if node is None:
            raise NotFoundError(mutant.name)
        return node

    def text(begin: int, end: int) -> str:
        return source[begin:end].decode()

    def instead(node: Node, changed: str) -> list[tuple[int, str]]:
        return [(node.start_byte, f"(if {on} {{ {changed} }} else {{ "), (node.end_byte, " })")]

    match mutant.genre:
        case "FnValue":
            body = above("function_item").child_by_field_name("body")
            assert body is not None
            # To the end, as an error of the rest may be due to it.
            return [
                (body.start_byte + 1, f" if {on} {{ return {mutant.replacement}; }} "),
                (body.end_byte - 1, ""),
            ]
        case "BinaryOperator":
            node = above("binary_expression", "compound_assignment_expr")
            operator = node.child_by_field_name("operator")
            if operator is None or operator.start_point != (row, column):
                raise NotFoundError(mutant.name)
            left, right = (
                text(node.start_byte, operator.start_byte),
                text(operator.end_byte, node.end_byte),
            )
            return instead(node, left + mutant.replacement + right)
        case "UnaryOperator":
            node = above("unary_expression")
            if node.start_point != (row, column):
                raise NotFoundError(mutant.name)
            return instead(node, mutant.replacement + text(node.start_byte + 1, node.end_byte))
        case "StructField":
            node, field = (
                above("struct_expression"),
                above("field_initializer", "shorthand_field_initializer"),
            )
            after = field.next_sibling
            end = after.end_byte if after is not None and after.type == "," else field.end_byte
            return instead(node, text(node.start_byte, field.start_byte) + text(end, node.end_byte))
        case "MatchArm" | "MatchArmGuard":
            pattern = above("match_arm").child_by_field_name("pattern")
            assert pattern is not None
            guard = pattern.child_by_field_name("condition")
            if guard is None:
                return [(pattern.end_byte, f" if !{on} ")]
            if mutant.replacement == "true":
                return [(guard.start_byte, f"{on} || ("), (guard.end_byte, ")")]
            if guard.type in ("let_condition", "let_chain"):
                return [(guard.start_byte, f"!{on} && ")]
            return [(guard.start_byte, f"!{on} && ("), (guard.end_byte, ")")]
    raise NotFoundError(mutant.genre)


def rewritten(source: bytes, mutants: Iterable[tuple[int, Mutant]]) -> Rewritten:
    """A source with these mutants."""
    # Only `make mutants` installs it, and pytest imports all of `support`.
    import tree_sitter_rust
    from tree_sitter import Language, Parser

    root = Parser(Language(tree_sitter_rust.language())).parse(source).root_node
    # Where two meet, one ends before the other begins, and the wider is around the narrower.
    added: list[tuple[int, tuple[int, ...], int, bytes]] = []
    lost = set()
    for number, mutant in mutants:
        try:
            places = insertions(root, source, number, mutant)
        except NotFoundError:
            lost.add(number)
            continue
        begin, end = places[0][0], places[-1][0]
        for nth, (place, text) in enumerate(places):
            order = (1, begin - end, number) if nth == 0 else (0, -begin, -number)
            added.append((place, order, number, text.encode()))
    result, pieces, last = bytearray(), [], 0
    for place, _, number, text in sorted(added):
        result += source[last:place]
        last = place
        pieces.append((len(result), len(result) + len(text), number))
        result += text
    return Rewritten(bytes(result + source[last:]), pieces, lost)
