"""Private naive Bayes and logistic regression for scikit-learn, with optimal noise.

Estimators release noisy statistics through OpenDP measurements, account for them by composition,
and compute the rest from what was released.
"""

from opendp_optimal_learn.budget import BUDGETS, NOISES, Plan, composed_delta, plan
from opendp_optimal_learn.logistic import PrivateLogisticRegression
from opendp_optimal_learn.naive_bayes import PrivateNaiveBayes
from opendp_optimal_learn.notices import BoundsExceededWarning, PrivacyLeakWarning
from opendp_optimal_learn.releases import Releases
from opendp_optimal_learn.truncated import make_truncated_laplace, truncated_table

__all__ = [
    "BUDGETS",
    "NOISES",
    "BoundsExceededWarning",
    "Plan",
    "PrivacyLeakWarning",
    "PrivateLogisticRegression",
    "PrivateNaiveBayes",
    "Releases",
    "composed_delta",
    "make_truncated_laplace",
    "plan",
    "truncated_table",
]
