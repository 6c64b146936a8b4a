"""GOODFormer's model: a trunk, a disentangler, an encoder of evolving subgraphs and a predictor on both halves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from goodformer.batch import Batch
from goodformer.errors import InputError
from goodformer.models.base import GraphModel
from goodformer.models.settings import (
    AggregationName,
    CombineName,
    EnvironmentDropout,
    EnvironmentRadius,
    EnvironmentTable,
    Heads,
    Inputs,
    NormName,
    Rate,
    Width,
)
from goodformer.nn.attention import Attention
from goodformer.nn.disentangler import (
    ConcatHalf,
    Half,
    InnerProducts,
    Scores,
    both_signs,
    edge_logits,
    head_mean_mask,
)
from goodformer.nn.encoder import EdgeSubgraphEncoder, NodeNoise, SubgraphEncoder
from goodformer.nn.environments import environment_share
from goodformer.nn.features import EdgeInput, NodeInput
from goodformer.nn.gps import GPSLayer
from goodformer.nn.gradient import scale_gradient
from goodformer.nn.layout import Layout, Squares, joined
from goodformer.nn.mlp import mlp
from goodformer.nn.readout import mean_nodes, node_share, weighted
from goodformer.nn.sampling import concrete, shared_noise
from goodformer.nn.selection import straight_through, top_pairs
from goodformer.nn.temperature import Solver, descend_temperature, softmax_entropy, solve_temperature
from goodformer.spec import Encoding, FeatureSpec

Depth = Annotated[int, Field(ge=0, description="Number of layers of this part.")]


@dataclass(frozen=True)
class Disentangled:
    """What the model finds in a batch of B graphs.

    Attributes:
        edge_logits: Head-averaged, symmetrised score of every edge, (E,); larger = more invariant.
        mask: M, the share of every edge that belongs to the invariant subgraph, (E,). With
            ``explained_by="second"``, both are those of the second disentangling layer.
        invariant: Embedding of every graph's invariant half, (B, D).
        variant: The same for the variant half; None if only the invariant half was embedded.
        entropy: Mean entropy of attention, (2, B, H) for Softmax(E) and Softmax(-E), or (1, B, H) for the first alone;
            those of a second disentangling layer follow.
        temperature: t_G used, (2, B, H) or (1, B, H).
        plain_entropy: The entropy before any temperature, (2, B, H) or (1, B, H).
        recovered: Recovered positional encodings of the halves, (2, N, k) or (1, N, k).
        nodes: Node embeddings of the invariant half, (N, D), whose mean over a graph is ``invariant`` without the
            codes of environments.
    """

    edge_logits: Tensor
    mask: Tensor
    invariant: Tensor
    variant: Tensor | None
    entropy: Tensor
    temperature: Tensor
    plain_entropy: Tensor
    recovered: Tensor | None
    nodes: Tensor


@dataclass(frozen=True)
class Side:
    """One half of every graph, or both halves stacked as a batch of twice as many graphs.

    Attributes:
        layout: Of the graphs on this side.
        edges: Edge vectors, one that all edges share (1, D), or None.
        edge_weight: Weight of every message, A_c = M * A or A_s = (1 - M) * A by default; both in this order where the
            halves are stacked.
        node_weight: Each node's share in the half.
        copies: How many halves are stacked here, 1 or 2.
        learns: False where no loss needs the gradient of this side's embedding.
    """

    layout: Layout
    edges: Tensor | None
    edge_weight: Tensor
    node_weight: Tensor
    copies: int
    learns: bool

    def copy(self, rows: Tensor) -> Tensor:
        """Repeat rows of the batch for every half stacked here."""
        return torch.cat((rows, rows)) if self.copies == 2 else rows

    def gradient(self) -> torch.autograd.grad_mode.set_grad_enabled:
        """Return a context that records no gradient where none is needed."""
        return torch.set_grad_enabled(self.learns and torch.is_grad_enabled())


class GOODFormer(GraphModel):
    """Z = GT^M(G); E, M, Z_c, Z_s = disentangle(Z); P_c, P_s = h_PSE(A_c), h_PSE(A_s); Z' = GT'([Z, P]); pooling.

    Both halves run through the same layers, +E and A_c for the first, -E and A_s for the second. By default they are
    stacked as one batch of 2B graphs and share BatchNorm's statistics; with ``halves="apart"`` each has its own pass.
    To predict, the invariant half runs alone.

    Paper: Liao et al., "Invariant Graph Transformer for Out-of-Distribution Generalization", KDD 2026, Eqs. 3 to 13.
    Differs from the paper: with ``values="inputs"`` the halves are computed from the node inputs, weighted by the
        node's share in the half, instead of from Z, which has already mixed both. ``node_weights`` restricts attention
        and pooling of a half to the half's own nodes. ``mask="logit"`` is the sigmoid of the head-averaged,
        symmetrised logit, so both directions of an edge belong to the same half. The preset ``paper`` uses none of
        these.
    Paper silent on: normalisation, dropout, residuals, how heads are joined into one mask, node inputs, edges without
        features, the layers of h_PSE and w_PSE, which row of E weighs an edge.
    Published code: it weighs messages through a hook of PyG. PyG 2.0.3, which its environment names, applies a sigmoid
        to the mask once more, so the preset ``as_published`` has ``message_weight="sigmoid"``; PyG 2.8.1 ignores the
        hook, and ``none`` gives what the code computes there.
    Differs from the published code: in the preset ``as_published``,

        - random node features at evaluation are a fixed function of the graph, not drawn again each time;
        - L_PSE skips the encoding columns that a small graph lacks, instead of the whole batch;
        - the encoding to recover is the 8 eigenvectors after the constant one, not the constant one and 7 others;
        - atom features are embedded at full width, without a narrower embedding and a linear map after it;
        - dropout rates are rounded to 1/256;
        - entropies are exact, without a lower bound of 1e-10 on probabilities;
        - the temperature at evaluation stays within [0.02, 50], which the published 10 steps never leave;
        - Twitter, DrugOOD and SP-Motif, for which it has no settings, have the paper's weights (SP-Motif: Motif size).
    """

    in_words = (
        "Splits a graph into an invariant and a variant half by attention; made for the method of this name, and works "
        "with erm, too."
    )

    mean_entropy: Tensor

    def __init__(
        self,
        spec: FeatureSpec,
        *,
        dim: Width = 128,
        heads: Heads = 4,
        trunk_layers: Depth = 2,
        encoder_layers: Depth = 3,
        predictor_layers: Depth = 1,
        encoder_dim: Annotated[int, Field(ge=1, description="Width of the subgraph encodings.")] = 32,
        inputs: Inputs = ("cycle_walks:6",),
        target: Annotated[str, Field(description="Encoding that the encoder recovers: laplacian:k.")] = "laplacian:8",
        dropout_rate: Rate = 0.2,
        norm: NormName = "batch",
        aggregation: AggregationName = "log",
        combine: CombineName = "sum",
        edge_vector: Annotated[
            bool, Field(description="Give edges without features one learned vector, which makes GIN a GINE.")
        ] = False,
        local_width: Annotated[
            int, Field(ge=1, description="Hidden width of message-passing MLPs, as a multiple of dim.")
        ] = 1,
        attention_start: Annotated[
            Literal["linear", "xavier"],
            Field(description="Initial weights of GPS attention: as in nn.Linear, or as in nn.MultiheadAttention."),
        ] = "linear",
        bounded: Annotated[
            bool, Field(description="Bound the scores by normalising queries and keys to unit length.")
        ] = False,
        scoring: Annotated[
            Literal["attention", "inner", "generator"],
            Field(
                description="E from queries and keys; inner: inner products of the trunk's embeddings; generator: "
                "inner products from a network of its own, as in GIL."
            ),
        ] = "attention",
        mask: Annotated[
            Literal["logit", "heads", "heads_by_source", "top"],
            Field(
                description="logit: sigmoid of the symmetrised mean score; heads: mean of the heads' sigmoids; "
                "heads_by_source: the same with source and target swapped; top: 1 for the best share of each graph's "
                "edges, as in GIL."
            ),
        ] = "logit",
        kept_share: Annotated[float, Field(gt=0, le=1, description="Share of edges kept if mask is top.")] = 0.6,
        sample: Annotated[
            Literal["none", "soft", "hard"],
            Field(description="Draw the mask in training: not at all, binary concrete, or 0 and 1 straight-through."),
        ] = "none",
        values: Annotated[
            Literal["trunk", "inputs"],
            Field(description="What the halves are computed from: trunk embeddings Z, or node inputs."),
        ] = "inputs",
        half: Annotated[
            Literal["sum", "concat"],
            Field(description="How a half joins attention and messages: sum, or projected, concatenated and mapped."),
        ] = "sum",
        halves: Annotated[
            Literal["together", "apart"],
            Field(description="Both halves in one pass with shared BatchNorm statistics, or each in its own pass."),
        ] = "together",
        message_weight: Annotated[
            Literal["mask", "sigmoid", "none"],
            Field(
                description="Weight of a half's messages: its mask; sigmoid: the sigmoid of the mask, which lies "
                "between 0.5 and 0.73; none: 1, so both halves pass messages over the whole graph."
            ),
        ] = "mask",
        encoder: Annotated[
            Literal["residual", "edges"],
            Field(description="residual: GIN with residuals, w_PSE an MLP; edges: GINE on edge vectors, w_PSE linear."),
        ] = "residual",
        encoder_noise: Annotated[
            Literal["shared", "separate"], Field(description="Same random features for both halves, or one draw each.")
        ] = "shared",
        node_weights: Annotated[
            bool, Field(description="Weight nodes by their edges' masks in pooling and in the predictor's attention.")
        ] = True,
        predictor: Annotated[
            Literal["gt", "mlp", "disentangler"],
            Field(description="GT': GPS layers, an MLP, or a second disentangling layer on the mean of the halves."),
        ] = "gt",
        second_readout: Annotated[
            bool, Field(description="Add the second disentangling layer's output to the first's before pooling.")
        ] = True,
        explained_by: Annotated[
            Literal["first", "second"], Field(description="Disentangling layer whose scores explain the prediction.")
        ] = "first",
        temperature: Annotated[
            Solver,
            Field(
                description="Test-time temperature: exact root, published descent, one descent for both attentions "
                "(joint_descent), or none."
            ),
        ] = "exact",
        entropy_decay: Annotated[
            float, Field(ge=0, lt=1, description="Decay of the running mean of the attention entropy.")
        ] = 0.99,
        environments: EnvironmentRadius = 0,
        environment_table: EnvironmentTable = 2048,
        environment_dropout: EnvironmentDropout = 0.0,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise InputError(f"model goodformer: dim = {dim} is not a multiple of heads = {heads}; change one of them.")
        if sample != "none" and mask != "logit":
            raise InputError(f"model goodformer: sample = {sample} needs mask = logit, not {mask}; change one of them.")
        if not target.startswith("laplacian:"):
            raise InputError(f"model goodformer: target = {target!r} is not accepted; give laplacian:k.")
        if explained_by == "second" and predictor != "disentangler":
            raise InputError(
                f"model goodformer: explained_by = second needs a second disentangling layer, not predictor = "
                f"{predictor}; set model.predictor=disentangler or model.explained_by=first."
            )
        self.dim, self.heads = dim, heads
        self.mask_kind, self.kept_share, self.sample = mask, kept_share, sample
        self.values, self.node_weights, self.apart = values, node_weights, halves == "apart"
        self.message_weight = message_weight
        self.solver, self.entropy_decay = temperature, entropy_decay
        self.nodes, self.edges = NodeInput(spec, dim, inputs), EdgeInput(spec, dim)
        gps = partial(
            GPSLayer,
            dim,
            heads,
            norm=norm,
            p=dropout_rate,
            aggregation=aggregation,
            combine=combine,
            local_width=local_width,
        )
        layer = partial(
            Half if half == "sum" else ConcatHalf,
            dim,
            norm=norm,
            p=dropout_rate,
            aggregation=aggregation,
            local_width=local_width,
        )
        self.trunk = nn.ModuleList(gps() for _ in range(trunk_layers))
        self.scores = Scores(dim, heads, bounded) if scoring == "attention" else InnerProducts(heads)
        self.embed = layer()
        self.target = Encoding.parse(target) if encoder_layers else None
        self.encodings = tuple(dict.fromkeys((*self.nodes.encodings, *([target] if encoder_layers else []))))
        if self.target:
            self.separate_noise = encoder_noise == "separate"
            self.noise = NodeNoise(2 * encoder_dim if self.separate_noise else encoder_dim)
            sizes = (encoder_dim, encoder_layers, self.target.width)
            self.encoder = (
                SubgraphEncoder(*sizes, norm=norm, aggregation=aggregation)
                if encoder == "residual"
                else EdgeSubgraphEncoder(*sizes, dim, norm=norm, p=dropout_rate, aggregation=aggregation)
            )
            self.join = nn.Linear(dim + encoder_dim, dim)
        self.predictor_kind, self.second_readout = predictor, second_readout
        self.explained_by = explained_by
        if predictor == "gt":
            self.predictor = nn.ModuleList(gps() for _ in range(predictor_layers))
        elif predictor == "mlp":
            self.predictor = nn.ModuleList(mlp(dim, 2 * dim, dim, dropout_rate) for _ in range(predictor_layers))
        else:
            self.second_scores, self.second_embed = Scores(dim, heads, bounded), layer()
        self.edge_vector = nn.Parameter(torch.randn(dim)) if edge_vector and self.edges.own is None else None
        self.generator = None
        if scoring == "generator":
            self.generator_nodes = NodeInput(spec, dim, inputs)
            self.generator = nn.ModuleList(gps() for _ in range(trunk_layers))
        for module in self.modules() if attention_start == "xavier" else ():
            if isinstance(module, Attention):
                nn.init.xavier_uniform_(module.qkv.weight)
                nn.init.zeros_(module.qkv.bias)
                nn.init.zeros_(module.out.bias)
        self.register_buffer("mean_entropy", torch.full((2, heads), float("nan")))
        self.read_environments(environments, environment_table, environment_dropout)

    def settle(self) -> None:
        """Search no temperature if training has not measured entropies, for exported models."""
        if bool(self.mean_entropy.isnan().any()):
            self.solver = "none"

    # ---------------------------------------------------------------- the contract

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Return node embeddings of the invariant half (N, D)."""
        return self.disentangle(batch, both=False, edge_weight=edge_weight).nodes

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """Return the mean over the nodes of each graph (B, D)."""
        return mean_nodes(h, Layout(batch))

    def graph_embedding(
        self,
        batch: Batch,
        edge_weight: Tensor | None = None,
        node_factor: Tensor | None = None,
        start: Tensor | None = None,
    ) -> Tensor:
        """Return embeddings of the invariant half (B, D)."""
        if start is not None:
            return super().graph_embedding(batch, edge_weight, node_factor, start)
        found = self.disentangle(batch, both=False, edge_weight=edge_weight)
        if node_factor is None:
            return found.invariant
        weight = found.mask if edge_weight is None else found.mask * edge_weight
        return self.fuse(self.readout(found.nodes * node_factor, batch), batch, self.shares(batch, weight))

    # ---------------------------------------------------------------- the paper, in its order

    def disentangle(
        self,
        batch: Batch,
        both: bool = True,
        edge_weight: Tensor | None = None,
        variant_gradient: float | Tensor | None = 1.0,
    ) -> Disentangled:
        """Split every graph into its invariant and its variant half and embed them.

        Args:
            batch: Graphs.
            both: False embeds the invariant half only, where the settings allow it.
            edge_weight: Multiplies the messages along each edge, (E,).
            variant_gradient: Scale of the gradient that reaches the scores through the variant half. 1 lets it flow; a
                negative scale reverses it, so the disentangler removes from the variant half what layers and variant
                classifier learn to read in it; 0 blocks it there, while the layers still learn. None detaches the
                variant half's embedding: no gradient flows at all. A tensor is read during the backward pass, so it
                may change after this call.
        """
        both = both or self.predictor_kind == "disentangler" or self.solver == "joint_descent"
        layout, edges = Layout(batch), self.edges(batch)
        if self.edge_vector is not None:
            edges = self.edge_vector[None]
        inputs = self.nodes(batch)
        z = inputs
        for layer in self.trunk:
            z = layer(z, layout, edges, edge_weight)  # Z = GT^M(G), (N, D)
        scores = self.scores(z if self.generator is None else self._generate(batch, layout, edges, edge_weight), layout)
        logits = edge_logits(scores, layout, symmetric=True)  # (E,)
        mask = self._mask(scores, logits, layout)  # M, (E,)
        needed = variant_gradient is not None or self.predictor_kind == "disentangler"
        sides = self._sides(layout, edges, mask, edge_weight, both, variant_gradient, needed)
        opposite = None  # E as the variant half sees it
        if both:
            opposite = scores
            if variant_gradient is not None:
                opposite = [scale_gradient(square, variant_gradient) for square in scores]
        attention, entropy, plain, temperature = self._attend(scores, opposite, layout)
        h = self._embed(z if self.values == "trunk" else inputs, attention, sides)  # Z_c, Z_s
        h, recovered = self._encode(h, sides, layout, batch.x)
        if self.predictor_kind == "disentangler":
            second = self._second(h, layout, edges, edge_weight, variant_gradient is not None)
            entropy = torch.cat((entropy, second.entropy))
            h = [first + more for first, more in zip(h, second.outputs, strict=True)] if self.second_readout else h
            if self.explained_by == "second":
                logits, mask = edge_logits(second.scores, layout, symmetric=True), second.mask
        else:
            h = self._predict(h, sides)  # Z'_c, Z'_s
        if self.node_weights:
            h = [weighted(rows, side.layout, side.node_weight) for rows, side in zip(h, sides, strict=True)]
        pooled = [mean_nodes(rows, side.layout) for rows, side in zip(h, sides, strict=True)]
        if self.fusion is not None:
            pooled = self._fuse(pooled, sides, batch[self.fusion.encoding.attribute])
        graphs = joined(pooled).unflatten(0, (-1, layout.num_graphs))  # (2, B, D)
        variant = graphs[1] if both else None
        return Disentangled(
            edge_logits=logits,
            mask=mask,
            invariant=graphs[0],
            variant=variant.detach() if variant is not None and variant_gradient is None else variant,
            entropy=entropy,
            temperature=temperature,
            plain_entropy=plain,
            recovered=recovered,
            nodes=h[0][: layout.num_nodes],
        )

    def _generate(self, batch: Batch, layout: Layout, edges: Tensor | None, edge_weight: Tensor | None) -> Tensor:
        """Return node embeddings (N, D) of the subgraph generator's own network."""
        assert self.generator is not None
        h: Tensor = self.generator_nodes(batch)
        for layer in self.generator:
            h = layer(h, layout, edges, edge_weight)
        return h

    def _mask(self, scores: Squares, logits: Tensor, layout: Layout) -> Tensor:
        """Return M = sigmoid(E) at the edges (E,) (Eq. 4), drawn from the binary concrete distribution if asked."""
        if self.mask_kind.startswith("heads"):
            return head_mean_mask(scores, layout, by_source=self.mask_kind == "heads_by_source")
        noise = shared_noise(layout) if self.sample != "none" and self.training else None
        if self.mask_kind == "top":
            return straight_through(top_pairs(logits, layout, self.kept_share), logits.sigmoid())
        if noise is None:
            return logits.sigmoid()
        drawn = concrete(logits, noise)
        return drawn if self.sample == "soft" else straight_through(drawn > 0.5, drawn)

    def _sides(
        self,
        layout: Layout,
        edges: Tensor | None,
        mask: Tensor,
        given: Tensor | None,
        both: bool,
        variant_gradient: float | Tensor | None,
        learns: bool,
    ) -> list[Side]:
        """Return the halves that a mask cuts out: stacked, apart, or the invariant one alone.

        ``variant_gradient`` is as in `disentangle`; ``learns`` says whether a variant half that stands apart does.
        """
        share = node_share(mask, layout)
        weights, shares = [mask], [share]
        for values, parts in ((mask, weights), (share, shares)) if both else ():
            scaled = values if variant_gradient is None else scale_gradient(values, variant_gradient)
            parts.append(1 - scaled)
        if self.message_weight == "sigmoid":
            weights = [weight.sigmoid() for weight in weights]
        elif self.message_weight == "none":
            weights = [torch.ones_like(weight) for weight in weights]
        if given is not None:
            weights = [weight * given for weight in weights]
        if both and not self.apart:
            twice = edges if edges is None or edges.shape[0] == 1 else torch.cat((edges, edges))
            return [Side(layout.twice(), twice, torch.cat(weights), torch.cat(shares), 2, True)]
        return [
            Side(layout, edges, weight, share, 1, learns or not half)
            for half, (weight, share) in enumerate(zip(weights, shares, strict=True))
        ]

    def _attend(
        self, scores: Squares, opposite: Squares | None, layout: Layout
    ) -> tuple[Squares, Tensor, Tensor, Tensor]:
        """Return Softmax(E / t) and Softmax(-E / t), stacked in each bucket, their entropies at t and at 1, and t.

        Entropies and temperatures have shape (2, B, H), or (1, B, H) for the invariant half alone.
        """
        attentions, found = [], []
        for signed, rows, copies in both_signs(scores, opposite, layout):
            p, *values = self._attend_bucket(signed, rows, copies)
            attentions.append(p)
            found.append([value.unflatten(0, (copies, -1)) for value in values])  # (2, b, H) each
        entropy, plain, temperature = (layout.by_graph(parts, 1) for parts in zip(*found, strict=True))
        if self.training:
            self._remember(entropy)
        return attentions, entropy, plain, temperature

    def _attend_bucket(self, signed: Tensor, rows: Tensor, copies: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the same for one bucket."""
        temperature = self._temperature(signed, rows, copies)
        plain = None
        if not self.training and self.solver != "none":
            _, plain = softmax_entropy(signed, rows)
            signed = signed / temperature[..., None, None]
        p, entropy = softmax_entropy(signed, rows)
        return p, entropy, entropy if plain is None else plain, temperature

    def _temperature(self, signed: Tensor, rows: Tensor, copies: int) -> Tensor:
        """Return t_G of every graph and head of a bucket (2b, H) or (b, H), 1 in training (Eq. 10)."""
        goal = self.mean_entropy[:copies]  # (2, H)
        exporting = torch.compiler.is_exporting()  # `settle` has looked at the entropies
        if self.training or self.solver == "none" or (not exporting and bool(goal.isnan().any())):
            return signed.new_ones(signed.shape[:2])
        goal = goal.repeat_interleave(signed.shape[0] // copies, 0)  # (2b, H)
        if self.solver == "exact":
            return solve_temperature(signed.detach(), rows, goal)
        return descend_temperature(signed.detach(), rows, goal, copies if self.solver == "joint_descent" else 1)

    @torch.no_grad()
    def _remember(self, entropy: Tensor) -> None:
        """Update the running mean of the training entropy of each attention and head."""
        new, kept = entropy.mean(1), self.mean_entropy[: len(entropy)]  # (2, H)
        kept.copy_(torch.lerp(new, torch.where(kept.isnan(), new, kept), self.entropy_decay))

    def _embed(self, source: Tensor, attention: Squares, sides: Sequence[Side]) -> list[Tensor]:
        """Return node embeddings of the halves (Eqs. 3, 5, 6), computed from Z or from the node inputs."""
        embedded = []
        for side, p in zip(sides, _apart(attention, sides), strict=True):
            with side.gradient():
                rows = side.copy(source)
                rows = rows if self.values == "trunk" else rows * side.node_weight[:, None]
                embedded.append(self.embed(rows, p, side.layout, side.edges, side.edge_weight))
        return embedded

    def _encode(
        self, h: Sequence[Tensor], sides: Sequence[Side], layout: Layout, x: Tensor
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return [Z, Z_PSE] of the halves, and the encodings recovered from Z_PSE, (2, N, k) (Eqs. 11, 12)."""
        if self.target is None:
            return list(h), None
        noise = self.noise(layout, x).to(h[0].dtype)
        each = noise.chunk(2, 1) if self.separate_noise else (noise, noise)
        codes, recovered = [], []
        for number, (rows, side) in enumerate(zip(h, sides, strict=True)):
            code = self.encoder(
                torch.cat(each) if side.copies == 2 else each[number], side.layout, side.edge_weight, side.edges
            )  # Z_PSE, (N, d)
            recovered.append(self.encoder.recover(code).unflatten(0, (-1, layout.num_nodes)))
            with side.gradient():
                codes.append(self.join(torch.cat((rows, code), 1)))
        return codes, joined(recovered)

    def _predict(self, h: Sequence[Tensor], sides: Sequence[Side]) -> list[Tensor]:
        """Return GT' of the halves (Eq. 13)."""
        outputs = []
        for start, side in zip(h, sides, strict=True):
            rows, keys = start, side.node_weight if self.node_weights else None
            with side.gradient():
                for layer in self.predictor:
                    if self.predictor_kind == "mlp":
                        rows = rows + layer(rows)
                    else:
                        rows = layer(rows, side.layout, side.edges, side.edge_weight, keys)
            outputs.append(rows)
        return outputs

    def _fuse(self, pooled: Sequence[Tensor], sides: Sequence[Side], codes: Tensor) -> list[Tensor]:
        """Add the codes of environments (N, R + 1) to the embeddings of the halves, each with its share in the half."""
        assert self.fusion is not None
        fused = []
        for z, side in zip(pooled, sides, strict=True):
            with side.gradient():
                share = environment_share(side.edge_weight, side.layout, self.fusion.encoding.width)
                fused.append(z + self.fusion(side.copy(codes), side.layout, share))
        return fused

    def _second(
        self, h: Sequence[Tensor], layout: Layout, edges: Tensor | None, edge_weight: Tensor | None, learns: bool
    ) -> _Second:
        """Apply the published GT': a second disentangling layer on the mean of the halves, at temperature 1."""
        z = joined(h).unflatten(0, (-1, layout.num_nodes)).mean(0)
        scores = self.second_scores(z, layout)
        mask = head_mean_mask(scores, layout, by_source=self.mask_kind == "heads_by_source")
        sides = self._sides(layout, edges, mask, edge_weight, True, None, learns)
        attention, entropies, outputs = [], [], []
        for signed, rows, copies in both_signs(scores, scores, layout):
            p, entropy = softmax_entropy(signed, rows)
            attention.append(p)
            entropies.append(entropy.unflatten(0, (copies, -1)))
        for side, squares in zip(sides, _apart(attention, sides), strict=True) if self.second_readout else ():
            with side.gradient():
                outputs.append(self.second_embed(side.copy(z), squares, side.layout, side.edges, side.edge_weight))
        return _Second(outputs, scores, mask, layout.by_graph(entropies, 1))


@dataclass(frozen=True)
class _Second:
    """A second layer's outputs if the readout adds them, scores E, mask (E,), entropies (2, B, H)."""

    outputs: list[Tensor]
    scores: Squares
    mask: Tensor
    entropy: Tensor


def _apart(stacked: Squares, sides: Sequence[Side]) -> list[Squares]:
    """Cut the halves stacked in each bucket into the squares of each side."""
    if len(sides) == 1:
        return [stacked]
    return [list(parts) for parts in zip(*(square.chunk(len(sides)) for square in stacked), strict=True)]
