"""The API types of Kubernetes v1.36, as a table: field names, scalar types, merge keys, list kinds.

Used for everything that depends on the shape of a kind: telling unknown fields and wrong types (`review`), strategic
merge, field ownership, and the OpenAPI documents. The table is made by `generate.py`; kinds that it does not hold are
taken as they come.
"""

from kubesched.apiserver.schema.review import Review, WrongType, review, zero
from kubesched.apiserver.schema.structs import Field, Struct, struct, struct_of

__all__ = ["Field", "Review", "Struct", "WrongType", "review", "struct", "struct_of", "zero"]
