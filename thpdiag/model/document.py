"""Documents for other programs: base classes of their models, privacy of their texts, their JSON Schemas.

A model defines each key once: its type, its description in the schema, and by its text type (`Public`, `Sentence`,
`Place`, ...) how `thpdiag.redact` treats it. Limits of numbers and lists are in the schema; they are promises to
readers and are not checked when a document is made or read.

`compact` writes JSON in one line: sorted keys, ASCII only, the same bytes for the same document. NaN and the infinities
are no JSON and become null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from thpdiag.model.text import names_of, without_names

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Privacy(Enum):
    """What a text may reveal about the customer."""

    PUBLIC = "a word of ours, of the kernel or of the vocabulary"
    SENTENCE = "a sentence of ours about things of the customer"
    COMMAND = "a command of ours for the customer's shell"
    PLACE = "a path inside the bundle, or the folder of whoever ran it"
    QUOTED = "a text of the customer's"
    ENTITY = "a process with its pid, a zone, a cpu, a device or a control group"
    HOST = "the name of a host"
    RELEASE = "a kernel release"
    FUNCTION = "a function of a call stack"
    STACK = "a folded call stack"
    MODULE = "a kernel module"
    METRIC = "a name of the vocabulary, with the state that it was measured in"
    CHECKSUM = "a checksum of a file"


Public = Annotated[str, Privacy.PUBLIC]
Sentence = Annotated[str, Privacy.SENTENCE]
Command = Annotated[str, Privacy.COMMAND]
Place = Annotated[str, Privacy.PLACE]
Quoted = Annotated[str, Privacy.QUOTED]
Entity = Annotated[str, Privacy.ENTITY]
HostName = Annotated[str, Privacy.HOST]
Release = Annotated[str, Privacy.RELEASE]
Function = Annotated[str, Privacy.FUNCTION]
Stack = Annotated[str, Privacy.STACK]
Module = Annotated[str, Privacy.MODULE]
Metric = Annotated[str, Privacy.METRIC]
Checksum = Annotated[str, Privacy.CHECKSUM]

Number = int | float
Count = Annotated[int, Field(json_schema_extra={"minimum": 0})]
AtLeastOne = Annotated[int, Field(json_schema_extra={"minimum": 1})]
Positive = Annotated[Number, Field(json_schema_extra={"minimum": 0})]
Share = Annotated[Number, Field(json_schema_extra={"minimum": 0, "maximum": 1})]


class Document(BaseModel):
    """A frozen object of a document. A key that is absent in JSON has its default and counts as unset."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, serialize_by_alias=True)

    @classmethod
    def model_construct(  # type: ignore[override]  # the plugin of mypy gives it the fields of this class, which has none
        cls, _fields_set: set[str] | None = None, **values: Any
    ) -> Self:
        """Return an object without validation: values are thpdiag's own, so no validator has to be built."""
        if any(map(names_of, values.values())):
            names = dict.fromkeys(name for value in values.values() for name in names_of(value))
            values = {key: without_names(value) for key, value in values.items()}
            values["fields"] = [NameInText.model_construct(kind=kind.value, value=value) for kind, value in names]
        made = cls.__new__(cls)
        object.__setattr__(made, "__dict__", {**_defaults(cls), **values})
        object.__setattr__(made, "__pydantic_fields_set__", set(values) if _fields_set is None else _fields_set)
        object.__setattr__(made, "__pydantic_extra__", None)
        object.__setattr__(made, "__pydantic_private__", None)
        return made


@cache
def _defaults(model: type[Document]) -> Mapping[str, Any]:
    return {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()
            if not field.is_required()}  # fmt: skip


@cache
def json_keys(model: type[Document]) -> Mapping[str, str]:
    """Return the JSON key of each field of a document."""
    return {name: field.alias or name for name, field in model.model_fields.items()}


class NameInText(Document):
    """A customer's name in a sentence."""

    kind: Literal["host", "process", "entity", "function", "path", "module", "quoted"] = Field(
        description="What it is the name of: a host, a program, a process with its pid (or a zone, cpu, device), a "
        "function of a call stack, a path, a kernel module; quoted is anything else that the customer's files contain."
    )
    value: Quoted = Field(description="The name in the sentence.")


class Worded(Document):
    """An object with sentences of ours."""

    fields: list[NameInText] = Field(
        [], description="The customer's names in the sentences and commands of this object; absent if none."
    )


def present_keys(**optional: Any) -> dict[str, Any]:
    """Return the optional keys of an object that are not empty; the others are absent in JSON."""
    return {name: value for name, value in optional.items() if value not in (None, "", [])}


D = TypeVar("D", bound=Document)


def read_document(model: type[D], document: Mapping[str, Any]) -> D:
    """Return the object of a JSON document; the ValueError describes the first error in a sentence."""
    try:
        return model.model_validate(document, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from None


def plain_document(model: Document) -> dict[str, Any]:
    """Return a document as JSON values, with the keys that were set."""
    values, keys = model.__dict__, json_keys(type(model))
    return {keys[name]: _plain_value(values[name]) for name in keys if name in model.model_fields_set}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Document):
        return plain_document(value)
    if isinstance(value, list | tuple):
        return (
            [_plain_value(item) for item in value]
            if value and not isinstance(value[0], int | float | str)
            else list(value)
        )
    return {key: _plain_value(item) for key, item in value.items()} if isinstance(value, dict) else value


class _JsonSchema(GenerateJsonSchema):
    """Omits titles and defaults, which repeat the names."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


# A fixed order: a union has the order of the first equal union that any module made.
TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")


def json_schema(model: type[Document], name: str, title: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a document, with the objects in it under `$defs`."""
    whole = model.model_json_schema(by_alias=True, schema_generator=_JsonSchema)
    definitions = dict(whole.get("$defs", {}))
    root = definitions.pop(model.__name__, None) or {key: part for key, part in whole.items() if key != "$defs"}
    head = {"$schema": DIALECT, "$id": name, **root, "title": title, "$defs": definitions}
    schema: dict[str, Any] = _simplify(head, f"#/$defs/{model.__name__}")
    return schema


def _simplify(part: Any, root: str) -> Any:
    """Return a part of a schema with `#` for references to the root, and one `type` for a choice of plain types."""
    if isinstance(part, list):
        return [_simplify(item, root) for item in part]
    if not isinstance(part, Mapping):
        return part
    simple: dict[str, Any] = {
        key: "#" if (key, item) == ("$ref", root) else _simplify(item, root) for key, item in part.items()
    }
    choices = simple.get("anyOf", ())
    if choices and all(isinstance(c.get("type"), str) and (len(c) == 1 or c is choices[0]) for c in choices):
        simple = {**choices[0], **simple, "type": sorted((choice["type"] for choice in choices), key=TYPES.index)}
        del simple["anyOf"]
        if "enum" in simple and "null" in simple["type"]:
            simple["enum"] = [*simple["enum"], None]
    return simple


def compact(document: Mapping[str, Any]) -> str:
    """Return JSON without white space, for storage and embedding."""
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):  # a mapping other than dict, or NaN
        return json.dumps(plain_json(document), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain_json(value: object) -> object:
    """Return the value with JSON types only."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
