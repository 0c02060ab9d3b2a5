"""Privacy budgets: ledgers, filters, contexts behind them, what releases cost together."""

from typing import TYPE_CHECKING

from opendp_optimal.lazy import lazy_face

if TYPE_CHECKING:
    from opendp_optimal.budget.filters import ApproxGpFilter as ApproxGpFilter
    from opendp_optimal.budget.filters import CgpFilter as CgpFilter
    from opendp_optimal.budget.filters import Filter as Filter
    from opendp_optimal.budget.filters import GaussianFilter as GaussianFilter
    from opendp_optimal.budget.filters import GpFilter as GpFilter
    from opendp_optimal.budget.filters import approximate_loss as approximate_loss
    from opendp_optimal.budget.filters import check_filter as check_filter
    from opendp_optimal.budget.filters import gaussian_delta as gaussian_delta
    from opendp_optimal.budget.filters import simple_loss as simple_loss
    from opendp_optimal.budget.ledger import Ledger as Ledger
    from opendp_optimal.budget.ledger import open_ledger as open_ledger
    from opendp_optimal.budget.shares import epsilon_share as epsilon_share
    from opendp_optimal.budget.theorems import composed_delta as composed_delta
    from opendp_optimal.budget.theorems import concentrated_delta as concentrated_delta
    from opendp_optimal.budget.theorems import gaussian_delta_above as gaussian_delta_above
    from opendp_optimal.errors import BudgetError as BudgetError
    from opendp_optimal.errors import LedgerError as LedgerError
    from opendp_optimal.measure.compose import compose as compose
    from opendp_optimal.measure.guarded import filter_context as filter_context
    from opendp_optimal.measure.guarded import make_filter as make_filter
    from opendp_optimal.measure.guarded import priced as priced

__getattr__, __dir__, __all__ = lazy_face(__name__)
