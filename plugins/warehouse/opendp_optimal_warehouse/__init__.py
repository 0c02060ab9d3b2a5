"""Private tables where the data lives: exact integers from a database, optimal noise, budgets.

The database adds up whole numbers, a handful for each group; noise is added here, and the ledger is
charged before anything is sent.
"""

from typing import TYPE_CHECKING

from opendp_optimal.extend import enrol, lazy_face
from opendp_optimal_warehouse import plugin

if TYPE_CHECKING:
    from opendp_optimal_warehouse.connection import Warehouse as Warehouse
    from opendp_optimal_warehouse.connection import connect as connect
    from opendp_optimal_warehouse.errors import WarehouseError as WarehouseError
    from opendp_optimal_warehouse.expressions import Expression as Expression
    from opendp_optimal_warehouse.expressions import col as col
    from opendp_optimal_warehouse.noise import make_noisy_table as make_noisy_table
    from opendp_optimal_warehouse.noise import then_noisy_table as then_noisy_table
    from opendp_optimal_warehouse.public import Public as Public
    from opendp_optimal_warehouse.release import Release as Release
    from opendp_optimal_warehouse.steps import make_clip_per_person as make_clip_per_person
    from opendp_optimal_warehouse.steps import make_derive as make_derive
    from opendp_optimal_warehouse.steps import make_groups_per_person as make_groups_per_person
    from opendp_optimal_warehouse.steps import make_join as make_join
    from opendp_optimal_warehouse.steps import make_rows_per_person as make_rows_per_person
    from opendp_optimal_warehouse.steps import make_tally as make_tally
    from opendp_optimal_warehouse.steps import make_where as make_where
    from opendp_optimal_warehouse.steps import make_whole_rows as make_whole_rows
    from opendp_optimal_warehouse.table import Table as Table

__getattr__, __dir__, __all__ = lazy_face(__name__)

enrol(plugin)
