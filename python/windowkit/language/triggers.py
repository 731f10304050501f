"""Triggers, which determine when a stream emits windows that are not final: their base and combinations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, Final

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given

__all__ = ["DEEPEST", "AllOf", "AnyOf", "Chain", "Combined", "Term", "Trigger", "trigger"]

ALLOWED: Final = (
    "allowed are triggers: windowkit.rows(n), windowkit.every(length), windowkit.on(column), "
    "windowkit.at(share), and combinations of these by |, &, .then() and .repeat()"
)

DEEPEST: Final = 64
"""How many triggers are within each other at most: looking through them recurses, and Python has limits."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a trigger as the core takes it; each kind reads its own attributes.

    Parameters
    ----------
    kind : str
        What it is, or how the parts before it are combined.
    number : int
        Of rows, or of parts.
    share : float
        Of a window.
    columns : tuple of str
        Those that it reads.
    length : Duration or int, optional
        Of time.
    """

    kind: str
    number: int = 0
    share: float = 0.0
    columns: tuple[str, ...] = ()
    length: Any = None


class Trigger(ABC):
    """Base of all triggers, which determine when a key of a stream fires.

    Made by `windowkit.rows`, `windowkit.every`, `windowkit.on` and `windowkit.at`, and combined: ``a | b``
    holds if one of the two does, ``a & b`` once both have held since the key last fired, ``a.then(b)`` is a
    for a key's first firing and b for all later ones, and ``a.then(b).repeat()`` goes back to a after b. A
    trigger is a plain value: frozen, hashable, picklable, and its repr is the code that makes it.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.rows(100) | wk.every("5 seconds") & wk.on("urgent")
    rows(100) | every('5 seconds') & on('urgent')
    >>> wk.rows(1).then(wk.rows(10)).then(wk.rows(100))
    rows(1).then(rows(10)).then(rows(100))
    """

    __slots__ = ()

    def __or__(self, other: Trigger) -> Trigger:
        return AnyOf((self, other))

    def __ror__(self, other: Trigger) -> Trigger:
        return AnyOf((other, self))

    def __and__(self, other: Trigger) -> Trigger:
        return AllOf((self, other))

    def __rand__(self, other: Trigger) -> Trigger:
        return AllOf((other, self))

    def then(self, other: Trigger) -> Trigger:
        """Return the trigger that is this one for a key's first firing, and `other` for all later ones.

        Chains have any number of stages. A key begins with the first one again once a window of it is final.

        Raises
        ------
        InvalidType, InvalidValue
            `other` is not a trigger; one of the two has `windowkit.at`; or this is repeated, so that `other`
            could never fire.

        Examples
        --------
        >>> import windowkit as wk
        >>> wk.every("1 second").then(wk.every("1 minute").then(wk.every("1 hour")))
        every('1 second').then(every('1 minute')).then(every('1 hour'))
        """
        return Chain((self, other))

    def repeat(self) -> Trigger:
        """Return the chain that begins again after its last stage; any other trigger repeats anyway.

        Examples
        --------
        >>> import windowkit as wk
        >>> wk.rows(1).then(wk.rows(10)).repeat()
        rows(1).then(rows(10)).repeat()
        >>> wk.rows(1).repeat() == wk.rows(1)
        True
        """
        return trigger("repeat", self)

    keys: ClassVar[tuple[str, ...]]
    """Of its form: first the one that names its kind. Those of fields that have a default may be missing."""

    @property
    def parts(self) -> tuple[Trigger, ...]:
        """The triggers that it combines."""
        return ()

    @property
    def depth(self) -> int:
        """How many triggers are within each other."""
        return 0

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    @property
    def has_clock(self) -> bool:
        """Whether it depends on the clock of the operator."""
        return any(part.has_clock for part in self.parts)

    @property
    def lengths(self) -> tuple[Any, ...]:
        """Its lengths of event time: durations, or ints in the units of an integer column."""
        return tuple(length for part in self.parts for length in part.lengths)

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of windows after which these are emitted, whether or not their keys fire."""
        return tuple(share for part in self.parts for share in part.shares)

    @abstractmethod
    def terms(self) -> list[Term]:
        """Return it in postfix order, as the native core takes it."""

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds, whose keys are `keys`, and values those of its fields."""
        given = (getattr(self, each.name) for each in fields(self))  # type: ignore[arg-type]
        named = {key: value for key, value in zip(self.keys, given, strict=True) if value is not None}
        return {key: value if isinstance(value, int | float) else str(value) for key, value in named.items()}

    def check(self, argument: str) -> None:
        """Refuse what is a value, but no trigger: `windowkit.rows` of none."""
        del argument


def trigger(argument: str, given: object) -> Trigger:
    """Return a trigger that was given for an argument, or an operand of `argument`.

    Raises
    ------
    InvalidType, InvalidValue
        It is not a trigger.
    """
    if not isinstance(given, Trigger):
        raise InvalidType(f"{argument}: {as_given(given):.60} is {a_type(given)}; {ALLOWED}")
    given.check(argument)
    return given


class Combined(Trigger):
    """A trigger of other triggers."""

    __slots__ = ()

    @property
    def depth(self) -> int:
        """How many triggers are within each other, without those that combine no others."""
        return 1 + max(part.depth for part in self.parts)

    def _refuse_depth(self) -> None:
        if self.depth > DEEPEST:
            raise InvalidValue(
                f"{self.keys[0]}: triggers are within each other {self.depth} times; allowed are {DEEPEST}"
            )

    def terms(self) -> list[Term]:
        """Return it in postfix order."""
        (kind,) = self.keys
        return [*(term for part in self.parts for term in part.terms()), Term(kind, len(self.parts))]

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds."""
        (kind,) = self.keys
        return {kind: [part.form() for part in self.parts]}


@dataclass(frozen=True, slots=True)
class AnyOf(Combined):
    """``a | b``: holds if one of them does."""

    keys: ClassVar[tuple[str, ...]] = ("or",)
    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "triggers", tuple(flat("|", self.triggers, AnyOf)))
        self._refuse_depth()

    @property
    def parts(self) -> tuple[Trigger, ...]:
        """The operands."""
        return self.triggers

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.triggers))


@dataclass(frozen=True, slots=True)
class AllOf(Combined):
    """``a & b``: holds once each of them has held since the key last fired."""

    keys: ClassVar[tuple[str, ...]] = ("and",)
    triggers: tuple[Trigger, ...]

    def __post_init__(self) -> None:
        members = tuple(flat("&", self.triggers, AllOf))
        refuse_windows("&", members)
        object.__setattr__(self, "triggers", members)
        self._refuse_depth()

    @property
    def parts(self) -> tuple[Trigger, ...]:
        """The operands."""
        return self.triggers

    def __repr__(self) -> str:
        return " & ".join(f"({each})" if isinstance(each, AnyOf) else repr(each) for each in self.triggers)


@dataclass(frozen=True, slots=True)
class Chain(Combined):
    """``a.then(b)``: one stage after the other, a firing each; then the last one, or all over again."""

    keys: ClassVar[tuple[str, ...]] = ("then",)
    stages: tuple[Trigger, ...]
    repeats: bool = False

    def __post_init__(self) -> None:
        stages: list[Trigger] = []
        for given in self.stages:
            stage = trigger("then", given)
            # What is repeated is a stage of its own.
            stages += stage.stages if isinstance(stage, Chain) and not stage.repeats else [stage]
        refuse_windows("then", stages)
        for stage, following in pairwise(stages):
            if isinstance(stage, Chain):
                raise InvalidValue(
                    f"then: {following!r} follows {stage!r}, which never ends, so that it could never fire; "
                    "a repeated chain is allowed as the last stage, and .repeat() of the whole chain"
                )
        object.__setattr__(self, "stages", tuple(stages))
        self._refuse_depth()

    @property
    def parts(self) -> tuple[Trigger, ...]:
        """The stages."""
        return self.stages

    def repeat(self) -> Trigger:
        """Return the chain that begins again after its last stage."""
        return Chain(self.stages, repeats=True)

    def terms(self) -> list[Term]:
        """Return it in postfix order."""
        again = [Term("repeat", 1)] if self.repeats else []
        return [*Combined.terms(self), *again]

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds."""
        chain = Combined.form(self)
        return {"repeat": chain} if self.repeats else chain

    def __repr__(self) -> str:
        first, *others = self.stages
        text = f"({first!r})" if isinstance(first, AnyOf | AllOf) else repr(first)
        return text + "".join(f".then({each!r})" for each in others) + (".repeat()" if self.repeats else "")


def flat(argument: str, given: Iterable[object], kind: type[AnyOf | AllOf]) -> Iterable[Trigger]:
    """Yield operands, and those of operands that are combined in the same way."""
    for each in given:
        operand = trigger(argument, each)
        if isinstance(operand, kind):
            yield from operand.triggers
        else:
            yield operand


def refuse_windows(argument: str, triggers: Iterable[Trigger]) -> None:
    """Refuse `windowkit.at` where a trigger of keys is meant."""
    for each in triggers:
        if each.shares:
            raise InvalidValue(
                f"{argument}: {each!r} is given, which concerns single windows and not keys; at(...) is "
                "allowed by itself, and combined by |, but not within & or .then()"
            )
