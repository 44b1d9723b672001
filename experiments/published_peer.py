"""The PyKEEN side of `published.py`, run by an interpreter that has PyKEEN and nothing of this package.

    ENV/bin/python experiments/published_peer.py '{"model": "distmult", "folder": DIR, ...}'

Trains one model on the folder's train.txt with inverse triples and prints one line of JSON: the filtered MRR
of the test facts by side, ties at their mean rank.
"""

import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def model_of(asked: Mapping[str, Any], factory: Any, loss: Any) -> Any:
    """The model without constraint, regulariser and dropout of its own, initialised as ours is."""
    import torch
    from pykeen import models

    dim, name = asked["dim"], asked["model"]
    shared = {"triples_factory": factory, "loss": loss, "random_seed": asked["seed"]}

    def normal_for(rows: int) -> Any:
        """Normal numbers of Xavier's deviation for a [rows, dim] table of real numbers."""

        def start(tensor: Any) -> Any:
            real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
            torch.nn.init.normal_(real, std=math.sqrt(2.0 / (rows + dim)))
            return tensor

        return start

    start = {
        "entity_initializer": normal_for(factory.num_entities),
        "relation_initializer": normal_for(2 * factory.num_relations),
    }
    free = {"entity_constrainer": None, "regularizer": None}
    if name == "transe":
        return models.TransE(embedding_dim=dim, scoring_fct_norm=asked["norm"], **free, **start, **shared)
    if name == "distmult":
        return models.DistMult(embedding_dim=dim, **free, **start, **shared)
    if name == "complex":
        return models.ComplEx(embedding_dim=dim // 2, regularizer=None, **start, **shared)
    if name == "rotate":  # relations start as phases, all equally likely, and are scaled to modulus 1
        first = {"entity_initializer": start["entity_initializer"]}
        return models.RotatE(embedding_dim=dim // 2, **first, **shared)
    first, second, third = asked["dropout"]
    if name == "tucker":
        return models.TuckER(embedding_dim=dim, dropout_0=first, dropout_1=second, dropout_2=third, **shared)
    height = next(size for size in range(math.isqrt(dim), 0, -1) if dim % size == 0)
    return models.ConvE(
        embedding_dim=dim,
        embedding_height=height,
        embedding_width=dim // height,
        output_channels=asked["filters"],
        input_dropout=first,
        feature_map_dropout=second,
        output_dropout=third,
        **shared,
    )


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Train as asked, rank the test facts both ways."""
    import torch
    from pykeen.evaluation import RankBasedEvaluator
    from pykeen.losses import BCEWithLogitsLoss
    from pykeen.training import LCWATrainingLoop
    from pykeen.triples import TriplesFactory
    from pykeen.version import get_version

    class ShiftedLoss(BCEWithLogitsLoss):
        """Binary cross-entropy of the score plus the margin, which no rank depends on."""

        def forward(self, x: Any, target: Any, weight: Any = None) -> Any:
            return super().forward(x + asked["margin"], target, weight)

    torch.manual_seed(asked["seed"])
    torch.set_num_threads(asked["threads"])
    folder = Path(asked["folder"])
    train = TriplesFactory.from_path(folder / "train.txt", create_inverse_triples=True)
    others = [
        TriplesFactory.from_path(
            folder / f"{split}.txt", entity_to_id=train.entity_to_id, relation_to_id=train.relation_to_id
        )
        for split in ("valid", "test")
    ]
    model = model_of(asked, train, ShiftedLoss())
    optimizer = torch.optim.Adam(model.parameters(), lr=asked["learning_rate"])
    facts = train.mapped_triples  # each a query from its head and one from its tail
    queries = sum(len(torch.unique(pairs, dim=0)) for pairs in (facts[:, :2], facts[:, 1:]))
    began = time.perf_counter()
    loop = LCWATrainingLoop(model=model, triples_factory=train, optimizer=optimizer)
    loop.train(
        train,
        num_epochs=asked["epochs"],
        batch_size=math.ceil(queries / asked["steps"]),
        drop_last=False,
        use_tqdm=False,
        use_tqdm_batch=False,
    )
    seconds = time.perf_counter() - began
    found = RankBasedEvaluator(filtered=True).evaluate(
        model=model,
        mapped_triples=others[1].mapped_triples,
        additional_filter_triples=[train.mapped_triples, others[0].mapped_triples],
        batch_size=256,
        use_tqdm=False,
    )
    sides = {"tails": "tail", "heads": "head", "both": "both"}
    mrr = {
        ours: found.get_metric(f"{theirs}.realistic.inverse_harmonic_mean_rank")
        for ours, theirs in sides.items()
    }
    return {
        "mrr": mrr,
        "facts": {"train": train.num_triples, "valid": others[0].num_triples, "test": others[1].num_triples},
        "queries": queries,
        "seconds": seconds,
        "parameters": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        "versions": {"pykeen": get_version(), "torch": torch.__version__},
    }


if __name__ == "__main__":
    answers, sys.stdout = sys.stdout, sys.stderr  # what the library prints must not mix with the answer
    print(json.dumps(answer(json.loads(sys.argv[1]))), file=answers, flush=True)
