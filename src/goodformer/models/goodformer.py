"""GOODFormer's model: a trunk, a disentangler, an encoder of evolving subgraphs and a predictor on both halves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch_geometric.data import Batch

from goodformer.models.base import GraphModel
from goodformer.models.settings import AggregationName, CombineName, Heads, Inputs, NormName, Rate, Width
from goodformer.nn.disentangler import Half, InnerProducts, Scores, edge_logits, head_mean_mask, hide_padding
from goodformer.nn.encoder import NodeNoise, SubgraphEncoder
from goodformer.nn.features import EdgeInput, NodeInput
from goodformer.nn.gps import GPSLayer
from goodformer.nn.gradient import scale_gradient
from goodformer.nn.layout import Layout
from goodformer.nn.mlp import mlp
from goodformer.nn.readout import mean_nodes, node_share, weighted
from goodformer.nn.sampling import concrete, shared_noise
from goodformer.nn.selection import straight_through, top_pairs
from goodformer.nn.temperature import Solver, descend_temperature, mean_entropy, solve_temperature
from goodformer.registry import InputError
from goodformer.spec import Encoding, FeatureSpec

Depth = Annotated[int, Field(ge=0, description="Number of layers.")]


@dataclass(frozen=True)
class Disentangled:
    """What the model found in a batch of B graphs.

    Attributes:
        edge_logits: Head-averaged score of every edge, (E,); larger = more invariant.
        mask: M, the share of every edge that belongs to the invariant subgraph, (E,).
        invariant: Embedding of every graph's invariant half, (B, D).
        variant: The same for the variant half; None where only the invariant one was asked for.
        entropy: Mean entropy of attention, (2, B, H) for Softmax(E) and Softmax(-E), or (1, B, H) for the first alone;
            those of a second disentangling layer follow.
        temperature: t_G used, (2, B, H) or (1, B, H).
        plain_entropy: The entropy before any temperature, (2, B, H) or (1, B, H).
        recovered: Recovered positional encodings of the halves, (2, N, k) or (1, N, k).
        nodes: Node embeddings of the invariant half, (N, D), whose mean over a graph is ``invariant``.
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


class GOODFormer(GraphModel):
    """Z = GT^M(G); E, M, Z_c, Z_s = disentangle(Z); P_c, P_s = h_PSE(A_c), h_PSE(A_s); Z' = GT'([Z, P]); pooling.

    Both halves run through the same layers, stacked as one batch of 2B graphs: +E and A_c for the first copies, -E and
    A_s for the second. Where only a prediction is wanted, the invariant half runs alone.

    Paper: Liao et al., "Invariant Graph Transformer for Out-of-Distribution Generalization", KDD 2026, Eqs. 3 to 13.
    Differs from the paper: with ``values="inputs"`` the halves are computed from the node inputs, weighted by the
        node's share in the half, instead of from Z, which has already mixed both; ``node_weights`` keeps attention and
        pooling of a half to the half's own nodes; ``mask="logit"`` is the sigmoid of the head-averaged, symmetrised
        logit, so that both directions of an edge belong to the same half.
    Paper silent on: normalisation, dropout, residuals, how heads are joined into one mask, node inputs.
    """

    in_words = (
        "Splits a graph into a deciding part and the rest by attention; goes with the method of this name, erm can "
        "use it, too."
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
        target: Annotated[str, Field(description="Encoding the encoder recovers, laplacian:k.")] = "laplacian:8",
        dropout_rate: Rate = 0.2,
        norm: NormName = "batch",
        aggregation: AggregationName = "log",
        combine: CombineName = "sum",
        bounded: Annotated[bool, Field(description="Scores from unit-length queries and keys.")] = False,
        scoring: Annotated[
            Literal["attention", "inner"],
            Field(description="E from queries and keys, or GIL's: inner products of the trunk's embeddings."),
        ] = "attention",
        mask: Annotated[
            Literal["logit", "heads", "top"],
            Field(
                description="logit: sigmoid of the symmetrised mean score; heads: mean of the heads' sigmoids; "
                "top: 1 for the best share of each graph's edges, as in GIL."
            ),
        ] = "logit",
        kept_share: Annotated[float, Field(gt=0, le=1, description="Share of edges the mask top keeps.")] = 0.6,
        sample: Annotated[
            Literal["none", "soft", "hard"],
            Field(description="Draw the mask in training: not at all, binary concrete, or 0 and 1 straight-through."),
        ] = "none",
        values: Annotated[
            Literal["trunk", "inputs"], Field(description="What the halves are computed from.")
        ] = "inputs",
        node_weights: Annotated[
            bool, Field(description="Weigh nodes by their edges' masks in pooling and in the predictor's attention.")
        ] = True,
        predictor: Annotated[
            Literal["gt", "mlp", "disentangler"],
            Field(description="GT': GPS layers, an MLP, or a second disentangling layer on the mean of the halves."),
        ] = "gt",
        temperature: Annotated[
            Solver, Field(description="Test-time temperature: solved exactly, by the paper's descent, or none.")
        ] = "exact",
        entropy_decay: Annotated[float, Field(ge=0, lt=1, description="Of the running mean of the entropy.")] = 0.99,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise InputError(f"model goodformer: dim = {dim} is not a multiple of heads = {heads}; change one of them.")
        if sample != "none" and mask != "logit":
            raise InputError(f"model goodformer: sample = {sample} draws the mask logit, not {mask}; set one of them.")
        if not target.startswith("laplacian:"):
            raise InputError(f"model goodformer: target = {target!r} is not accepted; give laplacian:k.")
        self.dim, self.heads = dim, heads
        self.mask_kind, self.kept_share, self.sample = mask, kept_share, sample
        self.values, self.node_weights = values, node_weights
        self.solver, self.entropy_decay = temperature, entropy_decay
        self.nodes, self.edges = NodeInput(spec, dim, inputs), EdgeInput(spec, dim)
        gps = partial(GPSLayer, dim, heads, norm=norm, p=dropout_rate, aggregation=aggregation, combine=combine)
        half = partial(Half, dim, norm=norm, p=dropout_rate, aggregation=aggregation)
        self.trunk = nn.ModuleList(gps() for _ in range(trunk_layers))
        self.scores = Scores(dim, heads, bounded) if scoring == "attention" else InnerProducts(heads)
        self.embed = half()
        self.target = Encoding.parse(target) if encoder_layers else None
        self.encodings = tuple(dict.fromkeys((*self.nodes.encodings, *([target] if encoder_layers else []))))
        if self.target:
            self.noise = NodeNoise(encoder_dim)
            self.encoder = SubgraphEncoder(
                encoder_dim, encoder_layers, self.target.width, norm=norm, aggregation=aggregation
            )
            self.join = nn.Linear(dim + encoder_dim, dim)
        self.predictor_kind = predictor
        if predictor == "gt":
            self.predictor = nn.ModuleList(gps() for _ in range(predictor_layers))
        elif predictor == "mlp":
            self.predictor = nn.ModuleList(mlp(dim, 2 * dim, dim, dropout_rate) for _ in range(predictor_layers))
        else:
            self.second_scores, self.second_embed = Scores(dim, heads, bounded), half()
        self.register_buffer("mean_entropy", torch.full((2, heads), float("nan")))

    # ---------------------------------------------------------------- the contract

    def forward(self, batch: Batch, edge_weight: Tensor | None = None) -> Tensor:
        """Node embeddings of the invariant half (N, D)."""
        return self.disentangle(batch, both=False, edge_weight=edge_weight).nodes

    def readout(self, h: Tensor, batch: Batch) -> Tensor:
        """The mean over the nodes of each graph (B, D)."""
        return mean_nodes(h, Layout(batch))

    # ---------------------------------------------------------------- the paper, in its order

    def disentangle(
        self,
        batch: Batch,
        both: bool = True,
        edge_weight: Tensor | None = None,
        variant_gradient: float | Tensor = 1.0,
    ) -> Disentangled:
        """Split every graph into its invariant and its variant half and embed them.

        Args:
            batch: Graphs.
            both: False embeds the invariant half only.
            edge_weight: Multiplies the messages along each edge, (E,).
            variant_gradient: Scale of the gradient that reaches the scores through the variant half: 1 is the paper's,
                0 cuts it, a negative one reverses it, so that what the layers and the variant classifier learn to read
                in the variant half is what the disentangler moves out of it. A tensor is read when the gradient flows,
                so it may still be changed after this call.
        """
        both = both or self.predictor_kind == "disentangler"  # which reads the mean of the halves
        layout, edges = Layout(batch), self.edges(batch)
        inputs = self.nodes(batch)
        z = self._trunk(inputs, layout, edges, edge_weight)  # Z = GT^M(G), (N, D)
        scores = self.scores(z, layout)  # E, (B, H, n, n)
        noise = self._draw(layout)
        mask = self._mask(scores, layout, noise)  # M, (E,)
        halves = _Halves(layout, edges, mask, edge_weight, variant_gradient if both else None)
        opposite = scale_gradient(scores, variant_gradient) if both else None  # E as the variant half sees it
        attention, entropy, plain, temperature = self._attend(scores, opposite, layout)
        source = halves.copy(z) if self.values == "trunk" else halves.copy(inputs) * halves.node_weight[:, None]
        h = self.embed(source, attention, halves.layout, halves.edges, halves.edge_weight)  # [Z_c; Z_s], (2N, D)
        h, recovered = self._encode(h, halves, batch.x)
        h, more_entropy = self._predict(h, halves)  # [Z'_c; Z'_s]
        if self.node_weights:
            h = weighted(h, halves.layout, halves.node_weight)
        graphs = mean_nodes(h, halves.layout).unflatten(0, (-1, layout.num_graphs))  # (2, B, D)
        return Disentangled(
            edge_logits=edge_logits(scores, layout, symmetric=True),
            mask=mask,
            invariant=graphs[0],
            variant=graphs[1] if both else None,
            entropy=torch.cat((entropy, *more_entropy)),
            temperature=temperature,
            plain_entropy=plain,
            recovered=recovered,
            nodes=h[: layout.num_nodes],
        )

    def _trunk(self, h: Tensor, layout: Layout, edges: Tensor | None, edge_weight: Tensor | None) -> Tensor:
        """GT^M: layers of GraphGPS."""
        for layer in self.trunk:
            h = layer(h, layout, edges, edge_weight)
        return h

    def _encode(self, h: Tensor, halves: _Halves, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """[Z, Z_PSE] of the halves as (2N, D), and the encodings recovered from Z_PSE, (2, N, k) (Eqs. 11, 12)."""
        if self.target is None:
            return h, None
        noise = halves.copy(self.noise(halves.single, x))
        code = self.encoder(noise, halves.layout, halves.edge_weight)  # [P_c; P_s], (2N, d)
        recovered = self.encoder.recover(code).unflatten(0, (-1, halves.single.num_nodes))
        return self.join(torch.cat((h, code), 1)), recovered

    def _draw(self, layout: Layout) -> Tensor | None:
        """Logistic noise of every edge (E,), the same for its two directions, where masks are drawn at random."""
        if self.sample == "none" or not self.training:
            return None
        return shared_noise(layout)

    def _mask(self, scores: Tensor, layout: Layout, noise: Tensor | None) -> Tensor:
        """M = sigmoid(E) at the edges (Eq. 4), with noise a draw from the binary concrete distribution (E,)."""
        if self.mask_kind == "heads":
            return head_mean_mask(scores, layout)
        logits = edge_logits(scores, layout, symmetric=True)
        if self.mask_kind == "top":
            return straight_through(top_pairs(logits, layout, self.kept_share), logits.sigmoid())
        if noise is None:
            return logits.sigmoid()
        drawn = concrete(logits, noise)
        return drawn if self.sample == "soft" else straight_through(drawn > 0.5, drawn)

    def _attend(self, scores: Tensor, opposite: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Softmax(E / t) and Softmax(-E / t) stacked (2B, H, n, n), their entropies at t and at 1, and t, (2, B, H)."""
        signed = scores if opposite is None else torch.cat((scores, -opposite))
        rows = layout.mask if opposite is None else layout.mask.repeat(2, 1)
        signed = hide_padding(signed, rows)
        temperature = self._temperature(signed, layout, rows)
        tempered = not self.training and self.solver != "none"
        plain = (
            mean_entropy(signed, signed.softmax(-1), rows).unflatten(0, (-1, layout.num_graphs)) if tempered else None
        )
        if tempered:
            signed = signed / temperature.flatten(0, 1)[..., None, None]
        p = signed.softmax(-1)
        entropy = mean_entropy(signed, p, rows).unflatten(0, (-1, layout.num_graphs))
        if self.training:
            self._remember(entropy)
        return p, entropy, entropy if plain is None else plain, temperature

    def _temperature(self, signed: Tensor, layout: Layout, rows: Tensor) -> Tensor:
        """t_G of every graph and head (2, B, H) or (1, B, H), 1 in training (Eq. 10)."""
        copies = signed.shape[0] // layout.num_graphs
        goal = self.mean_entropy[:copies]  # (2, H)
        if self.training or self.solver == "none" or bool(goal.isnan().any()):
            return signed.new_ones(copies, layout.num_graphs, self.heads)
        goal = goal[:, None].expand(-1, layout.num_graphs, -1).flatten(0, 1)
        solve = solve_temperature if self.solver == "exact" else descend_temperature
        return solve(signed.detach(), rows, goal).unflatten(0, (copies, -1))

    @torch.no_grad()
    def _remember(self, entropy: Tensor) -> None:
        """The running mean of the training entropy of each attention and head."""
        new, kept = entropy.mean(1), self.mean_entropy[: len(entropy)]  # (2, H)
        kept.copy_(torch.lerp(new, torch.where(kept.isnan(), new, kept), self.entropy_decay))

    def _predict(self, h: Tensor, halves: _Halves) -> tuple[Tensor, list[Tensor]]:
        """GT' on both halves (Eq. 13), and the entropies of a second disentangling layer where it is one."""
        if self.predictor_kind == "disentangler":
            return self._second(h, halves)
        keys = halves.node_weight if self.node_weights else None
        for layer in self.predictor:
            if self.predictor_kind == "mlp":
                h = h + layer(h)
            else:
                h = layer(h, halves.layout, halves.edges, halves.edge_weight, keys)
        return h, []

    def _second(self, h: Tensor, halves: _Halves) -> tuple[Tensor, list[Tensor]]:
        """The published GT': a second disentangling layer on the mean of the halves; both layers' outputs add up."""
        layout = halves.single
        z = h.unflatten(0, (-1, layout.num_nodes)).mean(0)
        scores = self.second_scores(z, layout)
        mask = head_mean_mask(scores, layout)
        signed = torch.cat((scores, -scores)) if halves.both else scores
        signed = hide_padding(signed, halves.layout.mask)
        p = signed.softmax(-1)
        weight = torch.cat((mask, 1 - mask)) if halves.both else mask
        out = self.second_embed(halves.copy(z), p, halves.layout, halves.edges, weight)
        return h + out, [mean_entropy(signed, p, halves.layout.mask).unflatten(0, (-1, layout.num_graphs))]


class _Halves:
    """The two halves of a batch as one batch of twice as many graphs, or the invariant half alone.

    Attributes:
        layout: Of the stacked halves; ``single`` is that of the batch.
        edge_weight: A_c = M * A, then A_s = (1 - M) * A, (2E,).
        node_weight: Each node's share in the half, (2N,).
    """

    def __init__(
        self,
        layout: Layout,
        edges: Tensor | None,
        mask: Tensor,
        given: Tensor | None,
        variant_gradient: float | Tensor | None,
    ) -> None:
        self.single, self.both = layout, variant_gradient is not None
        self.layout = layout.twice() if self.both else layout
        self.edges = None if edges is None else self.copy(edges)
        weight, share = mask, node_share(mask, layout)
        if variant_gradient is not None:
            weight = torch.cat((weight, 1 - scale_gradient(weight, variant_gradient)))
            share = torch.cat((share, 1 - scale_gradient(share, variant_gradient)))
        self.edge_weight = weight if given is None else weight * self.copy(given)
        self.node_weight = share

    def copy(self, rows: Tensor) -> Tensor:
        """Rows for both halves."""
        return torch.cat((rows, rows)) if self.both else rows
