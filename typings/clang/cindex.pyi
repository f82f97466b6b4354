from collections.abc import Iterable, Sequence

class File:
    name: str

class SourceLocation:
    file: File | None
    line: int

class Diagnostic:
    Warning: int
    Error: int
    severity: int
    spelling: str
    location: SourceLocation
    children: Sequence[Diagnostic]

class TypeKind:
    name: str

class Type:
    kind: TypeKind
    def get_pointee(self) -> Type: ...
    def get_address_space(self) -> int: ...

class CursorKind:
    name: str

class Cursor:
    kind: CursorKind
    spelling: str
    type: Type
    location: SourceLocation
    def get_children(self) -> Iterable[Cursor]: ...

class TranslationUnit:
    cursor: Cursor
    diagnostics: Sequence[Diagnostic]

class TranslationUnitLoadError(Exception): ...
class LibclangError(Exception): ...

class Index:
    @staticmethod
    def create() -> Index: ...
    def parse(
        self, path: str, args: Sequence[str], unsaved_files: Sequence[tuple[str, str]]
    ) -> TranslationUnit: ...
