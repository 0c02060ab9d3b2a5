"""What was wrong in 0.1.0, sentence by sentence, and the tests that show that it is right.

Each sentence has the names of tests, ``file::function``, which :mod:`tests.attacks.test_advisories`
looks up. Those of ``test_reported.py`` and ``test_reported_crashes.py`` can be run against 0.1.0,
and fail there; the others use the names of today.
"""

REPORTED = "tests/attacks/test_reported.py::"
CRASHES = "tests/attacks/test_reported_crashes.py::"
NOT_SEEN = ("test_an_epsilon_that_is_a_fraction",)
"""Tests that 0.1.0 passes: what was reported was not seen again."""

SENTENCES: dict[str, tuple[str, ...]] = {
    "data rounded by float(x), not counted": (
        REPORTED + "test_integers_beyond_2_to_the_53",
        "tests/attacks/test_advisories.py::test_large_integers_are_not_told_apart",
        "plugins/bayes/tests/test_hostile.py::test_every_integer_of_every_type",
    ),
    "changed= is believed": (
        REPORTED + "test_changed_is_not_believed",
        "tests/measure/test_noise.py::test_what_is_only_stated_is_behind_a_feature",
    ),
    "regions that tell people apart": (
        REPORTED + "test_an_edge_of_nearly_no_length",
        REPORTED + "test_a_corner_as_close_to_an_axis_as_floats_can_be",
        "plugins/geo/tests/test_lipschitz.py::test_regions_cannot_tell_neighbours_apart",
        "plugins/geo/tests/test_lipschitz.py"
        "::test_regions_that_vanish_are_refused_before_anybody_is_asked",
        "plugins/geo/tests/test_lipschitz.py::test_every_point_has_a_finite_score",
    ),
    "Channel.epsilon() returns 0.0": (
        REPORTED + "test_the_epsilon_of_a_channel_is_never_too_small",
        "plugins/bayes/tests/test_channel_epsilon.py::test_fine_metrics",
        "plugins/bayes/tests/test_channel_epsilon.py"
        "::test_rows_that_hardly_differ_are_not_called_equal",
    ),
    "OptimalChannel.verify() accepts what is not private": (
        REPORTED + "test_a_channel_that_tells_everything_does_not_verify",
        "plugins/bayes/tests/test_optimal.py::test_delta_cannot_be_written_into_an_optimum",
        "plugins/bayes/tests/test_optimal.py::test_a_certificate_that_was_tampered_with_is_refused",
        "tests/table/test_tampering.py::test_a_changed_field_is_noticed",
    ),
    "a predicate on the whole array": (
        REPORTED + "test_a_predicate_does_not_see_other_records",
        REPORTED + "test_a_mark_is_no_gaussian_noise",
        "plugins/geo/tests/test_hostile.py::test_one_record_flips_one_truth_value",
        "plugins/geo/tests/test_hostile.py::test_gaussian_noise_is_known_by_what_it_is",
    ),
    "overflow before clipping": (
        REPORTED + "test_one_record_at_the_largest_float",
        "plugins/learn/tests/test_hostile_rows.py::test_shares_are_shares_whatever_the_bounds",
        "plugins/learn/tests/test_hostile_rows.py::test_one_record_of_logistic_regression",
    ),
    "compose forgets releases": (
        REPORTED + "test_releases_that_nobody_holds_are_counted",
        "tests/measure/test_compose_counts.py"
        "::test_releases_that_nobody_holds_count_like_any_others",
    ),
    "a picture of true points": (
        "plugins/geo/tests/test_commands.py::test_a_map_shows_what_was_released",
        "plugins/geo/tests/test_hostile.py::test_what_is_shown_is_not_what_is_secret",
    ),
    "errors decided by one record: projections": (
        REPORTED + "test_no_point_decides_whether_there_is_an_error",
        "plugins/geo/tests/test_hostile.py::test_every_point_has_a_projection",
    ),
    "errors decided by one record: labels": (
        REPORTED + "test_no_label_decides_whether_there_is_an_error",
        "plugins/learn/tests/test_hostile_rows.py::test_one_record_of_naive_bayes",
    ),
    "a function named l1 is proved with the wrong loss": (
        REPORTED + "test_a_function_is_not_its_name",
        "tests/table/test_tampering.py::test_a_function_with_the_name_of_a_built_in_loss",
        "tests/losses/test_losses.py::test_names_of_built_in_losses_are_theirs_alone",
        "tests/advisor/test_bounds.py::test_a_loss_is_known_by_its_function",
        "tests/table/test_tampering.py::test_each_relation_between_fields",
    ),
    "the advisor's bound is too high at large epsilon": (
        REPORTED + "test_the_bound_of_a_theorem_is_below_the_truth",
        "plugins/bayes/tests/test_candidates.py"
        "::test_the_bound_by_the_theorem_is_below_the_exact_optimum",
        "tests/advisor/test_bounds.py::test_printed_bounds_are_nowhere_above",
    ),
    "laplace_ring cancels, optimal_ring fails": (
        REPORTED + "test_laplace_noise_on_the_ring",
        "plugins/select/tests/test_ring.py::test_laplace_on_the_ring_for_every_epsilon",
        "plugins/select/tests/test_ring.py::test_enclosures_at_the_ends_of_the_range",
    ),
    "frozen tables are not": (
        REPORTED + "test_a_proved_table_cannot_be_changed",
        "tests/table/test_frozen.py::test_nothing_in_a_table_can_be_written_to",
    ),
    "negative shift count": (
        CRASHES + "test_large_losses",
        "tests/search/test_range.py::test_large_losses_at_a_small_epsilon",
        "tests/search/test_range.py::test_costs_in_any_unit",
    ),
    "optimal_bounded loses to plain additive noise": (
        CRASHES + "test_a_range_of_forty_sensitivities",
        "tests/search/test_bounded.py::test_never_worse_than_noise_that_is_the_same_for_all",
    ),
    "warmed tables are written 0600": (
        CRASHES + "test_everybody_can_read_warmed_tables",
        "tests/table/test_files.py::test_tables_have_the_permissions_of_any_new_file",
    ),
    "warm into an unwritable cache says 1 solved": (
        CRASHES + "test_tables_that_cannot_be_kept_are_an_error",
        "tests/table/test_files.py::test_warm_says_when_tables_cannot_be_kept",
    ),
    "a FIFO hangs, an endless file takes all memory": (
        CRASHES + "test_a_table_that_is_no_file",
        "tests/table/test_files.py::test_a_pipe_or_a_device_named_like_a_table_is_passed_over",
        "tests/table/test_files.py::test_only_regular_files_of_bounded_size_are_read",
    ),
    "geo count charges everybody, then fails": (
        CRASHES + "test_a_map_that_cannot_be_written_costs_nobody_anything",
        "plugins/geo/tests/test_commands.py::test_files_are_checked_before_anybody_is_asked",
    ),
    "compose: epsilon 1000 or inf raises, bounded tables are refused": (
        CRASHES + "test_compose_at_any_epsilon",
        CRASHES + "test_compose_prices_bounded_noise",
        "tests/measure/test_compose_counts.py::test_any_epsilon_can_be_asked_for",
        "tests/measure/test_compose_counts.py::test_bounded_tables_and_measurements_are_priced",
    ),
    "--json prints Infinity": (
        CRASHES + "test_json_is_json",
        "tests/cli/test_outputs.py::test_numbers_that_are_not_finite_are_null",
    ),
    "Server.handle raises for scales 1e-200": (
        CRASHES + "test_no_scale_makes_the_server_raise",
        "plugins/select/tests/test_extremes.py::test_nothing_a_client_sends_makes_the_server_raise",
    ),
    "a cap of 10 in the range (0, 1) raises IndexError": (
        CRASHES + "test_a_cap_that_costs_nothing",
        "tests/search/test_bounded.py::test_a_cap_on_costs_that_are_nothing",
    ),
    "ranges near 1e272, sensitivities near 1e-227": (
        CRASHES + "test_ranges_at_the_ends_of_the_floats",
        "tests/search/test_bounded.py::test_lengths_that_floats_do_not_hold",
        "tests/search/test_bounded.py::test_units_far_from_one",
    ),
    "i64 with d_in 2^44 builds and then fails at release": (
        CRASHES + "test_noise_that_is_built_can_be_drawn",
        "tests/measure/test_grid.py::test_long_noise_on_large_integers",
    ),
    "method highs at delta 0": (
        CRASHES + "test_highs_without_delta",
        "tests/search/test_range.py::test_highs_at_delta_zero",
    ),
    "pinball:1e-6 and 1e-320": (
        CRASHES + "test_uneven_losses",
        "tests/search/test_range.py::test_uneven_losses",
    ),
    "300 half-open sockets silence the service": (
        "plugins/select/tests/test_service.py"
        "::test_an_honest_client_is_answered_beside_300_half_open_connections",
    ),
    "clamp of a u64 release raises and prints the value": (
        CRASHES + "test_a_clamp_says_nothing_of_the_release",
        "plugins/bayes/tests/test_hostile.py::test_clamps_that_are_wider_than_the_type",
        "plugins/bayes/tests/test_hostile.py::test_clamps_beyond_the_type_are_refused",
    ),
    "optimal_channel refuses a Fraction epsilon": (
        CRASHES + "test_an_epsilon_that_is_a_fraction",
        "plugins/bayes/tests/test_optimal.py::test_epsilon_as_a_fraction",
    ),
    "exact losses near 1e400 overflow": (
        CRASHES + "test_losses_beyond_floats",
        "tests/search/test_channel.py::test_losses_of_any_size",
    ),
    "refines(tolerance=0) fails with an exact witness": (
        CRASHES + "test_exact_witnesses",
        "plugins/bayes/tests/test_refinement.py::test_where_there_is_an_exact_witness_one_is_found",
    ),
    "plan(...).spent() is one float below its shares' sum": (
        CRASHES + "test_what_is_spent_is_at_least_the_sum",
        "plugins/learn/tests/test_budget.py::test_no_plan_spends_more_than_its_total",
        "plugins/learn/tests/test_budget.py::test_sums_are_never_below_the_sum",
    ),
    "python -m opendp_optimal works": (
        CRASHES + "test_the_package_is_a_module",
        "tests/cli/test_outputs.py::test_the_package_runs_as_a_module",
    ),
    "solve(1e-4, 0.0) takes 135 s": (
        "tests/search/test_range.py::test_a_small_epsilon_and_no_delta",
    ),
    "compose of a large and a small table takes 19 s and 2.2 GB": (
        "tests/measure/test_compose_counts.py"
        "::test_a_small_release_beside_a_large_one_costs_little",
    ),
    "advise(releases=1_000_000) takes 55 s": (
        "tests/advisor/test_bounds.py::test_a_million_releases",
    ),
    "optimal_channel of 200 x 200 takes 48 s, silent": (
        "plugins/bayes/tests/test_optimal.py::test_many_answers_are_solved_with_progress",
    ),
    "monotone noise for pinball takes 32 s": (
        "tests/search/test_work.py::test_monotone_noise_for_an_uneven_loss_jumps_at_zero",
    ),
    "a gap of 1e-5 is not reached": (
        "tests/search/test_work.py::test_gaps_of_a_few_millionths_are_solved_for",
    ),
    "random requests": (
        "tests/attacks/test_requests.py::test_noise",
        "tests/attacks/test_requests.py::test_noise_for_a_range",
    ),
}
