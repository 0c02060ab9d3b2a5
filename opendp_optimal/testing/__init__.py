"""Tools to distrust a mechanism with: audits by drawing, and a privacy proof in plain fractions.

For this package's own tests and for authors of plugins. Nothing here is used by a release.
"""

from opendp_optimal.testing.audit import AuditResult, audit
from opendp_optimal.testing.independent import plain_delta, plain_epsilon_holds

__all__ = ["AuditResult", "audit", "plain_delta", "plain_epsilon_holds"]
