"""The PyKEEN side of `peers.py`, run by an interpreter that has PyKEEN and nothing of this package.

    ENV/bin/python experiments/benchmark/pykeen_peer.py FACTS.npz ENTITIES RELATIONS DIM BATCH CHUNK

Reads commands from standard input, one per line: about, step, rank.  Answers each with one line of JSON.
"""

import json
import sys
import time


class PykeenPeer:
    """TransE (L1) under LCWA training with binary cross-entropy and Adam, and the filtered evaluator."""

    def __init__(self, facts: str, entities: int, relations: int, dim: int, batch: int, chunk: int) -> None:
        import numpy
        import torch
        from pykeen.evaluation import RankBasedEvaluator
        from pykeen.losses import BCEWithLogitsLoss
        from pykeen.models import TransE
        from pykeen.training import LCWATrainingLoop
        from pykeen.triples import CoreTriplesFactory

        torch.manual_seed(0)
        arrays = numpy.load(facts)
        self._train, self._test = (torch.as_tensor(arrays[name]).long() for name in ("train", "test"))
        factory = CoreTriplesFactory(self._train, num_entities=entities, num_relations=relations)
        self._model = TransE(
            triples_factory=factory,
            embedding_dim=dim,
            scoring_fct_norm=1,
            loss=BCEWithLogitsLoss(),
            random_seed=0,
        )
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=1e-3)
        self._loop = LCWATrainingLoop(model=self._model, triples_factory=factory, optimizer=self._optimizer)
        self._batches = self._loop._create_training_data_loader(
            factory, sampler=None, batch_size=batch, shuffle=True, drop_last=True
        )
        self._rest = iter(self._batches)
        self._evaluator = RankBasedEvaluator(filtered=True)
        self._chunk = chunk

    def about(self) -> dict[str, str]:
        """Versions and number of threads."""
        import pykeen.version
        import torch

        return {
            "pykeen": pykeen.version.get_version(),
            "torch": torch.__version__,
            "threads": str(torch.get_num_threads()),
        }

    def step(self) -> dict[str, float]:
        """Wall-clock and processor seconds of a training step, including the making of its batch."""
        began, began_cpu = time.perf_counter(), time.process_time()
        try:
            batch = next(self._rest)
        except StopIteration:
            self._rest = iter(self._batches)
            batch = next(self._rest)
        self._model.train()
        self._optimizer.zero_grad()
        loss = self._loop._process_batch(
            batch=batch, start=0, stop=len(batch["pairs"]), label_smoothing=0.0, slice_size=None
        )
        loss.backward()
        self._optimizer.step()
        self._model.post_parameter_update()
        return {"wall": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}

    def rank(self) -> dict[str, float]:
        """Wall-clock and processor seconds of the filtered tail ranks of the test facts."""
        began, began_cpu = time.perf_counter(), time.process_time()
        self._evaluator.evaluate(
            model=self._model,
            mapped_triples=self._test,
            additional_filter_triples=[self._train],
            batch_size=self._chunk,
            use_tqdm=False,
            targets=("tail",),
        )
        return {"wall": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}


def main(arguments: list[str]) -> None:
    """Answer commands until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what the library prints must not mix with the answers
    peer = PykeenPeer(arguments[0], *map(int, arguments[1:]))
    for line in sys.stdin:
        print(json.dumps(getattr(peer, line.strip())()), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
