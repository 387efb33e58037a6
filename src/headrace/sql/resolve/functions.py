"""What Spark's built-in functions are to a stream: aggregates, generators, or not repeatable."""

from __future__ import annotations

from sqlglot import exp


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = _names("""
    any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
    approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg
    bitmap_or_agg bool_and bool_or collect_list collect_set collect_union corr count count_if
    count_min_sketch covar_pop covar_samp every first first_value grouping grouping_id histogram_numeric
    hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float
    kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg
    max max_by mean measure median min min_by mode percentile percentile_approx percentile_cont
    percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy schema_of_variant_agg skewness some std stddev stddev_pop stddev_samp string_agg sum
    theta_intersection_agg theta_sketch_agg theta_union_agg try_avg try_sum
    tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double
    tuple_sketch_agg_integer tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
""")
"""Spark's aggregate functions; `tests/sql/test_against_spark.py` compares the list with Spark's registry."""

READS_WITH_OPTIONS = _names("from_xml from_avro from_protobuf to_protobuf")
"""Functions whose options may name a file that Spark reads."""

GENERATORS = _names("""
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
    variant_explode_outer sql_keywords range collations
""")

NONDETERMINISTIC = _names("""
    kll_merge_agg_bigint kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
    kll_sketch_agg_float
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length current_timestamp now current_date curdate
    current_time localtimestamp localtime current_user user session_user current_catalog current_database
    current_schema current_timezone version current_path java_method reflect try_reflect
""")
"""Functions that are refused with their place in the text. Spark's analysis finds most of them too, however they are
written (`engine/repeatable.py`). It does not know that KLL sketches toss coins.
"""


def function_name(node: exp.Expr) -> str | None:
    """Lower-case name of a function call, None for anything else."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return None


def is_aggregate(node: exp.Expr) -> bool:
    """Whether `node` is an aggregate call that is not used as an analytic function."""
    if function_name(node) not in AGGREGATES:
        return False
    outer = node.parent
    while isinstance(outer, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        outer = outer.parent
    return not isinstance(outer, exp.Window)


def aggregates_in(node: exp.Expr) -> bool:
    return any(is_aggregate(found) for found in node.find_all(exp.Anonymous))
