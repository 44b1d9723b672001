"""The order core: where every entity stands under a comparative relation, and how sure that is.

    z_ri ~ N(m_ri, w_ri^2)                                  position of entity i, with its width
    P(h above t) = Phi((m_rh - m_rt) / sqrt(w_rh^2 + w_rt^2 + s_r^2))

Positions are inferred from the training facts and the values, not trained by gradients:

- `value_scores.py`: values as normal scores; a missing one is expected from the entity's other values.
- `features.py`: functions of these that a position may be made of: straight, in ranks, curved, products.
- `value_prior.py`: what the values say about a position, as a Bayesian regression.
- `propagation.py`: what the facts say, by expectation propagation, with noise and reversed facts learned,
  from validation facts as well, which say nothing else.
- `fit.py`: which field, or mix of fields, a relation compares, if any; chosen by evidence.
- `score.py`: logits of pairs, in JAX.
"""
