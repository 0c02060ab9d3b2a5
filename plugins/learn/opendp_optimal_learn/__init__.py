"""Private naive Bayes and logistic regression for scikit-learn, with optimal noise.

Estimators release noisy statistics through OpenDP measurements, account for them by composition,
and compute the rest from what was released.
"""

from typing import TYPE_CHECKING

from opendp_optimal.extend import enrol, lazy_face
from opendp_optimal_learn import plugin

if TYPE_CHECKING:
    from opendp_optimal_learn.budget import BUDGETS as BUDGETS
    from opendp_optimal_learn.budget import NOISES as NOISES
    from opendp_optimal_learn.budget import Plan as Plan
    from opendp_optimal_learn.budget import composed_delta as composed_delta
    from opendp_optimal_learn.budget import plan as plan
    from opendp_optimal_learn.classifier import BoundsExceededWarning as BoundsExceededWarning
    from opendp_optimal_learn.classifier import PrivacyLeakWarning as PrivacyLeakWarning
    from opendp_optimal_learn.logistic import PrivateLogisticRegression as PrivateLogisticRegression
    from opendp_optimal_learn.naive_bayes import PrivateNaiveBayes as PrivateNaiveBayes
    from opendp_optimal_learn.releases import Releases as Releases
    from opendp_optimal_learn.truncated import make_truncated_laplace as make_truncated_laplace
    from opendp_optimal_learn.truncated import truncated_table as truncated_table

__getattr__, __dir__, __all__ = lazy_face(__name__)

enrol(plugin)
