#include "tessera/parallel/tensor/tensor_parallel.h"

#include "tessera/base/log.h"
#include "tessera/layout/placement.h"
#include "tessera/parallel/tensor/tensor_parallel_layers.h"
#include "tessera/parallel/tensor/tensor_parallel_mla.h"

namespace tessera {
namespace {

// Rows of each part that this rank has.
void cut_part_rows(Projections& projections, const Config& config, const DeviceMesh& mesh) {
  for (size_t i = 0; i < projections.part_rows.size(); ++i) {
    const ParameterPart& part = projections.weight.parts[i];
    const Placement placement = place_parameter(part.role, config.model, mesh.dims());
    projections.part_rows[i] =
        box_of(part.shape, placement.cuts, mesh.dims(), mesh.rank()).sizes[0];
  }
}

std::unique_ptr<Projections> column_parallel(Projections&& plain, const Config& config,
                                             const DeviceMesh& mesh, bool overlap) {
  cut_part_rows(plain, config, mesh);
  return std::make_unique<ColumnProjections>(std::move(plain), mesh[Axis::kTp], overlap);
}

// A norm over all heads, of which this rank has some.
void cut_norm(std::unique_ptr<Norm>& norm, const Config& config, const DeviceMesh& mesh) {
  if (!norm) return;
  const Placement placement =
      place_parameter(norm->weight.parts.front().role, config.model, mesh.dims());
  const AxisCut* cut = find_cut(placement.cuts, Axis::kTp);
  norm = std::make_unique<CutNorm>(std::move(*norm), mesh[Axis::kTp], cut->copies);
}

void attention(Attention& attention, const Config& config, const DeviceMesh& mesh, bool overlap) {
  if (attention.norm_span == QkNormSpan::kAllHeads) {
    cut_norm(attention.q_norm, config, mesh);
    cut_norm(attention.k_norm, config, mesh);
  }
  attention.qkv_proj = column_parallel(std::move(*attention.qkv_proj), config, mesh, overlap);
  attention.o_proj =
      std::make_unique<RowLinear>(std::move(*attention.o_proj), mesh[Axis::kTp], overlap);
}

void feed_forward(Mlp& mlp, const Config& config, const DeviceMesh& mesh, bool overlap) {
  mlp.gate_up_proj = column_parallel(std::move(*mlp.gate_up_proj), config, mesh, overlap);
  mlp.down_proj = std::make_unique<RowLinear>(std::move(*mlp.down_proj), mesh[Axis::kTp], overlap);
}

// The embedding over tp. The head of a tied model points at the weight, which moves.
void embedding(std::unique_ptr<Embedding>& plain, LossHead* head, const ProcessGroup& tp) {
  const bool tied = head != nullptr && head->weight == &plain->weight;
  plain = std::make_unique<VocabularyEmbedding>(std::move(*plain), tp);
  if (tied) head->weight = &plain->weight;
}

// `enable_mc2`: gathers and reductions behind the products, where they take time of their own.
bool overlaps_products(const Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  if (!config.parallelism.enable_mc2) return false;
  const bool overlap = mesh[Axis::kTp].overlaps_compute();
  if (!overlap && mesh.rank() == 0 && decoder.embedding) {
    log_info("enable_mc2: ranks are threads, whose exchanges take no time to hide; no effect");
  }
  return overlap;
}

}  // namespace

void tensor_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  const ProcessGroup& tp = mesh[Axis::kTp];
  if (tp.size() == 1) return;
  const bool overlap = overlaps_products(decoder, config, mesh);
  if (decoder.embedding) embedding(decoder.embedding, decoder.head.get(), tp);
  for (DecoderLayer* layer : decoder.all_layers()) {
    if (auto* latent = dynamic_cast<LatentAttention*>(layer->attention.get())) {
      latent_attention_over_tp(*latent, tp, overlap);
    } else {
      attention(dynamic_cast<Attention&>(*layer->attention), config, mesh, overlap);
    }
    // Experts work on the slice of the tokens as they are.
    if (auto* mlp = dynamic_cast<Mlp*>(layer->mlp.get())) feed_forward(*mlp, config, mesh, overlap);
  }
  if (decoder.mtp && decoder.mtp->own_embedding) {
    embedding(decoder.mtp->own_embedding, decoder.head.get(), tp);
  }
  if (decoder.head) {
    decoder.head = std::make_unique<VocabularyLossHead>(std::move(*decoder.head), tp,
                                                        config.parallelism.enable_loss_parallel);
  }
}

}  // namespace tessera
