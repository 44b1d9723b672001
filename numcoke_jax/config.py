"""The default configuration: every key that exists, its meaning, unit and the value that disables it.

A config file under `configs/` starts from `default_config()` and changes some keys; the command line
changes more with `--config.section.key=value`.  `config_checks.py` says which values are allowed.

The default of a new key keeps the earlier behaviour: a run that is older than the key has that value.
"""

from ml_collections import ConfigDict


def default_config() -> ConfigDict:
    """The paper's model with the defaults of this package; a new, unlocked copy on every call."""
    config = ConfigDict()
    config.seed = 0  # base of every random stream of the model and its training (not of the data)
    config.model = model_config()
    config.data = data_config()
    config.numeric = numeric_config()
    config.experts = experts_config()
    config.attention = attention_config()
    config.fusion = fusion_config()
    config.score = score_config()
    config.okcl = okcl_config()
    config.query = query_config()
    config.graph = graph_config()
    config.train = train_config()
    config.eval = eval_config()
    config.mesh = mesh_config()
    config.checkpoint = checkpoint_config()
    return config


def model_config() -> ConfigDict:
    model = ConfigDict()
    model.name = "numcoke"  # or, to compare with it, one of docs/models.md, which says what each looks at
    model.dim = 100  # d, size of entity and relation embeddings
    model.attribute_dim = 100  # a, size of attribute embeddings; a multiple of attention.heads
    model.products = "float32"  # operands of numcoke's matrix products; "bfloat16" rounds (ops/products.py)
    model.attributes = "none"  # "concat": models that use no values get them joined to the entity vectors
    model.value_encoding = "dice"  # nrn's fixed function of a value: "dice" or "sinusoidal"
    return model


def data_config() -> ConfigDict:
    data = ConfigDict()
    data.path = ""  # a folder with train/valid/test.txt, neg.txt, literals/; "" takes data.table
    data.bad_values = "error"  # literals of a folder that are not numbers: "error", or "missing": left out
    data.table = "cars"  # or spotify, credit, us_cities, rakge_credit, rakge_spotify, fb15k_237, synthetic
    data.dir = ""  # first place to look for raw data, before $NUMCOKE_DATA, the user cache, the network
    data.seed = 0  # seed of sampling, splitting and masking: fixed while config.seed varies
    data.entities = 0  # rows of the table kept (a seeded sample); 0 keeps all
    data.groups = "relation"  # "relation": a seeded group of entities per relation; "common": one for all
    data.group_size = 60  # G, entities in a group; a pair with distinct values is a triple; 0: all entities
    data.protocol = "complete"  # "complete": every pair of a group; "nearest": a head's nearest tails only
    data.neighbours = 10  # tails per head in protocol "nearest", >= 1
    data.direction = ">"  # ">": a fact's head has the higher value; "<": the lower one
    data.relations = ()  # fields that get a comparative relation; () takes the table's own list
    data.split = (0.1, 0.1, 0.8)  # shares of the triples for train, valid, test; they sum to 1
    data.missing_rate = 0.2  # share of a built graph's literals masked (never of a folder's); 0 masks none
    data.negatives_per_pair = 5  # nearest known-false tails per (head, relation) in a built graph; 0: none
    data.synthetic_entities = 1000  # N of data.table "synthetic" (data/synthetic.py), >= 2
    data.synthetic_fields = 6  # M, numeric fields, whose kinds take turns
    data.synthetic_relations = 8  # R; the first M compare one field each, the others mixes of two fields
    data.synthetic_triples = 20_000  # facts over all splits; a relation has at most its ordered pairs
    data.synthetic_kinds = ("continuous", "discrete", "skewed")  # some of these, in the fields' order
    data.synthetic_levels = 10  # different values of a discrete field; 1: a constant
    data.control = "true"  # values: "true", or a control's: "shuffled", "zeroed", "removed"
    data.normalize = "minmax"  # value scale: "minmax", "quantile", "zscore" or "none"
    return data


def numeric_config() -> ConfigDict:
    numeric = ConfigDict()
    numeric.share_transform = False  # one W_x for all fields instead of one per field
    numeric.missing = "embedding"  # a learned vector per field for missing cells, or "zero"
    numeric.encoding = "linear"  # extensions: "quantile", "periodic" (models/numeric_embedding.py)
    numeric.bins = 8  # of the quantile encoding: linear inside each, equally many values in each
    numeric.frequencies = 4  # of the periodic encoding, learned per field: a sine and a cosine each
    numeric.frequency_scale = 1.0  # > 0, their size at the start, in periods per unit of the scaled value
    return numeric


def experts_config() -> ConfigDict:
    experts = ConfigDict()
    experts.count = 3  # K, number of experts; 1 leaves a plain entity layer (ablation of MoE)
    experts.hidden = 0  # width of each expert's hidden layer; 0 makes an expert linear
    experts.noise = True  # Gaussian noise on the gate while training
    return experts


def attention_config() -> ConfigDict:
    attention = ConfigDict()
    attention.heads = 4  # L, attention heads
    attention.relation_weight = 0.5  # delta_r in [0, 1]; the entity gets 1 - delta_r
    attention.use_query = True  # False sets both weights to 0 (ablation of knowledge-aware attention)
    attention.operators = ("product", "difference", "concatenation")  # some of these and "mlp"
    attention.hidden = 64  # width of the "mlp" operator's hidden layer
    return attention


def fusion_config() -> ConfigDict:
    fusion = ConfigDict()
    fusion.kind = "gate"  # "gate": gated sum of entity and attributes; "paper": the printed line
    return fusion


def score_config() -> ConfigDict:
    score = ConfigDict()
    score.norm = 1  # 1 or 2: norm of the translation term
    score.margin = 9.0  # epsilon
    score.order = "reward"  # numcoke's order term: "reward", "penalty" or "none"; rakge has the penalty
    score.order_weight = 0.1  # Delta, weight of the order term
    score.dropout = 0.7  # dropped share of the translation's head and tail vectors in training; 0: none
    score.numeric_order = False  # extension: compare the values themselves (models/numeric_order.py)
    return score


def okcl_config() -> ConfigDict:
    okcl = ConfigDict()
    okcl.weight = 0.3  # lambda, weight of the loss besides BCE: contrastive, mtkgnn's value error; 0: none
    okcl.k = 5  # positives and negatives kept per (head, relation)
    okcl.temperature = 1.0  # tau, > 0
    okcl.sampling = "cosine"  # top-k by cosine to the head, or "random" (ablation of ordinal sampling)
    okcl.negatives = "given"  # train.negatives but the head, else unlinked ones; or always the "unlinked"
    okcl.reduce = "mean"  # the top-k vectors are averaged ("mean") or added up ("sum", as printed)
    okcl.similarity = "distance"  # "distance" (the score's own), "cosine" or "dot" (as printed)
    okcl.num_negative_mixes = 1  # mixes of the negatives, each with its own beta
    okcl.in_batch = False  # also use other pairs' negative mixes
    return okcl


def query_config() -> ConfigDict:
    query = ConfigDict()  # the networks of conve and tucker that make a query vector of head and relation
    query.filters = 32  # feature maps of conve's convolution
    query.input_dropout = 0.2  # dropped share of conve's image, of tucker's head vector; 0: none
    query.feature_dropout = 0.2  # of conve's whole feature maps, of tucker's relation matrix; 0: none
    query.hidden_dropout = 0.3  # of the query vector; 0: none
    return query


def graph_config() -> ConfigDict:
    graph = ConfigDict()  # models that pass messages along the training facts
    graph.layers = 2  # of rgcn and simgcl
    graph.bases = 4  # B of rgcn: matrices that those of the relations are mixed from
    graph.edge_dropout = 0.4  # share of the facts' messages that rgcn drops in training; 0: none
    graph.noise = 0.1  # epsilon, length of the noise on simgcl's views; 0 makes the views equal
    return graph


def train_config() -> ConfigDict:
    train = ConfigDict()
    train.epochs = 200  # passes over all (head, relation) pairs of training; 0 chooses from the graph
    train.batch_size = 256  # (head, relation) pairs per step
    train.relations_per_step = 4  # relation slots per step; divides batch_size; 0 chooses from the graph
    train.candidates = 0  # C, sampled candidate tails per step (candidates.py), for large graphs; 0: all
    train.optimizer = "adam"  # "adam" or "adamw"
    train.learning_rate = 1e-3  # peak learning rate, > 0
    train.schedule = "constant"  # "constant" or "cosine" (down to 0 at the last step)
    train.warmup_steps = 0  # linear warm-up from 0; 0: none
    train.weight_decay = 0.0  # of adamw; 0: none
    train.clip_norm = 0.0  # largest global gradient norm; 0: no clipping
    train.entity_dropout = 0.0  # extension: share of a step's entities that are seen as unknown; 0: none
    train.negatives = "given"  # known to be false: neg.txt, or also the "reversed" facts of strict orders
    train.unknown_weight = 1.0  # extension: weight, in the BCE, of entities not known to be true or false
    train.label_smoothing = 0.0  # in [0, 1]: targets become y (1 - s) + s / 2
    train.eval_every_epochs = 10  # epochs between validations
    train.patience = 10  # validations without a better MRR before stopping; 0: never stop early
    train.debug_nans = False  # says which module made the first NaN or infinity; makes every step slower
    return train


def eval_config() -> ConfigDict:
    evaluation = ConfigDict()
    evaluation.chunk = 256  # heads scored at once: memory grows with chunk x entities
    evaluation.selection = "seen"  # what validation ranks against: "seen", "all" or "reversed" (selection.py)
    evaluation.calibration = "global"  # one temperature, "relation": one each, or "none" (calibration.py)
    evaluation.exclude_self = False  # select on ranks without the head itself as a candidate
    evaluation.inductive = 0.0  # share of entities held out and ranked by attributes (inductive.py); 0: none
    return evaluation


def mesh_config() -> ConfigDict:
    mesh = ConfigDict()  # devices of a run (placement.py); a run may resume on others
    mesh.data = 1  # devices that a step's queries are divided over; divides batch_size / relations_per_step
    mesh.entity = 1  # devices that the entity tables are cut over, the last part padded if need be
    return mesh


def checkpoint_config() -> ConfigDict:
    checkpoint = ConfigDict()
    checkpoint.keep = 2  # newest checkpoints kept besides the best one
    checkpoint.every_seconds = 600.0  # between checkpoints inside a validation interval
    return checkpoint
