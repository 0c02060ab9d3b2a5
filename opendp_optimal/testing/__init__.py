"""Tools to distrust a mechanism with: audits by drawing, and a privacy proof in plain fractions.

For this package's own tests and for authors of plugins. Nothing here is used by a release.
"""

from opendp_optimal.testing.audit import AuditResult, audit
from opendp_optimal.testing.bounds import AuditReport, clopper_pearson, log_ratio, proven_loss
from opendp_optimal.testing.independent import plain_delta, plain_epsilon_holds

__all__ = [
    "AuditReport",
    "AuditResult",
    "audit",
    "clopper_pearson",
    "log_ratio",
    "plain_delta",
    "plain_epsilon_holds",
    "proven_loss",
]
