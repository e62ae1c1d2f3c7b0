"""What runs cost and what certificates say, for people: text, pages and pictures.

Names are loaded when they are first used: text needs nothing that makes pages.
"""

from typing import TYPE_CHECKING

from dplateau.spec.deprecated import moved
from dplateau.spec.lazy import loaded

if TYPE_CHECKING:
    from dplateau.report.page import certificate_page as certificate_page
    from dplateau.report.page import write_page as write_page

_find, __dir__ = loaded(__name__, {"page": ("certificate_page", "write_page")})
__getattr__ = moved(
    __name__,
    {
        "Testimony": "dplateau.certificate.DeclaredTraining",
        "ContradictionError": "dplateau.spec.ContradictionError",
        **{name: f"dplateau.files.{name}" for name in ("new_folder", "write_file")},
        **{
            name: f"dplateau.certificate.{name}"
            for name in (
                *("Certificate", "DeclaredTraining", "make_certificate", "certificate_schema", "read_certificate"),
                *("Difference", "Verdict", "verify", "bound_to", "check_weights", "weights_digest"),
            )
        },
    },
    otherwise=_find,
)
