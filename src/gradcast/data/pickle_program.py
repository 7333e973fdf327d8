"""The operations of a pickle, looked at before any of them is carried out."""

import pickletools
from io import BufferedReader, BytesIO

GETS, PUTS = ("GET", "BINGET", "LONG_BINGET"), ("PUT", "BINPUT", "LONG_BINPUT")
KEYS = ("SETITEM", "SETITEMS", "DICT")  # of a dict
SETS = ("EMPTY_SET", "ADDITEMS", "FROZENSET")
CONTAINERS = ("tuple", "list", "dict")  # kinds whose hash may take for ever, or as long as the stack lasts


def check_program(file: BufferedReader | BytesIO) -> None:
    """Raise ValueError for memo numbers out of nowhere, for sets, and for containers as keys of a dict.

    A large memo number fills the memory. A small pickle of tuples in tuples takes for ever to hash, and nothing but the
    end of the process stops it.
    """
    machine = _Machine()
    for count, (operation, argument, _) in enumerate(pickletools.genops(file)):
        if operation.name in PUTS and (argument or 0) > count:
            raise ValueError(f"memo number {argument} after {count} operations")
        if operation.name in SETS:
            raise ValueError("a set, which no dataset has")
        machine.step(operation, argument)


class _Machine:
    """A pickle's stack and memo, with the kinds of values in place of values."""

    def __init__(self) -> None:
        self.stack: list[str] = []
        self.marks: list[int] = []  # their places on the stack
        self.memo: dict[object, str] = {}

    def step(self, operation: pickletools.OpcodeInfo, argument: object) -> None:
        """Do with kinds what the operation would do with values."""
        name = operation.name
        if name in GETS:
            self.stack.append(self.memo.get(argument, "any"))
        elif name in PUTS:
            self.memo[argument] = self._top()
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = self._top()
        elif name == "DUP":
            self.stack.append(self._top())
        elif name == "BUILD":  # changes a value and leaves its kind
            self._pop(1)
        elif name == "MARK":
            self.marks.append(len(self.stack))
        else:
            below, items = self._take(operation)
            if name in KEYS:
                self._check(below[1:2] if name == "SETITEM" else items[::2])
            self.stack += [kind.name for kind in operation.stack_after]

    def _take(self, operation: pickletools.OpcodeInfo) -> tuple[list[str], list[str]]:
        """The values that the operation takes: so many, and those above the last mark where it takes these."""
        wanted, items = operation.stack_before, list[str]()
        if pickletools.markobject in wanted:
            if not self.marks:
                raise ValueError("no mark on the stack")
            items = self._pop(len(self.stack) - self.marks.pop())
        elif operation.name == "POP" and self.marks[-1:] == [len(self.stack)]:
            self.marks.pop()
            return [], []
        plain = wanted.index(pickletools.markobject) if pickletools.markobject in wanted else len(wanted)
        return self._pop(plain), items

    def _top(self) -> str:
        if not self.stack:
            raise ValueError("an empty stack")
        return self.stack[-1]

    def _pop(self, count: int) -> list[str]:
        kept = len(self.stack) - count
        if kept < 0:
            raise ValueError("values are taken from an empty stack")
        taken = self.stack[kept:]
        del self.stack[kept:]
        return taken

    def _check(self, keys: list[str]) -> None:
        for kind in keys:
            if kind in CONTAINERS:
                raise ValueError(f"a {kind} as the key of a dict")
