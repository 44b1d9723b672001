"""The paper's equations in float64 NumPy, one entity, relation, field and head at a time.

Written from the paper's formulas, not from the package: nothing here imports `numcoke_jax`, and nothing is
vectorised over entities, fields, heads or queries.  Parameters come as the model's own tree of arrays.
"""
